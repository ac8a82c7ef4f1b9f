"""The console script: whatever is imported is imported in `main`, where Ctrl-C is dealt with."""

from tuner.interrupts import begin_imports


def main() -> int:
    """Imports the command line and runs it.

    Returns:
        The exit status.
    """
    begin_imports()
    from tuner.cli import main as run

    return run()
