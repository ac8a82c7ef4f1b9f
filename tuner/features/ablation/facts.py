"""An ablation: what was measured on the way from the default configuration to a study's winner. Nothing runs here.

The way is that of Fawcett & Hoos (2016, "Analysing differences between algorithm configurations through ablation",
Journal of Heuristics 22): from where one is, every change that is left is tried by itself, and the best is kept. The
best is found by a race on seeds of its own; the gain of each step is measured on others, as a score that was used to
choose is too good by construction.
"""

from dataclasses import dataclass
from typing import Final

from tuner.errors import UserError
from tuner.results.number_format import format_value
from tuner.results.records import Fact, Scalar

ABLATE: Final = "ablate"
"""Behind the study: its runs are no part of the result, and not among those of a summary."""


@dataclass(frozen=True)
class Change:
    """One parameter on its way from the default configuration to the winner.

    Attributes:
        path: Its place in the configuration.
        before: Its value in the default configuration.
        after: In the winner.
    """

    path: str
    before: Scalar
    after: Scalar

    @property
    def words(self) -> str:
        """`agent.gamma 0.99 -> 0.98`."""
        return f"{self.path} {format_value(self.before)} -> {format_value(self.after)}"


@dataclass(frozen=True)
class AblationStep:
    """One step of the path.

    Attributes:
        changes: The changes of this step, on top of all before it.
        scores: From then on, by seed in the order of `Ablation.seeds`.
    """

    changes: tuple[Change, ...]
    scores: tuple[float, ...]


@dataclass(frozen=True)
class LeftOut:
    """The winner without some of its changes.

    Attributes:
        steps: Indices of the steps that were not taken.
        scores: By seed.
    """

    steps: tuple[int, ...]
    scores: tuple[float, ...]


@dataclass(frozen=True)
class CheckedValue:
    """The winner with another value of one parameter, measured.

    Attributes:
        value: Of the parameter.
        scores: On the first of `Ablation.seeds`, as many as it took to tell; none where this cannot be run at all.
    """

    value: float
    scores: tuple[float, ...] = ()


@dataclass(frozen=True)
class CheckedRange:
    """How far one parameter of the winner has been moved.

    Attributes:
        path: Its place in the configuration.
        value: The winner's.
        low: Least value of the search.
        high: Greatest.
        checked: By value.
    """

    path: str
    value: float
    low: float
    high: float
    checked: tuple[CheckedValue, ...]


@dataclass(frozen=True)
class Ablation:
    """Measurements of an ablation.

    Attributes:
        winner: Label of the configuration that the path leads to.
        seeds: On which everything here was measured; by them nothing was chosen but what was left out again.
        default: Scores of the default configuration.
        steps: From there to the winner.
        left_out: Scores of the winner without the steps that brought nothing.
        skipped: Changes that are too small to be asked about; they were left out from the beginning.
        num_runs: In all, those of the races included.
        num_failed: Of these, failed; they count with the worst score.
        seconds: Summed over runs.
        ranges: How far parameters may move, all others as the winner has them; nothing where that was not asked.
    """

    winner: str
    seeds: tuple[int, ...]
    default: tuple[float, ...]
    steps: tuple[AblationStep, ...]
    left_out: tuple[LeftOut, ...] = ()
    skipped: tuple[Change, ...] = ()
    num_runs: int = 0
    num_failed: int = 0
    seconds: float = 0.0
    ranges: tuple[CheckedRange, ...] = ()


def _check(found: Ablation | None) -> None:
    """Refuses an ablation that has not one score for each seed."""
    if found is None:
        return
    scores = [found.default, *(one.scores for one in found.steps), *(one.scores for one in found.left_out)]
    num_seeds = len(found.seeds)
    if num_seeds < 2 or not found.steps or any(len(one) != num_seeds for one in scores):
        raise UserError("its ablation has not one score for each seed")
    for one in found.ranges:
        if any(len(checked.scores) == 1 or len(checked.scores) > num_seeds for checked in one.checked):
            raise UserError(f"its ablation has other scores of {one.path} than of the winner")


ABLATION: Final = Fact[Ablation | None]("ablation", None, Ablation, _check, stage=ABLATE)
"""The ablation of the winner against the default configuration; None: there was none."""
