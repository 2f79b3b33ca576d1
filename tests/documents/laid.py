"""Files that documents speak of as the reader's own: the name -> what is laid under it before a command asks for it."""

from __future__ import annotations

import gzip
import json
import shutil
from collections.abc import Callable, Iterator
from functools import cache, partial
from itertools import product
from pathlib import Path
from typing import Any, Final

import numpy as np
import pandas as pd

import flopcast as fc
from flopcast.benchmarks.made_up_counters import workloads
from flopcast.benchmarks.power_simulator import Scenario, simulate
from flopcast.hardware import find
from flopcast.tests.readers.kineto.made_up import event, write
from flopcast.tests.readers.rocprofiler_compute import test_reader
from flopcast.tests.scaling import test_caliper, test_simulated, test_terms

ROOT: Final = Path(__file__).parents[2]
MEASURED: Final = ROOT.parent / "shared" / "data"
Maker = Callable[[Path], object]


def of_measured(name: str) -> Maker:
    """Return what links a file of the measured data; it skips where these are missing (`MissingError`)."""

    def make(path: Path) -> None:
        if not (MEASURED / name).exists():
            raise MissingError(f"the measured data (../shared/data/{name}) are not on this machine")
        path.symlink_to(MEASURED / name)

    return make


class MissingError(Exception):
    """What a command needs is not on this machine."""


# Tables.


def products(device: str, seed: int = 0) -> pd.DataFrame:
    """Return block-scaled FP8 products, as AITER times them: a launch, half of the peak, scatter of 5 %."""
    cells = product(
        (16, 64, 256, 1024, 2048, 4096, 8192), (1024, 2304, 4096, 7168), (512, 2048, 7168)
    )
    table = pd.DataFrame(cells, columns=["m", "n", "k"]).assign(
        device=device, op="gemm", dtype_a="fp8"
    )
    flops = 2.0 * table["m"] * table["n"] * table["k"]
    scatter = np.random.default_rng(seed).lognormal(0, 0.05, len(table))
    peak = find(device).peaks["fp8_matrix"] if device in ("MI300X", "MI355X") else 600.0
    time = (3.0 + flops / (0.5 * peak * 1e6)) * scatter
    return table.assign(family="a8w8_blockscale", scale_block="1x128", duration_us=time.round(3))


def pairs(path: Path) -> None:
    pd.concat([products("MI300X"), products("MI355X", 1)]).to_csv(path, index=False)


def tuned(path: Path) -> None:
    """Write a folder as AITER has it, of three GPUs."""
    path.mkdir()
    of = {"MI308X": ("gfx942", 80), "MI300X": ("gfx942", 304), "MI355X": ("gfx950", 256)}
    parts = []
    for device, (gfx, cus) in of.items():
        found = products(device).rename(
            columns={name: name.upper() for name in "mnk"} | {"duration_us": "us"}
        )
        parts.append(
            found[["M", "N", "K", "us"]].assign(
                gfx=gfx, cu_num=cus, kernelId=1, splitK=0, kernelName="x"
            )
        )
    pd.concat(parts).to_csv(path / "a8w8_blockscale_tuned_gemm.csv", index=False)


def counted(path: Path) -> None:
    path.mkdir()
    workloads(60, 24).to_parquet(path / "applications.parquet")


@cache
def trained(seed: int) -> fc.Run:
    table = pd.concat([products("MI300X", seed), products("MI355X", seed + 1)])
    return fc.train(table, host="MI300X", target="MI355X", models=["OLS", "Additive"], jobs=1)


SAVED: Final[dict[int, Path]] = {}


def run(path: Path, seed: int = 0) -> None:
    """Save a run; the next one of its seed is a copy, as drawing a page takes as long as training."""
    if seed in SAVED:
        shutil.copytree(SAVED[seed], path)
    else:
        trained(seed).save(path)
        SAVED[seed] = path.absolute()


def sizes(path: Path) -> None:
    """Write five benchmarks over the size of the GPU, of which the last grows least."""
    cells = product("abcde", (8, 16, 32, 64, 128))
    table = pd.DataFrame(cells, columns=["benchmark", "size"]).assign(mpki=2.0, f_mem=0.4)
    power = 1.0 - 0.05 * table["benchmark"].map("abcde".index)
    table.assign(ipc=10.0 * table["size"] ** power).to_csv(path, index=False)


def answered(path: Path) -> None:
    """Write runs of a release that takes a fifth longer than vLLM 0.8.5."""
    cases = pd.DataFrame({"batch": [1, 4, 16, 64]}).assign(
        model="llama-3.1-70b", gpu="MI300X", gpus=8, dtype="fp8", input_len=128, output_len=128
    )
    found = fc.forecast(cases=cases.assign(release="vllm-0.8.5")).table["predicted"]
    cases.assign(measured=1.2 * found.to_numpy()).to_csv(path, index=False)


def profiled(path: Path, us: int) -> None:
    """Write a folder of rocprofiler-compute: one kernel, with the counters that scale models take."""
    path.mkdir()
    names = "SQ_INSTS,SQ_WAIT_ANY,SQ_WAVE_CYCLES,TCC_MISS_sum,Start_Timestamp,End_Timestamp"
    row = test_reader.merged_row(0, "300000,2000000,3000000,9000", f"1000,{1000 + 1000 * us}")
    test_reader.write(path / "pmc_perf.csv", f"{test_reader.MERGED},{names}", row)
    test_reader.write(
        path / "sysinfo.csv", test_reader.SYSTEM, 'w,"./a",SPX,MI300X_A1,gfx942,304,2'
    )


def simulated_log(path: Path, sms: int) -> None:
    """Write what GPGPU-Sim prints of two launches of a kernel."""
    path.write_text(test_simulated.log(sms), encoding="utf-8")


def caliper_profiles(path: Path) -> None:
    """Write what Caliper says of a solver on two numbers of ranks, into a folder."""
    path.mkdir()
    for ranks, seconds in ((8, 4.0), (16, 2.25)):
        found = test_caliper.profile(ranks, [[0, 0.5, 0], [1, seconds, 0]])
        (path / f"run{ranks}.json").write_text(json.dumps(found), encoding="utf-8")


def metered(power: Any) -> pd.DataFrame:
    """Return a simulated log as a meter of the host would have it: seconds since 1970, and watts."""
    log = power.log[power.log["component"] == "total"]
    ahead_ns = (power.pairs["gpu_ns"] - power.pairs["cpu_ns"]).median()
    return pd.DataFrame({"seconds": (log["gpu_ns"] - ahead_ns) / 1e9, "watts": log["power_w"]})


def served(path: Path) -> None:
    """Write two runs of a benchmark of serving, into a folder."""
    runs = pd.DataFrame(
        {"concurrency": [1, 128], "ttft_ms": [150.0, 1500.0], "tpot_ms": [12.0, 35.0]}
    ).assign(
        op="serving",
        device="MI355X",
        model="deepseek-r1",
        engine="vllm",
        tp=8,
        dtype_a="fp8",
        dtype_b="fp8",
    )
    runs = runs.assign(input_len=1024, output_len=1024)
    path.mkdir()
    runs.to_csv(path / "runs.csv", index=False)


def newer() -> pd.DataFrame:
    return products("MI300X", 5).assign(device="MI300X, ROCm 7")


# Traces.

KERNELS: Final = tuple(f"Cijk_Ailk_Bljk_BBS_{size}" for size in (2048, 4096, 8192))
TRANSFER_US: Final = 600.0


def trace(
    path: Path, steps: int = 5, work_us: float = 300.0, *, rank: int = 0, ranks: int = 8, late_us: float = 0.0,
    last_us: float = 0.0,
) -> None:  # fmt: skip
    """Write steps of PyTorch, each of three products and an all-reduce, which all ranks end together.

    A rank's first product takes `late_us` longer than `work_us`, that of the last rank `last_us`; every rank has a
    clock of its own.
    """
    together = {"rank": rank, "world_size": ranks}
    write(
        path,
        list(_steps(steps, work_us, rank, ranks, (late_us, last_us))),
        distributedInfo=together,
    )


def _steps(
    steps: int, work_us: float, rank: int, ranks: int, late_us: tuple[float, float]
) -> Iterator[dict[str, Any]]:
    cpu, gpu = partial(event, tid=1, pid=7), partial(event, tid=0, pid=0, device=0, stream=0)
    group = {
        "Group size": ranks,
        "Process Group Name": "0",
        "Process Group Ranks": str(list(range(ranks))),
    }
    message = dict.fromkeys(("In msg nelems", "Out msg nelems"), 64 << 20)
    meeting = {"Collective name": "allreduce", "dtype": "BFloat16", **message, **group}
    length = len(KERNELS) * work_us + late_us[1] + TRANSFER_US
    for step in range(steps):
        at = 1000.0 * rank + (length + 80.0) * step
        begun, end = at + 20.0, at + 20.0 + length
        yield cpu("user_annotation", f"ProfilerStep#{step + 1}", at, length + 79.0)
        for place, name in enumerate(
            (*KERNELS, "ncclDevKernel_Generic_1(ncclDevKernelArgsStorage<4096ul>)")
        ):
            number = 4 * step + place + 1
            ids, called = {"External id": number, "correlation": number}, at + 4.0 * place
            collective = place == len(KERNELS)
            if not collective:
                shapes = [[int(name.rpartition("_")[2]), 4096], [4096, 4096]]
                told = {"Input Dims": shapes, "Input type": ["c10::BFloat16", "c10::BFloat16"]}
                yield cpu("cpu_op", "aten::mm", called, 3.5, **{"External id": number}, **told)
            yield cpu("cuda_runtime", "hipLaunchKernel", called + 1, 2.0, **ids)
            took = end - begun if collective else work_us + (0.0 if place else late_us[0])
            yield gpu("kernel", name, begun, took, **ids, **(meeting if collective else {}))
            begun += took
        yield cpu(
            "cuda_runtime",
            "hipDeviceSynchronize",
            at + 17,
            end + 1 - at - 17,
            correlation=1_000_000 + step,
        )


def in_line(path: Path) -> None:
    """Write the times of modules that compute the products of `trace`, and of the model around them."""
    product = {
        "device": "MI300X",
        "op": "gemm",
        "dtype_a": "bf16",
        "n": 4096,
        "k": 4096,
        "outer": False,
    }
    rows = [
        {**product, "kernel": name, "m": int(name.rpartition("_")[2]), "duration_us": 270.0}
        for name in KERNELS
    ]
    rows.append(
        {
            "device": "MI300X",
            "op": "application",
            "kernel": "Model",
            "duration_us": 1480.0,
            "outer": True,
        }
    )
    table = pd.DataFrame(rows).assign(repeats=5)
    table.assign(source="inline:" + table["kernel"]).to_csv(path, index=False)


def traces(path: Path) -> None:
    path.mkdir()
    for number in range(2):
        trace(path / f"{number}.json", work_us=300.0 + number)


def ranks(path: Path) -> None:
    """Write four ranks; in every step each works 10 µs longer than the one before it, and rank 2 another 150 µs."""
    late = [10.0 * rank + 150.0 * (rank == 2) for rank in range(4)]
    for rank, late_us in enumerate(late):
        trace(
            path.with_name(f"rank{rank}.json"),
            work_us=500.0,
            rank=rank,
            ranks=4,
            late_us=late_us,
            last_us=max(late),
        )


def twenty_times(path: Path) -> None:
    """Write a measured step of Qwen so many times over, one after the other; its calls of Python are left out."""
    source = MEASURED / "profiles/kineto/pairs_mi300/Qwen_Qwen1.5-0.5B-Chat__1016005.json.gz"
    if not source.exists():
        raise MissingError("the measured data (../shared/data) are not on this machine")
    content = json.loads(gzip.decompress(source.read_bytes()))
    timed = [
        one
        for one in content["traceEvents"]
        if one["ph"] == "X" and one["cat"] not in ("python_function", "Trace")
    ]
    length = max(one["ts"] + one["dur"] for one in timed) - min(one["ts"] for one in timed)
    events = [one for one in content["traceEvents"] if one["ph"] == "M"]
    for number in range(20):
        for one in timed:
            numbers = {
                name: value + 1_000_000 * number
                for name, value in one["args"].items()
                if name in _NUMBERS
            }
            events.append(
                {
                    **one,
                    "ts": one["ts"] + (length + 20.0) * number,
                    "args": {**one["args"], **numbers},
                }
            )
    path.write_text(json.dumps({**content, "traceEvents": events}), encoding="utf-8")


_NUMBERS: Final = ("External id", "correlation", "Record function id", "Ev Idx")


def recorded(path: Path, times: int = 5, factor: float = 1.0) -> None:
    """Write a folder of rocprofv3 in which the products of `trace` ran so many times each."""
    path.mkdir()
    rows = []
    for number in range(times * len(KERNELS)):
        start = 1_000_000 + 400_000 * number
        rows.append(
            (number + 1, KERNELS[number % len(KERNELS)], start, start + round(300_000 * factor))
        )
    table = pd.DataFrame(
        rows, columns=["Dispatch_Id", "Kernel_Name", "Start_Timestamp", "End_Timestamp"]
    )
    common = {
        "Kind": "KERNEL_DISPATCH",
        "Agent_Id": "Agent 4",
        "Queue_Id": 1,
        "Stream_Id": 1,
        "Thread_Id": 1,
    }
    grid = {f"{name}_Size_{axis}": 1 for name in ("Workgroup", "Grid") for axis in "XYZ"}
    table.assign(**common, Kernel_Id=1, Correlation_Id=table["Dispatch_Id"], **grid).to_csv(
        path / "kernel_trace.csv", index=False
    )


# Graphs of layers.

LAYERS: Final = [
    {"name": "up", "op": "gemm", "m": 8192, "n": 16384, "k": 4096, "dtype": "bf16", "count": 24},
    {"name": "sum", "collective": "all_reduce", "message_bytes": 64e6, "ranks": 8, "after": ["up"]},
]


def executed(path: Path) -> None:
    """Write an execution trace of PyTorch: two products, one after the other."""
    nodes = []
    for number in (2, 3):
        tensors = [[6, 7, 0, 1 << 22, 2, "cuda:0"], [number, 9, 0, 1 << 24, 2, "cuda:0"]]
        given = {"inputs": tensors, "input_shapes": [[1024, 4096], [4096, 4096]]}
        types = {
            "input_types": ["Tensor(c10::BFloat16)"] * 2,
            "outputs": [],
            "output_shapes": [],
            "op_schema": "",
        }
        place = {
            "id": number,
            "rf_id": number - 1,
            "parent": 1,
            "fw_parent": 0,
            "seq_id": -1,
            "scope": 0,
            "tid": 1,
        }
        nodes.append({"name": "aten::mm", **place, **given, **types})
    process = {
        **nodes[0],
        "name": "process",
        "id": 1,
        "rf_id": None,
        "inputs": [],
        "input_shapes": [],
        "input_types": [],
    }
    header = {
        "schema": "1.0.1",
        "pid": 1,
        "time": "2024-04-29 16:23:47",
        "start_ts": 1,
        "finish_ts": 2,
    }
    path.write_text(json.dumps({**header, "nodes": [process, *nodes]}), encoding="utf-8")


def encoder(path: Path) -> None:
    """Write an ONNX model of one linear layer, of a batch and sequences whose lengths are free."""
    try:
        from onnx import TensorProto, helper, save
    except ImportError:
        raise MissingError("onnx is not installed (pip install flopcast[onnx])") from None
    free = partial(helper.make_tensor_value_info, elem_type=TensorProto.FLOAT16)
    weights = helper.make_tensor_value_info("weights", TensorProto.FLOAT16, [768, 768])
    node = helper.make_node("MatMul", ["tokens", "weights"], ["found"])
    inputs = [free("tokens", shape=["batch", "sequence", 768]), weights]
    save(
        helper.make_model(
            helper.make_graph([node], "encoder", inputs, [free("found", shape=None)])
        ),
        path,
    )


def placed(path: Path) -> None:
    """Write the input of a planner of device placement: two nodes, 1.5 and 2.5 of its unit of time."""
    times = enumerate((1.5, 2.5))
    nodes = [
        {"id": at, "supportedOnFpga": 1, "cpuLatency": 10 * time, "fpgaLatency": time}
        for at, time in times
    ]
    edges = [{"sourceId": 0, "destId": 1, "cost": 1.0}]
    path.write_text(
        json.dumps(
            {"maxFPGAs": 1, "maxCPUs": 1, "maxSizePerFPGA": 1e9, "nodes": nodes, "edges": edges}
        )
    )


OWN: Final = """
import torch

def kernel(m, n, k, **asked):
    torch.ones(m, k) @ torch.ones(k, n)
"""
"""A function of the reader's own, for `measure`."""

# What is laid.


def text(*lines: str) -> Maker:
    return lambda path: path.write_text("\n".join((*lines, "")), encoding="utf-8")


def table(make: Callable[[], pd.DataFrame]) -> Maker:
    return lambda path: make().to_csv(path, index=False)


LAID: Final[dict[str, Maker]] = {
    "datasets/": lambda path: path.symlink_to(ROOT / "datasets"),
    # Measurements.
    "DATA": tuned,
    "tuned.csv": pairs,
    "pairs.csv": pairs,
    "new.csv": table(lambda: products("MI300X", 2)),
    "autumn.csv": table(lambda: pd.concat([products("MI300X", 2), products("MI355X", 3), newer()])),
    "simulated.csv": table(lambda: pd.concat([products("MI300X"), products("MI355X", 1)]).assign(simulated_s=3600.0)),
    "candidates.csv": table(lambda: products("MI300X", 2).assign(calls=10)),
    "table.csv": table(lambda: products("MI300X").rename(columns={"m": "M_size", "duration_us": "latency"})),
    "mine.csv": table(lambda: products("MI300X").assign(latency=1e-3 * products("MI300X").pop("duration_us"))),
    "profiles/": counted,
    "runs/fp8": run,
    "runs/other": partial(run, seed=4),
    "runs/spring": run,
    "runs/summer": run,
    "runs/autumn": partial(run, seed=4),
    "scale runs.csv": sizes,
    "calibrate runs.csv": answered,
    "results/": served,
    # Traces.
    "traces/": traces,
    "trace.json.gz": trace,
    "before.json.gz": trace,
    "after.json.gz": partial(trace, work_us=280.0),
    "long.json.gz": partial(trace, steps=40),
    "torch.json.gz": trace,
    "qwen15.json.gz": of_measured("profiles/kineto/pairs_mi300/Qwen_Qwen1.5-0.5B-Chat__1016005.json.gz"),
    "bert.json.gz": of_measured("profiles/kineto/pairs_mi300/gaunernst_bert-small-uncased__1016001.json.gz"),
    "rank*.json": ranks,
    "rocprof/": partial(recorded, factor=1.02),
    "passes/": partial(recorded, times=250),
    "qwen.json": twenty_times,
    "resnet.json.gz": of_measured("profiles/kineto/other/mi300_resnet_act_checkpoint.json.gz"),
    # Workloads.
    "config.json": text(json.dumps({
        "model_type": "llama", "hidden_size": 4096, "intermediate_size": 14336, "num_hidden_layers": 32,
        "num_attention_heads": 32, "num_key_value_heads": 8, "vocab_size": 128256,
    })),
    "cases.csv": text("model,gpu,gpus,dtype,batch,input_len,output_len", "llama-3.1-8b,MI300X,1,fp8,8,128,128"),
    "layers.json": text(json.dumps({"layers": LAYERS})),
    "et.json": executed,
    "param_resnet_2gpu_et.json.gz": of_measured("profiles/chakra/param_resnet_2gpu_et.json.gz"),
    "encoder.onnx": encoder,
    "bert24_inference.json": placed,
    "profile38/": partial(profiled, us=40),
    "profile76/": partial(profiled, us=22),
    "addresses.txt": text(*(hex(128 * (at % 20000)) for at in range(60000))),
    "solver.txt": text("PARAMETER nodes", "POINTS ( 8 ) ( 16 )", "", "REGION solve", "METRIC walltime", "DATA 4.0", "DATA 2.25"),
    "grid.txt": text(test_terms.TWO_PARAMETERS.replace("ETER x", "ETER p").replace("ETER y", "ETER n")),
    "two_parameter_1.txt": text(test_terms.TWO_PARAMETERS),
    "caliper/": caliper_profiles,
    "sim8.log": partial(simulated_log, sms=8),
    "sim16.log": partial(simulated_log, sms=16),
    # GPUs and networks.
    "my_mi375x.toml": text('name = "MI375X"', 'based_on = "MI355X"', "memory_bw_gbs = 10000"),
    "two-level.toml": text("node_gpus = 8", "network_gbs = 50", "network_us = 10"),
    # Measuring.
    "products.csv": text("op,dtype,m,n,k", "gemm,bf16,4096,4096,4096"),
    "shapes.csv": text("op,dtype,m,n,k", "gemm,fp32,4,8,16"),
    "mymodule:kernel": lambda path: Path("mymodule.py").write_text(OWN, encoding="utf-8"),
    "gemms.csv": text("op,dtype,m,n,k", *(f"gemm,bf16,{size},{size},{size}" for size in (4096, 8192))),
    "times.csv": in_line,
    "power.csv": text("device,op,dtype,m,n,k,duration_us,power_w", "MI300X,gemm,bf16,4096,4096,4096,250,690"),
    "amd-smi.csv": table(lambda: simulated().log),
    "executions.csv": table(lambda: simulated().executions),
    "meter.csv": table(lambda: metered(simulated())),
    "clocks.csv": table(lambda: simulated().pairs),
}  # fmt: skip


@cache
def simulated() -> Any:
    """Return what a logger says of a product, simulated."""
    return simulate(Scenario(runs=100, jitter=0.02))
