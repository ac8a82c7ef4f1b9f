"""The section of the page about where the search has looked."""

from tuner.features.coverage.facts import COVERAGE, Coverage, Reach
from tuner.reporting.elements import note, number_cell, section, table, text_cell
from tuner.reporting.features import InReporting
from tuner.reporting.markup import Html, tag
from tuner.results.findings import Verdict
from tuner.results.number_format import short_names
from tuner.results.records import StudySummary


def _sections(summary: StudySummary, found: Verdict) -> list[Html]:
    del found
    coverage = COVERAGE.of(summary)
    return [] if coverage is None or not coverage.reaches else [_section(summary, coverage)]


def _section(summary: StudySummary, found: Coverage) -> Html:
    names = short_names(reach.path for reach in found.reaches)
    titles = {names[reach.path]: reach.path for reach in found.reaches}
    rows = [_row(summary, names[reach.path], reach) for reach in found.reaches]
    heads = ["parameter", "range", "parts", "seen by all", "by the last half", "by as many drawn evenly", "to widen"]
    how = note(
        "The range of each parameter is divided into equal parts, on the scale that it is drawn on; a part is seen "
        f"where a trial lies in it. The last half are {found.num_late} trials. Where these see less than half of what "
        "evenly drawn ones would, the search has closed in: rightly, if what is left out is poor. The last column says "
        "what to type where the winner lies at an edge together with most of the best trials."
    )
    return section("coverage", "Where the search has looked", how, table("coverage-table", heads, rows, titles))


def _row(summary: StudySummary, name: str, reach: Reach) -> Html:
    late = f"{reach.num_late}{' (few)' if reach.is_narrow else ''}"
    return tag(
        "tr",
        tag("td", name, title=reach.path),
        text_cell(summary.space.get(reach.path, "")),
        number_cell(reach.num_parts, str(reach.num_parts)),
        number_cell(reach.num_visited, str(reach.num_visited)),
        number_cell(reach.num_late, late),
        number_cell(reach.expected_late, f"{reach.expected_late:.1f}"),
        text_cell(reach.widen),
    )


PART = InReporting(search_sections=_sections)
