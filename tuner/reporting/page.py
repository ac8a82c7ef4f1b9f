"""One self-contained HTML page of a study: no network, no other file needed, light and dark, printable."""

import base64
import hashlib
from collections.abc import Mapping
from pathlib import Path
from typing import Final

from tuner.errors import UserError
from tuner.features import parts
from tuner.reporting.features import InReporting
from tuner.reporting.figures import parameter_effects as parameter_figures
from tuner.reporting.figures import scores as figures
from tuner.reporting.figures import study_figures as study_figures
from tuner.reporting.markup import Html, join, tag
from tuner.reporting.page_data import as_packed_script, as_script_data, packed_figures
from tuner.reporting.sections import cost as effort_sections
from tuner.reporting.sections import outcome as sections
from tuner.reporting.sections import parameters as parameter_sections
from tuner.results.columns import trials_csv
from tuner.results.findings import Verdict
from tuner.results.number_format import describe_subject
from tuner.results.records import StudySummary
from tuner.results.summary_json import summary_to_json
from tuner.results.verdict import verdict
from tuner.support.text_files import atomic_write
from tuner.trial.messages import JsonDict

PAGE_FILE: Final = "report.html"
JSON_FILE: Final = "report.json"
CSV_FILE: Final = "trials.csv"

_HERE: Final = Path(__file__).parent


def write_page(summary: StudySummary, folder: Path) -> Path:
    """Writes report.html, and beside it report.json (the whole summary) and trials.csv (all runs).

    Args:
        summary: of the study, finished or not.
        folder: made if it is not there; files of an earlier report are replaced.

    Returns:
        The path of the page.

    Raises:
        UserError: plotly is not installed, or the folder cannot be written.
    """
    page = render_page(summary)
    try:
        folder.mkdir(parents=True, exist_ok=True)
        atomic_write(folder / JSON_FILE, summary_to_json(summary))
        atomic_write(folder / CSV_FILE, trials_csv(summary))
        atomic_write(folder / PAGE_FILE, page)
    except OSError as error:
        raise UserError(f"the report cannot be written to {folder}: {error.strerror}\nGive another folder.") from error
    return folder / PAGE_FILE


def render_page(summary: StudySummary) -> str:
    """The page as text.

    Raises:
        UserError: plotly is not installed.
    """
    found = verdict(summary)
    drawings = make_figures(summary, found)
    title = f"{summary.name}: {describe_subject(summary.agent, summary.env_id)}"
    return document(title, _main(summary, found, drawings), drawings)


def document(title: str, main: Html, drawings: Mapping[str, JsonDict]) -> str:
    """A whole page that needs nothing else.

    Args:
        title: Of the window.
        main: Its body, with places for the figures.
        drawings: By id of its place, each figure.

    Raises:
        UserError: plotly is not installed.
    """
    plotly, own = _plotly_source(), (_HERE / "page.js").read_text(encoding="utf-8")
    head = tag(
        "head",
        Html('<meta charset="utf-8">'),
        Html(f'<meta http-equiv="Content-Security-Policy" content="{_policy((plotly, own))}">'),
        Html('<meta name="viewport" content="width=device-width, initial-scale=1">'),
        Html('<meta name="color-scheme" content="light dark">'),
        tag("title", title),
        tag("style", Html((_HERE / "page.css").read_text(encoding="utf-8"))),
    )
    data = tag("script", as_script_data(packed_figures(drawings)), type="application/json", id="figures")
    packed = tag("script", as_packed_script(plotly), type="application/gzip", id="plotly")
    body = tag("body", main, data, packed, tag("script", Html(own)))
    return f"<!doctype html>\n{tag('html', head, body, lang='en')}\n"


def make_figures(summary: StudySummary, found: Verdict) -> dict[str, JsonDict]:
    """Id of its place in the page -> figure; those that there is nothing to draw for are left out."""
    drawings = {
        "comparison-figure": figures.comparison_figure(summary, found) if found.winner else None,
        **{name: drawing for part in parts(InReporting) for name, drawing in part.result_figures(summary).items()},
        "history-figure": figures.history_figure(summary),
        "curves-figure": figures.curves_figure(summary),
        "parallel-figure": study_figures.parallel_figure(summary),
        "expected-figure": study_figures.expected_figure(summary),
        **{name: drawing for part in parts(InReporting) for name, drawing in part.figures(summary).items()},
    }
    if not parameter_sections.importance_missing(summary):
        drawings["importance-figure"] = parameter_figures.importance_figure(summary)
        drawings["importance-time-figure"] = study_figures.importance_time_figure(summary)
        slices = parameter_figures.slice_figures(summary)
        drawings |= dict(zip(parameter_sections.slice_names(summary), slices, strict=True))
    return {name: drawing for name, drawing in drawings.items() if drawing is not None}


def _main(summary: StudySummary, found: Verdict, drawings: dict[str, JsonDict]) -> Html:
    one_score = not summary.others and not summary.is_sweep
    body = [
        sections.header(summary),
        sections.verdict_section(found),
        sections.comparison_section(summary, found) if one_score else "",
        *(section for part in parts(InReporting) for section in part.result_sections(summary, found)),
        *_searched(summary, found, drawings),
        sections.trials_section(summary),
        effort_sections.failures_section(summary),
        effort_sections.reproduce_section(summary),
        effort_sections.cost_section(summary),
        effort_sections.about_section(summary),
        effort_sections.footer(),
    ]
    return tag("main", join(body))


def _searched(summary: StudySummary, found: Verdict, drawings: dict[str, JsonDict]) -> list[Html]:
    """Sections about the search: its trials, and the effects of parameters."""
    if own := [section for part in parts(InReporting) for section in part.search(summary, drawings)]:
        return own
    return [
        *(section for part in parts(InReporting) for section in part.search_sections(summary, found)),
        parameter_sections.safe_ranges_section(summary),
        parameter_sections.importance_section(summary),
        *(section for part in parts(InReporting) for section in part.parameter_sections(summary, found)),
        parameter_sections.parallel_section(summary, "parallel-figure" in drawings),
        sections.history_section(summary, "history-figure" in drawings),
        sections.curves_section(summary, "curves-figure" in drawings),
        effort_sections.expected_best_section(summary),
    ]


def _policy(scripts: tuple[str, ...]) -> str:
    """Nothing is loaded, and no script runs but these: not even one that found its way in past the escaping."""
    hashes = [base64.b64encode(hashlib.sha256(source.encode()).digest()).decode() for source in scripts]
    allowed = " ".join(f"'sha256-{value}'" for value in hashes)
    return (
        f"default-src 'none'; script-src {allowed}; style-src 'unsafe-inline'; img-src data: blob:; "
        "base-uri 'none'; form-action 'none'"
    )


def _plotly_source() -> str:
    try:
        from plotly.offline import get_plotlyjs
    except ModuleNotFoundError as error:
        raise UserError("the page needs plotly, which is not installed\npip install 'note-rl[report]'") from error
    return str(get_plotlyjs())
