"""Ends runs early that others are ahead of in every objective, beyond chance."""

from collections.abc import Callable
from dataclasses import asdict

import optuna

from tuner.features.objectives.facts import MARGINS
from tuner.features.objectives.leads import (
    Margins,
    Objectives,
    describe_margins,
    measured,
    rung_points,
)
from tuner.features.objectives.pareto_front import Losses
from tuner.results.metric import STEP_TOLERANCE, make_metric, make_others
from tuner.results.records import RunRecord
from tuner.study.definition import StudyDefinition
from tuner.study.run_registry import Run, RunRegistry
from tuner.study.storage.store import DEFINITION
from tuner.trial.messages import JsonDict, Verdict


class FrontJudge:
    """Answers the reports of screening runs.

    A run is compared with complete ones only. Optuna gets no value of a run that ends here: it has none of some
    objectives.

    Args:
        definition: The study.
        study: Optuna's, of the screening stage.
        note: Called with where runs may be pruned, once that is known.
    """

    def __init__(self, definition: StudyDefinition, study: optuna.Study, note: Callable[[str], object]) -> None:
        self._definition = definition
        self._study = study
        self._note = note
        self._pruning = definition.settings.pruning
        self._points = rung_points(self._pruning, definition.num_points)
        self._final: dict[int, Losses] = {}  # by number of the run
        self._early: dict[int, dict[int, Losses | None]] = {point: {} for point in self._points}
        self._known = _kept(study)
        self._limit = 0.0
        self._hopeless: set[str] = set()

    def answer(self, registry: RunRegistry, run: Run, step: float) -> Verdict:
        """The verdict on a run that has just reported at this step."""
        del registry
        passed = [point for point in self._points if point not in run.rungs and step >= self._at(point)]
        run.rungs.update(passed)
        ends = run.key in self._hopeless or any(self._is_hopeless(run, point) for point in passed)
        return "prune" if ends else "continue"

    def catch_up(self, registry: RunRegistry, run: Run) -> None:
        """Takes in what a run reported while nobody listened: its last report may still be unanswered."""
        for step, _ in run.points[:-1]:
            run.rungs.update(point for point in self._points if step >= self._at(point))
        if run.points and self.answer(registry, run, run.points[-1][0]) == "prune":
            self._hopeless.add(run.key)

    def see(self, record: RunRecord) -> None:
        """Takes in a run that has ended, and measures margins when enough runs are complete."""
        self._limit = self._limit or record.time_limit
        final = self._objectives.final(record)
        if not (record.complete and record.feasible) or final is None:
            return
        num_points = self._definition.num_points
        self._final[record.number] = final
        for point, early in self._early.items():
            early[record.number] = self._objectives.early(record.curve, record.times, point / num_points)
        order = sorted(self._final)  # not that in which they ended, which a continued study does not know
        early_ones = {point: [early[number] for number in order] for point, early in self._early.items()}
        final_ones = [self._final[number] for number in order]
        known = measured(self._pruning, num_points, self._known, early_ones, final_ones)
        if known is not None:
            self._keep(known)

    def _keep(self, known: Margins) -> None:
        before, self._known = self._known, known
        self._study.set_user_attr(MARGINS.key_kept, asdict(known))
        if before is None or before.used != known.used:
            self._note(describe_margins(self._objectives, known))

    def _at(self, point: int) -> float:
        return point / self._definition.num_points - STEP_TOLERANCE

    def _is_hopeless(self, run: Run, point: int) -> bool:
        rung = next((one for one in self._known.used if one.point == point), None) if self._known else None
        if rung is None:
            return False
        own = self._objectives.early(run.points, run.timing.seconds, rung.fraction)
        known = [other for other in self._early[point].values() if other is not None]
        return own is not None and rung.is_hopeless(own, known)

    @property
    def _objectives(self) -> Objectives:
        """With the time limit that the first complete run has set, if a score goes by one."""
        return Objectives(self._definition.metric, self._definition.others, self._limit)


def _kept(study: optuna.Study) -> Margins | None:
    kept = study.user_attrs.get(MARGINS.key_kept)
    return None if kept is None else MARGINS.read(kept)


def describe_kept(study: optuna.Study) -> str:
    """The margins measured at the rungs of a study, in words; empty: none yet."""
    if (known := _kept(study)) is None:
        return ""
    about: JsonDict = study.user_attrs[DEFINITION]
    objectives = Objectives(make_metric(about["metric"]), make_others(about.get("others", ()), about["metric"]))
    return describe_margins(objectives, known)
