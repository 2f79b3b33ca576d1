"""The embedded table, made from the tables of AITER: ``python -m flopcast.benchmarks.embedded_table FOLDER OUT``.

FOLDER holds AITER's ``aiter/configs``, as ``flopcast fetch aiter`` brings them. All FP8 block-scale
matrix products of host and target are kept.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence
from pathlib import Path

import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq

from ..datasets import DEFAULT_HOST, DEFAULT_TARGET
from ..errors import FlopcastError
from ..readers import read

SOURCE = {
    "source": "https://github.com/ROCm/aiter, folder aiter/configs",
    "licence": "MIT, Copyright (c) Advanced Micro Devices, Inc. All rights reserved.",
    "content": "FP8 block-scale matrix products, the fastest kernel that AITER's tuner found, in flopcast's columns",
}
"""What the metadata of the file say."""
SIZES = ["m", "n", "k"]
COLUMNS = (
    "op",
    "family",
    *SIZES,
    "dtype_a",
    "dtype_b",
    "dtype_out",
    "scale_block",
    "device",
    "duration_us",
    "tuned",
    "campaign",
)


def embedded_rows(folder: Path) -> pd.DataFrame:
    """Return the rows of the embedded table: all products of the host and of the target."""
    rows = read(
        [folder],
        where={"op": "gemm", "family": "a8w8_blockscale", "device": [DEFAULT_HOST, DEFAULT_TARGET]},
    )
    table = rows.frame[[*COLUMNS]].astype(dict.fromkeys(SIZES, "int32"))
    return table.sort_values(["device", "campaign", "n", "k", "m"], ignore_index=True)


def write(table: pd.DataFrame, commit: str, out: Path) -> None:
    """Write the table as Parquet, with its source and licence."""
    columns = pa.Table.from_pandas(table, preserve_index=False).replace_schema_metadata(
        {**SOURCE, "commit": commit}
    )
    pq.write_table(columns, out, compression="zstd", version="2.6")


def main(arguments: Sequence[str] | None = None) -> int:
    """Make the table; return the exit code."""
    parser = argparse.ArgumentParser(
        prog="python -m flopcast.benchmarks.embedded_table", description=__doc__
    )
    parser.add_argument("folder", type=Path, help="AITER's aiter/configs")
    parser.add_argument("out", type=Path, help="the Parquet file to write")
    parser.add_argument(
        "--commit", default="not recorded", help="AITER's commit that the folder is of"
    )
    options = parser.parse_args(arguments)
    try:
        table = embedded_rows(options.folder)
    except FlopcastError as error:
        print(error, file=sys.stderr)
        return 2
    write(table, options.commit, options.out)
    print(f"Wrote {options.out}: {table['device'].value_counts().to_dict()}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
