"""The command ``flopcast``, and ``python -m flopcast``: Ctrl-C ends it in one word, while it is imported as well."""

from __future__ import annotations

import sys

INTERRUPTED = 130
"""Exit code of Ctrl-C, that of `options`, which takes a second to import."""


def main() -> None:
    """Import the command line, which takes a while, and run it."""
    try:
        from .commands.app import main as command  # here, where Ctrl-C is awaited

        command()
    except KeyboardInterrupt:
        print("interrupted", file=sys.stderr)
        sys.exit(INTERRUPTED)


if __name__ == "__main__":
    main()
