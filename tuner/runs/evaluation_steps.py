"""Where the evaluations of a run took place: a phase of training ends behind the point of the grid that it passes."""

import json
from collections.abc import Iterable
from pathlib import Path

from tuner.support.text_files import atomic_write, read_by_steps
from tuner.trial.folder import EVALUATED_FILE


class EvaluationPlaces:
    """Environment steps done at each evaluation, by those planned; kept in the run's folder.

    Args:
        folder: Of the run.
    """

    def __init__(self, folder: Path) -> None:
        self._path = folder / EVALUATED_FILE
        self._done = {planned: int(done) for planned, done in read_by_steps(self._path).items()}

    def note(self, planned: Iterable[int], num_env_steps: int) -> None:
        """Evaluations that were planned there take place after these numbers of steps."""
        self._done |= dict.fromkeys(planned, num_env_steps)
        atomic_write(self._path, json.dumps(self._done))

    def of(self, planned: int) -> int:
        """Steps done at the evaluation that was planned there; as planned where nobody noted it."""
        return self._done.get(planned, planned)
