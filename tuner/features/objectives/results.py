"""Several objectives in the results of a study."""

from tuner.features.objectives.facts import FRONT, MARGINS
from tuner.features.objectives.front_verdict import front_members, front_verdict
from tuner.results.features import Choice, InResults, is_excluded
from tuner.results.findings import Verdict
from tuner.results.records import StudySummary


def _choice(summary: StudySummary) -> Choice | None:
    labels = FRONT.of(summary)
    if not labels:
        return None
    behind = " of the front, behind the default configuration" if _is_behind_default(summary) else ""
    return Choice(
        labels,
        name="the front",
        mark="not beaten by any other in all objectives" if summary.is_sweep else "unbeaten among those confirmed",
        member="One of the front: no other one beats it in everything.",
        best=f"{summary.winner_label}, the best in score{behind},",
        remark=f"{summary.winner_label}, which has the best score of the front:",
    )


def _is_behind_default(summary: StudySummary) -> bool:
    """Whether the default configuration, which nothing beats either, has a better score than all of the front."""
    if summary.default_label in FRONT.of(summary) or is_excluded(summary, summary.default_label):
        return False
    scores = {member.label: member.losses[0] for member in front_members(summary) if not member.beaten}
    default = scores.pop(summary.default_label, None)
    return default is not None and all(default < score for score in scores.values())


def _verdict(summary: StudySummary) -> Verdict | None:
    return front_verdict(summary) if summary.others else None


def _special(summary: StudySummary) -> str:
    return "of several objectives: it has a front, and no one winner" if summary.others else ""


PART = InResults(facts=(FRONT, MARGINS), choice=_choice, verdict=_verdict, special=_special)
