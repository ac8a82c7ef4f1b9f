"""Several environments on the report page and in the printed results of a study."""

from rich.console import RenderableType

from tuner.features.environments.facts import ENVIRONMENTS
from tuner.features.environments.section import environments_section
from tuner.features.environments.table import environment_table
from tuner.reporting.features import InReporting
from tuner.reporting.markup import Html
from tuner.results.findings import Verdict
from tuner.results.records import StudySummary


def _sections(summary: StudySummary, found: Verdict) -> list[Html]:
    del found
    return [environments_section(summary)] if ENVIRONMENTS.of(summary) else []


def _tables(summary: StudySummary) -> list[RenderableType]:
    return [environment_table(summary)] if ENVIRONMENTS.of(summary) else []


PART = InReporting(result_sections=_sections, test_tables=_tables)
