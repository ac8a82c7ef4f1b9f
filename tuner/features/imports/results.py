"""Sentences and verdict for a study that is a copy of another program's."""

from tuner.features.imports.facts import IMPORTED
from tuner.results.features import InResults
from tuner.results.findings import Finding, Verdict
from tuner.results.number_format import counted, describe_params, format_number, join_words
from tuner.results.records import SCREEN, StudySummary


def _verdict(summary: StudySummary) -> Verdict | None:
    """The best trial, in place of the best job of a sweep."""
    source = IMPORTED.of(summary)
    if source is None:
        return None
    runs = summary.stage(SCREEN)
    complete = [run for run in runs if run.complete]
    best = max(complete, key=lambda run: (summary.merit(run) or 0.0, -run.number))
    params = describe_params(best.params, summary.weights)
    ends = ((sum(run.outcome == "pruned" for run in runs), "pruned"), (sum(run.failed for run in runs), "failed"))
    parts = [f"{count} {words}" for count, words in ends if count]
    rest = f", and {join_words(parts)} besides" if parts else ""
    return Verdict(
        Finding.BEST_JOB,
        f"Best of {counted(len(complete), 'complete trial')} of study {source.name}, which another program ran: "
        f"{best.label}{f' ({params})' if params else ''} has value {format_number(best.score or 0.0)}. Each trial ran "
        "once: a value chosen as the best of many is too good.",
        (f"This is a copy of study {source.name} in {source.storage}{rest}.",),
    )


PART = InResults(facts=(IMPORTED,), verdict=_verdict)
