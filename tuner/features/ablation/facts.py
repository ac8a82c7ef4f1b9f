"""An ablation: what was measured on the way from the default configuration to a study's winner. Nothing runs here.

The way is that of Fawcett & Hoos (2016, "Analysing differences between algorithm configurations through ablation",
Journal of Heuristics 22): from where one is, every change that is left is tried by itself, and the best is kept. Who is
best is found by a race on seeds of its own; what each step brings is measured on others, as a score that was used to
choose is too good by construction.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, fields
from typing import Any, Final

from tuner.config.kinds import conform_all
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

    def describe(self, name: str = "") -> str:
        """`gamma 0.99 -> 0.98`, by this name or else its path."""
        return f"{name or self.path} {format_value(self.before)} -> {format_value(self.after)}"


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


def _changes(listed: Sequence[Mapping[str, Any]]) -> tuple[Change, ...]:
    return tuple(Change(**one) for one in listed)


_ABLATION = {
    "winner": "str",
    "seeds": "list[int]",
    "default": "list[float]",
    "steps": "list[dict[str, Any]]",
    "left_out": "list[dict[str, Any]]",
    "ranges": "list[dict[str, Any]]",
    "skipped": "list[dict[str, Any]]",
    "num_runs": "int",
    "num_failed": "int",
    "seconds": "float",
}
_RANGE = {"path": "str", **dict.fromkeys(("value", "low", "high"), "int | float"), "checked": "list[dict[str, Any]]"}
_CHECKED = {"value": "int | float", "scores": "list[float]"}
_STEP = {"changes": "list[dict[str, Any]]", "scores": "list[float]"}
_LEFT_OUT = {"steps": "list[int]", "scores": "list[float]"}
_CHANGE = {"path": "str", **dict.fromkeys(("before", "after"), "bool | int | float | str | None")}


def _check(kept: Mapping[str, Any]) -> None:
    """Compares what a storage holds with what `dataclasses.asdict` makes of an ablation."""
    conform_all(kept, _ABLATION)
    for kind, listed in ((_STEP, kept["steps"]), (_LEFT_OUT, kept["left_out"])):
        for one in listed:
            conform_all(one, kind)
    for change in [*kept["skipped"], *(change for step in kept["steps"] for change in step["changes"])]:
        conform_all(change, _CHANGE)
    scores = [kept["default"], *(one["scores"] for one in (*kept["steps"], *kept["left_out"]))]
    num_seeds = len(kept["seeds"])
    if num_seeds < 2 or not kept["steps"] or any(len(one) != num_seeds for one in scores):
        raise UserError("its ablation has not one score for each seed")
    for one in kept["ranges"]:
        conform_all(one, _RANGE)
        for checked in one["checked"]:
            conform_all(checked, _CHECKED)
            if len(checked["scores"]) == 1 or len(checked["scores"]) > num_seeds:
                raise UserError(f"its ablation has other scores of {one['path']} than of the winner")


ABLATION: Final = Fact[Ablation | None](
    "ablation", default=None, read=Ablation.of, annotation="dict[str, Any]", check=_check, stage=ABLATE
)
"""What was measured between the default configuration and the winner; None: nothing."""
