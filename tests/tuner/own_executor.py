"""An executor of a user's own: in this process, it writes down what it runs."""

from pathlib import Path

from tuner.executors.base import TrialFunction
from tuner.executors.inline import InlineExecutor
from tuner.trial.messages import TrialSpec


class NotingExecutor(InlineExecutor):
    """Adds a line to a file for each trial that it runs.

    Args:
        notes: The file.
        parallel: Trials at a time.
    """

    def __init__(self, notes: str, parallel: int = 1) -> None:
        super().__init__(parallel)
        self._notes = Path(notes)

    @staticmethod
    def check(notes: str, parallel: int = 1) -> None:
        """Refuses what the constructor refuses."""
        del notes
        InlineExecutor.check(parallel)

    def start(self, spec: TrialSpec, folder: Path, function: TrialFunction | bytes | None = None) -> None:
        """Starts it as its base does."""
        with self._notes.open("a") as file:
            file.write(f"{spec.study} {spec.key} of {self.parallel}\n")
        super().start(spec, folder, function)


class Lacking:
    """No executor: it cannot tell its limits, nor free a folder."""

    parallel = free_slots = 1
    start = wait = answer = stop_all = close = print
