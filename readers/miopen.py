"""MIOpen's find databases (`gfx942130.HIP.fdb.txt`, github.com/ROCm/MIOpen): every solver's time per convolution.

One line is ``key=solver:milliseconds,workspace bytes,algorithm;solver:...``. A key holds the
problem, 2-D::

    inC-inH-inW-filHxfilW-outC-outH-outW-N-padHxpadW-strideHxstrideW-dilHxdilW-bias-layout-dtype-direction[_gGROUPS]

and 3-D with a depth before each height. The layout is one word, or three (input-filter-output). For
directions B (gradient of the input) and W (gradient of the filter) the key's first side is dy and
its second dx or x; the table always holds the forward problem (x in, y out), so the sides are
swapped for these.
"""

from __future__ import annotations

import re
from pathlib import Path

import numpy as np
import pandas as pd

from ..operators.kinds.convolution import AXES
from ..remarks import remark
from ..table.measurements import DEFECT, DEFECT_DETAIL
from .base import LINE, Note, Options, RawTable, Reader, register
from .files import campaign_of, text
from .labels import TIME_UNITS, device_of

_KEY = re.compile(
    r"^(?P<c1>\d+)-(?:(?P<d1>\d+)-)?(?P<h1>\d+)-(?P<w1>\d+)"
    r"-(?:(?P<fil_d>\d+)x)?(?P<fil_h>\d+)x(?P<fil_w>\d+)"
    r"-(?P<c2>\d+)-(?:(?P<d2>\d+)-)?(?P<h2>\d+)-(?P<w2>\d+)-(?P<batch>\d+)"
    r"-(?:(?P<pad_d>\d+)x)?(?P<pad_h>\d+)x(?P<pad_w>\d+)"
    r"-(?:(?P<stride_d>\d+)x)?(?P<stride_h>\d+)x(?P<stride_w>\d+)"
    r"-(?:(?P<dil_d>\d+)x)?(?P<dil_h>\d+)x(?P<dil_w>\d+)"
    r"-\d+-(?P<layout>[A-Za-z0-9]+(?:-[A-Za-z0-9]+-[A-Za-z0-9]+)?)-(?P<dtype>[A-Za-z0-9]+)"
    r"-(?P<direction>[FBW])(?:_g(?P<groups>\d+))?$"
)
_NAMES = list(_KEY.groupindex)
#: What a 2-D key leaves out, and a key without groups.
_FLAT = {
    "d1": "1",
    "d2": "1",
    "fil_d": "1",
    "pad_d": "0",
    "stride_d": "1",
    "dil_d": "1",
    "groups": "1",
}
#: gfx id (3 characters for gfx9, 4 later), then the number of compute units: hexadecimal, or decimal after "_".
_DEVICE = re.compile(r"^(gfx(?:9[0-9a-f]{2}|1[0-9]{3}))(?:_(\d+)|([0-9a-f]+))?(?=[._]|$)")
_ENTRY = re.compile(r"^(.+):([^:,]*),(\d*),(\w*)$")


@register
class MiopenReader(Reader):
    """Find databases of MIOpen, text or bzip2: every solver is a row."""

    name = "MIOpen find-db"

    def sniff(self, path: Path, head: bytes) -> bool:
        """Recognise a first line that is a convolution's key and a solver."""
        key, _, solvers = head.partition(b"\n")[0].partition(b"=")
        return bool(solvers.strip()) and _KEY.match(key.decode("ascii", "replace")) is not None

    def read(self, path: Path, options: Options) -> RawTable:
        """Return one row for each solver of each problem; lines that do not match the format are refused rows."""
        lines = text(path, max_bytes=options.table_bytes).splitlines()
        table = pd.DataFrame(
            [line.partition("=")[::2] for line in lines], columns=["key", "value"], dtype=object
        )
        table.index = pd.RangeIndex(1, len(lines) + 1)
        table = table[table["key"].ne("") | table["value"].ne("")]
        keys = table["key"].str.strip()
        values = table["value"].str.strip()
        problems, malformed = _problems(keys)
        rows = _solvers(values[problems.index]).join(problems, on=LINE)
        rows["device"], notes = _device(path, len(rows), options.defaults.get("device", ""))
        _check_geometry(rows, notes)
        refused = pd.DataFrame(
            {LINE: malformed.index, DEFECT: "not-a-convolution", DEFECT_DETAIL: malformed}
        )
        if len(refused):
            rows = pd.concat([rows, refused], ignore_index=True)
        return RawTable(rows.assign(campaign=campaign_of(path)), notes)


def _problems(keys: pd.Series) -> tuple[pd.DataFrame, pd.Series]:
    """Return the forward problem of each key, indexed by line, and the keys that do not match the format."""
    matches = {line: match for line, key in keys.items() if (match := _KEY.match(key))}
    fields = pd.DataFrame(
        [match.groups() for match in matches.values()],
        columns=_NAMES,
        index=pd.Index(matches.keys()),
    )
    fields = fields.fillna(_FLAT)
    forward = fields["direction"].eq("F")
    sides = {
        "in_channels": ("c1", "c2"),
        "in_d": ("d1", "d2"),
        "in_h": ("h1", "h2"),
        "in_w": ("w1", "w2"),
    }
    problem = pd.DataFrame({"op": "conv", "direction": fields["direction"]}, index=fields.index)
    # One word where input, filter and output have the same layout: "NHWC-NHWC-NHWC" is NHWC.
    parts = {words: words.split("-") for words in fields["layout"].unique()}
    problem["layout"] = fields["layout"].map(
        {words: names[0] if len(set(names)) == 1 else words for words, names in parts.items()}
    )
    problem["dtype_a"] = fields["dtype"]
    for name in ("batch", "groups"):
        problem[name] = fields[name].astype(float)
    for name, (one, two) in sides.items():
        first = fields[one].astype(float)
        second = fields[two].astype(float)
        problem[name] = first.where(forward, second)
        problem[name.replace("in_", "out_")] = second.where(forward, first)
    for name in ("fil", "pad", "stride", "dil"):
        for axis in AXES:
            problem[f"{name}_{axis}"] = fields[f"{name}_{axis}"].astype(float)
    return problem, keys[~keys.index.isin(problem.index)]


def _solvers(values: pd.Series) -> pd.DataFrame:
    """Return one row for each solver, with the line it stands on."""
    entries = []
    for line, value in values.items():
        for entry in value.split(";"):
            if entry:
                entries.append((line, entry))
    cut = [_ENTRY.match(entry) for _, entry in entries]
    fields = pd.DataFrame(
        [match.groups() if match else (None, None, None, None) for match in cut],
        columns=["kernel", "ms", "workspace_bytes", "algorithm"],
    )
    malformed = np.array([match is None for match in cut], dtype=bool)
    return pd.DataFrame(
        {
            LINE: np.array([line for line, _ in entries], dtype=np.int64),
            "kernel": fields["kernel"],
            "algorithm": fields["algorithm"].str.removeprefix("miopenConvolution"),
            "duration_us": pd.to_numeric(fields["ms"], errors="coerce").astype(float)
            * TIME_UNITS["ms"],
            "workspace_bytes": pd.to_numeric(fields["workspace_bytes"], errors="coerce").astype(
                float
            ),
            DEFECT: np.where(malformed, "not-a-solver", ""),
            DEFECT_DETAIL: np.where(malformed, [entry for _, entry in entries], ""),
        }
    )


def _device(path: Path, rows: int, stated: str) -> tuple[str, list[Note]]:
    """Return the device named by the file's name, "" without one."""
    match = _DEVICE.match(path.name)
    if match is None:
        return "", []
    gfx, decimal, hexadecimal = match.groups()
    if decimal:
        cus = int(decimal)
    elif hexadecimal:
        cus = int(hexadecimal, 16)
    else:
        cus = None
    device, assumption = device_of(gfx, cus, stated)
    return device, [Note(assumption, rows)] if assumption else []


def _check_geometry(rows: pd.DataFrame, notes: list[Note]) -> None:
    """Refuse the rows whose output contradicts their input, filter, padding, stride and dilation.

    For each axis ``out = (in + 2 pad - dil (fil - 1) - 1) / stride + 1``, but at least 1: MIOpen's
    ``ConvolutionDescriptor::GetForwardOutputDim`` (MIOpen 3, ``src/convolution.cpp``) times filters
    larger than the padded input with an output of one.
    """
    clamped = np.zeros(len(rows), dtype=bool)
    wrong = np.zeros(len(rows), dtype=bool)
    for axis in AXES:
        size, pad, fil, dil, stride, out = (
            rows[f"{name}_{axis}"].to_numpy()
            for name in ("in", "pad", "fil", "dil", "stride", "out")
        )
        with np.errstate(invalid="ignore", divide="ignore"):
            expected = np.floor((size + 2 * pad - dil * (fil - 1) - 1) / stride) + 1
        clamped |= expected < 1
        wrong |= out != np.maximum(expected, 1)
    wrong &= rows["direction"].notna().to_numpy()
    rows.loc[wrong & rows[DEFECT].eq("").to_numpy(), DEFECT] = "output-size-mismatch"
    if (clamped & ~wrong).any():
        text = "filter larger than the padded input, output taken as 1 (as MIOpen does): kept"
        notes.append(Note(remark("filter-larger-than-input", text), int((clamped & ~wrong).sum())))
