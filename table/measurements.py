"""The measurement table: one row is one kernel or workload on one device, summarised over its repeats.

Columns carry their unit. Every reader returns raw rows with these names; :func:`clean` keeps what can be used and says
what could not (:func:`judge` leaves every row in its place); `conditions` chooses rows. Why a row cannot be used is a
short stable name ("zero-duration"), under which rows are counted; the detail beside it is for people.

==============  ======================================================================================================
column          meaning
==============  ======================================================================================================
device          canonical GPU name, e.g. "MI300X"; the user's word where the catalogue has none
op              operator, e.g. "gemm" (``operators.operators``), followed by its dimensions in separate columns
family          library family of the kernel ("a8w8_blockscale"), "" where there is none
variant         what tells apart problems of equal dimensions ("bias", "silu"), "" where there is nothing
kernel          name of the kernel or solver, "" where unknown
cache           "cold" where the cache held other data before each call, another problem than with a warm one
tuned           True where the kernel won a search: another run of the search may choose another kernel
dtype_a/b/out   canonical number formats of the inputs and the output
duration_us     time in microseconds: the median where there are repeats
spread_us       median absolute deviation over the repeats, microseconds; missing for a single measurement
repeats         number of measurements behind the row
campaign        file or tuning run the row came from
source          file and 1-based line, "file.csv:12"
==============  ======================================================================================================
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from contextlib import suppress
from dataclasses import dataclass
from itertools import chain
from typing import Any

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.compute as pc

from ..operators.kinds.gemm import SCALES
from ..operators.operators import DIMENSIONS, OPS, Op, complete, nearest_op
from ..operators.work import as_arrow, canonical_dtypes, coded, with_columns
from .conditions import TRUTH

COUNTER = "counter."  # prefix of hardware counters
OWN = "own."  # prefix of columns that a user adds as features
DTYPE_COLUMNS = ("dtype_a", "dtype_b", "dtype_out")
#: Text columns every clean row has; "" means "none" or "not stated".
TEXT_COLUMNS = ("family", "variant", "kernel", "campaign", "scale_block")
TEXT_DIMENSIONS = frozenset(name for name, dim in DIMENSIONS.items() if dim.kind == "word")
FLAGS = frozenset(name for name, dim in DIMENSIONS.items() if dim.kind == "flag")
#: Dimensions that may be 0: pads, operands that are not there, kernels without local memory.
MAY_BE_ZERO = frozenset(
    name for name, dim in DIMENSIONS.items() if dim.kind == "size" and dim.least == 0
)
_SHOWN = 200  # letters of a value in the detail of a refusal
#: Letters of the longest name: names of kernels have some thousands, the csv module reads fields of as many.
LONGEST_TEXT = 2**17
#: Largest dimension: what 48 bits of address reach.
LARGEST = 2.0**48
#: Raw rows may carry these two columns: a reader's reason to refuse a row, and the detail.
DEFECT = "_defect"
DEFECT_DETAIL = "_defect_detail"
#: What :func:`judge` says of each row: why it cannot be used ("" where it can), and the detail.
REFUSED = "_refused"
REFUSED_DETAIL = "_refused_detail"
#: What a measurement must have; a workload that nobody has run yet has neither.
MEASURED = ("device", "duration_us")
#: The same of runs of which one of the operator's metrics in ms (``tpot_ms``) is enough, without a duration.
PARTLY_MEASURED = ("device", "metric")
EXAMPLES = 3  # rejected rows of a reason that are quoted
_QUOTED = 60  # characters of a value
_OF_FILES = ("source", "campaign", "kernel", "file_line")


@dataclass(frozen=True)
class CleanRows:
    """Usable rows, and refused ones: `source` (file:line), `reason` and `detail` of each.

    `examples` are the first of those, of each reason, with their `values` as read.

    Dimensions of the usable are float64 (missing where an operator has none of that name), `gated`
    and `causal` 1.0 or 0.0.
    """

    frame: pd.DataFrame
    rejected: pd.DataFrame
    examples: pd.DataFrame


def examples(rejected: pd.DataFrame, rows: pd.DataFrame) -> pd.DataFrame:
    """Return the first rejected rows of each reason with their ``values``, "m=16 n=0"; both tables have one index."""
    if rejected.empty:
        return rejected.assign(values=np.array([], dtype=object))
    first = rejected.groupby("reason", sort=False).head(EXAMPLES)
    rows_of_reason = rows.loc[
        first.index,
        [name for name in rows if not str(name).startswith("_") and name not in _OF_FILES],
    ]
    values = []
    for row in rows_of_reason.to_dict("records"):
        values.append(
            " ".join(
                f"{name}={_plain(value)}"
                for name, value in row.items()
                if not pd.isna(value) and value != ""
            )
        )
    return first.assign(values=np.array(values, dtype=object))


def _plain(value: Any) -> str:
    if isinstance(value, float):
        text = f"{value:.12g}"
    else:
        text = str(value)
    if len(text) <= _QUOTED:
        return text
    return text[: _QUOTED - 1] + "…"


def count_reasons(rejected: pd.DataFrame) -> dict[str, int]:
    """Return the number of rows kept out for each reason, most frequent first."""
    return {str(reason): int(count) for reason, count in rejected["reason"].value_counts().items()}


def clean(raw: pd.DataFrame, *, required: Collection[str] = MEASURED) -> CleanRows:
    """Keep the usable rows, typed and in canonical spelling; list the others with their reason.

    Rows are as read: numbers may be text. They need `op`, `device`, `dtype_a`,
    `duration_us`, `source` and the dimensions of each row's operator. A non-empty `_defect` is a
    reader's reason to refuse the row (`_defect_detail`: its detail).

    A row is kept out for the first of: a reader's defect; no device; an unknown operator; a number
    format that is missing or unknown; a duration that is not a number, infinite, zero or negative;
    a dimension of its operator that is missing, not a number, not whole or not positive (those of
    `MAY_BE_ZERO` may be 0). Operators that need no number format (`Op.needs_dtype`) may leave it
    out. Device and duration may be missing where they are not `required`.
    """
    frame, verdict = _judged(raw, required)
    rejected = verdict.table(frame["source"])
    if rejected.empty:
        return CleanRows(fill_text(complete(frame)), rejected, examples(rejected, raw))
    first = examples(rejected, raw.iloc[np.flatnonzero(~verdict.accepted)].reset_index(drop=True))
    return CleanRows(fill_text(complete(frame[verdict.accepted])), rejected, first)


def judge(raw: pd.DataFrame, *, required: Collection[str] = MEASURED) -> pd.DataFrame:
    """Return every row in its place, typed and in canonical spelling, and why it is refused.

    `_refused` and `_refused_detail` are "" for rows that can be used, which are as `clean` returns
    them. Elsewhere they are the reason and detail of `clean`, and what is no number is missing.
    Device and duration are kept as they are where they are not `required`.
    """
    frame, verdict = _judged(raw, required)
    frame = with_columns(frame, {REFUSED: verdict.reason, REFUSED_DETAIL: verdict.detail})
    if verdict.accepted.all():
        return fill_text(complete(frame))
    kept = frame[verdict.accepted]
    refused = frame[~verdict.accepted]
    whole = complete(kept).set_axis(kept.index)
    parts = [part for part in (whole, refused) if len(part)]
    if parts:
        return fill_text(pd.concat(parts).sort_index())
    return frame


def _judged(raw: pd.DataFrame, required: Collection[str]) -> tuple[pd.DataFrame, _Verdict]:
    """Return the rows, typed as far as possible, and the verdict on each."""
    frame = raw.reset_index(drop=True).copy()  # a copy holds wide tables of counters together
    verdict = _Verdict(len(frame))
    if DEFECT in frame:
        verdict.refuse_each(_text(frame, DEFECT), _text(frame, DEFECT_DETAIL))
        frame = frame.drop(columns=[DEFECT, DEFECT_DETAIL], errors="ignore")
    typed = {column: _text(frame, column) for column in ("device", "op", *TEXT_COLUMNS)}
    for column, values in typed.items():
        if column in frame:
            letters = np.asarray(pc.utf8_length(as_arrow(values)))
            verdict.refuse(letters > LONGEST_TEXT, "long-text", values, f"{column} = ")
    if "device" in required:
        verdict.refuse(_blank(typed["device"]), "no-device", "give default device=NAME")
    codes, words = coded(pd.DataFrame({"op": typed["op"]}), "op")
    ops = [OPS.get(word) for word in words]
    unknown = np.array([op is None for op in ops], dtype=bool)[codes]
    if unknown.any():
        causes = [
            f"{word}: {nearest_op(word)}" if word and op is None else ""
            for word, op in zip(words, ops, strict=True)
        ]
        verdict.refuse(
            unknown, "unknown-operator", pd.Series(np.array(causes, dtype=object)[codes])
        )
    exempt = np.array([op is not None and not op.needs_dtype for op in ops], dtype=bool)[codes]
    typed |= _clean_dtypes(frame, exempt, verdict)
    typed["duration_us"] = duration = _numbers(frame, "duration_us")
    if "duration_us" in required:
        _check_duration(frame["duration_us"], duration.to_numpy(), verdict)
    if "metric" in required:
        metrics_of_ops = []
        for operator in ops:
            if operator is not None:
                for heading in operator.metrics:
                    if heading.endswith("_ms"):
                        metrics_of_ops.append(heading)
        metrics = dict.fromkeys(metrics_of_ops)
        times = {name: _numbers(frame, name).to_numpy() for name in metrics}
        for name, values in times.items():
            words = _text(frame, name)
            unread = np.isnan(values) & ~words.str.lower().isin(_MISSING).to_numpy()
            verdict.refuse(unread, "no-token-times", words, f"{name} = ")
        _check_metrics(times, duration.to_numpy(), verdict)
    of_ops = [(op, codes == code) for code, op in enumerate(ops) if op is not None]
    typed |= _clean_dimensions(frame, of_ops, verdict)
    typed["spread_us"] = spread = _numbers(frame, "spread_us")
    verdict.refuse(
        (spread.to_numpy() < 0) | np.isinf(spread.to_numpy()), "impossible-spread", spread
    )
    typed["repeats"] = _numbers(frame, "repeats").fillna(1.0)
    if "tuned" in frame:
        typed["tuned"] = _truth(frame["tuned"]).eq(1.0)
    else:
        typed["tuned"] = pd.Series(False, frame.index)
    return with_columns(frame, typed), verdict


def fill_text(frame: pd.DataFrame) -> pd.DataFrame:
    """Return the table with every text column as str, "" for missing text."""
    text = {
        name: column for name, column in frame.items() if not pd.api.types.is_numeric_dtype(column)
    }
    unlike = {
        str(name): as_text(column)
        for name, column in text.items()
        if column.dtype != "str" or column.hasnans
    }
    if unlike:
        return frame.assign(**unlike)
    return frame


def as_text(column: pd.Series) -> pd.Series:
    """Return a column as text, "" where a value is missing."""
    if column.dtype == "str":
        return column.fillna("")
    return column.astype(object).where(column.notna(), "").astype("str")


class _Verdict:
    """The first reason to refuse each row."""

    def __init__(self, rows: int) -> None:
        self.reason = np.full(rows, "", dtype=object)
        self.detail = np.full(rows, "", dtype=object)
        self.accepted = np.ones(rows, dtype=bool)

    def refuse(
        self,
        mask: pd.Series | np.ndarray,
        reason: str,
        detail: str | pd.Series,
        prefix: str = "",
        empty: str = "blank",
    ) -> None:
        """Refuse the rows of `mask` that no earlier reason has refused; a detail may be one value per row."""
        new = np.asarray(mask, dtype=bool) & self.accepted
        if new.any():
            self.reason[new] = reason
            self.accepted[new] = False
            if isinstance(detail, str):
                given = detail
            else:
                given = as_text(detail[new]).str.slice(0, _SHOWN)
            if isinstance(given, str):
                self.detail[new] = given
            else:
                self.detail[new] = prefix + given.replace("", empty)

    def refuse_each(self, reasons: pd.Series, details: pd.Series) -> None:
        """Refuse every row that has a reason."""
        for reason in reasons[reasons != ""].unique():
            self.refuse(reasons.eq(reason), str(reason), details, empty="")

    def table(self, source: pd.Series) -> pd.DataFrame:
        refused = ~self.accepted
        columns = {
            "source": source[refused],
            "reason": self.reason[refused],
            "detail": self.detail[refused],
        }
        return pd.DataFrame(columns, dtype="str").reset_index(drop=True)


def _clean_dtypes(
    frame: pd.DataFrame, exempt: np.ndarray, verdict: _Verdict
) -> dict[str, pd.Series]:
    """Return the number formats in canonical spelling; rows that are exempt need none."""
    typed = {}
    for column in DTYPE_COLUMNS:
        given = _text(frame, column)
        typed[column] = formats = canonical_dtypes(given) if column in frame else given
        verdict.refuse(
            _blank(formats) & ~_blank(given), "unknown-number-format", given, f"{column} = "
        )
    verdict.refuse(
        _blank(typed["dtype_a"]) & ~exempt, "no-number-format", "give default dtype_a=NAME"
    )
    return typed


def _check_duration(given: pd.Series, duration: np.ndarray, verdict: _Verdict) -> None:
    verdict.refuse(np.isnan(duration), "no-duration", given)
    verdict.refuse(np.isinf(duration), "infinite-duration", given)
    verdict.refuse(duration == 0, "zero-duration", given)
    verdict.refuse(duration < 0, "negative-duration", given)


_MISSING = ("", "nan", "na", "n/a", "none", "null", "-")
"""What tables write for a time that was not measured."""


def _check_metrics(given: dict[str, np.ndarray], duration: np.ndarray, verdict: _Verdict) -> None:
    """Refuse rows with a time that is not above zero, and those with none at all."""
    times = [duration, *given.values()]
    wrong = np.any([time <= 0 for time in times], axis=0)
    verdict.refuse(wrong | np.all([np.isnan(time) for time in times], axis=0), "no-token-times", "")


def _clean_dimensions(
    frame: pd.DataFrame, ops: Sequence[tuple[Op, np.ndarray]], verdict: _Verdict
) -> dict[str, pd.Series]:
    """Return the dimensions in their types, and refuse rows that lack one or hold an invalid one.

    `ops` are the operators of the table with the rows (n_rows,) of each.
    """
    names = dict.fromkeys(chain.from_iterable(op.dims for op, _ in ops))
    given = {name: frame[name] for name in names if name in frame}
    typed = {}
    for name in given:
        if name in TEXT_DIMENSIONS:
            typed[name] = _text(frame, name)
        else:
            if name in FLAGS:
                typed[name] = _truth(given[name])
            else:
                typed[name] = _numbers(frame, name)
    for op, rows in ops:
        for name in op.dims:
            if name in given:
                _check_dimension(
                    typed[name], given[name], rows, verdict, required=name not in op.defaults
                )
            elif name not in op.defaults:
                verdict.refuse(rows, "missing-dimension", name)
    return typed


def _check_dimension(
    values: pd.Series, given: pd.Series, rows: np.ndarray, verdict: _Verdict, *, required: bool
) -> None:
    name = str(given.name)
    shown = f"{given.name} = "
    blank = (
        given.isna() if pd.api.types.is_numeric_dtype(given) else given.isna() | given.eq("")
    ).to_numpy(dtype=bool)
    if required:
        verdict.refuse(rows & blank, "missing-dimension", name)
    if name in TEXT_DIMENSIONS:
        if name == "scale_block":
            verdict.refuse(
                rows & ~values.isin(SCALES).to_numpy(), "unknown-scale-block", given, shown
            )
        return
    filled = rows & ~blank
    numbers = values.to_numpy(dtype=float)
    verdict.refuse(filled & np.isnan(numbers), "dimension-not-a-number", given, shown)
    verdict.refuse(filled & np.isinf(numbers), "infinite-dimension", given, shown)
    if name not in FLAGS:
        verdict.refuse(
            filled & (numbers < (0 if name in MAY_BE_ZERO else 1)),
            "dimension-not-positive",
            given,
            shown,
        )
        verdict.refuse(filled & (numbers != np.floor(numbers)), "dimension-not-whole", given, shown)
        verdict.refuse(filled & (numbers > LARGEST), "huge-dimension", given, shown)


def _truth(values: pd.Series) -> pd.Series:
    """Return 1.0 for true, 0.0 for false, missing for others."""
    words = {
        value: TRUTH.get(str(value).strip().lower(), np.nan) for value in values.dropna().unique()
    }
    return values.map(words).astype(float)


def _numbers(frame: pd.DataFrame, column: str) -> pd.Series:
    if column not in frame:
        return pd.Series(np.nan, index=frame.index, dtype=float)
    given = frame[column]
    if given.dtype == float:
        return given
    if given.dtype == "str" and (plain := plain_numbers(as_arrow(given))) is not None:
        return pd.Series(plain.to_numpy(zero_copy_only=False).astype(float), index=frame.index)
    return pd.to_numeric(given, errors="coerce").astype(float)


_IN_NUMBERS = np.isin(np.arange(256), np.frombuffer(b"0123456789.-+eE", dtype=np.uint8))
"""Which bytes stand in plain numbers: no ``x`` of hexadecimal ones, no ``inf``, no space."""


def plain_numbers(cells: pa.Array | pa.ChunkedArray) -> pa.Array | pa.ChunkedArray | None:
    """Return texts as int64, else float64, null where empty; None if one is no number, or all are empty.

    Numbers that are not written plainly (``+1``, ``inf``) count as none: `pandas.to_numeric` knows
    more of them.
    """
    if isinstance(cells, pa.ChunkedArray):
        chunks = cells.chunks
    else:
        chunks = [cells]
    if not all(_IN_NUMBERS[_bytes_of(chunk)].all() for chunk in chunks):
        return None
    filled = pc.fill_null(pc.not_equal(cells, ""), False)
    if not pc.any(filled).as_py():
        return None
    for kind in (pa.int64(), pa.float64()):
        with suppress(pa.ArrowInvalid):
            return pc.if_else(filled, cells, None).cast(kind)
    return None


def _bytes_of(texts: pa.StringArray | pa.LargeStringArray) -> np.ndarray:
    """Return the bytes of all the texts."""
    _, offsets, data = texts.buffers()
    if not len(texts) or data is None:
        return np.zeros(0, dtype=np.uint8)
    ends = np.frombuffer(offsets, np.int64 if pa.types.is_large_string(texts.type) else np.int32)
    return np.frombuffer(data, np.uint8)[ends[texts.offset] : ends[texts.offset + len(texts)]]


def _blank(words: pd.Series) -> np.ndarray:
    """Return which texts are empty."""
    return np.asarray(pc.equal(as_arrow(words), ""))


def _text(frame: pd.DataFrame, column: str) -> pd.Series:
    if column not in frame:
        return pd.Series("", index=frame.index, dtype="str")
    return as_text(frame[column]).str.strip()


# What a metric measures, in words and signs: read from the name of its column, which ends in the
# unit.

_NOUNS = {"duration": "time"}
_SYMBOLS = {"time": "t", "energy": "E", "power": "P"}
_UNITS = {"us": "µs", "ms": "ms", "ns": "ns", "s": "s", "j": "J", "w": "W"}
_RATES = frozenset({"w", "mhz", "c"})
"""Ends of names of what is measured while a kernel runs, however long it runs: watts, megahertz, degrees."""


@dataclass(frozen=True)
class Quantity:
    """The quantity of a metric.

    `noun` is "time", "energy" or "power", else the column's name without its unit ("" where that is
    all of it). `symbol` stands in formulas (t, E, P; otherwise the noun); `suffix` and `unit` are
    the unit as names of columns have it ("us") and as people write it ("µs"). Time and energy grow
    with the work, power does not (`grows`).
    """

    noun: str
    symbol: str
    suffix: str
    unit: str
    grows: bool

    @property
    def label(self) -> str:
        """Noun and unit, e.g. ``energy, J``."""
        if self.noun:
            return f"{self.noun}, {self.unit}"
        return self.unit


def quantity(metric: str) -> Quantity:
    """Return the quantity of a column of the measurement table.

    >>> quantity("energy_j").label, quantity("output_tokens_per_s").label
    ('energy, J', 'output tokens, 1/s')
    >>> quantity("power_w").grows
    False
    """
    stem, _, suffix = metric.rpartition("_")
    noun = _NOUNS.get(stem, stem.removesuffix("_per").replace("_", " "))
    unit = "1/" * stem.endswith("_per") + _UNITS.get(suffix, suffix)
    return Quantity(noun, _SYMBOLS.get(noun, noun), suffix, unit, suffix not in _RATES)


_FIRST = ("device", "op", "family")
_TIMED = ("duration_us", "spread_us", "repeats")
_LAST = ("kernel", "source")


def in_order(frame: pd.DataFrame) -> pd.DataFrame:
    """Return the table with identifying columns first, then times, then the rest, names of kernels at the end.

    Dimensions that no row has are of the rest.
    """
    sizes = [name for name in DIMENSIONS if name in frame and _is_stated(frame[name])]
    first = dict.fromkeys((*_FIRST, *DTYPE_COLUMNS, *sizes, *_TIMED))
    leading = [name for name in first if name in frame]
    last = [name for name in _LAST if name in frame]
    rest = [name for name in frame if name not in leading and name not in last]
    return frame[[*leading, *rest, *last]]


def _is_stated(column: pd.Series) -> bool:
    return bool((column.notna() & column.astype(str).ne("")).any())


def measured_column(frame: pd.DataFrame, metric: str) -> str:
    """Return the column of a metric, whatever its case, and whether it is a counter; the metric itself without one.

    >>> measured_column(pd.DataFrame({"duration_us": [1.0], "counter.Cycles": [9]}), "cycles")
    'counter.Cycles'
    """
    plain = metric.casefold()
    alike = [
        str(name)
        for name in frame
        if str(name).removeprefix(COUNTER).casefold() == plain.removeprefix(COUNTER)
    ]
    if metric in frame or len(alike) != 1:
        return metric
    return alike[0]


def prediction_columns(metric: str) -> dict[str, str]:
    """Return the names of the columns of a prediction and of its limits, with the unit of the metric.

    >>> list(prediction_columns("duration_us").values())
    ['predicted_us', 'lower_us', 'upper_us']
    """
    return {name: f"{name}_{quantity(metric).suffix}" for name in ("predicted", "lower", "upper")}
