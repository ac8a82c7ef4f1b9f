"""Failed runs by kind, and what they may have in common."""

import re
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from tuner.results.number_format import counted, format_value, join_words
from tuner.results.records import SCREEN, TEST, RunRecord, StudySummary, numbers_among
from tuner.results.statistics import probability_of_improvement
from tuner.trial.folder import explanation_in
from tuner.trial.messages import Outcome

MIN_RUNS = 2
"""Fewest failed runs of a kind before common settings are looked for: one shares all of them with itself."""

SEPARATION = 0.9
"""Share of pairs (a failed run, a good one) that a parameter has to put in the same order."""


@dataclass(frozen=True)
class FailureKind:
    """All failed runs of one kind.

    Attributes:
        outcome: the kind.
        runs: of that kind.
        reason: the most frequent reason, as the runs gave it.
        num_same: how many gave it, numbers in it aside.
        common: what tells these runs from the good ones; empty if nothing does clearly.
        remedy: what usually helps.
    """

    outcome: Outcome
    runs: tuple[RunRecord, ...]
    reason: str
    num_same: int
    common: str
    remedy: str


def failure_kinds(summary: StudySummary) -> tuple[FailureKind, ...]:
    """The kinds of failure, the most frequent first."""
    failed = [run for run in summary.runs if run.failed]
    good = [run for run in summary.runs if run.complete]
    kinds = []
    for outcome, _ in Counter(run.outcome for run in failed).most_common():
        assert outcome is not None
        own = tuple(run for run in failed if run.outcome is outcome)
        same = Counter(_without_numbers(run.reason) for run in own).most_common(1)[0]
        reason = next(run.reason for run in own if _without_numbers(run.reason) == same[0]) or "no reason given"
        kinds.append(FailureKind(outcome, own, reason, same[1], _common(own, good), outcome.effects.remedy))
    return tuple(kinds)


def _without_numbers(reason: str) -> str:
    return re.sub(r"\d[\d.]*(e[-+]?\d+)?", "#", reason)


def _common(failed: Sequence[RunRecord], good: Sequence[RunRecord]) -> str:
    """The parameter that best tells failed runs from good ones, in words."""
    if len(failed) < MIN_RUNS or len(good) < MIN_RUNS:
        return ""
    found = []
    for path in dict.fromkeys(path for run in failed for path in run.params):
        bad_values, good_values = (numbers_among(run.params.get(path) for run in runs) for runs in (failed, good))
        if len(bad_values) < MIN_RUNS or len(good_values) < MIN_RUNS:
            continue
        higher = probability_of_improvement(bad_values, good_values)
        found.append((max(higher, 1.0 - higher), higher > 0.5, path, bad_values))
    separation, above, path, values = max(found, default=(0.0, False, "", []), key=lambda one: one[0])
    if separation < SEPARATION:
        return ""
    span = f"{format_value(min(values))} to {format_value(max(values))}"
    return f"{path} was {'high' if above else 'low'} ({span}), {'higher' if above else 'lower'} than in the good runs"


def failed_tests(summary: StudySummary) -> tuple[str, ...]:
    """Failed test runs are never left out in silence."""
    runs = summary.stage(TEST)
    failed = [run for run in runs if run.failed]
    if not failed:
        return ()
    lost = sum(run.score is None for run in failed)
    told = "worst score seen" if summary.random_score is None else "score of a random policy"
    fate = f"They count with the {told}."
    if lost:
        fate = f"{counted(lost, 'run')} without a score {'is' if lost == 1 else 'are'} missing from the figures."
    return (f"{len(failed)} of {len(runs)} test runs failed ({kinds_of(failed)}). {fate}",)


def failed_runs(summary: StudySummary) -> str:
    """How many runs of a study failed, with which kinds, and where to look; empty if none did."""
    failed = [run for run in summary.runs if run.failed]
    if not failed:
        return ""
    kind = failure_kinds(summary)[0]
    trials = summary.stage(SCREEN)
    further = [run for run in summary.runs if run.stage != SCREEN]
    shares = [
        f"{sum(run.failed for run in runs)} of {counted(len(runs), noun)}"
        for runs, noun in ((trials, "job" if summary.is_sweep else "trial"), (further, "further run"))
        if any(run.failed for run in runs)
    ]
    return (
        f"{join_words(shares)} failed ({kinds_of(failed)}); most often: {kind.reason}; "
        f"see {explanation_in(Path(kind.runs[-1].place))}"
    )


def kinds_of(runs: Sequence[RunRecord]) -> str:
    """`2 crashed and 1 diverged`."""
    kinds = Counter((run.outcome or "").replace("_", " ") for run in runs)
    return join_words(f"{number} {kind}" for kind, number in kinds.most_common())
