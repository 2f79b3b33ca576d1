"""
A benchmark of serving
======================

How long does a user wait for the first token, and for each further one? A model that ships with flopcast has learnt it
from published runs. Two of your benchmarks narrow its answer. Those of this example are made up, in the format of
``vllm bench serve --save-result --metadata tp=8 device=MI355X dtype_a=fp8``: a machine that is a fifth slower than
forecast.
"""

import json
import tempfile
from pathlib import Path

import numpy as np
import pandas as pd

import flopcast as fc
from flopcast.api.forecasting import calibrate
from flopcast.operators.operators import complete
from flopcast.workloads.serving import described
from flopcast.workloads.serving_model import shipped

folder = Path(tempfile.mkdtemp())
users = np.array([1, 2, 4, 8, 16, 32, 64, 128])
lengths = [(1024, 512), (1024, 1024), (4096, 512), (4096, 1024)]
runs = pd.DataFrame(
    [
        {"op": "serving", "device": "MI355X", "model": "qwen3-32b", "engine": "vllm", "dtype_a": "fp8", "tp": 8,
         "concurrency": float(n), "input_len": float(prompt), "output_len": float(answer)}
        for n in users for prompt, answer in lengths
    ]
)  # fmt: skip
blind = shipped().served(described(complete(runs))[0])
noise = np.exp(0.03 * np.random.default_rng(0).standard_normal((2, len(runs))))
for place, (ttft, tpot) in enumerate(
    zip(blind.ttft_ms * 1.2 * noise[0], blind.tpot_ms * 1.2 * noise[1], strict=True)
):
    prompt, answer, n = (
        int(runs[name][place]) for name in ("input_len", "output_len", "concurrency")
    )
    seconds = 10 * (ttft + (answer - 1) * tpot) / 1e3
    result = {
        "backend": "vllm", "model_id": "qwen3-32b", "tokenizer_id": "qwen3-32b", "num_prompts": 10 * n,
        "max_concurrency": n, "duration": seconds, "completed": 10 * n, "total_input_tokens": 10 * n * prompt,
        "total_output_tokens": 10 * n * answer, "request_throughput": 10 * n / seconds,
        "output_throughput": 10 * n * answer / seconds, "mean_ttft_ms": ttft, "mean_tpot_ms": tpot,
        "tp": "8", "device": "MI355X", "dtype_a": "fp8",
    }  # fmt: skip
    (folder / f"{prompt}-{answer}-{n}.json").write_text(json.dumps(result))

# %%
# The results are rows of the table:

measured = fc.read(folder)
measured.frame[
    ["model", "device", "tp", "input_len", "output_len", "concurrency", "ttft_ms", "tpot_ms"]
].head()

# %%
# What the model that ships says of one of them, unseen:

print(blind.basis[0], *blind.remarks, sep="\n")

# %%
# Two runs of a setting, with the fewest and the most requests under way, narrow it:

ends = [folder / f"1024-1024-{n}.json" for n in (1, 128)]
served_model = calibrate(fc.read(ends).frame)
between = described(measured.frame.query("input_len == 1024 and output_len == 1024"))[0]
answers = served_model.served(between)
pd.DataFrame(
    {
        "requests": between["concurrency"],
        "measured": between["tpot_ms"],
        "unseen": shipped().served(between).tpot_ms,
        "with two runs": answers.tpot_ms,
    }
).sort_values("requests").round(2)

# %%
# Enough runs are trained on alone, next to the law of serving:

trained = fc.train(folder, target="all", metric="tpot_ms", models=["Additive"], jobs=1)
trained.table[["kind", "name", "e_out", "median_ape", "max_ape"]].round(1)
