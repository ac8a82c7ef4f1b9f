"""Several objectives on the report page."""

from tuner.features.objectives.figure import front_figure
from tuner.features.objectives.section import front_section
from tuner.reporting.features import InReporting
from tuner.reporting.markup import Html
from tuner.results.findings import Verdict
from tuner.results.records import StudySummary
from tuner.trial.messages import JsonDict


def _figures(summary: StudySummary) -> dict[str, JsonDict]:
    drawing = front_figure(summary)
    return {} if drawing is None else {"front-figure": drawing}


def _sections(summary: StudySummary, found: Verdict) -> list[Html]:
    del found
    return [front_section(summary)] if summary.others else []


PART = InReporting(result_figures=_figures, result_sections=_sections)
