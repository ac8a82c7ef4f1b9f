"""The section of the page about how much of the search space the trials cover."""

from tuner.features.coverage.facts import COVERAGE, Coverage, Reach
from tuner.reporting.elements import note, number_cell, section, table, text_cell
from tuner.reporting.features import InReporting
from tuner.reporting.markup import Html, tag
from tuner.results.findings import Verdict
from tuner.results.records import StudySummary


def _sections(summary: StudySummary, found: Verdict) -> list[Html]:
    del found
    coverage = COVERAGE.of(summary)
    return [] if coverage is None or not coverage.reaches else [_section(summary, coverage)]


def _section(summary: StudySummary, found: Coverage) -> Html:
    rows = [_row(summary, reach) for reach in found.reaches]
    heads = ["parameter", "range", "to widen", "parts", "all trials", "last half", "expected"]
    how = note(
        "The range of each parameter is divided into equal parts, on the scale on which values are drawn. The columns "
        f"count the parts that contain a trial: of all trials, of the last half ({found.num_late} trials), and as "
        f"expected of {found.num_late} evenly drawn trials. If the last half covers less than half of the expected "
        "parts (few), the search has become narrow. That is right if the other parts have low scores. The column "
        '"to widen" shows what to type if the winner and most of the best trials lie at an edge.'
    )
    return section("coverage", "Coverage of the search space", how, table("coverage-table", heads, rows))


def _row(summary: StudySummary, reach: Reach) -> Html:
    late = f"{reach.num_late}{' (few)' if reach.is_narrow else ''}"
    return tag(
        "tr",
        text_cell(reach.path),
        text_cell(summary.space.get(reach.path, "")),
        tag("td", reach.widen, class_="wrap"),
        number_cell(reach.num_parts, str(reach.num_parts)),
        number_cell(reach.num_visited, str(reach.num_visited)),
        number_cell(reach.num_late, late),
        number_cell(reach.expected_late, f"{reach.expected_late:.1f}"),
    )


PART = InReporting(search_sections=_sections)
