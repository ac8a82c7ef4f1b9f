"""Progress of the test stage, in which what a study has chosen runs on seeds that decided about nothing."""

from collections import Counter
from collections.abc import Iterable

from tuner.results.number_format import counted
from tuner.results.records import TEST, StudySummary
from tuner.trial.messages import Outcome


def missing_tests(summary: StudySummary, chosen: Iterable[str]) -> int:
    """How many runs of the test stage have not ended; 0 where none has begun.

    Args:
        summary: Of the study.
        chosen: Labels of what it has chosen; the default configuration and published ones are tested beside them.
    """
    runs = summary.stage(TEST)
    if not runs:
        return 0
    return sum(run.outcome in (None, Outcome.STOPPED) for run in runs) + _not_begun(summary, chosen)


def _not_begun(summary: StudySummary, chosen: Iterable[str]) -> int:
    asked = summary.budget.get("test seeds")
    num_seeds = asked if isinstance(asked, int) else 0
    entered = Counter(run.label for run in summary.stage(TEST))
    return sum(max(0, num_seeds - entered[label]) for label in {*chosen, summary.default_label, *summary.baselines})


def unfinished_tests(summary: StudySummary, chosen: Iterable[str]) -> str:
    """A sentence on the runs that are missing; empty if none is, or none has begun."""
    chosen = list(chosen)
    missing = missing_tests(summary, chosen)
    in_all = len(summary.stage(TEST)) + _not_begun(summary, chosen)
    return f"The test stage has not finished (missing: {missing} of {counted(in_all, 'run')})" if missing else ""
