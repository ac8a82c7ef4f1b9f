"""A budget of time or of environment steps: screening goes on as long as what must follow it still fits.

Race, confirmation and test are what makes the result worth having, so they are set aside first; what is left of the
budget goes into screening. How long a run takes is known from those that are complete: what follows takes as long as
the best of them, which will run again, and one more may be one of the long ones.
"""

import math
from bisect import bisect_left
from collections.abc import Callable, Sequence
from functools import partial
from statistics import mean

import numpy as np

from tuner.errors import UserError
from tuner.results.insights.effort import used_share
from tuner.results.number_format import format_seconds
from tuner.results.records import CONFIRM, SCREEN, TEST, RunRecord
from tuner.study.definition import StudyDefinition

_ONE_MORE = 0.9
"""The share of complete runs that take no longer than what is set aside for one more."""


def check_budget(definition: StudyDefinition) -> None:
    """Refuses environment steps that not even the fewest runs keep to.

    Raises:
        UserError: Says how many are needed.
    """
    most, total_steps = definition.settings.max_env_steps, definition.total_steps
    if most is None:
        return
    later = _later_runs(definition, 0.0)
    fewest = min(definition.settings.num_candidates, definition.settings.num_trials) + sum(later)
    if fewest * total_steps > most:
        raise UserError(
            f"study.max_env_steps={most} is too little: {fewest} runs of {total_steps:,} steps are the fewest of this "
            f"study ({sum(later)} of them after screening), which makes {fewest * total_steps:,}; raise it, or lower "
            "training.total_steps, study.num_test_seeds or study.num_candidates"
        )


def affordable_trials(definition: StudyDefinition, parallel: int, run_s: float | None) -> int:
    """How many configurations can be screened within the budget if nothing is pruned; no more than asked for.

    Args:
        definition: The study.
        parallel: Runs at a time.
        run_s: Seconds of one run; None: not known.
    """
    settings, total_steps = definition.settings, definition.total_steps

    def is_too_many(num_trials: int) -> bool:
        later = _later_runs(definition, num_trials)
        most_steps = math.inf if settings.max_env_steps is None else settings.max_env_steps
        most_s = math.inf if settings.budget_s is None else settings.budget_s
        seconds = 0.0 if run_s is None else _stage_seconds([num_trials, *later], parallel, run_s)
        return (num_trials + sum(later)) * total_steps > most_steps or seconds > most_s

    most = bisect_left(range(1, settings.num_trials + 1), x=True, key=is_too_many)
    return max(most, min(settings.num_candidates, settings.num_trials))


def seconds_too_many(definition: StudyDefinition, parallel: int, run_s: float | None) -> float:
    """The seconds of what must follow screening, where that is more than the budget of time; else 0."""
    budget_s = definition.settings.budget_s
    later_s = 0.0 if run_s is None else _stage_seconds(_later_runs(definition, 0.0), parallel, run_s)
    return later_s if budget_s is not None and later_s > budget_s else 0.0


def fits_before_test(definition: StudyDefinition, parallel: int, spent_s: float, runs: Sequence[RunRecord]) -> bool:
    """Whether one more run of confirmation leaves the test its share of a budget of time.

    Args:
        definition: The study.
        parallel: Runs at a time.
        spent_s: Seconds that the study has taken so far, those of earlier sessions included.
        runs: All runs so far.
    """
    budget_s = definition.settings.budget_s
    again_s = [run.seconds for run in runs if run.stage == CONFIRM and run.complete]
    if budget_s is None or not again_s:
        return False
    test_s = _stage_seconds([one.num_runs for one in definition.plan() if one.stage == TEST], parallel, mean(again_s))
    one_more_s = float(np.quantile(again_s, _ONE_MORE))
    return _known_s(spent_s, sum(run.seconds for run in runs), parallel) + one_more_s + test_s <= budget_s


def _known_s(spent_s: float, run_seconds: float, parallel: int) -> float:
    """Seconds that a study has taken: at least those of its runs, as a session that is killed notes not all."""
    return max(spent_s, run_seconds / parallel)


class Allowance:
    """Says whether one more configuration may be screened.

    At least as many are as will be confirmed, whatever the budget says.

    Attributes:
        why_not: Why not, in words; empty: one may.
        advice: What to change where the later stages alone take longer than the budget; else empty.

    Args:
        definition: The study.
        parallel: Runs at a time.
        spent_s: Tells the seconds that the study has taken so far, those of earlier sessions included.
    """

    def __init__(self, definition: StudyDefinition, parallel: int, spent_s: Callable[[], float]) -> None:
        self._settings = definition.settings
        self._later_runs = partial(_later_runs, definition)
        self._parallel = parallel
        self._spent_s = spent_s
        self._total_steps = definition.total_steps
        self._seen: set[int] = set()
        self._complete_s: list[float] = []
        self._best: list[tuple[float, float]] = []  # score and seconds of as many as will be confirmed
        self._num_whole = 0.0  # runs; a pruned one counts by its share
        self._run_seconds = 0.0
        self.why_not = self.advice = ""

    def see(self, record: RunRecord) -> None:
        """Takes a screening run in that has ended; one that has not, or was seen before, changes nothing."""
        if record.outcome is None or record.number in self._seen or record.stage != SCREEN:
            return
        self._seen.add(record.number)
        self._num_whole += used_share(record)
        self._run_seconds += record.seconds
        if record.complete:
            self._complete_s.append(record.seconds)
            if record.feasible and record.score is not None:
                ranked = sorted([*self._best, (record.score, record.seconds)])
                self._best = ranked[-self._settings.num_candidates :]

    def one_more(self, num_entered: int) -> bool:
        """Whether one more fits, beside those that have been entered; if not, `why_not` says why in words."""
        if num_entered >= self._settings.num_candidates:
            self.why_not = self._want_of_steps(num_entered) or self._want_of_time(num_entered)
        return not self.why_not

    def _want_of_steps(self, num_entered: int) -> str:
        most, num_screened = self._settings.max_env_steps, self._num_with_one_more(num_entered)
        later = sum(self._later_runs(num_screened)) * self._total_steps
        if most is None or num_screened * self._total_steps + later <= most:
            return ""
        return f"study.max_env_steps={most}: what follows takes up to {later:,} of them"

    def _want_of_time(self, num_entered: int) -> str:
        budget_s = self._settings.budget_s
        if budget_s is None or not self._complete_s:
            return ""
        run_s = self._seconds_of_the_best()
        one_more_s = max(run_s, float(np.quantile(self._complete_s, _ONE_MORE)))
        later_s = _stage_seconds(self._later_runs(self._num_with_one_more(num_entered)), self._parallel, run_s)
        spent_s = _known_s(self._spent_s(), self._run_seconds, self._parallel)
        if spent_s + one_more_s + later_s <= budget_s:
            return ""
        over = " and is run all the same" if later_s > budget_s else ""
        less = " is too little" if over else ""
        self.advice = "; lower study.num_select_seeds, study.num_test_seeds or training.total_steps" if over else ""
        return (
            f"study.budget={format_seconds(budget_s)}{less}: what follows takes about {format_seconds(later_s)}{over}"
            f"{_one_more(one_more_s, run_s) if not over else ''}"
        )

    def _num_with_one_more(self, num_entered: int) -> float:
        """Whole runs of screening if one more is entered; those under way may come to their end."""
        return self._num_whole + num_entered - len(self._seen) + 1

    def _seconds_of_the_best(self) -> float:
        """Their mean; of all where none is feasible. A better configuration often takes longer than others do."""
        return float(np.mean([seconds for _, seconds in self._best] or self._complete_s))


def _one_more(one_more_s: float, run_s: float) -> str:
    return f", and one more run up to {format_seconds(one_more_s)}" if one_more_s > run_s else ""


def _later_runs(definition: StudyDefinition, num_screened: float) -> list[int]:
    """Runs of each stage after screening, by how many whole runs that takes."""
    return [plan.num_runs for plan in definition.plan(num_screened) if plan.stage != SCREEN]


def _stage_seconds(num_runs: Sequence[int], parallel: int, run_s: float) -> float:
    """Of stages with these numbers of runs, one stage after the other. No run is pruned."""
    return sum(math.ceil(num / parallel) for num in num_runs) * run_s
