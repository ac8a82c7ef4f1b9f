"""What a feature changes in a study, and what it works out from its trials."""

from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Protocol

import optuna

from tuner.features import nothing, parts
from tuner.results.records import RunRecord
from tuner.study.definition import StudyDefinition
from tuner.trial.messages import JsonDict


class Selection(Protocol):
    """Who goes on from stage to stage."""

    def entrants(self, screened: Sequence[RunRecord], count: int) -> tuple[RunRecord, ...]:
        """Those that go on from the screening stage, best first."""

    def chosen(self, confirmed: Sequence[RunRecord], candidates: Sequence[RunRecord]) -> tuple[RunRecord, ...]:
        """What the study chooses of the candidates, the winner first; none if none has come to its end."""

    def kept(self, winners: Sequence[RunRecord]) -> Mapping[str, object]:
        """What the storage keeps of the choice besides the winner."""


@dataclass(frozen=True)
class InStudy:
    """What a feature changes in a study, and what it works out from its trials.

    Attributes:
        worked_out: Facts by key, for a summary that may take seconds. Given the study of the screening stage or of a
            sweep, its space as `Space.describe` gives it, and whether higher values of the first objective are better.
        seen: Facts by key, for any summary.
        selection: Who goes on, where it is not who has the best score.
        undecided: What the storage keeps of a choice by key, as it is while more trials may bring another.
        unpruned: Why no run of a study is pruned, as a sentence, given what the storage keeps as its definition; empty:
            runs may be.
        best_jobs: The best of the good jobs of a sweep by number, given the losses of each; none: the first by losses.
    """

    worked_out: Callable[[optuna.Study, JsonDict, bool], Mapping[str, object]] = nothing
    seen: Callable[[optuna.Study], Mapping[str, object]] = nothing
    selection: Callable[[StudyDefinition], Selection | None] = nothing
    undecided: Mapping[str, object] = field(default_factory=dict)
    unpruned: Callable[[JsonDict], str] = nothing
    best_jobs: Callable[[Mapping[int, tuple[float, ...]]], Collection[int]] = nothing


def why_unpruned(about: JsonDict) -> str:
    """Why no run of a study is pruned; empty: runs may be."""
    return next(filter(None, (part.unpruned(about) for part in parts(InStudy))), "")
