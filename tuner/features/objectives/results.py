"""Several objectives in the results of a study."""

from tuner.features.objectives.facts import FRONT, MARGINS
from tuner.features.objectives.front_verdict import front_verdict
from tuner.results.features import Choice, InResults
from tuner.results.findings import Verdict
from tuner.results.records import StudySummary


def _choice(summary: StudySummary) -> Choice | None:
    labels = FRONT.of(summary)
    if not labels:
        return None
    return Choice(
        labels,
        name="the front",
        mark="not beaten by any other in all objectives" if summary.is_sweep else "unbeaten among those confirmed",
        member="One of the front: no other one beats it in everything.",
        best=f"{summary.winner_label}, the best in score,",
        remark=f"{summary.winner_label}, which has the best score of the front:",
    )


def _verdict(summary: StudySummary) -> Verdict | None:
    return front_verdict(summary) if summary.others else None


def _special(summary: StudySummary) -> str:
    return "of several objectives: it has a front, and no one winner" if summary.others else ""


PART = InResults(facts=(FRONT, MARGINS), choice=_choice, verdict=_verdict, special=_special)
