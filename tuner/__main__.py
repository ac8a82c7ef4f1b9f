"""`tuner` and `python -m tuner`: whatever is imported is imported in `main`, where Ctrl-C is dealt with."""

import sys

from tuner.support import waiting_line
from tuner.support.interrupts import begin_imports, end_work


def main() -> int:
    """Imports the command line and runs it.

    Returns:
        The exit status.
    """
    begin_imports()
    from tuner.commands.at_once import COMPLETION, HELP, answered_at_once, as_meant

    words = as_meant(sys.argv[1:])
    answered = answered_at_once(words)
    if answered is not None:
        return answered
    if not set(words) & {*HELP, *COMPLETION}:
        waiting_line.show("reading the configuration")
    try:
        from tuner.cli import main as run
        from tuner.support.left_threads import end_without_threads

        status = run()
    finally:
        waiting_line.erase()
    end_work()
    end_without_threads(status)
    return status


if __name__ == "__main__":
    sys.exit(main())
