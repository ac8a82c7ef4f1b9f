"""`tuner` and `python -m tuner`: whatever is imported is imported in `main`, where Ctrl-C is dealt with."""

import sys

from tuner.support import waiting_line
from tuner.support.interrupts import begin_imports, end_work

_ANSWERED_AT_ONCE = ("help", "version", "-h", "--help", "--version", "-sc", "--shell-completion")


def main() -> int:
    """Imports the command line and runs it.

    Returns:
        The exit status.
    """
    begin_imports()
    if sys.argv[1:2] == ["guide"]:
        from tuner.commands.guide import show_at_once

        shown = show_at_once(sys.argv[2:])
        if shown is not None:
            return shown
    if not set(sys.argv[1:] or ["help"]) & set(_ANSWERED_AT_ONCE):
        waiting_line.show("reading the configuration")
    try:
        from tuner.cli import main as run

        status = run()
    finally:
        waiting_line.erase()
    end_work()
    return status


if __name__ == "__main__":
    sys.exit(main())
