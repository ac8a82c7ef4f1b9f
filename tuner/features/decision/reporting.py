"""A model's decision on the report page and in the terminal."""

from collections.abc import Iterator

from tuner.features.decision.facts import BELIEVED
from tuner.reporting.elements import note, number_cell, section, table, text_cell
from tuner.reporting.features import InReporting
from tuner.reporting.markup import Html, tag
from tuner.results.findings import Estimate, Verdict
from tuner.results.records import StudySummary
from tuner.results.run_labels import shown_label

_WORDS = (
    "A model of all runs estimates the mean score of a configuration over all seeds. It uses the runs of this "
    "configuration and of similar ones; pruned runs count less. The best of many scores is usually too high, and the "
    "estimates correct this. Test runs are not used."
)


def _section(summary: StudySummary, found: Verdict) -> Iterator[Html]:
    """The configurations that ran again, as the model knows them."""
    del found
    known = BELIEVED.of(summary)
    if not known:
        return
    rows = [
        tag(
            "tr",
            text_cell(shown_label(summary, one.label)),
            number_cell(one.num_runs, str(one.num_runs)),
            number_cell(one.mean),
            text_cell(Estimate(one.mean, one.low, one.high, one.num_runs).around),
            class_="winner" if one.label == summary.winner_label else None,
        )
        for one in known
    ]
    heads = ["configuration", "runs", "score", "95 % interval"]
    yield section("decision", "Scores estimated from all runs", note(_WORDS), table("decision-table", heads, rows))


PART = InReporting(result_sections=_section)
