"""R as a peer: a process that holds the data and does its task each time it is asked, so that only the task counts.

It has one BLAS thread, as the other contenders have.
"""

from __future__ import annotations

import os
import shutil
import subprocess
from pathlib import Path
from tempfile import TemporaryDirectory
from types import TracebackType
from typing import Self

import numpy as np

_THREADS = ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS", "BLIS_NUM_THREADS")
_LOOP = """
options(warn = -1)
dims <- scan(file.path(folder, "dims"), quiet = TRUE)
X <- matrix(readBin(file.path(folder, "X"), "double", dims[1] * dims[2]), dims[1], dims[2])
y <- readBin(file.path(folder, "y"), "double", dims[1])
input <- file("stdin", "r")
while (length(line <- readLines(input, 1)) > 0) {
  given <- as.numeric(line)
  set.seed(0)
  cat(format(task(), digits = 17), "\\n")
  flush(stdout())
}
"""


class RSession:
    """An R process that answers with numbers.

    Parameters
    ----------
    code : str
        Defines ``task()``, which returns a vector of numbers and may use the matrix ``X``, the
        vector ``y`` and the number ``given`` with the call.
    X : ndarray of shape (n, p)
    y : ndarray of shape (n,)
    """

    def __init__(self, code: str, X: np.ndarray, y: np.ndarray) -> None:
        self._folder = TemporaryDirectory()
        folder = Path(self._folder.name)
        (folder / "dims").write_text(f"{X.shape[0]} {X.shape[1]}", encoding="ascii")
        (folder / "X").write_bytes(np.asfortranarray(X, dtype=np.float64).tobytes(order="F"))
        (folder / "y").write_bytes(np.asarray(y, dtype=np.float64).tobytes())
        script = folder / "task.R"
        script.write_text(f"folder <- '{folder}'\n{code}\n{_LOOP}", encoding="utf-8")
        self._process = subprocess.Popen(
            ["Rscript", "--vanilla", str(script)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
            env={**os.environ, **dict.fromkeys(_THREADS, "1")},
        )

    def __call__(self, given: float = 0.0) -> np.ndarray:
        """Do the task; return its numbers.

        Raises
        ------
        RuntimeError
            When R gave none; it says why on the standard error output.
        """
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        self._process.stdin.write(f"{given!r}\n")
        self._process.stdin.flush()
        line = self._process.stdout.readline()
        if not line:
            raise RuntimeError(f"R ended with code {self._process.wait()}")
        return np.array(line.split(), dtype=np.float64)

    def close(self) -> None:
        """End the process and remove its files."""
        self._process.communicate()
        self._folder.cleanup()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self.close()


def r_lacks(package: str) -> str:
    """Return why R cannot load a package, "" where it can."""
    if shutil.which("Rscript") is None:
        return "Rscript is not installed"
    command = [
        "Rscript",
        "--vanilla",
        "-e",
        f"quit(status = !requireNamespace('{package}', quietly = TRUE))",
    ]
    return (
        f"R has no {package}"
        if subprocess.run(command, capture_output=True, check=False).returncode
        else ""
    )
