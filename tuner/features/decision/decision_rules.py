"""The rules that can choose the winner, under their names in `study.decision`."""

from dataclasses import dataclass, replace
from typing import Final

from tuner.errors import UserError
from tuner.features.decision.facts import DECISION
from tuner.results.protocol import Decider, Search, StagePlan, StudySettings
from tuner.results.records import CONFIRM, RACE
from tuner.trial.messages import JsonDict

SCREENED_FOR_EACH: Final = 2
"""Whole runs of screening for each run behind it, as in study=quick, where a budget leaves time for more of both.

Replayed studies of 90 runs had a regret that was lower by 13 % [2, 25] than with ten runs behind screening
(`tests/benchmarks/search.md`).
"""
MOST_BY_BUDGET: Final = 50
"""Runs behind screening that a budget brings: about as many as study=full has."""


@dataclass(frozen=True)
class ByAllRuns:
    """The mean over all runs of a candidate, those of screening and race included."""

    name: str = "all_runs"

    def check(self, settings: StudySettings, search: Search | None) -> None:
        """Refuses what has no one score, or no screening."""
        _check(self.name, settings, search)

    def planned(self, stages: tuple[StagePlan, ...], num_screened: float) -> tuple[StagePlan, ...]:
        """The same runs."""
        del num_screened
        return stages


@dataclass(frozen=True)
class ByModel:
    """The posterior mean of a model of all runs, which also says whose run is the next."""

    name: str = "model"

    def check(self, settings: StudySettings, search: Search | None) -> None:
        """Refuses what has no one score, or no screening, or goes by another statistic than the mean."""
        _check(self.name, settings, search)
        if settings.over_seeds != "mean":
            raise UserError(
                f"study.decision={self.name} goes by the mean over seeds: leave out study.over_seeds="
                f"{settings.over_seeds}, or take study.decision=confirmed"
            )

    def planned(self, stages: tuple[StagePlan, ...], num_screened: float) -> tuple[StagePlan, ...]:
        """As many runs behind screening as race and confirmation would have, as one stage; or more within a budget."""
        again = [plan for plan in stages if plan.stage in (RACE, CONFIRM)]
        num_by_budget = min(int(num_screened / SCREENED_FOR_EACH), MOST_BY_BUDGET)
        num_runs = max(sum(plan.num_runs for plan in again), num_by_budget)
        return tuple(
            _shared(plan, num_runs) if plan.stage == CONFIRM else plan for plan in stages if plan.stage != RACE
        )


def _shared(confirm: StagePlan, num_runs: int) -> StagePlan:
    return replace(
        confirm,
        env_steps=num_runs * (confirm.env_steps // confirm.num_runs),
        what="runs on fresh seeds, each of a configuration that a model selects to make the choice more certain",
        shared_runs=num_runs,
    )


CONFIRMED: Final = "confirmed"
"""The scores on the seeds of confirmation."""

DECISIONS: Final[dict[str, Decider | None]] = {
    CONFIRMED: None,
    **{one.name: one for one in (ByAllRuns(), ByModel())},
}
"""By what is typed."""


def preferred(settings: StudySettings, search: Search | None, begun: JsonDict | None) -> str:
    """The default rule: of a continued study the one that it was begun with; of a new one the model, wherever it can.

    In 500 replayed studies the regret of its winners was 5 % [2, 9] smaller than by fresh seeds alone, and the error
    of the score that they were chosen by a third smaller (`tests/benchmarks/protocols.py`).
    """
    if begun is not None:
        return str(begun.get(DECISION.key_kept, CONFIRMED))
    has_one_score = not settings.others and not settings.constraints and settings.over_seeds == "mean"
    return ByModel().name if has_one_score and search is None else CONFIRMED


def _check(name: str, settings: StudySettings, search: Search | None) -> None:
    if settings.others:
        raise UserError(
            f"study.decision={name} goes by one score, and study.metric names several: take study.decision=confirmed"
        )
    if search is not None:
        raise UserError(
            f"study.decision={name} chooses among screened trials, and {search.name} has none: take "
            "study.decision=confirmed"
        )
