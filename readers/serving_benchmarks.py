"""What benchmarks of serving write: a run of so many requests, with its time to the first token and per further one.

- ``vllm bench serve --save-result`` (vLLM 0.6 to 0.19): a JSON object;
- SGLang's ``bench_serving --output-file`` (0.4 to 0.5): a JSON object a line;
- AIPerf's and GenAI-Perf's exports (``profile_export_aiperf.json``,
  ``profile_export_genai_perf.json``);
- InferenceX's results (``agg_*.json``): an object, or a list of them, times in seconds;
- AIConfigurator's sample of published runs (``systems/silicon_sample.csv`` of the wheel
  aiconfigurator-core 0.12.0).

A client knows the model and the requests, and mostly neither GPU nor parallelism:
`Options.defaults` states those (``device``, ``tp``, ``dtype_a``). Its other figures are kept as
labels under their names, and named.

Requests at once follow from throughput and times (Little's law). Where they are a thousand times
off those stated, and another unit of the times explains it, the run is refused with that unit; in
tables of the user ``unit`` states it. Once the model is described, a token faster than its weights
are read, or a prompt faster than its FLOPs, is refused.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, ClassVar, Final

import numpy as np
import pandas as pd

from ..errors import few
from ..operators.kinds.serving_run import METRICS, SERVING, engine_named, request_us
from ..operators.op import Op
from ..operators.operators import OPS
from ..operators.work import as_numbers, each_word
from ..remarks import remark
from ..table.measurements import DEFECT, as_text
from .aiconfigurator import FORMATS, SYSTEMS, unmet
from .base import LINE, Excluded, Note, Options, RawTable, Reader, is_json, register
from .blas import text_column
from .files import campaign_of, csv_header, parse_csv, text
from .labels import TIME_UNITS, microseconds
from .records import Row, json_records, number, refused, scaled
from .tidy import filled, with_token_units
from .words import vocabulary

_OP: Final[Op] = OPS[SERVING]
_KNOWN: Final = (*_OP.dims, *METRICS, "device", "dtype_a", "dtype_b")
_LABEL: Final = re.compile(r"[A-Za-z][\w. /-]{0,60}")
_LONGEST: Final = 200  # letters of a label
_NUMBERS: Final = (
    "input_len",
    "output_len",
    "concurrency",
    "failed",
    "output_tokens_per_s",
    "ttft_ms",
    "tpot_ms",
    "latency_ms",
)
_SERVERS: Final = vocabulary("inferencex_servers")
"""How InferenceX starts SGLang, which its results do not say, by model, GPU, weights, tp and
release; the first that fits is taken: ``--scheduler-recv-interval`` below `_MANY` requests under
way and from there on, and ``--mem-fraction-static`` in percent. From its scripts of October 2025 to
April 2026 (Apache-2.0): https://github.com/SemiAnalysisAI/InferenceX, ``benchmarks/single_node``,
and ``benchmarks`` before it. They have none of Qwen3.5 in FP8 on B300 for release 0.5.9: that of
B200 is taken, as first tokens jump at as many requests there."""
_MANY: Final = 16
_ENGINES: Final = vocabulary("serving_engines")
Record = Mapping[str, Any]


class Runs(Reader):
    """A JSON file of runs, each a record: what formats share."""

    marks: ClassVar[tuple[bytes, ...]]
    """Keys that every file of the format has among its first."""
    taken: ClassVar[frozenset[str]] = frozenset()
    """Keys that `columns` reads: all others are labels."""

    def sniff(self, path: Path, head: bytes) -> bool:
        """Recognise an object, or a list of them, with the keys of the format."""
        return is_json(head) and all(b'"' + mark + b'"' in head for mark in self.marks)

    def columns(self, record: Record) -> Row:
        """Return what a record says, under the names of the measurement table."""
        raise NotImplementedError

    def several_turns(self, record: Record) -> str:
        """Return what a record calls its scenario where requests are turns of conversations, else ""."""
        return ""

    def records(self, words: str, source: str) -> Iterator[tuple[int, Any]]:
        """Yield the line and content of each run."""
        yield from json_records(words, source)

    def read(self, path: Path, options: Options) -> RawTable:
        """Return a row for each run; one that is no record, or lacks a time, is refused."""
        rows = list[Row]()
        labels = dict[str, None]()
        content = text(path, max_bytes=options.table_bytes)
        for line, record in self.records(content, str(path)):
            row: Row = {
                LINE: line,
                "op": SERVING,
                "campaign": campaign_of(path),
            }
            if not isinstance(record, Mapping):
                rows.append(row | refused("not-a-run", str(record)[:_LONGEST]))
                continue
            settings = _labels(record, self.taken.union(_KNOWN))
            labels |= dict.fromkeys(settings)
            if number(record.get("completed")) == 0:
                failed = number(record.get("failed")) or 0
                row |= refused("nothing-completed", f"{failed:.0f} failed")
            elif turns := self.several_turns(record):
                row |= refused("several-turns", turns)
            elif (cached := cached_percent(record)) > _MOST_CACHED:
                row |= refused("prompts-cached", f"{cached:.0f} %")
            rows.append(settings | _figures(self.columns(record)) | row)
        return serving_table(pd.DataFrame(rows), tuple(labels), options)


def _figures(columns: Row) -> Row:
    """Return what is given of a run: lengths whole, and the time of a further token by that of a request.

    Formats give the time of a request as ``latency_ms``.
    """
    figures = columns | {name: number(columns.get(name)) for name in _NUMBERS}
    latency = figures.pop("latency_ms")
    if figures["tpot_ms"] is None:
        figures["tpot_ms"] = token_ms(latency, figures["ttft_ms"], figures["output_len"])
    figures["duration_us"] = scaled(latency, TIME_UNITS["ms"])
    for name in ("input_len", "output_len"):
        if figures[name] is not None:
            figures[name] = float(round(figures[name]))
    return {name: value for name, value in figures.items() if value is not None}


def _server(row: Mapping[Any, Any]) -> dict[str, float]:
    """Return what `_SERVERS` says of a run of InferenceX; nothing of others, as those with copies of the attention."""
    if row["engine"] != "sglang" or row["apart"] == "yes" or (number(row["dp"]) or 1) > 1:
        return {}
    model = str(row["model"]).rpartition("/")[2]
    key = f"{model};{row['device']};{row['dtype_b']};{float(row['tp'] or 1):g};{row.get('engine_version', '')}"
    users = "few"
    if (number(row["concurrency"]) or 0) >= _MANY:
        users = "many"
    for server in _SERVERS:
        if re.fullmatch(server["runs"], key, re.IGNORECASE):
            return {"receive_interval": float(server[users]), "memory_percent": server["percent"]}
    return {}


def serving_table(rows: pd.DataFrame, labels: tuple[str, ...], options: Options) -> RawTable:
    """Return the rows with what the user states, and with the time of a request; labels are named."""
    for name, value in options.defaults.items():
        rows[name] = filled(rows, name, value)
    if "engine" in rows:
        rows["engine"] = each_word(as_text(rows["engine"]), engine_named)
    times = pd.Series(as_numbers(rows, "duration_us"), rows.index)
    rows["duration_us"] = times.where(times.notna(), pd.Series(request_us(rows), rows.index))
    untimed = rows["duration_us"].isna() & filled(rows, DEFECT, "").eq("") & options.timed
    if untimed.any():
        rows.loc[untimed, DEFECT] = "no-token-times"
    rows = with_token_units(rows, stated=False)
    notes = list[Note]()
    failed = pd.Series(as_numbers(rows, "failed"))
    some = int((failed > 0).sum())
    if some:
        text = (
            f"{failed.sum():.0f} requests failed, up to {failed.max():.0f} in a run: the times "
            "are of the others"
        )
        notes.append(Note(remark("requests-failed", text, failed=int(failed.sum())), some))
    alone = int(filled(rows, "tp", "").eq("").sum())
    if alone:
        text = (
            "runs do not say how many GPUs share the model: tp 1 is taken, default tp=N says "
            "otherwise"
        )
        notes.append(Note(remark("tp-assumed", text), alone))
    if labels:
        text = f"columns that no model learns from are kept as labels: {few(labels, 8)}"
        notes.append(Note(remark("labels-kept", text, names=labels), len(rows)))
    return RawTable(rows, notes)


def _labels(record: Record, taken: frozenset[str]) -> dict[str, str]:
    """Return the plain values that were not read, as text."""
    words = {}
    for name, value in record.items():
        if (
            name not in taken
            and isinstance(value, str | int | float)
            and value != ""
            and _LABEL.fullmatch(name)
        ):
            words[name] = str(value)[:_LONGEST]
    return words


_CACHED = re.compile(r"(?i)cache_?hit(?:_?(?:rate|ratio|percent\w{0,20}|pct))?$")
_CACHED_TOKENS = re.compile(
    r"(?i)(?<!total_usage_prompt_)cached?(?:_read|_hit)?(?:_prompt|_input)?_tokens$|cache_hits$"
)
_MOST_CACHED: Final = (
    5.0  # percent of the prompts' tokens: the time to the first token errs by as much
)


def cached_percent(record: Record) -> float:
    """Return the percent of the prompts' tokens that the prefix cache held, 0 where the client does not say.

    >>> cached_percent({"theoretical_prefix_cache_hit": {"unit": "%", "avg": 95.2}}), cached_percent({"conc": 4})
    (95.2, 0.0)
    """
    largest = 0.0
    for name, value in record.items():
        if _CACHED_TOKENS.search(name):
            largest = max(largest, _percent_of_prompts(record, name))
            continue
        if not _CACHED.search(name):
            continue
        is_percent = re.search("(?i)%|percent|pct", name) is not None
        if isinstance(value, Mapping) and "unit" in value:
            is_percent = value["unit"] in ("%", "percent")
        share = average(value) or 0.0
        if share <= 1 and not is_percent:
            share *= 100
        largest = max(largest, share)
    return largest


def _percent_of_prompts(record: Record, name: str) -> float:
    """Return the percent that tokens from the cache are of the prompts' tokens, 0 where these are unknown.

    >>> _percent_of_prompts({"total_cached_tokens": 30, "total_input_tokens": 40}, "total_cached_tokens")
    75.0
    """
    queried = re.sub("(?i)hits$", "queries", name)
    of_all = "total_input_tokens"
    if queried != name:
        of_all = queried
    if isinstance(record[name], Mapping):  # a statistic of requests
        of_all = "input_sequence_length"
    cached = average(record[name])
    prompts = average(record.get(of_all))
    if cached and prompts:
        return 100.0 * cached / prompts
    return 0.0


NO_DRAFTS: Final = ("", "none", "null", "false", "off", "no", "0")
"""What says that no tokens are drafted."""
_DRAFTED_BY: Final = re.compile(
    r"(?i)(?:speculation|spec(?:ulative)?_"
    r"(?:decod(?:e|ing)|config|method|algorithm|model|draft_model(?:_path)?))$"
)
_TOKENS_A_STEP: Final = re.compile(r"(?i)accept(?:ance|ed)?_len(?:gth)?$")
_DRAFTED_TOKENS: Final = re.compile(
    r"(?i)accept(?:ance_rate|ed_tokens)$|spec(?:ulative)?_[a-z_]{0,30}(?:draft_tokens|drafts|num_steps|speculative_tokens)$"
    r"|num_(?:draft|speculative)_tokens$"
)


def speculation(*records: Record) -> str | None:
    """Return how tokens are drafted, as InferenceX names it, None where each step gives one token a request.

    Clients and servers write the method, the tokens that a step gave, or counts of drafted and
    accepted tokens.

    >>> speculation({"accept_length": 3.48}, {"speculative_algorithm": "EAGLE"}), speculation({"spec_decode": True})
    ('eagle', 'speculative')
    >>> speculation({"accept_length": 1.0}), speculation({"spec_decoding": "none", "num_accepted_tokens": 0})
    (None, None)
    """
    drafted = False
    for record in records:
        for name, value in record.items():
            if _DRAFTED_BY.match(name):
                if isinstance(value, Mapping):
                    value = value.get("method", "yes")
                word = str(value or "").lower()
                if word in NO_DRAFTS:
                    continue
                if re.fullmatch(r"[a-z][\w+-]*", word) and word not in ("true", "yes"):
                    return word
                drafted = True
            elif _TOKENS_A_STEP.search(name):
                drafted |= (average(value) or 1.0) > 1
            elif _DRAFTED_TOKENS.search(name):
                drafted |= (average(value) or 0.0) > 0
    if drafted:
        return "speculative"
    return None


def token_ms(latency_ms: float | None, ttft_ms: float | None, answer: float | None) -> float | None:
    """Return the time of each token after the first, by the time of a request; None where that is unknown.

    >>> token_ms(1100.0, 100.0, 101.0)
    10.0
    """
    if latency_ms is None or ttft_ms is None or answer is None or answer <= 1:
        return None
    rest = latency_ms - ttft_ms
    if rest >= 0:
        return rest / (answer - 1)
    return None


def lengths_of(record: Record) -> list[float | None]:
    """Return the tokens of a prompt and of an answer, whole, by those of all completed requests."""
    requests = number(record.get("completed"))
    lengths = list[float | None]()
    for side in ("input", "output"):
        tokens = number(record.get(f"total_{side}_tokens"))
        length = None
        if tokens is not None and requests:
            length = float(round(tokens / requests))
        lengths.append(length)
    return lengths


def request_ms(
    stated: object,
    ttft: float | None,
    tpot: float | None,
    answer: float | None,
) -> float | None:
    """Return the time of a request: as stated, else that of all its tokens."""
    latency = number(stated)
    if latency is None and ttft is not None and tpot is not None and answer is not None:
        return ttft + (answer - 1) * tpot
    return latency


def users_of(mean: float | None) -> float | None:
    """Return a mean of the requests under way as a whole number of them, at least one."""
    if mean is None:
        return None
    return max(1.0, float(round(mean)))


def under_way(record: Record, highest: object, latency_ms: object) -> float | None:
    """Return the requests under way: what the client allows, all of fewer requests, or throughput times latency.

    The last, by Little's law, is the mean. It holds where the client allows any number, and where
    requests come at a given rate and are fewer than it allows.
    """
    rate = number(record.get("request_throughput"))
    allowed = number(highest)
    latency = number(latency_ms)
    mean = None
    if rate is not None and latency is not None:
        mean = users_of(rate * latency / 1e3)
    if allowed is None:
        return mean
    paced = str(record.get("request_rate")).lower() not in ("none", "inf", "infinity")
    others = (number(record.get("num_prompts")), mean if paced else None)
    return min([allowed, *(one for one in others if one is not None)])


def engine_of(word: object) -> str | None:
    """Return an engine by what clients call it or its way of being asked, None for an endpoint of any engine.

    >>> engine_of("tensorrt-llm"), engine_of("sglang-oai-chat"), engine_of("openai-chat")
    ('trtllm', 'sglang', None)
    """
    first = str(word or "").lower().removeprefix("dynamo-").split("-")[0]
    return _ENGINES.get(first, first) or None


def inner(record: Record, name: str) -> Record:
    """Return an object within a record, empty where there is none."""
    content = record.get(name)
    if isinstance(content, Mapping):
        return content
    return {}


def _states(server: Record) -> list[Record]:
    """Return what the schedulers of a server of SGLang say of themselves."""
    states = server.get("internal_states")
    if isinstance(states, list):
        return [one for one in states if isinstance(one, Mapping)]
    return []


def average(value: object) -> float | None:
    """Return a number, of a statistic its mean."""
    return number(value.get("avg") if isinstance(value, Mapping) else value)


def first_of(record: Record, *names: str) -> Any:
    """Return the first value that is given under one of the names, else None."""
    return next((record[name] for name in names if record.get(name) not in (None, "")), None)


@register
class VllmServeReader(Runs):
    """Results of ``vllm bench serve``, and of ``benchmark_serving.py`` before it."""

    name = "vllm bench serve JSON"
    marks = (b"tokenizer_id", b"request_throughput", b"total_input_tokens")
    taken = frozenset(vocabulary("keys")["vllm"])

    def columns(self, record: Record) -> Row:
        """Return the run; ``--metadata tp=8 device=MI300X version=0.11.0`` stands in the record and is read."""
        prompt, answer = lengths_of(record)
        ttft, tpot = (number(record.get(f"mean_{name}_ms")) for name in ("ttft", "tpot"))
        latency = request_ms(
            record.get("mean_e2el_ms"),
            ttft,
            tpot,
            answer,
        )
        return {
            **{name: record.get(name) for name in _KNOWN},
            "tp": first_of(record, "tp", "tensor_parallel_size"),
            "model": record.get("model_id"),
            "engine": record.get("engine") or engine_of(record.get("backend")) or "vllm",
            "engine_version": first_of(record, "engine_version", "version"),
            "client": "vllm bench serve",
            "variant": first_of(record, "variant") or speculation(record),
            "input_len": prompt,
            "output_len": answer,
            "concurrency": under_way(record, record.get("max_concurrency"), latency),
            "ttft_ms": ttft,
            "tpot_ms": tpot,
            "output_tokens_per_s": record.get("output_throughput"),
        }


@register
class SglangServeReader(Runs):
    """Results of SGLang's ``bench_serving``: a line for each run."""

    name = "SGLang bench_serving JSONL"
    # what the server says of itself follows, and may be long
    marks = (b"backend", b"sharegpt_output_len")
    taken = frozenset(vocabulary("keys")["sglang"])

    def columns(self, record: Record) -> Row:
        """Return the run; what the server says of itself (``server_info``) has model and parallelism.

        With ``enable_dp_attention`` its ``dp_size`` is of copies of the attention, else of replicas
        that share the requests, of which the run is one. Where prompts are apart the server is the
        one that writes answers.
        """
        server = inner(record, "server_info")
        apart = isinstance(server.get("decode"), list) and bool(server["decode"])
        if apart:
            server = server["decode"][0]
        tp = number(server.get("tp_size"))
        dp = number(server.get("dp_size")) or 1.0
        taken = scaled(server.get("mem_fraction_static"), 100.0)
        copies = 1.0
        if server.get("enable_dp_attention"):
            copies = dp
        users = under_way(record, record.get("max_concurrency"), record.get("mean_e2e_latency_ms"))
        prompt, answer = lengths_of(record)
        dtype_kv = server.get("kv_cache_dtype")
        if dtype_kv == "auto":
            dtype_kv = None
        return {
            "model": first_of(record, "model", "model_id")
            or first_of(server, "model_path", "served_model_name"),
            "engine": engine_of(record.get("backend") or "sglang"),
            "engine_version": server.get("version"),
            "client": "sglang bench_serving",
            "tp": tp and tp / copies,
            "dp": copies,
            "apart": "yes" if apart else "",
            "pp": server.get("pp_size"),
            "ep": server.get("ep_size"),
            "running_limit": server.get("max_running_requests"),
            "memory_percent": taken and round(taken),
            "receive_interval": server.get("scheduler_recv_interval"),
            "variant": speculation(record, server, *_states(server)),
            "dtype_kv": dtype_kv,
            "input_len": prompt,
            "output_len": answer,
            "concurrency": users and max(1.0, users * copies / dp),
            "ttft_ms": record.get("mean_ttft_ms"),
            "tpot_ms": record.get("mean_tpot_ms"),
            "output_tokens_per_s": scaled(record.get("output_throughput"), copies / dp),
        }


@register
class AiperfReader(Runs):
    """Exports of AIPerf and of GenAI-Perf, whose statistics are objects with their ``unit`` and ``avg``."""

    name = "AIPerf JSON"
    marks = (b"time_to_first_token", b"inter_token_latency", b"avg")

    def columns(self, record: Record) -> Row:
        """Return the run; model and concurrency stand in ``input_config``."""
        config = inner(record, "input_config")
        endpoint = inner(config, "endpoint")
        load = inner(config, "loadgen")
        models = first_of(endpoint, "model_names") or first_of(config, "model", "model_names")
        users = load.get("concurrency") or inner(inner(config, "perf_analyzer"), "stimulus").get(
            "concurrency"
        )
        if isinstance(models, list) and models:
            models = models[0]
        rates = {
            "request_throughput": _mean(record, "request_throughput"),
            "request_rate": load.get("request_rate"),
        }
        return {
            "model": models,
            "client": "aiperf",
            "variant": speculation(record),
            "input_len": _mean(record, "input_sequence_length"),
            "output_len": _mean(record, "output_sequence_length"),
            "concurrency": under_way(rates, users, _mean(record, "request_latency")),
            "ttft_ms": _mean(record, "time_to_first_token"),
            "tpot_ms": _mean(record, "inter_token_latency"),
            "output_tokens_per_s": _mean(record, "output_token_throughput"),
            "failed": _mean(record, "error_request_count"),
        }


def _mean(record: Record, name: str) -> float | None:
    """Return the mean of a statistic, of times in ms."""
    statistic = inner(record, name)
    return scaled(statistic.get("avg"), milliseconds(statistic.get("unit")) or 1.0)


def milliseconds(unit: object) -> float | None:
    """Return the milliseconds in one of a unit of time, None for any other unit."""
    factor = microseconds(str(unit))
    return factor and factor / TIME_UNITS["ms"]


@register
class InferenceXReader(Runs):
    """Results of InferenceX (InferenceMAX): a record for each setting, times in seconds."""

    name = "InferenceX JSON"
    marks = (b"conc", b"mean_ttft", b"framework")
    taken = frozenset(vocabulary("keys")["inferencex"])

    def columns(self, record: Record) -> Row:
        """Return the run, where prompts are apart that of the answers; with ``dp_attention`` each GPU has all heads."""
        cut = {
            name: first_of(record, name, f"decode_{name}")
            for name in ("tp", "pp", "ep", "dp_attention")
        }
        tp = number(cut["tp"])
        copies = 1.0
        if str(cut["dp_attention"]).lower() == "true":
            tp, copies = 1.0, tp
        precision = str(record.get("precision", "")).lower()
        a, b, _ = FORMATS.get(precision, (precision, precision, ""))
        gpus = scaled(record.get("tp"), number(cut["pp"]) or 1.0)
        apart = str(record.get("disagg")).lower() == "true"
        columns = {
            "device": str(first_of(record, "hw", "device") or "").split("-")[0] or None,
            "model": record.get("model"),
            "engine": engine_of(record.get("framework")),
            "client": "inferencex",
            "variant": speculation(record),
            "dtype_a": a,
            "dtype_b": b,
            "tp": tp,
            "dp": copies,
            "pp": cut["pp"],
            "ep": number(cut["ep"]),
            "apart": "yes" if apart else "",
            "input_len": record.get("isl"),
            "output_len": record.get("osl"),
            "concurrency": number(record.get("conc")),
            "ttft_ms": scaled(record.get("mean_ttft"), 1e3),
            "tpot_ms": scaled(record.get("mean_tpot"), 1e3),
            "latency_ms": scaled(record.get("mean_e2el"), 1e3),
            "output_tokens_per_s": gpus and scaled(record.get("output_tput_per_gpu"), gpus),
        }
        return columns | _server(columns)

    def several_turns(self, record: Record) -> str:
        """Return the scenario of a run without fixed lengths: each turn finds those before it in the cache."""
        if "isl" in record:
            return ""
        return str(record.get("scenario_type") or "")


_SAMPLE: Final = frozenset(
    {"silicon_data_source", "silicon_ttft_ms", "silicon_tpot_ms", "model_path", "system"}
)
_CONCURRENCY = re.compile(r"silicon_concurrency=(\d{1,9})\b")
_MEASURED = re.compile(r"measured=(\d{4}-\d{2}-\d{2})")


@register
class SiliconSampleReader(Reader):
    """AIConfigurator's sample of published serving runs.

    Where a run of InferenceX has both its GPUs and its groups of experts, the sample has their
    product as its GPUs (8 GPUs with 8 groups are 64 there): the root is taken. Beyond a node every
    GPU has a copy of the attention, as its heads cannot be cut so. Weights without a stated format
    are in 16 bits, those of gpt-oss in 4.
    """

    name = "AIConfigurator sample CSV"

    def sniff(self, path: Path, head: bytes) -> bool:
        """Recognise the header."""
        return set(csv_header(head)) >= _SAMPLE

    def excluded(self, path: Path, options: Options) -> Excluded | None:
        """Return the condition that no run of the sample meets, so that it does not answer for the tables beside it."""
        asked = options.conditions
        other = unmet(asked, {"op": {SERVING}})
        if not asked or other:
            return other
        csv = parse_csv(text(path, max_bytes=options.table_bytes), str(path))
        systems, engines = (csv.cells[name].unique().to_pylist() for name in ("system", "backend"))
        devices = {SYSTEMS.get(str(word), str(word)) for word in systems}
        held = {
            "op": {SERVING},
            "device": devices,
            "engine": set(map(str, engines)),
            "release": set[str](),
        }
        return unmet(asked, held)

    def read(self, path: Path, options: Options) -> RawTable:
        """Return a row for each run."""
        csv = parse_csv(text(path, max_bytes=options.table_bytes), str(path))
        given = pd.DataFrame(
            {name: csv.cells[name].to_pandas() for name in csv.cells.column_names}
        ).astype(object)
        apart = _word(given, "mode").eq("disagg").to_numpy()
        tp, dp, cut, ep = (
            np.where(apart, _positive(given, f"decode_{name}"), _positive(given, name))
            for name in _COUNTS
        )
        source = _word(given, "silicon_data_source")
        published = ~source.str.contains("/Users/", regex=False).to_numpy() & ~apart
        squared = published & (cut > 1) & (ep > 1)
        copied = published & (cut == 1) & (dp > 1) & (tp == dp) & (ep == tp * dp)
        gpus = np.select([squared, copied], [cut, tp], tp * dp)
        of_heads = np.select(
            [(gpus > _NODE) | copied | (squared & (dp > 1)), squared], [1.0, cut], tp
        )
        words = _word(given, "gemm_quant_mode").replace("", "bfloat16")
        narrow = _word(given, "model_path").str.contains("gpt-oss").to_numpy()
        formats = [FORMATS.get(word, (word, word, "")) for word in words]
        concurrency = source.str.extract(_CONCURRENCY, expand=False)
        batch = _word(given, "batch_size")
        # in words which groups of GPUs read the prompts and which write the answers
        sides = []
        for side in ("prefill", "decode"):
            groups = side + " " + _word(given, f"{side}_num_workers")
            cuts = " x tp " + _word(given, f"{side}_tp_size")
            sides.append(groups + cuts + " dp " + _word(given, f"{side}_attention_dp_size"))
        rows = pd.DataFrame(
            {
                "op": SERVING,
                "device": [SYSTEMS.get(str(word), str(word)) for word in _word(given, "system")],
                "model": _word(given, "model_path"),
                "engine": _word(given, "backend"),
                "engine_version": _word(given, "backend_version"),
                "client": np.where(published | apart, "inferencex", "aiconfigurator"),
                "dtype_a": [a for a, _, _ in formats],
                "dtype_b": np.where(narrow, "fp4", [b for _, b, _ in formats]),
                "tp": of_heads,
                "dp": gpus / of_heads,
                "ep": np.where((gpus > _NODE) | squared | copied, gpus, ep),
                "apart": np.where(apart, "yes", ""),
                "variant": np.where(apart, sides[0] + ", " + sides[1], ""),
                "input_len": _word(given, "isl"),
                "output_len": _word(given, "osl"),
                "concurrency": concurrency.where(concurrency.notna(), batch),
                "ttft_ms": pd.to_numeric(given["silicon_ttft_ms"], errors="coerce"),
                "tpot_ms": pd.to_numeric(given["silicon_tpot_ms"], errors="coerce"),
                "measured": source.str.extract(_MEASURED, expand=False).fillna(""),
                "recorded_tp": _word(given, "tp_size"),
                "campaign": campaign_of(path),
                LINE: csv.lines,
            }
        )
        intervals = [
            _server(row) if row["client"] == "inferencex" else {} for row in rows.to_dict("records")
        ]
        servers = pd.DataFrame(
            intervals, rows.index, ("receive_interval", "memory_percent"), dtype=float
        )
        return serving_table(rows.join(servers), ("measured", "recorded_tp"), options)


_COUNTS: Final = ("tp_size", "attention_dp_size", "moe_tp_size", "moe_ep_size")
_NODE: Final = 8


def _word(given: pd.DataFrame, name: str) -> pd.Series:
    return text_column(given, name).str.strip()


def _positive(given: pd.DataFrame, name: str) -> np.ndarray:
    """Return counts, 1 where none is given."""
    values = pd.to_numeric(_word(given, name), errors="coerce").to_numpy(dtype=float)
    return np.where(values >= 1, values, 1.0)
