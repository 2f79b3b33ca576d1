"""Which GPUs serve a model at which cost, as a document: the cheapest that holds, every GPU's ways, their fronts."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import asdict
from functools import partial
from itertools import product
from typing import Any, Final

import numpy as np
import pandas as pd
import plotly.graph_objects as go

from ..output import SCHEMA
from ..workloads.deployments import LIKELY, PACES_MS, Choice, Question, cheapest
from ..workloads.launching import serve_command, why_no_command
from ..workloads.serving_model import TWO_RUNS
from ..workloads.serving_percentiles import column
from .document import (
    JSON,
    Column,
    Document,
    Figure,
    Headline,
    Kind,
    Lines,
    Medium,
    Part,
    Row,
    Section,
    Sliders,
    Table,
    columns,
    lines,
    picked,
    records,
    remarked,
    rows,
)
from .figures import NEUTRAL, OTHERS, SELECTED, dots, log_axes, name_line, styled
from .formats import NONE, counted, figure, share
from .static_figures import Drawing
from .wording import wording

_COLOURS: Final = (SELECTED, *OTHERS, NEUTRAL)


def deployments_document(choice: Choice, level: float) -> Document:
    """Return the answer first, then a way of each GPU and number of GPUs, and the fronts as a figure."""
    asked = choice.question
    best = choice.best
    data = {
        "schema": SCHEMA,
        "level": level,
        "question": _question(asked),
        "best": _records(best),
        "command": serve_command(headlined(choice), asked),
        "fronts": _records(choice.fronts),
        "remarks": [note.to_dict() for note in choice.remarks],
    }
    work = f"prompts of {asked.input_len:,} tokens, answers of {asked.output_len:,}"
    rate = ", in a closed loop"
    if asked.rate is not None:
        rate = f", at a rate of {figure(asked.rate)} requests a second"
    tuned = f"{_tuning(choice)}{_conditions(asked)}"
    # what changes the answers stands with them, what narrows them is the first remark
    beside = [f"{note.text}." for note in choice.remarks if note.code in _BESIDE]
    narrower = [note for note in choice.remarks if note.code == "two-runs"]
    others = [note for note in choice.remarks if note.code not in ("two-runs", *_BESIDE)]
    sizes = ", ".join(map(str, asked.counts))
    gpus = "1 GPU"
    if sizes != "1":
        gpus = f"{sizes} GPUs"
    lead = f"{work}{rate}{_limits(asked)}; on {gpus}; {tuned}"
    return Document(
        title=f"Serving {asked.model.name}",
        lead=f"{lead}; intervals of {100 * level:g} %",
        opening=[
            _answer(choice),
            lines([*_energy(choice), *_beside(choice), *beside, *_run_it(choice)]),
            Lines(remarked([*narrower, *others]), "list"),
        ],
        sections=[
            Section(
                "Throughput and speed",
                [Figure(partial(front_figure, choice), _front_caption(choice), "ways")],
                "front",
                "Front",
            ),
            Section("Any of them", _chooser(choice), "choose", "Choose"),
            Section("Ways", _tables(choice), "ways", "Ways"),
        ],
        data=data,
    )


_MUCH_SURER: Final = 0.05
"""By how much surer a way must be as tuned for the answer to say so."""
_BESIDE: Final = ("no-way", "engine-not-there", "quantised")
_TUNING: Final = wording("deployments-tuning")


def _front_caption(choice: Choice) -> str:
    """Say what the figure shows; diamonds only where a way keeps the limits."""
    caption = "Ways that no other of their GPU beats in both. Circles: the rows of the table below"
    asked = choice.question
    if asked.limited and (choice.best["holds"] >= asked.sure).any():
        caption += "; diamonds: the cheapest of a GPU that holds, with its interval"
    return caption


def _tuning(choice: Choice) -> str:
    """Say how the engine is set up: where own runs are of it, as they were, whatever is asked."""
    tuned = _TUNING[choice.question.tuning]
    as_run = set()
    for note in choice.remarks:
        if note.code == "own-stack":
            as_run.update(note.values["engines"])
    if not as_run:
        return tuned
    if len(choice.question.gpus) == 1 and as_run.issuperset(choice.question.engines):
        return "as your own runs"
    return f"as your own runs where they are of the engine, else {tuned}"


def _conditions(asked: Question) -> str:
    """Say under which conditions the model is served: ``, with speculation (mtp)``."""
    conditions = ""
    if asked.speculation != Question.speculation:
        conditions += f", with speculation ({asked.speculation})"
    if asked.lengths:
        conditions += f", with {asked.lengths} lengths"
    if asked.prefill_gpus:
        readers = counted(asked.prefill_gpus, "GPU")
        conditions += f", {readers} of each replica only reading prompts"
    return conditions


def _limits(asked: Question) -> str:
    """Say which limits there are: ``, first token within 2,000 ms``."""
    said = ""
    for name, limit in asked.limits.items():
        said += f", {_named(asked)[name]} within {figure(limit)} ms"
    return said


def _named(asked: Question) -> dict[str, str]:
    """Return what the columns of times and of the percentiles that are asked for are of."""
    named = {"ttft_ms": "first token", "tpot_ms": "each further one"}
    for time, percentile in asked.percentiles.items():
        named[column(time, percentile)] = f"{percentile} of {named[time]}"
    return named


def headlined(choice: Choice) -> pd.Series:
    """Return the way shown first: the best one, or, without limits, the best at a common pace."""
    if choice.question.limited:
        return choice.best.iloc[0]
    return _at_pace(choice.best).iloc[0]


def _answer(choice: Choice) -> Headline:
    """Return the cheapest way that holds, or the nearest; without limits the ends of the best front."""
    asked = choice.question
    first = headlined(choice)
    if not asked.limited:
        rate = f"{_figure(first['tokens_per_s_per_gpu'])} tokens/s per GPU"
        if asked.price:
            rate += f", {_cost(asked, first)} per million tokens"
        return Headline(
            f"{_first(asked)} {_pace(asked, first['pace_ms'])}",
            f"{way(first)}: {rate}",
            "",
            _footing(choice, first),
        )
    if first["holds"] >= asked.sure:
        about = (
            f"{_first(asked)} that keeps the limits with a probability of {share(asked.sure, 0)}"
        )
    elif first["holds"] >= LIKELY:
        about = f"none keeps the limits with a probability of {share(asked.sure, 0)}; the surest"
    else:
        about = f"none keeps the limits with a probability of {share(LIKELY, 0)}; the nearest"
    priced = ""
    if asked.price:
        priced = f"{_cost(asked, first)} per million tokens, "
    answer = f"{way(first)}: {priced}keeps them with {_sure(first)}"
    return Headline(about, answer, "", _footing(choice, first))


def _pace(asked: Question, pace_ms: float) -> str:
    if math.isinf(pace_ms):
        return "at any pace"
    return f"within {figure(pace_ms)} ms a token, kept with a probability of {share(asked.sure, 0)}"


def _at_pace(best: pd.DataFrame) -> pd.DataFrame:
    """Return the ways at the pace of the answer: 50 ms a token, or the slowest of the answer's ways."""
    paces = best["pace_ms"].unique()
    return best[best["pace_ms"] == (PACES_MS[1] if PACES_MS[1] in paces else paces[0])]


def _first(asked: Question) -> str:
    """Say which ways rank first."""
    if asked.price:
        return "cheapest"
    if asked.rate is not None:
        return "fewest GPUs"
    return "most tokens per GPU"


def _sure(one: pd.Series) -> str:
    """Return the probability that a way holds, rounded down: never 100 %, nor what is asked for where it is less."""
    if one["holds"] > 0.99:
        return "> 99 %"
    if one["holds"] < 0.01:
        return "< 1 %"
    return share(math.floor(100 * one["holds"]) / 100, 0)


def _footing(choice: Choice, one: pd.Series) -> str:
    """Say how fast a way is, with its intervals, and whether it was measured."""
    asked = choice.question
    said = {"ttft_ms": "", "tpot_ms": ""}
    for time, percentile in asked.percentiles.items():
        said[time] = f" ({percentile} {_interval(one, column(time, percentile))} ms)"
    further = ""
    if asked.output_len > 1:
        further = f", a token every {_interval(one, 'tpot_ms')} ms{said['tpot_ms']}"
    return (
        f"First token after {_interval(one, 'ttft_ms')} ms{said['ttft_ms']}{further}; "
        f"{_interval(one, 'tokens_per_s_per_gpu')} tokens/s per GPU, "
        f"{_requests(one['concurrency'])} under way, "
        f"{_figure(one['memory_gb'])} GiB on each GPU{_basis(choice, one)}."
    )


def _basis(choice: Choice, one: pd.Series) -> str:
    """Return what is new in the best way of a GPU: ``, a known setting``."""
    basis = choice.bases.get(one["gpu"], "")
    if basis == TWO_RUNS:
        return f", a setting with {TWO_RUNS} of your own"
    if not basis:
        return ""
    return f", a {basis}".replace(" and ", ", a ")


def _energy(choice: Choice) -> list[str]:
    """Return what the answer takes in energy, where the price of electricity was given."""
    asked = choice.question
    first = headlined(choice)
    if not asked.electricity:
        return []
    if asked.conditioned:
        return ["Energy is not modelled with speculation, nor with prompts on GPUs of their own."]
    if math.isnan(first["power_w"]):
        return [f"The board power of {first['gpu']} is not published: its energy is unknown."]
    return [
        f"Its electricity: {_electricity(asked, first)} per million tokens, of "
        f"{_interval(first, 'joules_per_token')} J a token, {_interval(first, 'power_w')} W of "
        "each GPU, without hosts and cooling."
    ]


def _beside(choice: Choice) -> list[str]:
    """Return cheaper but less certain ways, then the best way of each GPU and engine that was asked for."""
    asked = choice.question
    first = headlined(choice)
    said = []
    if math.isinf(first["ttft_ms_upper"]) or math.isinf(first["tpot_ms_upper"]):
        said.append(_ENDLESS)
    if asked.rate is not None and math.isinf(first["concurrency"]):
        ended = first["tokens_per_s_per_gpu"] * first["gpus"] / asked.output_len
        said.append(f"It ends {_figure(ended)} requests a second at most.")
    gamble = None
    if asked.limited and asked.sure > LIKELY:
        gamble = cheapest(choice, LIKELY)
    if gamble is not None and gamble["holds"] < asked.sure and not gamble.equals(first):
        under_way = ""
        if asked.rate is None:
            under_way = (
                f", {_requests(gamble['concurrency'])} under way and "
                f"{_figure(gamble['tokens_per_s_per_gpu'])} tokens/s per GPU,"
            )
        sentence = (
            f"{way(gamble)}{under_way} keeps them with {_sure(gamble)}{_priced(asked, gamble)}"
        )
        said.append(f"A gamble: {sentence}")
    return [*said, *_unsure_of_tuning(choice, first), *_of_each_gpu(choice, first)]


def _unsure_of_tuning(choice: Choice, first: pd.Series) -> list[str]:
    """Say why a way is not sure enough, where it would be if the engine was tuned."""
    asked = choice.question
    tuned = choice.as_tuned
    if not asked.limited or first["holds"] >= asked.sure or math.isnan(tuned):
        return []
    if tuned - first["holds"] < _MUCH_SURER:
        return []
    surer = _sure(pd.Series({"holds": tuned}))
    return [
        "The engine may be tuned by the vendor or not, which makes it less sure. If it is tuned, this "
        f"way keeps the limits with {surer}: give tuning=tuned or tuning=stock to ask for one of both."
    ]


def _of_each_gpu(choice: Choice, first: pd.Series) -> list[str]:
    """Return a line for each GPU with its best way, and what its other engines reach; the headline is not repeated."""
    asked = choice.question
    best = choice.best
    if not asked.limited:
        best = best[best["pace_ms"] == first["pace_ms"]]
    lines_of_gpus = []
    for gpu, ways in best.groupby("gpu", sort=False):
        of_engines = [one for _, one in ways.drop_duplicates("engine").iterrows()]
        parts = []
        if gpu != first["gpu"]:
            parts.append(_leading(choice, of_engines[0]))
        for one in of_engines[1:]:
            parts.append(_in_short(asked, one))
        if parts:
            lines_of_gpus.append(f"{gpu}: {'; '.join(parts)}")
    answered = {*best["gpu"]}
    for gpu in dict.fromkeys(choice.ways["gpu"]):
        if gpu not in answered:
            pace = _pace(asked, first["pace_ms"])
            lines_of_gpus.append(f"{gpu}: no way {pace}")
    return lines_of_gpus


def _leading(choice: Choice, one: pd.Series) -> str:
    """Say what the best way of a GPU is, how good, and whether it was measured."""
    asked = choice.question
    after = f"{_priced(asked, one)}{_basis(choice, one)}"
    if not asked.limited:
        rate = _figure(one["tokens_per_s_per_gpu"])
        return f"{rate} tokens/s per GPU, {way(one)}{after}"
    held = f"{way(one)} keeps them with {_sure(one)}{after}"
    if one["holds"] < LIKELY:
        return f"the nearest, {held}"
    return held


def _in_short(asked: Question, one: pd.Series) -> str:
    """Say what another engine reaches on the same GPU: ``sglang on 8 with 77 %, 3.26 $``, ``vllm on 2 gives 132``."""
    if asked.limited:
        reached = f"with {_sure(one)}"
    else:
        reached = f"gives {_figure(one['tokens_per_s_per_gpu'])}"
    cost = ""
    if asked.price:
        cost = f", {_cost(asked, one)}"
    return f"{one['engine']} on {one['gpus']} {reached}{cost}"


def _priced(asked: Question, one: pd.Series) -> str:
    if not asked.price:
        return ""
    return f", {_cost(asked, one)} per million tokens"


def _run_it(choice: Choice) -> list[str]:
    """Return the command line that starts the answer."""
    first = headlined(choice)
    command = serve_command(first, choice.question)
    if not command:
        return [f"No line to run it: {why_no_command(first, choice.question)}."]
    if first["replicas"] > 1:
        return [f"To run each replica: {command}"]
    return [f"To run it: {command}"]


def way(one: pd.Series) -> str:
    """Say in a few words which GPUs, and how the model is cut: ``4 × MI300X (vllm, fp8, tp 4)``."""
    cut = [f"{name} {one[name]}" for name in ("tp", "dp", "ep") if one[name] > 1]
    copies = []
    if one["replicas"] > 1:
        copies = [f"{one['replicas']} replicas"]
    return (
        f"{one['gpus']} × {one['gpu']} ({', '.join([one['engine'], one['dtype'], *cut, *copies])})"
    )


def _interval(one: pd.Series, name: str, dots: str = " … ") -> str:
    """Return a figure with its interval: ``605 (127 … 3,618)``; ∞ without a limit, – without a figure."""
    middle, lower, upper = (one[f"{name}{side}"] for side in ("", "_lower", "_upper"))
    if lower == upper or math.isnan(middle):
        return _figure(middle)
    return f"{_figure(middle)} ({_figure(lower)}{dots}{_figure(upper)})"


def _figure(value: float) -> str:
    if math.isnan(value):
        return NONE
    if math.isinf(value):
        return "∞"
    return f"{float(f'{value:.3g}'):,.9g}"


def _count(value: float) -> str:
    """Return a count in full; a mean of few in three digits, ∞ and – as a figure."""
    if math.isfinite(value) and (value >= 100 or value == round(value)):
        return f"{value:,.0f}"
    return _figure(value)


def _requests(value: float) -> str:
    """Return a number of requests and the noun."""
    written = _count(value)
    if written == "1":
        return "1 request"
    return f"{written} requests"


def _word(value: Any) -> str:
    if isinstance(value, str):
        return value
    return figure(value)


def _cost(asked: Question, one: pd.Series) -> str:
    return f"{_interval(one, 'cost_per_million')} {asked.price.currency}".rstrip()


def _electricity(asked: Question, one: pd.Series) -> str:
    return f"{_interval(one, 'electricity_per_million')} {asked.electricity.currency}".rstrip()


def _tables(choice: Choice) -> list[Part]:
    """Return the best ways: with every interval on pages, on terminals with those of the times."""
    asked = choice.question
    if asked.limited:
        kept = f"the {_first(asked)} that keeps the limits with {share(asked.sure, 0)}, else the surest"
        each = "Of each GPU, engine and number of GPUs"
    else:
        kept = f"the {_first(asked)} at each pace, kept with {share(asked.sure, 0)}"
        each = "Of each GPU and engine"
    caption = f"{each} {kept}. Tokens are output tokens."
    if _endless(choice.best):
        caption += f" {_ENDLESS}"
    made = list[Part]()
    media: tuple[Medium, ...] = "terminal", "page"
    for medium in media:
        shown = _shown(asked, medium)
        body = []
        for _, one in choice.best.iterrows():
            cells = tuple(of(one) for of in shown.values())
            body.append(Row(cells, "" if one["holds"] >= asked.sure else "soft"))
        kinds: dict[str, Kind] = {"GPUs": "name", "way": "name"}
        every = [Column(head, kinds.get(head, "number")) for head in shown]
        made.append(Table(every, body, "Ways to serve it", caption, name="ways", medium=medium))
    return made


def _shown(asked: Question, medium: Medium) -> dict[str, Callable[[pd.Series], str]]:
    """Return the heads of the columns, each with what it shows of a way."""
    written = _interval
    if medium == "terminal":
        written = partial(_interval, dots="…")
    shown: dict[str, Callable[[pd.Series], str]] = {}
    if not asked.limited:
        shown["ms a token"] = _most_pace
    shown |= {"GPUs": lambda one: f"{one['gpus']} × {one['gpu']}", "way": _setup}
    if asked.limited:
        shown["holds"] = _sure
    if asked.price:
        head = f"{asked.price.currency or 'cost'}/M tokens"
        shown[head] = partial(written, name="cost_per_million")
    for name, head in _times(asked).items():
        shown[f"{head}, ms"] = partial(written, name=name)
    if medium == "page":
        shown["tokens/s/GPU"] = partial(written, name="tokens_per_s_per_gpu")
        shown["tokens/s/user"] = partial(written, name="tokens_per_s_per_user")
        shown["GiB"] = lambda one: _figure(one["memory_gb"])
    else:
        shown["tok/s/GPU"] = lambda one: _figure(one["tokens_per_s_per_gpu"])
    if asked.electricity or medium == "page":
        shown["J/token"] = partial(written, name="joules_per_token")
    if asked.electricity and medium == "page":
        head = f"electricity, {asked.electricity.currency or 'cost'}/M tokens"
        shown[head] = partial(written, name="electricity_per_million")
    shown["requests"] = lambda one: _count(one["concurrency"])
    return shown


def _most_pace(one: pd.Series) -> str:
    """Return the slowest pace that a way is among, in a cell."""
    if math.isinf(one["pace_ms"]):
        return "any"
    return f"≤ {figure(one['pace_ms'])}"


def _setup(one: pd.Series) -> str:
    """Return engine, number format and how the model is cut, in a cell."""
    cut = " ".join(f"{name}{one[name]}" for name in ("tp", "dp", "ep") if one[name] > 1)
    return f"{one['engine']} {one['dtype']} {cut}".rstrip()


def _times(asked: Question) -> dict[str, str]:
    """Return the columns of times with their heads: the percentiles that are asked for in place of theirs."""
    headings = {}
    for time in ("ttft_ms", "tpot_ms"):
        percentile = asked.percentiles.get(time, "")
        head = time.removesuffix("_ms").upper()
        headings[column(time, percentile)] = f"{head} {percentile}".rstrip()
    return headings


def _percentile_facts(asked: Question, one: pd.Series) -> list[tuple[str, str]]:
    facts = []
    for time, percentile in asked.percentiles.items():
        name = column(time, percentile)
        facts.append((f"{_named(asked)[name]}, ms", _interval(one, name)))
    return facts


_ENDLESS: Final = (
    "∞: at that end of the interval requests come faster than they are answered, and wait ever "
    "longer."
)


def _endless(best: pd.DataFrame) -> bool:
    """Whether an interval of a shown way is unbounded."""
    return bool(np.isinf(best[["ttft_ms_upper", "tpot_ms_upper"]].to_numpy()).any())


def _chooser(choice: Choice) -> list[Part]:
    """Return drop-down lists (GPU, number of GPUs, ...) and the figures of each combination."""
    best = choice.best
    asked = choice.question
    if asked.limited:
        heads = {"gpu": "GPU", "gpus": "GPUs", "engine": "engine"}
    else:
        heads = {"gpu": "GPU", "engine": "engine", "pace_ms": "ms a token"}
    heads = {name: head for name, head in heads.items() if len(best[name].unique()) > 1}
    if not heads:
        return []
    axes = [
        (head, tuple(map(_word, best[name].sort_values().unique()))) for name, head in heads.items()
    ]
    ways = {}
    for _, row in best.iterrows():
        ways[tuple(_word(row[name]) for name in heads)] = row
    choices: list[list[Part]] = []
    first = 0
    for key in product(*(values for _, values in axes)):
        one = ways.get(key)
        if one is None:
            choices.append([lines(["no way was found"])])
            continue
        if one is ways[tuple(_word(best.iloc[0][name]) for name in heads)]:
            first = len(choices)
        facts = [
            ("time to the first token, ms", _interval(one, "ttft_ms")),
            ("time per further token, ms", _interval(one, "tpot_ms")),
            *_percentile_facts(asked, one),
            ("tokens/s per user", _interval(one, "tokens_per_s_per_user")),
            ("tokens/s per GPU", _interval(one, "tokens_per_s_per_gpu")),
            ("requests under way", _count(one["concurrency"])),
            ("GiB per GPU", _figure(one["memory_gb"])),
            ("W of each GPU", _interval(one, "power_w")),
            ("J per token", _interval(one, "joules_per_token")),
        ]
        if asked.price:
            facts += [("cost per million tokens", _cost(asked, one))]
        if asked.electricity:
            facts += [("electricity per million tokens", _electricity(asked, one))]
        if asked.limited:
            facts += [("keeps the limits with", _sure(one))]
        choices.append([lines([way(one)]), Table(columns("", numbers=["figure"]), rows(facts))])
    return [Sliders(axes, choices, first)]


def front_figure(choice: Choice) -> go.Figure:
    """Draw tokens per second of a GPU against those of a user: the front of each GPU, its name beside it.

    The cheapest way of each GPU that holds is a point with its interval; a line stands at the limit
    of the pace.
    """
    asked = choice.question
    drawn = Drawing()
    across = "tokens_per_s_per_user"
    up = "tokens_per_s_per_gpu"
    kinds = list(choice.fronts.groupby("gpu", sort=False))
    best = choice.best.reset_index(drop=True)
    best = best[(best[across] > 0) & (best[up] > 0)]
    drawn.add_scatter(
        x=best[across],
        y=best[up],
        ids=best.index.tolist(),
        text=[way(one) for _, one in best.iterrows()],
        name="",
        **dots(NEUTRAL, 9, symbol="circle-open"),
    )
    for place, (gpu, ways) in enumerate(kinds):
        colour = _COLOURS[place % len(_COLOURS)]
        x = ways[across]
        y = ways[up]
        texts = [f"{way(one)}, {_requests(one['concurrency'])}" for _, one in ways.iterrows()]
        look = {"line": {"color": colour, "width": 2}, "marker": {"size": 5}}
        drawn.add_scatter(
            x=x,
            y=y,
            text=texts,
            name=gpu,
            mode="lines+markers",
            **look,
        )
        name_line(
            drawn,
            str(gpu),
            (place, len(kinds)),
            x,
            y,
            colour,
        )
        holding = choice.best[(choice.best["gpu"] == gpu) & (choice.best["holds"] >= asked.sure)]
        for _, one in holding.head(1).iterrows() if asked.limited else ():
            bars = {}
            for axis, name in (("error_x", across), ("error_y", up)):
                over = one[f"{name}_upper"] - one[name]
                under = one[name] - one[f"{name}_lower"]
                reach = {"array": [over], "arrayminus": [under]}
                bars[axis] = {**reach, "color": colour, "thickness": 1}
            drawn.add_scatter(
                x=[one[across]],
                y=[one[up]],
                text=[way(one)],
                name=gpu,
                showlegend=False,
                **bars,
                **dots(colour, 11, symbol="diamond"),
            )
    if asked.tpot_ms is not None:
        drawn.add_vline(x=1e3 / asked.tpot_ms, line={"color": NEUTRAL, "dash": "dot"})
        drawn.add_annotation(
            text=f"{figure(asked.tpot_ms)} ms a token",
            x=math.log10(1e3 / asked.tpot_ms),
            y=0,
            yref="paper",
            xanchor="left",
            showarrow=False,
        )
    log_axes(drawn, "tokens per second of a user", "tokens per second of a GPU")
    return styled(drawn, 440, {}, showlegend=False)


def _question(asked: Question) -> JSON:
    conditions = {}
    if asked.conditioned:
        conditions = picked(asked, "speculation", "prefill_gpus")
    if asked.lengths:
        conditions["lengths"] = asked.lengths
    return {
        "model": asked.model.name,
        "gpus": [gpu.name for gpu in asked.gpus],
        **picked(asked, "counts", "engines", "dtypes", "kv_dtype", "input_len", "output_len"),
        **picked(asked, "ttft_ms", "tpot_ms", "rate", "tuning", "sure"),
        "percentiles": dict(asked.percentiles),
        **conditions,
        "price": asdict(asked.price),
        "electricity": asdict(asked.electricity) if asked.electricity else None,
    }


def _records(ways: pd.DataFrame) -> list[JSON]:
    """Return rows as JSON; an unbounded limit is null."""
    return records(
        ways.astype(object).where(~ways.isin([math.inf, -math.inf]) & ways.notna(), None)
    )
