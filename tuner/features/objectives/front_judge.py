"""Ends runs early that others are ahead of in every objective, beyond chance."""

from collections.abc import Callable
from typing import Final

import optuna

from tuner.features.objectives.leads import (
    Objectives,
    RungMargins,
    describe_margins,
    margins_from_json,
    margins_to_json,
    measure_margins,
)
from tuner.features.objectives.pareto_front import Losses
from tuner.results.objective import STEP_TOLERANCE
from tuner.results.records import RunRecord
from tuner.study.definition import StudyDefinition
from tuner.study.run_registry import Run, RunRegistry
from tuner.trial.messages import JsonDict, Verdict

MARGINS: Final = "margins"
"""What the storage keeps of the rungs of a study: measured once, so that a study that goes on decides alike."""


class FrontJudge:
    """Answers the reports of screening runs.

    A run is compared with complete ones only. A run that is pruned here is told without a value: it has none of some
    objectives.

    Args:
        definition: The study.
        study: Optuna's, of the screening stage.
        note: Told where runs may be pruned, once that is known.
    """

    def __init__(self, definition: StudyDefinition, study: optuna.Study, note: Callable[[str], object]) -> None:
        self._definition = definition
        self._study = study
        self._note = note
        self._pruning = definition.settings.pruning
        self._points = self._pruning.points(definition.num_points)
        self._complete: list[RunRecord] = []
        self._early: dict[int, list[Losses]] = {point: [] for point in self._points}
        self._rungs: dict[int, RungMargins] | None = None
        self._hopeless: set[str] = set()
        if MARGINS in study.user_attrs:
            self._rungs = _by_point(margins_from_json(study.user_attrs[MARGINS]["rungs"]))

    def answer(self, registry: RunRegistry, run: Run, step: float) -> Verdict:
        """The verdict on a run that has just reported at this step."""
        del registry
        passed = [point for point in self._points if point not in run.rungs and step >= self._at(point)]
        run.rungs.update(passed)
        return "prune" if run.key in self._hopeless or any(self._is_behind(run, one) for one in passed) else "continue"

    def catch_up(self, registry: RunRegistry, run: Run) -> None:
        """Takes in what a run reported while nobody listened: its last report may still be unanswered."""
        for step, _ in run.points[:-1]:
            run.rungs.update(point for point in self._points if step >= self._at(point))
        if run.points and self.answer(registry, run, run.points[-1][0]) == "prune":
            self._hopeless.add(run.key)

    def see(self, record: RunRecord) -> None:
        """Takes in a run that has ended, and measures the margins once enough runs are complete."""
        objectives = self._objectives(record)
        if not record.complete or not record.feasible or objectives.final(record) is None:
            return
        self._complete.append(record)
        for point, early in self._early.items():
            losses = objectives.early(record.curve, record.times, point / self._definition.num_points)
            early += [] if losses is None else [losses]
        if self._rungs is None and len(self._complete) >= self._pruning.min_trials:
            self._decide(objectives)

    def _decide(self, objectives: Objectives) -> None:
        rungs = measure_margins(self._pruning, self._definition.num_points, objectives, self._complete)
        self._rungs = _by_point(rungs)
        num_trials = len(self._complete)
        self._study.set_user_attr(MARGINS, {"num_trials": num_trials, "rungs": margins_to_json(rungs)})
        self._note(describe_margins(rungs, num_trials))

    def _at(self, point: int) -> float:
        return point / self._definition.num_points - STEP_TOLERANCE

    def _is_behind(self, run: Run, point: int) -> bool:
        rung = (self._rungs or {}).get(point)
        if rung is None or not rung.enabled:
            return False
        own = self._objectives(*self._complete[:1]).early(run.points, run.timing.seconds, rung.fraction)
        return own is not None and any(rung.is_behind(own, other) for other in self._early[point])

    def _objectives(self, *first: RunRecord) -> Objectives:
        """With the time limit that the first complete run has set, if one goes by it."""
        limit = next((run.time_limit for run in (*self._complete[:1], *first)), 0.0)
        return Objectives(self._definition.metric, self._definition.others, limit)


def _by_point(rungs: tuple[RungMargins, ...]) -> dict[int, RungMargins]:
    return {rung.point: rung for rung in rungs}


def describe_kept(study: optuna.Study) -> str:
    """What was decided about the rungs of a study; empty: nothing yet."""
    kept: JsonDict | None = study.user_attrs.get(MARGINS)
    return "" if kept is None else describe_margins(margins_from_json(kept["rungs"]), kept["num_trials"])
