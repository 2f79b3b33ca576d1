"""Well-formed inputs of every kind that flopcast reads, made by the builders of the readers' own tests."""

from __future__ import annotations

import io
import json
import tempfile
from collections.abc import Callable
from functools import cache
from pathlib import Path

import numpy as np
import pandas as pd
from sklearn.ensemble import RandomForestRegressor
from sklearn.linear_model import LinearRegression

from flopcast.models.artifact import describe_features, save
from flopcast.tests.power import test_logs
from flopcast.tests.readers import (
    test_aiconfigurator,
    test_aiter,
    test_hipblaslt,
    test_rccl_tests,
    test_rocpd,
    test_rpd,
    test_serving_benchmarks,
    test_tunableop,
)
from flopcast.tests.readers.execution_trace import test_chakra, test_reader
from flopcast.tests.readers.kineto import made_up as kineto
from flopcast.tests.readers.nsight import test_ncu, test_nsys, test_nsys_stats
from flopcast.tests.readers.rocprof import test_reader as rocprof
from flopcast.tests.readers.rocprofiler_compute import test_reader as compute
from flopcast.tests.readers.rocprofv3 import test_csv_files, test_json_file

Files = dict[str, bytes]
"""One input: the name of each of its files, and what is in it."""

TIDY = """op,device,dtype,m,n,k,batch,causal,latency_ms,spread_us,energy_mj,kernel,heads,seq_q,seq_kv,head_dim
gemm,MI300X,bf16,16,32,64,1,,0.5,1.5,3,knl,,,,
bmm,gfx942,fp8,16,32,128,4,,0.7,,,,,,,
attention,MI355X,fp16,,,,2,true,1.25,,,fa,8,512,512,64
softmax,MI300X,fp32,,,,,,0.01,,,,,,,
"""
CONVOLUTION = (
    "64-56-28-3x5-128-28-14-16-1x2-2x2-1x1-0-NCHW-FP16-F=One:0.5,1024,miopenConvolutionFwdAlgoGEMM;Two<3-2>:2e-1,0,x\n"
)
GPU = """name = "MI375X"
based_on = "MI355X"
memory_bw_gbs = 10000
memory_gb = 288
cus = 256
boost_mhz = 2400
peak_tflops.fp8_matrix = 6000
"""
LAYERS = """{"name": "towers", "layers": [
{"name": "a", "op": "gemm", "m": 64, "n": 128, "k": 256, "dtype": "bf16", "after": []},
{"name": "b", "time_us": 7.5, "after": ["a"], "count": 3},
{"name": "c", "collective": "all_reduce", "message_bytes": 1e6, "ranks": 8, "after": ["a", "b"]}]}
"""
PLACEMENT = """{"maxFPGAs": 2, "nodes": [
{"id": 1, "name": "a", "supportedOnFpga": 1, "cpuLatency": 20.0, "fpgaLatency": 2.0, "isBackwardNode": 0},
{"id": 2, "name": "b", "supportedOnFpga": 0, "cpuLatency": 5.0, "fpgaLatency": 0.5, "isBackwardNode": 1}],
"edges": [{"sourceId": 1, "destId": 2, "cost": 0.1}]}
"""
PIPER = """{"maxDevices": 10, "nodes": [
{"id": 0, "name": "a", "TMPCs": {"1": [{"id": "vanilla", "timePerSample": 0.5}, {"timePerSample": 0.75}]}},
{"id": 1, "name": "a", "TMPCs": {"1": [{"id": "vanilla", "timePerSample": 1.5}], "2": [{"timePerSample": 1}]}}],
"edges": [{"sourceId": 0, "destId": 1, "communicationCost": 8192.0}]}
"""
SIMGRID = (
    "0 init 1\n1 init 1\n0 compute 5e8\n1 compute 2e8\n0 isend 1 0 1000 5\n0 wait\n0 allreduce 5e4 1e5 0\n1 bcast 4 0\n"
)
OTF2 = """=== OTF2-PRINT ===
ENTER                                      0                 1000  Region: "main" <0>
ENTER                                      0                 9000  Region: "MPI_Allreduce" <1>
MPI_COLLECTIVE_END                         0                 9900  Operation: ALLREDUCE, Communicator: "W" <0>, \
Root: UNDEFINED, Sent: 16, Received: 16
LEAVE                                      0                10000  Region: "MPI_Allreduce" <1>
MPI_ISEND                                  0                10400  Receiver: 1, Tag: 0, Length: 4, Request: 0
PROGRAM_END                                0                12000  Exit Status: 0
"""
SIZES = """benchmark,size,performance,mpki,f_mem,scenario,unit,simulation_time_s
bfs,8,1.0,4.0,0.3,strong,IPC,10
bfs,16,1.9,3.5,,strong,IPC,21
bfs,32,3.5,0.1,,strong,IPC,44
lu,8,1.0,4.0,0.3,weak,IPC,10
lu,16,1.9,3.5,,weak,IPC,21
"""
SMI = """timestamp,gpu,socket_power,gfx_0_clk
1700000000,0,"[171, 172]",[2100, 2101]
1700000001,0,[N/A, 172],['N/A']
"""
MONITOR = """TIMESTAMP  GPU  POWER  GPU_TEMP  GFX_UTIL  GFX_CLOCK  VRAM_USAGE
1700000000    0  171 W     32 °C       0 %    114 MHz    283/196300 MB
1700000000    1    N/A     32 °C       N/A    114 MHz    283/196300 MB
"""
ROCM_SMI = """device,Temperature (Sensor junction) (C),Average Graphics Package Power (W),GPU use (%)
card0,35.0,190.0,50
card1,37.0,N/A (Secondary die),0
"""


def _one(name: str, text: str | bytes) -> Files:
    return {name: text.encode() if isinstance(text, str) else text}


def _made(make: Callable[[Path], object]) -> Files:
    """Return the files that a builder writes into an empty folder."""
    with tempfile.TemporaryDirectory() as folder:
        make(Path(folder))
        paths = sorted(path for path in Path(folder).rglob("*") if path.is_file())
        return {path.relative_to(folder).as_posix(): path.read_bytes() for path in paths}


def _kineto() -> str:
    dims = {"Input Dims": [[4, 8], [8, 4]], "Input type": ["float", "float"], "Concrete Inputs": ["", "1"]}
    events = [
        kineto.event("user_annotation", "ProfilerStep#12", 0.0, 100.0),
        kineto.op("aten::mm", 10.0, 50.0, 2, **dims),
        kineto.launch(20.001, 77, **{"External id": 2}),
        kineto.kernel(30.25, 77, **{"External id": 2, "grid": [16, 2, 1], "block": [256, 1, 1]}),
        kineto.event("gpu_memcpy", "Memcpy HtoD (Host -> Device)", 40.0, 2.0, 0, 0, device=0, stream=3, bytes=64),
    ]
    top = {"deviceProperties": [kineto.MI300X], "distributedInfo": {"rank": 4, "world_size": 8}}
    return json.dumps({**top, "baseTimeNanoseconds": 10**9, "traceEvents": events})


def _rocprofv3_json() -> str:
    calls = [{"correlation_id": {"internal": 2}, "operation": 3, "start_timestamp": 1, "end_timestamp": 2}]
    copies = [test_json_file.copy(1, 10, 20, 900, 901, bytes=64)]
    dispatches = [test_json_file.dispatch(2, 2000, 2600, kernel=8), test_json_file.dispatch(1, 1000, 1500)]
    counters = [test_json_file.counted(1, [(5, 3.0), (6, 1.5)])]
    process = test_json_file.process(dispatches, counters=counters, hip_api=calls, memory_copy=copies)
    return json.dumps({"rocprofiler-sdk-tool": [process]})


def _rocprofv3_csv() -> Files:
    api, agents = test_csv_files.API, test_csv_files.AGENTS
    counts = [test_csv_files.COUNTERS, test_csv_files.counted(1, "add(float*)", "A", 5)]
    texts = {"kernel_trace": test_csv_files.trace_text(), "memory_copy_trace": test_csv_files.COPIES}
    texts["counter_collection"] = "\n".join(counts)
    return {
        f"70_{name}.csv": text.encode() for name, text in {**texts, "hip_api_trace": api, "agent_info": agents}.items()
    }


def _parquet(text: str) -> bytes:
    found = io.BytesIO()
    pd.read_csv(io.StringIO(text)).to_parquet(found)
    return found.getvalue()


def _model(estimator: object) -> Files:
    rng = np.random.default_rng(0)
    X = pd.DataFrame(rng.uniform(1, 9, (30, 2)), columns=["host_us", "log_m"])
    features = describe_features(X, dict.fromkeys(X, ""))
    manifest = {"features": features, "data_sha256": "ab" * 32, "recipe": {"op": ["gemm"], "seed": 0}}
    fitted = estimator.fit(X, X["host_us"].to_numpy() * 0.1)  # type: ignore[attr-defined]
    return _made(lambda folder: save(folder, fitted, manifest, X))


def _chakra() -> bytes:
    field, varint = test_chakra.field, test_chakra.varint
    call = test_chakra.operator(
        216, "aten::mul(1)", 110, field(4, varint(3)), field(7, 318), field(8, test_chakra.ARGUMENTS)
    )
    return test_chakra.delimited(test_chakra.METADATA, call, test_chakra.kernel(217, "add", 216))


def _execution_trace() -> str:
    return test_reader.document(test_reader.tagged(1, "process"), test_reader.tagged(3))


def _watched() -> str:
    return "\n".join(json.dumps([test_logs.amd(0, socket_power={"value": at, "unit": "W"})]) for at in (5, 6))


def _serving() -> list[Files]:
    made = test_serving_benchmarks
    return [_one("run.json", json.dumps(one)) for one in (made.VLLM, made.SGLANG, made.AIPERF, [made.INFERENCEX])]


@cache
def seeds() -> dict[str, list[Files]]:
    """Return the inputs of each target."""
    hipblaslt = (
        test_hipblaslt.MI300X.format(0) + test_hipblaslt.block() + "    --Solution index: 71\n" + test_hipblaslt.OLD
    )
    rccl = test_rccl_tests.NAMED + test_rccl_tests.log(test_rccl_tests.SMALL, test_rccl_tests.LARGE)
    tunable = "\n".join([*test_tunableop.VALIDATORS, *test_tunableop.LINES, ""])
    gemm = f"{test_aiter.GEMM}\ngfx942,304,16,512,7168,ck,8,3,6.5,knl,1,1,0.0\ngfx942,304,1,5,7,ck,8,3,2.5,knl,1,1,0\n"
    moe = f"{test_aiter.FMOE}\n{test_aiter.fmoe()}\n{test_aiter.fmoe('256', 'per_1x32')}\n"
    stats = test_nsys_stats.HEADER + test_nsys_stats.COPY + test_nsys_stats.KERNEL + test_nsys_stats.FILL
    document = _execution_trace()
    return {
        "tidy CSV": [_one("tidy.csv", TIDY), _one("few.csv", "m;n;k;us\n1;2;3;4,5\n")],
        "tidy Parquet": [_one("tidy.parquet", _parquet(TIDY))],
        "AITER": [_one("a8w8_blockscale_tuned_gemm.csv", gemm), _one("tuned_fmoe.csv", moe)],
        "AIConfigurator": [_made(test_aiconfigurator.make_all)],
        "MIOpen": [_one("gfx942130.HIP.fdb.txt", CONVOLUTION * 2)],
        "hipblaslt-bench": [_one("bench.log", hipblaslt)],
        "rccl-tests": [_one("all_reduce.log", rccl)],
        "serving": [*_serving(), _one("silicon_sample.csv", test_serving_benchmarks.SAMPLE)],
        "TunableOp": [_one("tunableop_results0.csv", tunable)],
        "Kineto": [_one("trace.json", _kineto()), {"trace.json": _kineto().encode(), "et.json": document.encode()}],
        "execution trace": [_one("et.json", document), _one("x.et", _chakra())],
        "rocprofv3 CSV": [_rocprofv3_csv(), _one("out_kernel_trace.csv", test_csv_files.CONVERTED)],
        "rocprofv3 JSON": [_one("70_results.json", _rocprofv3_json())],
        "rocpd": [_made(lambda folder: test_rocpd.make(folder / "a.db", test_rocpd.MI300X))],
        "rpd": [_made(lambda folder: test_rpd.make(folder / "trace.rpd", operators=True))],
        "rocprof": [
            _made(lambda folder: rocprof.results(folder / "results.csv")),
            _made(lambda folder: rocprof.database(folder / "results.db")),
            _one("c.csv", f"{rocprof.PLACE},A,B[0],B[1]\n{rocprof.place(0, 'f')},1,2,3\n"),
        ],
        "rocprofiler-compute": [_made(compute.workload)],
        "nsys": [_made(lambda folder: test_nsys.make(folder / "a.sqlite"))],
        "nsys stats": [_one("run_cuda_gpu_trace.csv", test_nsys_stats.BEFORE + stats)],
        "ncu": [_one("app.csv", test_ncu.BEFORE + test_ncu.DETAILS), _one("app.csv", test_ncu.RAW)],
        "power log": [
            _one("nvidia.csv", test_logs.NVIDIA), _one("amd.csv", SMI), _one("amd.txt", MONITOR),
            _one("amd.json", _watched()), _one("rocm.csv", ROCM_SMI),
            _one("own.csv", "gpu_ns,component,power_w\n10,total,500\n20,XCD,400\n"),
        ],
        "GPU file": [_one("gpu.toml", GPU), _one("gpu.toml", 'cus = 4\n[peak_tflops]\nbf16_matrix = 1\n')],
        "sizes": [_one("sizes.csv", SIZES), _one("sizes.parquet", _parquet(SIZES))],
        "layers": [
            _one("layers.json", LAYERS), _one("placement.json", PLACEMENT), _one("piper.json", PIPER),
            _one("ops.csv", "name,op,m,n,k,dtype,count\na,gemm,16,512,7168,fp8,3\nb,gemm,1,5,7,bf16,1\n"),
        ],
        "MPI trace": [_one("lu.trace", SIMGRID), _one("events.txt", OTF2.replace("\\\n", ""))],
        "model": [_model(LinearRegression()), _model(RandomForestRegressor(2, max_depth=2, random_state=0))],
    }  # fmt: skip
