"""An executor of a user's own: in this process, it writes down what it runs."""

from pathlib import Path

from tuner.executors.base import Event, TrialEnded, TrialFunction
from tuner.executors.inline import InlineExecutor
from tuner.trial.messages import Outcome, TrialResult, TrialSpec

NOTES = "notes.txt"


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


class LosingExecutor(InlineExecutor):
    """Loses the first runs with all that they have reported, as if their machine were gone at their end.

    Args:
        num_lost: How many are lost.
        too_often: Whether they are given up.
    """

    def __init__(self, num_lost: int, too_often: bool = False) -> None:
        super().__init__(1)
        self._lost = TrialResult(Outcome.LOST, "its machine is gone", deterministic=too_often)
        self._left = num_lost

    @staticmethod
    def check(num_lost: int, too_often: bool = False) -> None:
        """Takes anything."""

    def wait(self, timeout_s: float | None = None) -> list[Event]:
        """As its base does, but for the ends of the first."""
        events = super().wait(timeout_s)
        for index, event in enumerate(events):
            if isinstance(event, TrialEnded) and self._left > 0:
                self._left -= 1
                events[index] = TrialEnded(event.key, self._lost)
        return events


class Lacking:
    """No executor: it cannot tell its limits, nor free a folder."""

    parallel = free_slots = 1
    start = wait = answer = stop_all = close = print
