"""The command ``flopcast``, and ``python -m flopcast``: Ctrl-C ends it in one word, while it is imported as well."""

from __future__ import annotations

import atexit
import gc
import sys

INTERRUPTED = 130  # exit code of Ctrl-C, that of `options`, which takes a second to import


def main() -> None:
    """Import the command line, which takes a while, and run it."""
    # Python would look through all modules for circles before it ends: 0.15 s
    atexit.register(gc.freeze)
    try:
        from .commands.app import main as command  # here, where Ctrl-C is awaited

        command()
    except KeyboardInterrupt:
        print("interrupted", file=sys.stderr)
        sys.exit(INTERRUPTED)


if __name__ == "__main__":
    main()
