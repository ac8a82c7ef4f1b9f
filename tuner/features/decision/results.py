"""Sentences about a winner that was chosen by more than the scores of confirmation."""

from collections.abc import Iterator

from tuner.features.decision.decision_rules import DECISIONS, ByAllRuns, preferred
from tuner.features.decision.facts import BELIEVED, DECISION, RUNS_BEFORE, RUNS_BY_BUDGET, Believed
from tuner.results.features import InResults
from tuner.results.findings import Estimate, estimate
from tuner.results.number_format import join_words
from tuner.results.records import TEST, StudySummary


def _believed(summary: StudySummary, label: str) -> Believed | None:
    return next((one for one in BELIEVED.of(summary) if one.label == label), None)


def _tuning(summary: StudySummary, label: str) -> Estimate | None:
    """The posterior of a model, or the mean over all runs where these decided."""
    if (found := _believed(summary, label)) is not None:
        return Estimate(found.mean, found.low, found.high, found.num_runs)
    if DECISION.of(summary) != ByAllRuns().name:
        return None
    scores = [run.score for run in summary.runs if run.label == label and run.stage != TEST and run.score is not None]
    return estimate(scores) if scores else None


def _sentences(summary: StudySummary) -> Iterator[str]:
    """The model's estimate for the winner, and the configurations that it cannot distinguish from the winner."""
    winner = _believed(summary, summary.winner_label or "")
    if winner is None:
        return
    score = Estimate(winner.mean, winner.low, winner.high, winner.num_runs)
    yield (
        f"Score of the winner in the search: {score} (a model's estimate, with its 95 % interval). The model uses the "
        f"{winner.num_runs} runs of the winner before the test and those of similar configurations. It takes into "
        "account that the best of many scores is usually too high."
    )
    close = [one.label for one in BELIEVED.of(summary)[1:] if one.high >= winner.mean]
    if close:
        yield f"By this model {join_words(close)} may be as good: {_reach(len(close))} the score of the winner."


def _reach(number: int) -> str:
    return "its interval reaches" if number == 1 else "their intervals reach"


PART = InResults(
    facts=(BELIEVED, DECISION, RUNS_BEFORE, RUNS_BY_BUDGET),
    decisions=DECISIONS,
    preferred_decision=preferred,
    tuning=_tuning,
    sentences=_sentences,
)
