"""An ablation on the report page and in the printed results of a study."""

from collections.abc import Iterator

from rich.console import RenderableType

from tuner.features.ablation.effects import ablation_command, sentences
from tuner.features.ablation.facts import ABLATION
from tuner.features.ablation.figures import ablation_figure
from tuner.features.ablation.found_ranges import range_sentences
from tuner.features.ablation.range_figures import range_figures
from tuner.features.ablation.section import ablation_section, checked_ranges_section
from tuner.features.ablation.tables import AblationTable, RangesTable
from tuner.reporting.features import InReporting
from tuner.reporting.markup import Html
from tuner.results.features import special
from tuner.results.findings import Finding, Verdict
from tuner.results.records import StudySummary
from tuner.trial.messages import JsonDict


def _figures(summary: StudySummary) -> dict[str, JsonDict]:
    found = ABLATION.of(summary)
    if found is None:
        return {}
    return {"ablation-figure": ablation_figure(found), **range_figures(found, summary.scales)}


def _sections(summary: StudySummary, found: Verdict) -> Iterator[Html]:
    has_one = not (special(summary) or summary.is_sweep)
    if ABLATION.of(summary) is not None or (has_one and summary.winner_label not in (None, summary.default_label)):
        yield ablation_section(summary, found.finding)
        yield checked_ranges_section(summary)


def _printed(summary: StudySummary) -> Iterator[RenderableType]:
    found = ABLATION.of(summary)
    if found is not None:
        yield AblationTable(found)
        yield from sentences(found)
        if found.ranges:
            yield RangesTable(found)
            yield from range_sentences(found)


def _commands(summary: StudySummary, found: Verdict) -> dict[str, str]:
    can_be = not special(summary)
    is_better = found.finding is Finding.BETTER and can_be
    return {"see which changes made it better": ablation_command(summary)} if is_better else {}


PART = InReporting(figures=_figures, search_sections=_sections, printed=_printed, commands=_commands)
