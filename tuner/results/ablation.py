"""An ablation: what was measured on the way from the default configuration to a study's winner. Nothing runs here.

The way is that of Fawcett & Hoos (2016, "Analysing differences between algorithm configurations through ablation",
Journal of Heuristics 22): from where one is, every change that is left is tried by itself, and the best is kept. Who is
best is found by a race on seeds of its own; what each step brings is measured on others, as a score that was used to
choose is too good by construction.
"""

from collections.abc import Mapping
from dataclasses import dataclass, fields
from typing import TYPE_CHECKING, Any, Final

from tuner.errors import UserError

if TYPE_CHECKING:
    from tuner.results.records import Scalar

MIN_SEEDS: Final = 5
"""With fewer there is no interval, and a difference means nothing without one."""

RACE_SEEDS: Final = (3, 16)
"""From the first at which anybody can drop out to the last that the test of a race is made for."""

MOST_CHECKS: Final = 8
"""As many halvings leave less than a hundredth of what there was."""


@dataclass(frozen=True)
class AblationSettings:
    """How large an ablation is.

    Attributes:
        num_seeds: On which each configuration of the path is measured.
        num_race_seeds: Others, on which it is found out which change comes next.
        until: Once this share of the gain is reached in the race, what is left to change is changed together; None:
            each change by itself to the end.
        ranges: Whether it is also measured how far each parameter may move; or which parameters, by their endings.
        num_checks: At so many values on each side of the winner's, at most, the score of such a parameter is measured.
    """

    num_seeds: int = 10
    num_race_seeds: int = 5
    until: float | None = 0.95
    ranges: bool | tuple[str, ...] = False
    num_checks: int = 3

    def __post_init__(self) -> None:
        """Refuses what measures nothing."""
        if self.num_seeds < MIN_SEEDS:
            raise UserError(
                f"num_seeds={self.num_seeds} must be at least {MIN_SEEDS}: on fewer there is no interval, and no "
                "difference can be told from luck"
            )
        least, most = RACE_SEEDS
        if not least <= self.num_race_seeds <= most:
            raise UserError(f"num_race_seeds={self.num_race_seeds} must be from {least} to {most}")
        if self.until is not None and not 0.0 < self.until <= 1.0:
            raise UserError(
                f"until={self.until:g} must be a share of the gain, above 0 and at most 1, or null for every change by "
                "itself"
            )
        if not 1 <= self.num_checks <= MOST_CHECKS:
            raise UserError(f"num_checks={self.num_checks} must be from 1 to {MOST_CHECKS}")
        if self.ranges == ():
            raise UserError("ranges=[] names no parameter: type ranges=true for all, or ranges=false for none")

    def looks_ahead(self, num_changes: int) -> bool:
        """Whether it is asked on the way how much of the gain is reached."""
        return self.until is not None and num_changes > 2

    def fewest_runs(self, num_changes: int) -> int:
        """Runs where there is a gain, if races end as soon as they can, and the first change brings all of it."""
        least = RACE_SEEDS[0]
        if self.looks_ahead(num_changes):
            return num_changes * least + 3 * self.num_race_seeds - least + 3 * self.num_seeds
        return _race_pairs(num_changes) * least + (num_changes + 1) * self.num_seeds

    def most_runs(self, num_changes: int) -> int:
        """Runs if every step is raced to its end, and every change turns out to need another look."""
        if num_changes == 1:
            return 2 * self.num_seeds
        ends = 2 if self.looks_ahead(num_changes) else 0
        return (_race_pairs(num_changes) + ends) * self.num_race_seeds + 2 * (num_changes + 1) * self.num_seeds


def _race_pairs(num_changes: int) -> int:
    """Configurations in the races of a whole path: one fewer in each, and the last change needs none."""
    return num_changes * (num_changes + 1) // 2 - 1


@dataclass(frozen=True)
class Change:
    """One parameter on its way from the default configuration to the winner.

    Attributes:
        path: Its place in the configuration.
        before: Its value in the default configuration.
        after: In the winner.
    """

    path: str
    before: "Scalar"
    after: "Scalar"


@dataclass(frozen=True)
class AblationStep:
    """One step of the path.

    Attributes:
        changes: What was changed, on top of all before it.
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
    """What an ablation has measured.

    Attributes:
        winner: Label of the configuration that the path leads to.
        seeds: On which everything here was measured; by them nothing was chosen but what was left out again.
        default: Scores of the default configuration.
        steps: From there to the winner.
        left_out: What the winner comes to without the steps that brought nothing.
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

    @classmethod
    def of(cls, content: Mapping[str, Any]) -> "Ablation":
        """The ablation that `dataclasses.asdict` made this of, whatever JSON has made of its tuples."""
        told = {one.name: content[one.name] for one in fields(cls)}
        steps = tuple(AblationStep(_changes(one["changes"]), tuple(one["scores"])) for one in told["steps"])
        left_out = tuple(LeftOut(tuple(one["steps"]), tuple(one["scores"])) for one in told["left_out"])
        ranges = tuple(map(_range, told["ranges"]))
        return cls(
            **{**told, "steps": steps, "left_out": left_out, "skipped": _changes(told["skipped"]), "ranges": ranges}
            | {name: tuple(told[name]) for name in ("seeds", "default")}
        )


def _range(one: Mapping[str, Any]) -> CheckedRange:
    checked = tuple(CheckedValue(value["value"], tuple(value["scores"])) for value in one["checked"])
    return CheckedRange(**{**one, "checked": checked})


def _changes(listed: list[Mapping[str, Any]]) -> tuple[Change, ...]:
    return tuple(Change(**one) for one in listed)
