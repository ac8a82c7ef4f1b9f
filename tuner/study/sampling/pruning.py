"""Ending hopeless runs early, and only where early scores are known to predict final ones."""

import math
from dataclasses import replace

from tuner.results.metric import Metric
from tuner.results.number_format import join_words
from tuner.results.protocol import Pruning, RungDecision, decide_rungs
from tuner.results.records import RunRecord
from tuner.study.run_registry import Run, RunRegistry
from tuner.trial.messages import JsonDict, Verdict

_ON_GRID = 1e-6


class RungJudge:
    """Answers the reports of screening runs.

    Optuna's pruner is asked at every rung of every run, so that it knows all competitors; it is obeyed only at rungs
    that `decide_rungs` has found to predict the end.

    Attributes:
        decisions: Decision about each rung; None until enough runs are complete.
        num_trials: Over how many complete runs it was decided.
    """

    def __init__(self, pruning: Pruning, num_points: int, metric: Metric) -> None:
        self.decisions: tuple[RungDecision, ...] | None = None
        self.num_trials = pruning.min_trials
        self._pruning = pruning
        self._num_points = num_points
        self._metric = metric
        self._time_limit = 0.0
        self._complete: list[RunRecord] = []  # until it is decided
        self._rungs = {*pruning.points(num_points), num_points}

    def answer(self, registry: RunRegistry, run: Run, step: float) -> Verdict:
        """The verdict on a run that has just reported at this step; enters its score at the rungs it has passed."""
        verdict: Verdict = "continue"
        for point in sorted(self._rungs - run.rungs):
            fraction = point / self._num_points
            if step < fraction - _ON_GRID or run.points[0][0] > fraction + _ON_GRID:
                continue  # not there yet, or it had reported nothing by then
            score = self._metric.partial(run.points, fraction, replace(run.timing, limit=self._time_limit))
            if registry.report(run, point, score) and point in self._enabled():
                verdict = "prune"
        return verdict

    def catch_up(self, registry: RunRegistry, run: Run) -> None:
        """Enters what a run reported while nobody listened."""
        for step, _ in run.points:
            self.answer(registry, run, step)

    def decide(self, record: RunRecord) -> bool:
        """Takes in a run that has ended, and decides about the rungs, once; whether it did just now.

        It decides when enough runs are complete.
        """
        self._time_limit = self._time_limit or record.time_limit
        if self.decisions is not None or not record.complete:
            return False
        self._complete.append(record)
        if len(self._complete) < self._pruning.min_trials:
            return False
        self.decisions = decide_rungs(self._pruning, self._num_points, self._metric, self._complete)
        self.num_trials = len(self._complete)
        return self.decisions is not None

    def _enabled(self) -> set[int]:
        return {decision.point for decision in self.decisions or () if decision.enabled}


def decisions_to_json(decisions: tuple[RungDecision, ...]) -> list[JsonDict]:
    """Decisions as they are kept with the study; an undefined agreement is null."""
    return [
        {
            "point": decision.point,
            "fraction": decision.fraction,
            "agreement": None if math.isnan(decision.agreement) else decision.agreement,
            "bound": None if math.isnan(decision.bound) else decision.bound,
            "enabled": decision.enabled,
        }
        for decision in decisions
    ]


def decisions_from_json(entries: list[JsonDict]) -> tuple[RungDecision, ...]:
    """Inverse of `decisions_to_json`."""
    return tuple(
        RungDecision(
            entry["point"],
            entry["fraction"],
            math.nan if entry["agreement"] is None else entry["agreement"],
            math.nan if entry["bound"] is None else entry["bound"],
            entry["enabled"],
        )
        for entry in entries
    )


def describe_decisions(decisions: tuple[RungDecision, ...], num_trials: int) -> str:
    """Two sentences for the reader: where runs may be pruned, and why there."""
    if not decisions:
        return "No rung lies before the last evaluation, so no run can be pruned."
    used, unused = (join_words(_at(one) for one in decisions if one.enabled is wanted) for wanted in (True, False))
    if not used:
        where = f"No run is pruned: early scores, at {unused} of the budget, do not rank runs as final scores do."
    else:
        where = f"Runs may be pruned at {used} of the budget{f', but not at {unused}' if unused else ''}."
    agreement = ", ".join(f"{_agreement(one)} at {_at(one)}" for one in decisions)
    return (
        f"{where} Rank correlation of early with final scores on the first {num_trials} complete runs, with its lower "
        f"bound at 90 % confidence: {agreement}."
    )


def _at(decision: RungDecision) -> str:
    return f"{decision.fraction:.0%}"


def _agreement(decision: RungDecision) -> str:
    if math.isnan(decision.agreement):
        return "none (equal scores)"
    return f"{decision.agreement:.2f}" + ("" if math.isnan(decision.bound) else f" ({decision.bound:.2f})")
