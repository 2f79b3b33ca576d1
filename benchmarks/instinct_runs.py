"""Published runs of serving on AMD Instinct, as rows of the operator ``serving``.

``amd/serving_runs.csv.gz`` of the measured data holds settings of InferenceX and of ATOM's nightly
benchmark, which the vendor tunes, and of a few others, who take an engine as it comes;
``amd/atom_ci_runs.csv.gz`` holds the nights themselves. Lengths are nominal, as in AIConfigurator's
sample: the same clients draw them.
"""

from __future__ import annotations

from pathlib import Path
from typing import Final

import numpy as np
import pandas as pd

from ..operators.kinds.serving_run import EQUAL, SERVING

TABLE: Final = "amd/serving_runs.csv.gz"
NIGHTS: Final = "amd/atom_ci_runs.csv.gz"
DEVICES: Final = {
    "A100": "A100 SXM 80GB",
    "B200": "B200 (HGX)",
    "B300": "B300",
    "GB200": "GB200 (per GPU)",
    "GB300": "GB300 (per GPU)",
    "H100": "H100 SXM5",
    "H200": "H200 SXM",
    "MI300X": "MI300X",
    "MI325X": "MI325X",
    "MI350X": "MI350X",
    "MI355X": "MI355X",
}
INSTINCT: Final = ("MI300X", "MI325X", "MI350X", "MI355X")
MODELS: Final = {
    "dsr1": "deepseek-r1",
    "gptoss120b": "gpt-oss-120b",
    "kimik2.5": "kimi-k2.5",
    "llama70b": "llama-3.3-70b",
    "minimaxm2.5": "minimax-m2.5",
    "glm5": "glm-5",
}
"""Short names of InferenceX's database."""
TUNED: Final = "InferenceX|ATOM"
"""Sources whose vendor tunes the engine for the setting; all others take it as it comes."""
WEIGHTS: Final = {
    "fp8": "FP8|DeepSeek|MiniMax",
    "fp4": "FP4|gpt-oss",
    "int4": "Kimi-K2",
}
"""Formats of weights where a row does not say: by what the name of its model has; bf16 else."""
SETTING: Final = [
    "device",
    "model",
    "engine",
    "engine_version",
    "dtype_b",
    "dtype_kv",
    "tp",
    "dp",
    "ep",
    "input_len",
    "output_len",
    "lengths",
    "concurrency",
]
WHOLE: Final = 0.9
"""Share of the stated length from which on answers are as long as stated.

Little's law gives 0.98 of ATOM's runs with prompts ten times as long as their answers, and 0.03 to
0.56 of its others (medians of the runs of an engine with such prompts and answers)."""
SAME: Final = {
    "DeepSeek-R1-0528": "deepseek-r1",
    "dsv4": "DeepSeek-V4-Pro",
}
"""Names of one model in these sources."""
ROUTED: Final = {
    "atom-disagg": "atom",
    "dynamo-sglang": "sglang",
    "dynamo-trt": "trtllm",
    "dynamo-vllm": "vllm",
    "llmd-vllm": "vllm",
    "mooncake-atom": "atom",
    "mori-sglang": "sglang",
    "sglang-disagg": "sglang",
    "vllm-disagg": "vllm",
}
"""Engines under the name of what routes prompts and moves caches."""
SAME_PLACE: Final = [
    "device",
    "model",
    "engine",
    "dtype_b",
    "tp",
    "dp",
    "ep",
    "input_len",
    "output_len",
]
IDLE: Final = 0.02
"""Logarithm of the ratio of time per token below which speculation did nothing: GLM-5 on MI325X, with
ten ratios from 0.996 to 1.012, is as fast as without it at 4 requests as at 64."""
_SIDES: Final = r"prefill tp(?P<tp>\d+) ep(?P<ep>\d+) x(?P<prefill>\d+), decode x(?P<decode>\d+)"
APART_DAYS: Final = 30.0
"""Days from which on two nights are of two releases."""


def settings(data: Path) -> pd.DataFrame:
    """Return the settings of all GPUs without speculation, prompts and answers on the same GPUs.

    Rows are of the operator ``serving``, with ``tuned`` and ``source`` beside. What was measured
    more than once is one row with the median of its times, and ``spread`` is the standard deviation
    of the logarithm of its time per token, NaN of one alone.
    """
    return _once(runs_of(table_of(data)))


def energies(data: Path) -> pd.DataFrame:
    """Return those of the settings whose energy was measured, by `settings`.

    ``joules_per_token`` is the energy of all GPUs for a token of an answer, ``tokens_per_s_per_gpu``
    counts such tokens (the table counts prompts too), ``power_w``, of one GPU, is their product.
    """
    table = table_of(data)
    table = table[table["energy_j_per_output_token"].gt(0) & table["total_tok_s_per_gpu"].gt(0)]
    rows = runs_of(table)
    table = table.loc[rows.index]
    answered = table["output_len"] / (table["input_len"] + table["output_len"])
    rows = rows.assign(
        op=SERVING,
        joules_per_token=table["energy_j_per_output_token"],
        tokens_per_s_per_gpu=table["total_tok_s_per_gpu"] * answered,
    )
    power = rows["joules_per_token"] * rows["tokens_per_s_per_gpu"]
    return rows.assign(power_w=power).reset_index(drop=True)


def under_conditions(data: Path) -> pd.DataFrame:
    """Return the tuned settings with speculation, or with prompts on other GPUs than answers, and their twins.

    Rows are as those of `settings`, each with ``speculation`` ("none", or how tokens are drafted).
    Where prompts are apart, which ``apart`` says ("yes"), a row is one of the ``workers`` that write
    answers, with its share of the requests under way; ``prefill_gpus`` are all that read prompts,
    ``prefill_workers`` their instances, ``tokens_per_s`` counts all tokens of all GPUs. Runs with
    prompts apart that do not say how many GPUs read them are left out, and so are runs whose
    drafts never came to anything (`IDLE`).
    """
    table = table_of(data)
    rows = _rows(table)
    rows = rows[rows["tuned"]]
    table = table.loc[rows.index]
    apart = _apart(table)
    numbers = table["note"].astype(object).fillna("").str.extract(_SIDES).astype(np.float64)
    of_prompts = numbers[["tp", "ep"]].max(axis=1) * numbers["prefill"]
    workers = numbers["decode"].clip(lower=1.0)
    wide = table[["tp", "ep"]].max(axis=1)
    copied = rows["dp"].gt(1.0) | table["dp_attention"].astype(str).isin(["True", "1", "1.0"])
    rows = rows.assign(
        model=rows["model"].replace(SAME),
        engine=rows["engine"].replace(ROUTED),
        speculation=table["speculative"],
        apart=np.where(apart, "yes", ""),
        tp=rows["tp"].mask(apart, wide.where(~copied, 1.0)),
        dp=rows["dp"].mask(apart, wide.where(copied, 1.0)),
        concurrency=rows["concurrency"].mask(apart, (rows["concurrency"] / workers).clip(lower=1)),
        workers=workers.where(apart, 1.0),
        prefill_gpus=of_prompts.where(apart, 0.0),
        prefill_workers=numbers["prefill"].where(apart, 0.0),
    )
    gpus = rows["prefill_gpus"] + rows["workers"] * rows["tp"] * rows["dp"]
    rows["tokens_per_s"] = table["total_tok_s_per_gpu"] * gpus
    rows = rows[~apart | of_prompts.gt(0)].assign(op=SERVING)
    drafted = rows["speculation"].eq("mtp") & rows["apart"].eq("")
    rows = rows[drafted | rows["speculation"].eq("none") | rows["apart"].eq("yes")]
    same = [*SAME_PLACE, "apart", "concurrency"]
    plain = rows[rows["speculation"].eq("none")].groupby(same)["tpot_ms"].median()
    twins = plain.reindex(pd.MultiIndex.from_frame(rows[same])).to_numpy()
    off = np.abs(np.log(rows["tpot_ms"] / twins)).where(drafted)
    idle = off.groupby([rows[name] for name in SAME_PLACE]).transform("max") < IDLE
    return rows[~(idle & drafted)].reset_index(drop=True)


def apart_first_tokens(data: Path) -> pd.DataFrame:
    """Return the tuned runs with prompts on other GPUs than answers that state their first tokens."""
    table = table_of(data)
    rows = _rows(table)
    rows = rows[rows["tuned"] & _apart(table).loc[rows.index]]
    return rows[rows["ttft_ms"].gt(0)].reset_index(drop=True)


def table_of(data: Path) -> pd.DataFrame:
    words = ("precision", "kv_precision", "engine_version")
    return pd.read_csv(data / TABLE, dtype=dict.fromkeys(words, "str"), low_memory=False)


def _apart(table: pd.DataFrame) -> pd.Series:
    return table["disaggregated"].astype(str).isin(["True", "1"])


def runs_of(table: pd.DataFrame) -> pd.DataFrame:
    """Return the rows of the table without speculation, prompts and answers on the same GPUs."""
    return _rows(table[~_apart(table) & table["speculative"].eq("none")])


def _rows(table: pd.DataFrame) -> pd.DataFrame:
    """Return the rows of the table whose setting and time per token are stated."""
    stated = table["precision"].fillna("")
    weights = pd.Series("bf16", index=table.index)
    for name, pattern in WEIGHTS.items():
        weights = weights.mask(table["model"].str.contains(pattern, case=False), name)
    weights = stated.where(stated.ne(""), weights).replace("fp16", "bf16")
    gpus = table["tp"].fillna(table["gpus"]).astype(np.float64)
    copies = table["dp_attention"].astype(str).isin(["True", "1", "1.0"]) | table["dp"].gt(1.0)
    shared = table["ep"].fillna(1.0).clip(lower=1.0)
    tuned = table["source"].str.contains(TUNED)
    atom = table["source"].str.contains("ATOM")
    rows = pd.DataFrame(
        {
            "device": table["gpu"].map(DEVICES),
            "model": table["model"].replace(MODELS).map(_plain),
            "engine": table["engine"].map(_engine),
            "engine_version": _release(table),
            "client": np.where(atom, "atom", np.where(tuned, "inferencex", "")),
            "dtype_a": weights,
            "dtype_b": weights,
            "dtype_kv": table["kv_precision"].fillna(""),
            "tp": gpus.where(~copies, 1.0),
            "dp": gpus.where(copies, 1.0),
            "ep": shared,
            "input_len": table["input_len"],
            "output_len": table["output_len"],
            "lengths": np.where(tuned & _as_stated(table).gt(WHOLE), EQUAL, ""),
            "concurrency": table["concurrency"],
            "tpot_ms": table["tpot_ms_median"].fillna(table["tpot_ms_mean"]),
            "ttft_ms": table["ttft_ms_median"].fillna(table["ttft_ms_mean"]),
            "tuned": tuned,
            "source": table["source"],
        }
    )
    whole = rows[["device", "tp", "concurrency", "input_len", "output_len"]].notna().all(axis=1)
    return rows[whole & rows["tpot_ms"].gt(0)]


def _as_stated(table: pd.DataFrame) -> pd.Series:
    """Return how long answers are for Little's law, as a share of what is stated; NaN where no throughput is.

    Requests under way either wait for their first token or write: with T tokens a second of all,
    that leaves answers of T (ttft - tpot) / (concurrency - T tpot) tokens. Rows have the median of
    the runs of their source and engine with such prompts and answers.
    """
    ttft, tpot = (
        1e-3 * table[f"{time}_ms_mean"].fillna(table[f"{time}_ms_median"])
        for time in ("ttft", "tpot")
    )
    waiting = table["concurrency"] - table["output_tok_s"] * tpot
    share = table["output_tok_s"] * (ttft - tpot) / waiting / table["output_len"]
    places = [table[name] for name in ("source", "engine", "input_len", "output_len")]
    return share.groupby(places).transform("median")


def _plain(model: str) -> str:
    """Return a model's name without how its weights are cut: the format has a separate column."""
    name = model.rpartition("/")[2]
    for word in ("-MoE-MXFP4-Attn-PTPC-FP8", "-MXFP4-MoEFP4", "-MXFP4-Preview", "-MXFP4"):
        name = name.removesuffix(word)
    return name


def _engine(name: str) -> str:
    """Return the engine whose steps run: ATOM's under the server of vLLM too.

    Under SGLang's it is apart: DeepSeek-R1 on four GPUs takes 43 ms a token there, and 18 under both
    others.
    """
    return {"atom-vllm": "atom", "trt": "trtllm"}.get(name, name)


def _release(table: pd.DataFrame) -> pd.Series:
    """Return releases: the number in an image's tag, the month of nights, "" of medians over months."""
    stated = table["engine_version"].fillna("")
    number = stated.str.extract(r"(?:sglang[:-]v?|atom)(\d[\w.]*)", expand=False)
    month = table["date"].astype(str).str.slice(0, 7)
    return number.where(~stated.str.startswith("nightly"), "nightly " + month).fillna("")


def _once(rows: pd.DataFrame) -> pd.DataFrame:
    """Return each setting once, with the medians of its times and the spread of its repeats."""
    logs = rows.assign(log=np.log(rows["tpot_ms"]))
    by = logs.groupby([*SETTING, "tuned", "client"], sort=False)
    kept = by.first()
    times = by[["tpot_ms", "ttft_ms"]].median()
    kept[["tpot_ms", "ttft_ms"]] = times
    kept = kept.assign(spread=by["log"].std(), repeats=by.size())
    return kept.drop(columns="log").reset_index().assign(op=SERVING)


def drift(data: Path) -> dict[str, float]:
    """Return by time the standard deviation of the logarithm between two releases of one setting.

    Nine in ten of the ratios of two nights of one setting, more than `APART_DAYS` apart, lie within
    1.645 of it.
    """
    nights = pd.read_csv(data / NIGHTS)
    words = ["gpu", "backend", "model", "precision", "speculative", "dp_attention", "tbo"]
    sizes = ["tp", "ep", "dp", "input_len", "output_len", "concurrency"]
    day = (pd.to_datetime(nights["date"]) - pd.Timestamp("2026-01-01")) / pd.Timedelta(days=1)
    nights = nights.assign(day=day).sort_values("day", kind="stable")
    by = nights.groupby([*words, *sizes], sort=False)
    first, last = by.first(), by.last()
    later = last["day"] - first["day"] > APART_DAYS
    drifts = {}
    for time in ("tpot_ms", "ttft_ms"):
        ratio = last.loc[later, time] / first.loc[later, time]
        drifts[time] = float(np.quantile(np.abs(np.log(ratio.to_numpy())), 0.9)) / 1.645
    return drifts
