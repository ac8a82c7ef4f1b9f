"""`tuner` and `python -m tuner`: whatever is imported is imported in `main`, where Ctrl-C is dealt with."""

import sys

from tuner.support.interrupts import begin_imports, end_work


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
    from tuner.cli import main as run

    status = run()
    end_work()
    return status


if __name__ == "__main__":
    sys.exit(main())
