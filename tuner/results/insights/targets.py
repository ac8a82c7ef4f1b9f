"""On how many seeds a value was reached, and what that took: for scores that are how soon it is."""

from collections.abc import Sequence

from tuner.results.findings import estimate
from tuner.results.metric import PENALTY, SECONDS, SecondsTo, TargetMetric, make_metric
from tuner.results.number_format import counted
from tuner.results.records import TEST, RunRecord, StudySummary


def targets_of(summary: StudySummary) -> list[TargetMetric]:
    """Those of the objectives that wait for a value."""
    names = [summary.metric, *(other.name for other in summary.others)] if summary.metric else []
    metrics = [make_metric(name) for name in names if name != SECONDS]
    return [metric for metric in metrics if isinstance(metric, TargetMetric)]


def _metric(summary: StudySummary) -> TargetMetric | None:
    """The first objective, if it is such a one."""
    return next((metric for metric in targets_of(summary) if metric.name == summary.metric), None)


def reaching(metric: TargetMetric, runs: Sequence[RunRecord]) -> list[RunRecord]:
    """Those of the runs that came to their end and reached the value on the way."""
    return [run for run in runs if run.complete and metric.is_reached_by(run.curve)]


def reached_in_words(metric: TargetMetric, runs: Sequence[RunRecord]) -> str:
    """As a cell of a table has it: 8 of 10."""
    ended = [run for run in runs if run.score is not None or run.failed]
    return f"{len(reaching(metric, ended))} of {len(ended)}"


def details(summary: StudySummary, label: str) -> tuple[str, ...]:
    """Seeds on which winner and default reached the value, after what, and what the others are scored with."""
    metric = _metric(summary)
    if metric is None:
        return ()
    labels = list(dict.fromkeys((label, summary.default_label)))
    tested = {one: [run for run in summary.stage(TEST, one) if run.outcome is not None] for one in labels}
    tested = {one: runs for one, runs in tested.items() if runs}
    named = {one: "the default configuration" if one == summary.default_label else one for one in tested}
    parts = [f"{named[one]} reached {metric.target:g} {_described(metric, runs)}" for one, runs in tested.items()]
    told = "; ".join(parts)
    sentences = [f"{told[:1].upper()}{told[1:]}."]
    missed = any(len(reaching(metric, runs)) < len(runs) for runs in tested.values())
    if missed and isinstance(metric, SecondsTo):
        sentences.append(
            f"A run that does not reach {metric.target:g} scores minus {PENALTY:g} times the seconds of the study's "
            f"first complete run{_limit(summary)}. The score is up to a tenth lower, the further its best evaluation "
            "is from this value."
        )
    return tuple(sentences) if parts else ()


def _described(metric: TargetMetric, runs: Sequence[RunRecord]) -> str:
    reached = reaching(metric, runs)
    scores = [run.score for run in reached if run.score is not None]
    where = f"on {len(reached)} of {counted(len(runs), 'seed')}"
    if not scores:
        return where
    there = "" if len(scores) == len(runs) else " there"
    return f"{where},{there} after {metric.cost_in_words(estimate(scores).iqm)}"


def _limit(summary: StudySummary) -> str:
    limit = next((run.time_limit for run in summary.runs if run.time_limit), None)
    return "" if limit is None else f" ({limit:.3g} s)"


def warnings(summary: StudySummary, label: str) -> list[str]:
    """That a comparison is not one of how soon the value is reached."""
    metric = _metric(summary)
    runs = [run for run in summary.stage(TEST, label) if run.outcome is not None]
    if metric is None or not runs or reaching(metric, runs):
        return []
    return [
        f"The winner did not reach {metric.target:g} on any test seed, so its scores measure how close it came, not "
        "how soon."
    ]
