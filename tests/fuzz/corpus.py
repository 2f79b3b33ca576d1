"""Well-formed inputs of every kind that flopcast reads, made by the builders of the readers' own tests."""

from __future__ import annotations

import io
import json
import tempfile
from collections.abc import Callable
from dataclasses import replace
from functools import cache
from importlib import import_module
from pathlib import Path
from typing import Any, Final

import msgspec
import numpy as np
import pandas as pd
from sklearn.dummy import DummyRegressor
from sklearn.ensemble import RandomForestRegressor
from sklearn.linear_model import LinearRegression

import flopcast as fc
from flopcast.benchmarks.power_simulator import Scenario, simulate
from flopcast.datasets.kept import record
from flopcast.evaluation.crossval import cross_validate
from flopcast.evaluation.observers.resume import KeptFits
from flopcast.models import artifact
from flopcast.models.artifact import describe_features
from flopcast.models.base import Candidate
from flopcast.output import dumps
from flopcast.sealing import seal
from flopcast.tests.evaluation.test_crossval import make_data
from flopcast.tests.models import test_stored_runs
from flopcast.tests.power import test_logs
from flopcast.tests.readers import (
    test_aiconfigurator,
    test_aiter,
    test_hipblaslt,
    test_jax_trace,
    test_kernel_sums,
    test_key_averages,
    test_miopen_driver,
    test_onnx_runtime,
    test_product_logs,
    test_rccl_structured,
    test_rccl_tests,
    test_rocpd,
    test_rpd,
    test_serving_benchmarks,
    test_serving_clients,
    test_tunableop,
)
from flopcast.tests.readers.execution_trace import test_chakra, test_reader
from flopcast.tests.readers.kineto import made_up as kineto
from flopcast.tests.readers.nsight import test_ncu, test_nsys, test_nsys_stats
from flopcast.tests.readers.rocprof import test_reader as rocprof
from flopcast.tests.readers.rocprofiler_compute import test_reader as compute
from flopcast.tests.readers.rocprofv3 import test_csv_files, test_json_file
from flopcast.tests.scaling import test_extrap, test_terms
from flopcast.tests.workloads.test_architecture import CONFIG, MIXTURE, PUBLISHED
from flopcast.tests.workloads.test_onnx_layers import write_model
from flopcast.workloads.releases import as_toml, shipped_releases
from flopcast.workloads.serving_model import shipped
from flopcast.workloads.serving_trees import Trees

Files = dict[str, bytes]
"""One input: the name of each of its files, and what is in it."""

TIDY = """op,device,dtype,m,n,k,batch,causal,latency_ms,spread_us,energy_mj,kernel,heads,seq_q,seq_kv,head_dim
gemm,MI300X,bf16,16,32,64,1,,0.5,1.5,3,knl,,,,
bmm,gfx942,fp8,16,32,128,4,,0.7,,,,,,,
attention,MI355X,fp16,,,,2,true,1.25,,,fa,8,512,512,64
softmax,MI300X,fp32,,,,,,0.01,,,,,,,
"""
CONVOLUTION = "64-56-28-3x5-128-28-14-16-1x2-2x2-1x1-0-NCHW-FP16-F=One:0.5,1024,miopenConvolutionFwdAlgoGEMM;Two<3-2>:2e-1,0,x\n"
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
SIMGRID = "0 init 1\n1 init 1\n0 compute 5e8\n1 compute 2e8\n0 isend 1 0 1000 5\n0 wait\n0 allreduce 5e4 1e5 0\n1 bcast 4 0\n"
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
CASES = """model,gpu,gpus,kind,batch,input_len,output_len,num_prompts,global_batch,seq_len,dtype,measured
llama-3.1-8b,MI300X,1,inference,8,128,512,,,,fp8,3.5
llama-3.1-70b,MI300X,8,inference,16,2048,128,,,,bf16,7.5
llama-3.1-70b,MI300X,8,throughput,,1024,256,500,,,fp8,5000
"""
STEPS = """model,gpu,gpus,kind,tp,pp,global_batch,micro_batch,seq_len,recompute,zero,measured
llama-3.1-8b,MI300X,8,training,1,1,16,1,4096,none,1,3.5
llama-3.1-70b,MI300X,64,training,8,2,64,2,4096,full,0,20
"""
SERVED_RUNS = """op,device,model,engine,engine_version,dtype,tp,input_len,output_len,concurrency,ttft_ms,tpot_ms
serving,MI300X,llama-3.1-8b,vllm,0.10.0,bf16,1,1024,128,1,35,7.5
serving,MI300X,llama-3.1-8b,vllm,0.10.0,bf16,1,1024,128,64,210,16
"""
NETWORK = """node_gpus = 8
network_gbs = 50.0
network_us = 10
link_latency_us = 1.5
[host]
network_gbs = 25
node_gpus = 4
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
    dims = {
        "Input Dims": [[4, 8], [8, 4]],
        "Input type": ["float", "float"],
        "Concrete Inputs": ["", "1"],
    }
    events = [
        kineto.event("user_annotation", "ProfilerStep#12", 0.0, 100.0),
        kineto.op("aten::mm", 10.0, 50.0, 2, **dims),
        kineto.launch(20.001, 77, **{"External id": 2}),
        kineto.kernel(30.25, 77, **{"External id": 2, "grid": [16, 2, 1], "block": [256, 1, 1]}),
        kineto.event(
            "gpu_memcpy",
            "Memcpy HtoD (Host -> Device)",
            40.0,
            2.0,
            0,
            0,
            device=0,
            stream=3,
            bytes=64,
        ),
    ]
    top = {"deviceProperties": [kineto.MI300X], "distributedInfo": {"rank": 4, "world_size": 8}}
    return json.dumps({**top, "baseTimeNanoseconds": 10**9, "traceEvents": events})


def job_trace() -> str:
    """Return a trace of products, a norm and a collective, one after the other."""
    events = [kineto.event("user_annotation", "ProfilerStep#1", 0.0, 500.0)]
    for number, height in enumerate((16, 64, 256), start=1):
        events += kineto.product(number, 20.0 * number, 60.0 * number, "Cijk_Ailk_Bljk_BBS", height)
    sent = {"Collective name": "allreduce", "In msg nelems": 1 << 20, "Out msg nelems": 1 << 20, "dtype": "BFloat16",
            "Group size": 8, "Process Group Name": "0", "Process Group Ranks": "[0, 1, 2, 3, 4, 5, 6, 7]"}  # fmt: skip
    events += [
        kineto.op("c10d::allreduce_", 300.0, 9.0, 9), kineto.launch(301.0, 9, **{"External id": 9}),
        kineto.kernel(310.0, 9, 40.0, "ncclDevKernel_Generic_4(ncclDevKernelArgsStorage<4096ul>)", **sent),
    ]  # fmt: skip
    return json.dumps({"deviceProperties": [kineto.MI300X], "traceEvents": events})


def _rocprofv3_json() -> str:
    calls = [
        {
            "correlation_id": {"internal": 2},
            "operation": 3,
            "start_timestamp": 1,
            "end_timestamp": 2,
        }
    ]
    copies = [test_json_file.copy(1, 10, 20, 900, 901, bytes=64)]
    dispatches = [
        test_json_file.dispatch(2, 2000, 2600, kernel=8),
        test_json_file.dispatch(1, 1000, 1500),
    ]
    counters = [test_json_file.counted(1, [(5, 3.0), (6, 1.5)])]
    process = test_json_file.process(
        dispatches, counters=counters, hip_api=calls, memory_copy=copies
    )
    return json.dumps({"rocprofiler-sdk-tool": [process]})


def _rocprofv3_csv() -> Files:
    api, agents = test_csv_files.API, test_csv_files.AGENTS
    counts = [test_csv_files.COUNTERS, test_csv_files.counted(1, "add(float*)", "A", 5)]
    texts = {
        "kernel_trace": test_csv_files.trace_text(),
        "memory_copy_trace": test_csv_files.COPIES,
    }
    texts["counter_collection"] = "\n".join(counts)
    return {
        f"70_{name}.csv": text.encode()
        for name, text in {**texts, "hip_api_trace": api, "agent_info": agents}.items()
    }


def _parquet(text: str) -> bytes:
    found = io.BytesIO()
    pd.read_csv(io.StringIO(text)).to_parquet(found)
    return found.getvalue()


def _workbook(text: str) -> bytes:
    found = io.BytesIO()
    pd.read_csv(io.StringIO(text)).to_excel(found, index=False)
    return found.getvalue()


def _model(estimator: object) -> Files:
    rng = np.random.default_rng(0)
    X = pd.DataFrame(rng.uniform(1, 9, (30, 2)), columns=["host_us", "log_m"])
    features = describe_features(X, dict.fromkeys(X, ""))
    manifest = {
        "features": features,
        "data_sha256": "ab" * 32,
        "recipe": {"op": ["gemm"], "seed": 0},
    }
    fitted = estimator.fit(X, X["host_us"].to_numpy() * 0.1)  # type: ignore[attr-defined]
    return _made(lambda folder: artifact.save(folder, fitted, manifest, X))


def _chakra() -> bytes:
    field, varint = test_chakra.field, test_chakra.varint
    call = test_chakra.operator(
        216,
        "aten::mul(1)",
        110,
        field(4, varint(3)),
        field(7, 318),
        field(8, test_chakra.ARGUMENTS),
    )
    return test_chakra.delimited(test_chakra.METADATA, call, test_chakra.kernel(217, "add", 216))


def _execution_trace() -> str:
    return test_reader.document(test_reader.tagged(1, "process"), test_reader.tagged(3))


def _watched() -> str:
    return "\n".join(
        json.dumps([test_logs.amd(0, socket_power={"value": at, "unit": "W"})]) for at in (5, 6)
    )


def _serving() -> list[Files]:
    made, clients = test_serving_benchmarks, test_serving_clients
    records = (
        made.VLLM,
        made.SGLANG,
        made.AIPERF,
        [made.INFERENCEX],
        clients.GUIDELLM,
        clients.INFERENCE_PERF,
        clients.LLMPERF,
        clients.TRTLLM,
        clients.ONE_BATCH,
        clients.LATENCY,
    )
    printed = (
        clients.VLLM_BLOCK,
        clients.SGLANG_BLOCK,
        clients.GENAI_CSV,
        clients.AIPERF_CSV,
        clients.MLPERF,
    )
    return [
        *(_one("run.json", json.dumps(record)) for record in records),
        *(_one("run.txt", words) for words in printed),
    ]


def _products() -> str:
    """Return a table of matrix products that two GPUs measured, of six shapes of weights."""
    rows = ["op,device,dtype,m,n,k,duration_us,spread_us,energy_mj"]
    for m in (16, 256, 2048):
        for n, k in (
            (1024, 1024),
            (4096, 512),
            (512, 8192),
            (8192, 8192),
            (2048, 7168),
            (6144, 3072),
        ):
            for device, rate, start in (("MI300X", 6e8, 8.0), ("MI355X", 11e8, 6.5)):
                us = start + 2 * m * n * k / rate + n * k / 4e6
                rows.append(f"gemm,{device},bf16,{m},{n},{k},{us:.3f},{us / 50:.3f},{us / 2:.3f}")
    return "\n".join([*rows, ""])


PRODUCTS = _products()
ASKED = "op,device,dtype,m,n,k,us\n" + "".join(
    f"gemm,MI300X,bf16,{m},{n},{k},{us}\n"
    for m, n, k, us in ((32, 1024, 1024, 9), (512, 4096, 512, 13), (9, 9, 9, 8))
)
"""Workloads to predict."""
STORED = Path(test_stored_runs.__file__).parent / "stored" / "sklearn-1.7"


@cache
def runs() -> dict[str, Files]:
    """Return the files of small runs: with a host, of shapes alone, and with a prior; the same bytes each time."""

    def saved(run: fc.Run) -> Files:
        for row in (row for cv in run.metrics["cv"] for row in (*cv["baselines"], *cv["models"])):
            row["fit_seconds"] = 1.0
        about = {"name": "tidy.csv", "bytes": 1, "sha256": "ab" * 32}
        run.metrics["provenance"] |= {"command": "train", "date": "2026-11-25", "files": [about]}

        def save(folder: Path) -> None:
            run.save(folder)
            # megabytes that no command reads again
            (folder / "report.html").write_text("<html></html>")
            seal(folder)

        return _made(save)

    with tempfile.TemporaryDirectory() as folder:
        table = Path(folder) / "tidy.csv"
        table.write_text(PRODUCTS)
        few: dict[str, Any] = {"models": ["OLS", "Additive"], "jobs": 1}
        paired = fc.train(table, host="MI300X", target="MI355X", **few)
        shapes = fc.train(table, target="MI300X", **few)
        prior = fc.train(table, target="MI355X", prior_run=shapes, models=["Prior"], jobs=1)
        return {"paired": saved(paired), "shapes": saved(shapes), "prior": saved(prior)}


def _of_runs(*names: str) -> list[Files]:
    """Return one file of each run that has it, under the name of the run."""
    return [
        {f"{run}/{name}": files[name]}
        for run, files in runs().items()
        for name in names
        if name in files
    ]


@cache
def serving_model() -> bytes:
    """Return the model of serving that ships, of its first runs alone."""
    model = shipped()
    few = {}
    for name, fit in model.fits.items():
        one = fit.trees and Trees(
            fit.trees.nodes[: fit.trees.roots[1]], fit.trees.roots[:1], fit.trees.words
        )
        few[name] = replace(fit, weights=fit.weights[:40], trees=one)
    small = replace(model, runs=model.runs[:40], fits=few)
    return _made(lambda folder: small.save(folder / "own.parquet"))["own.parquet"]


@cache
def served_setting() -> pd.DataFrame:
    """Return a setting of serving: that of the first run."""
    return shipped().runs.iloc[:1].assign(op="serving")


@cache
def predicted() -> fc.Prediction:
    """Return the predictions that are saved in `answers`."""
    with tempfile.TemporaryDirectory() as place:
        folder = Path(place)
        for name, content in runs()["paired"].items():
            (folder / "paired" / name).parent.mkdir(parents=True, exist_ok=True)
            (folder / "paired" / name).write_bytes(content)
        (folder / "asked.csv").write_text(ASKED)
        return fc.predict(folder / "paired", folder / "asked.csv")


@cache
def answers() -> Files:
    """Return saved answers: a projection, a forecast, predictions."""

    def save(folder: Path) -> None:
        (folder / "trace.json").write_text(job_trace())
        projected = fc.project(
            folder / "trace.json", "MI355X", default={"device": "MI300X"}, samples=16
        )
        forecast = fc.forecast(
            "llama-3.1-8b", gpu="MI300X", gpus=8, batch=8, input_len=128, output_len=64
        )
        for name, found in (("project.json", projected), ("forecast.json", forecast)):
            (folder / name).write_text(dumps(found.document().data, missing=True))
        predicted().save(folder / "predicted.json")

    made = _made(save)
    return {name: made[name] for name in ("project.json", "forecast.json", "predicted.json")}


FITS: Final = {"data": "a", "seed": "0"}
FITTED: Final = Candidate("Mean", DummyRegressor(), "measured time")


@cache
def fits() -> bytes:
    """Return the fits of a cross-validation that ended early."""

    def save(folder: Path) -> None:
        kept = KeptFits(folder / "run.fits", FITS)
        cross_validate(make_data(), [FITTED], folds=3, observers=[kept])

    first, *lines = _made(save)["run.fits"].splitlines()
    texts = [first]
    for line in lines[:5]:
        fit = msgspec.json.decode(line.partition(b" ")[2])
        fit[5] = 1.0  # the seconds it took
        texts.append(b"0 " + msgspec.json.encode(fit))
    return b"".join(text + b"\n" for text in texts)


@cache
def cached() -> Files:
    """Return a folder of the cache of public tables and its digests."""

    def save(folder: Path) -> None:
        (folder / "brought" / "deep").mkdir(parents=True)
        (folder / "brought" / "tidy.csv").write_text(TIDY)
        (folder / "brought" / "deep" / "gpu.toml").write_text(GPU)
        record(folder / "brought")
        listed = folder / "brought.json"
        entries = json.loads(listed.read_text())
        for entry in entries.values():
            entry.update(changed_ns=0, inode_changed_ns=0)
        listed.write_text(json.dumps(entries))

    return _made(save)


@cache
def seeds() -> dict[str, list[Files]]:
    """Return the inputs of each target but those of `seeds_behind`."""
    hipblaslt = (
        test_hipblaslt.MI300X.format(0)
        + test_hipblaslt.block()
        + "    --Solution index: 71\n"
        + test_hipblaslt.OLD
    )
    rccl = test_rccl_tests.NAMED + test_rccl_tests.log(test_rccl_tests.SMALL, test_rccl_tests.LARGE)
    tunable = "\n".join([*test_tunableop.VALIDATORS, *test_tunableop.LINES, ""])
    gemm = f"{test_aiter.GEMM}\ngfx942,304,16,512,7168,ck,8,3,6.5,knl,1,1,0.0\ngfx942,304,1,5,7,ck,8,3,2.5,knl,1,1,0\n"
    moe = f"{test_aiter.FMOE}\n{test_aiter.fmoe()}\n{test_aiter.fmoe('256', 'per_1x32')}\n"
    stats = (
        test_nsys_stats.HEADER
        + test_nsys_stats.COPY
        + test_nsys_stats.KERNEL
        + test_nsys_stats.FILL
    )
    document, tuned = _execution_trace(), test_aiter
    return {
        "tidy CSV": [
            _one("tidy.csv", TIDY), _one("few.csv", "m;n;k;us\n1;2;3;4,5\n"),
            _one("rates.csv", "op,device,dtype,m,n,k,TFLOPS\ngemm,MI300X,bf16,16,32,64,7\n"),
        ],
        "tidy Parquet": [_one("tidy.parquet", _parquet(TIDY))],
        "tidy xlsx": [_one("tidy.xlsx", _workbook(TIDY))],
        "AITER": [
            _one("a8w8_blockscale_tuned_gemm.csv", gemm),
            _one("tuned_fmoe.csv", moe),
            _one("chunk_gdn_tuned.csv", f"# about\n{tuned.STATES}\n{tuned.STATES_ROW}\n"),
            _one("gdr_decode_tuned.csv", f"{tuned.STEPS}\n{tuned.STEPS_ROW}\n"),
            _one("mega_moe_tp_a4w4_tuned.csv", f"{tuned.MEGA}\n{tuned.MEGA_ROW}\n"),
            _one("grouped_gemm_mxfp8_tuned.csv", f"{tuned.GROUPED}\n{tuned.GROUPED_ROW}\n"),
            _one("conv3d_bf16_tuned.csv", f"{tuned.CONVOLUTION}\n{tuned.CONVOLUTION_ROW}\n"),
        ],
        "AIConfigurator": [_made(test_aiconfigurator.make_all)],
        "MIOpen": [_one("gfx942130.HIP.fdb.txt", CONVOLUTION * 2)],
        "hipblaslt-bench": [_one("bench.log", hipblaslt)],
        "logs of products": [
            _one("inductor.log", test_product_logs.INDUCTOR),
            _one("ck.log", test_product_logs.CK),
            _one("cutlass.csv", test_product_logs.CUTLASS),
            _one("tuning.yaml", test_product_logs.TUNED),
            _one("deepbench.txt", test_product_logs.DEEPBENCH),
            _one("E=16,N=128,device_name=NVIDIA_L40S.json", test_product_logs.CONFIGS),
            _one("driver.log", test_miopen_driver.LOG),
            _one("profile.json", json.dumps(test_onnx_runtime.EVENTS)),
        ],
        "rccl-tests": [
            _one("all_reduce.log", rccl),
            _one("out.json", test_rccl_structured.LINES),
            _one("out.csv", test_rccl_structured.CSV),
            _one("all_gather.json", json.dumps(test_rccl_structured.WRAPPED)),
            _one("nested.json", json.dumps(test_rccl_structured.NESTED)),
        ],
        "serving": [*_serving(), _one("silicon_sample.csv", test_serving_benchmarks.SAMPLE)],
        "key_averages": [_one("averages.txt", test_key_averages.table(test_key_averages.ROWS))],
        "TunableOp": [_one("tunableop_results0.csv", tunable)],
        "Kineto": [_one("trace.json", _kineto()), {"trace.json": _kineto().encode(), "et.json": document.encode()}],
        "execution trace": [_one("et.json", document), _one("x.et", _chakra())],
        "JAX trace": [_one("host.trace.json", json.dumps(test_jax_trace.document()))],
        "rocprofv3 CSV": [_rocprofv3_csv(), _one("out_kernel_trace.csv", test_csv_files.CONVERTED),
            _one("run_kernel_stats.csv", test_kernel_sums.ROCPROFV3),
        ],
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
        "nsys stats": [
            _one("run_cuda_gpu_trace.csv", test_nsys_stats.BEFORE + stats),
            _one("run_cuda_gpu_kern_sum.csv", test_kernel_sums.NSYS), _one("stats.txt", test_kernel_sums.PRINTED),
        ],
        "ncu": [_one("app.csv", test_ncu.BEFORE + test_ncu.DETAILS), _one("app.csv", test_ncu.RAW)],
        "power log": [
            _one("nvidia.csv", test_logs.NVIDIA), _one("amd.csv", SMI), _one("amd.txt", MONITOR),
            _one("amd.json", _watched()),
            _one("dmon.txt", test_logs.DMON), _one("watched.csv", test_logs.WATCHED), _one("rocm.csv", ROCM_SMI),
            _one("own.csv", "gpu_ns,component,power_w\n10,total,500\n20,XCD,400\n"),
        ],
        "GPU file": [_one("gpu.toml", GPU), _one("gpu.toml", 'cus = 4\n[peak_tflops]\nbf16_matrix = 1\n')],
        "sizes": [
            _one("sizes.csv", SIZES), _one("sizes.parquet", _parquet(SIZES)), _one("p.txt", test_extrap.TEXT),
            _one("new.json", json.dumps(test_extrap.NEW)), _one("old.json", json.dumps(test_extrap.OLD)),
            _one("p.jsonl", test_extrap.LINES), _one("talpas.txt", test_extrap.TALPAS), _one("two.txt", test_extrap.TWO),
        ],
        "terms": [_one("two.txt", test_terms.TWO_PARAMETERS), _one("two.txt", test_extrap.TWO)],
        "layers": [
            _one("layers.json", LAYERS), _one("placement.json", PLACEMENT), _one("piper.json", PIPER),
            _one("ops.csv", "name,op,m,n,k,dtype,count\na,gemm,16,512,7168,fp8,3\nb,gemm,1,5,7,bf16,1\n"),
        ],
        "MPI trace": [_one("lu.trace", SIMGRID), _one("events.txt", OTF2.replace("\\\n", ""))],
        "model": [_model(LinearRegression()), _model(RandomForestRegressor(2, max_depth=2, random_state=0))],
    }  # fmt: skip


def _power() -> Files:
    """Return the three tables of a simulated measurement of a kernel's power."""
    made = simulate(Scenario(kernel_us=400.0, runs=30, executions=12))
    tables = {"log": made.log, "executions": made.executions, "clocks": made.pairs}
    return {f"{name}.csv": table.to_csv(index=False).encode() for name, table in tables.items()}


@cache
def seeds_behind() -> dict[str, list[Files]]:
    """Return the inputs of the targets of `behind`; runs are trained first."""
    configurations = [one[3] for one in PUBLISHED] + [CONFIG, MIXTURE]
    return {
        "manifest": _of_runs("manifest.json"),
        "metrics": [
            *_of_runs("metrics.json"),
            {"stored/metrics.json": (STORED / "metrics.json").read_bytes()},
        ],
        "predictions": _of_runs("predictions.parquet"),
        "run's model": _of_runs("model/manifest.json", "model/estimator.zip"),
        "prior": _of_runs("model/prior/manifest.json", "model/prior/estimator.zip"),
        "train": [_one("tidy.csv", PRODUCTS), _one("tidy.parquet", _parquet(PRODUCTS))],
        "validate": [_one("tidy.csv", PRODUCTS)],
        "predict": [
            _one("tidy.csv", ASKED),
            _one("tidy.parquet", _parquet(ASKED)),
            _one("tidy.csv", TIDY),
        ],
        "check": [_one("tidy.csv", PRODUCTS)],
        "compare": [_one("tidy.csv", PRODUCTS), _one("trace.json", _kineto())],
        "project": [_one("trace.json", job_trace()), _rocprofv3_csv()],
        "network": [_one("network.toml", NETWORK), _one("network.toml", "link_latency_us = 2\n")],
        "config.json": [_one("config.json", json.dumps(one)) for one in configurations],
        "ONNX": [_made(lambda folder: write_model(import_module("onnx"), folder))],
        "cases": [
            _one("cases.csv", CASES.replace("measured", "network_gbs")),
            _one("cases.csv", STEPS.replace("measured", "network_gbs")),
        ],
        "calibration": [
            _one("runs.csv", CASES),
            _one("runs.csv", STEPS),
            _one("runs.csv", SERVED_RUNS),
            _serving()[3],
        ],
        "release": [
            _one("own.toml", as_toml(one)) for one in list(shipped_releases().values())[:2]
        ],
        "serving model": [_one("own.parquet", serving_model())],
        "scale": [_one("sizes.csv", SIZES), _one("sizes.parquet", _parquet(SIZES))],
        "power profile": [_power()],
        "GPU": [_one("gpu.toml", GPU)],
        "fits": [_one("run.fits", fits())],
        "cache": [{name: content} for name, content in cached().items()],
        "answer": [{name: content} for name, content in answers().items()],
        "sealed serving model": [_one("own.parquet", serving_model())],
    }


def seeds_of(target: str) -> list[Files]:
    """Return the inputs of a target."""
    return seeds()[target] if target in seeds() else seeds_behind()[target]
