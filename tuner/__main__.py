"""`tuner` and `python -m tuner`: whatever is imported is imported in `main`, where Ctrl-C is dealt with."""

import sys

from tuner.support.interrupts import begin_imports, end_work


def main() -> int:
    """Imports the command line and runs it.

    Returns:
        The exit status.
    """
    begin_imports()
    from tuner.cli import main as run

    status = run()
    end_work()
    return status


if __name__ == "__main__":
    sys.exit(main())
