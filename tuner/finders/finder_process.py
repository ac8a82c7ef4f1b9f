"""The code that the process of a finder's run executes. It does not import Optuna, which the process does not need."""

import json
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Final

from tuner.support.text_files import atomic_write
from tuner.trial.context import TrialContext
from tuner.trial.folder import write_objective
from tuner.trial.messages import JsonDict

FINDING_FILE: Final = "finding.json"
"""In the folder of a run: what it measured."""


@dataclass(frozen=True)
class Measured:
    """Measurements of a run: its objectives, which Optuna gets, and all further findings."""

    values: tuple[float, ...]
    finding: JsonDict = field(default_factory=dict)


@dataclass(frozen=True, repr=False)
class FinderJob:
    """The callable of a run's process; it is sent there by value."""

    work: Callable[[TrialContext, JsonDict], Measured]

    def __call__(self, context: TrialContext) -> None:
        """Works at the point of this run and writes down what came of it."""
        measured = self.work(context, point_of(context.spec.config["overrides"]))
        atomic_write(context.folder / FINDING_FILE, json.dumps(measured.finding))
        write_objective(context.folder, {"values": list(measured.values)})


def lines_of(point: JsonDict) -> list[str]:
    """A point as text, a line for each of its values."""
    return [f"{name}={json.dumps(value)}" for name, value in point.items()]


def point_of(lines: Sequence[str]) -> JsonDict:
    """The point again."""
    return {name: json.loads(value) for name, _, value in (line.partition("=") for line in lines)}
