"""Where each parameter may lie without a loss that could be measured."""

import math
from collections.abc import Sequence
from dataclasses import dataclass

from tuner.results.insights.winner_ties import seed_noise
from tuner.results.records import SCREEN, RunRecord, Scalar, StudySummary, numbers_among

MIN_TRIALS = 8
_BEST_SHARE = 0.25
_MIN_BEST = 3


@dataclass(frozen=True)
class SafeRange:
    """Range of one parameter among the good trials.

    Attributes:
        path: of the parameter.
        low: lowest value of a good trial; None for a parameter that is no number.
        high: highest one.
        choices: values of good trials, the most frequent first, where they are no numbers.
        tried_low: lowest value of any trial.
        tried_high: highest one.
        num_good: good trials that have the parameter.
        num_inside: trials within the range that came to an end.
        best: the value of the winner.
    """

    path: str
    low: float | None
    high: float | None
    choices: tuple[Scalar, ...]
    tried_low: float | None
    tried_high: float | None
    num_good: int
    num_inside: int
    best: Scalar

    @property
    def precision(self) -> float:
        """Share of good trials among those within the range: 1 if the range alone makes a trial good."""
        return self.num_good / self.num_inside


def good_trials(summary: StudySummary) -> tuple[tuple[RunRecord, ...], str]:
    """The trials that are as good as the winner as far as the runs can show, and how that was decided, in words."""
    complete = [run for run in summary.stage(SCREEN) if run.complete]
    noise = None if summary.is_sweep else seed_noise(summary, summary.winner_label)
    if noise is not None and len(noise.tied) + 1 >= _MIN_BEST:
        good = [run for run in complete if run.label in noise.tied or run.label == summary.winner_label]
        return tuple(good), f"the {len(good)} trials that do not differ significantly from the winner"
    count = min(len(complete), max(_MIN_BEST, math.ceil(_BEST_SHARE * len(complete))))
    ranked = sorted(complete, key=lambda run: (run.label != summary.winner_label, -(summary.merit(run) or 0.0)))
    why = "noise is not known from one job each" if summary.is_sweep else "too few do not differ from the winner"
    return tuple(ranked[:count]), f"the best {count} trials ({why})"


def safe_ranges(summary: StudySummary) -> tuple[SafeRange, ...]:
    """One for each parameter, the most important first; none while fewer than `MIN_TRIALS` trials are complete.

    Trials that were pruned or failed count among those within a range: a range that is good only in part shows.
    """
    ended = [run for run in summary.stage(SCREEN) if run.outcome is not None]
    if sum(run.complete for run in ended) < MIN_TRIALS:
        return ()
    good, _ = good_trials(summary)
    paths = dict.fromkeys(path for run in good for path in run.params)
    ordered = sorted(paths, key=lambda path: -summary.weights.get(path, 0.0))
    found = (_range_of(path, good, ended, summary.winner_label) for path in ordered)
    return tuple(found)


def _range_of(path: str, good: Sequence[RunRecord], ended: Sequence[RunRecord], winner: str | None) -> SafeRange:
    own = [run.params[path] for run in good if path in run.params]
    tried = [run.params[path] for run in ended if path in run.params]
    best = next((run.params[path] for run in good if run.label == winner and path in run.params), own[0])
    numbers, all_numbers = numbers_among(own), numbers_among(tried)
    if len(numbers) < len(own) or len(all_numbers) < len(tried):
        choices = tuple(sorted(dict.fromkeys(own), key=lambda value: -own.count(value)))
        inside = sum(value in choices for value in tried)
        return SafeRange(path, None, None, choices, None, None, len(own), inside, best)
    low, high = min(numbers), max(numbers)
    inside = sum(low <= number <= high for number in all_numbers)
    return SafeRange(path, low, high, (), min(all_numbers), max(all_numbers), len(own), inside, best)
