"""The verdict on a Hydra sweep: each job ran once, so nothing is known of its noise, and the best one is flattered."""

from tuner.results.findings import Finding, Verdict
from tuner.results.number_format import describe_params, format_number, join_words
from tuner.results.records import SCREEN, StudySummary


def sweep_verdict(summary: StudySummary) -> Verdict:
    """Judges a sweep of one objective; it has at least one complete job."""
    complete = [run for run in summary.stage(SCREEN) if run.complete]
    best = max(complete, key=lambda run: (summary.merit(run) or 0.0, -run.number))
    running = sum(run.outcome is None for run in summary.stage(SCREEN))
    params = describe_params(best.params, summary.weights)
    state = f" so far ({running} running)" if running else ""
    sentence = (
        f"Best of {len(complete)} finished jobs{state}: {best.label}{f' ({params})' if params else ''} returned "
        f"{format_number(best.score or 0.0)}. Each job ran once, and the best of many values is usually too good. Run "
        "the best few jobs again with other seeds before you rely on it."
    )
    return Verdict(Finding.BEST_JOB, sentence, _counts(summary))


def _counts(summary: StudySummary) -> tuple[str, ...]:
    runs = summary.stage(SCREEN)
    failed = sum(run.failed for run in runs)
    pruned = sum(run.outcome == "pruned" for run in runs)
    parts = [f"{count} {words}" for count, words in ((pruned, "pruned"), (failed, "failed")) if count]
    return (f"Of {len(runs)} jobs, {join_words(parts)}.",) if parts else ()
