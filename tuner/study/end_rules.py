"""Rules of a study for its runs: which configs it accepts, and how their ends are scored."""

import math
from collections import defaultdict
from dataclasses import replace
from typing import Protocol

from tuner.results.metric import Rescale, as_it_is, other_values
from tuner.results.records import RunRecord
from tuner.study.definition import StudyDefinition
from tuner.study.run_checks import config_mismatch
from tuner.study.run_registry import Run, RunEnd
from tuner.study.sampling.penalties import Penalties
from tuner.trial.messages import JsonDict, Outcome, TrialResult


class EndRules(Protocol):
    """How the ends of a kind of run are turned into what the sampler gets."""

    @property
    def definition(self) -> StudyDefinition:
        """The study."""

    def see(self, record: RunRecord) -> None:
        """Takes into account a run that has been closed, in whatever stage and session."""

    def mismatch(self, run: Run, used: JsonDict) -> str:
        """How the config that a run really uses differs from what it was given; empty if it does not."""

    def review(self, run: Run, result: TrialResult) -> TrialResult:
        """The result, or another one if the run has not done what it should have."""

    def complete(self, run: Run, seconds: float) -> RunEnd:
        """The end of a complete run, with the wall time of all its attempts."""

    def penalised(self, run: Run, result: TrialResult, seconds: float) -> RunEnd:
        """The end, with a score for the sampler, of a run that would end so again."""


class TrialEndRules:
    """Runs that report a curve: their score is the study's metric of it.

    Args:
        definition: The study.
        random_score: Score of a random policy, if it is known.
        rescale: To what the parts of runs are scored by.
    """

    def __init__(
        self,
        definition: StudyDefinition,
        random_score: float | None = None,
        rescale: Rescale = as_it_is,
    ) -> None:
        self.definition = definition
        self._rescale = rescale
        self._penalties: dict[str, Penalties] = defaultdict(  # scores of one environment are none of another
            lambda: Penalties(definition.metric, definition.others, random_score)
        )

    def see(self, record: RunRecord) -> None:
        """Remembers its score: the worst one is the penalty of other runs."""
        for one in record.parts or (record,):
            self._penalties[one.environment].see(one)

    def mismatch(self, run: Run, used: JsonDict) -> str:
        """By the searched values."""
        return config_mismatch(run.values, used)

    def review(self, run: Run, result: TrialResult) -> TrialResult:
        """A run that has not reported all that it should have is not complete: its score would be that of another."""
        if result.outcome is not Outcome.COMPLETE or not run.curve:
            return result
        missing = self.definition.missing_evaluations(run.config, run.curve)
        if not missing:
            return result
        where = ", ".join(f"{fraction:.3g}" for fraction in missing)
        return replace(
            result, outcome=Outcome.CRASHED, reason=f"it ended without its evaluation at {where} of its budget"
        )

    def complete(self, run: Run, seconds: float) -> RunEnd:
        """By its curve."""
        if not run.curve:
            return RunEnd(Outcome.CRASHED, None, "it ended without having reported anything", seconds)
        timing = self._penalties[run.environment].timing(run)
        if self.definition.timed and not timing.covers(run.points):
            return RunEnd(Outcome.CRASHED, None, "its reports do not say after how many seconds of training", seconds)
        value = self.definition.metric(self._scaled(run).points, timing)
        if not math.isfinite(value):
            return self.penalised(run, TrialResult(Outcome.DIVERGED, f"its score is {value}"), seconds)
        others = other_values(self.definition.others, run.points, seconds, timing)
        limit = timing.length if self.definition.timed else 0.0
        return RunEnd(Outcome.COMPLETE, value, "", seconds, others, time_limit=limit)

    def penalised(self, run: Run, result: TrialResult, seconds: float) -> RunEnd:
        """With the worst there is in every objective."""
        return self._penalties[run.environment].ending(self._scaled(run), result.outcome, result.reason, seconds)

    def _scaled(self, run: Run) -> Run:
        """The run with scores for returns."""
        return replace(run, curve=dict(self._rescale(run.environment, run.points)))
