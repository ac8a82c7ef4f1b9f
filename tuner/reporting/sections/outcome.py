"""The sections of the page, in the order of a reader's questions: what came out, how sure, why, how to repeat it."""

from collections.abc import Sequence

from tuner.reporting.downsampling import MOST_LINES, MOST_POINTS, MOST_ROWS, drawn_note
from tuner.reporting.elements import figure, note, number_cell, reason, section, table, text_cell, value_cell
from tuner.reporting.markup import Html, tag
from tuner.results.columns import columns
from tuner.results.features import Cells, RunColumn, ShownIn, chosen
from tuner.results.findings import Finding, Verdict
from tuner.results.number_format import describe_subject, format_seconds
from tuner.results.records import SCREEN, TEST, RunRecord, Scalar, StudySummary
from tuner.results.run_labels import shown_label

_TONES = {
    Finding.BETTER: "good",
    Finding.DEFAULT_AS_GOOD: "poor",
    Finding.ALL_FAILED: "bad",
    Finding.NONE_FEASIBLE: "poor",
}


def header(summary: StudySummary) -> Html:
    """Name and subject."""
    what = (describe_subject(summary.agent, summary.env_id), summary.backend, summary.metric_name)
    subject = " · ".join(filter(None, what))
    kind = tag("p", "Sweep" if summary.is_sweep else "Study", class_="kicker")
    return tag("header", kind, tag("h1", summary.name), tag("p", subject, class_="subject"))


def _optimism(found: Verdict) -> str:
    return "" if found.optimism is None or found.winner is None else found.winner.signed_like(found.optimism)


def verdict_section(found: Verdict) -> Html:
    """The sentence, the numbers it rests on, and what qualifies it."""
    numbers = [
        ("winner, test IQM", _with_interval(found.winner)),
        ("default, test IQM", _with_interval(found.default)),
        ("difference", _difference(found)),
        ("P(winner beats default)", "" if found.improvement is None else f"{found.improvement:.2f}"),
        ("selection optimism", _optimism(found)),
    ]
    cards = [_card(name, value) for name, value in numbers if value]
    details = [tag("li", detail) for detail in found.details]
    return tag(
        "section",
        tag("p", found.sentence, class_="sentence"),
        tag("dl", *cards, class_="cards") if cards else "",
        tag("ul", *details, class_="details") if details else "",
        class_=f"verdict {_TONES.get(found.finding, 'open')}",
        id="verdict",
    )


def _card(name: str, value: str) -> Html:
    number, _, interval = value.partition(" ")
    return tag("div", tag("dt", name), tag("dd", number, tag("small", f" {interval}") if interval else ""))


def _with_interval(found: object) -> str:
    return "" if found is None else str(found).partition(" (")[0]


def _difference(found: Verdict) -> str:
    return "" if found.difference is None else found.difference.signed


def comparison_section(summary: StudySummary, found: Verdict) -> Html:
    """The tested configurations, side by side."""
    title = f"Winner{', baselines' if summary.baselines else ''} and default on test seeds"
    if found.winner is None:
        return section("comparison", title, reason("There are no finished test runs to compare yet."))
    names = list(dict.fromkeys(name for run in summary.stage(TEST) for name in run.scores))
    heads = ["configuration", "seed", summary.metric_name, *names]
    rows = []
    for run in summary.stage(TEST):
        scores = [number_cell(run.scores.get(name)) for name in names]
        rows.append(
            tag(
                "tr",
                text_cell(shown_label(summary, run.label)),
                number_cell(run.seed, str(run.seed)),
                number_cell(run.score),
                *scores,
            )
        )
    runs = tag("details", tag("summary", "All test runs"), table("test-runs", heads, rows))
    words = (
        f"Score: {summary.metric_name}. Each point is one run on a held-out seed, the diamond their interquartile mean."
    )
    return section("comparison", title, figure("comparison-figure", words), runs)


def history_section(summary: StudySummary, available: bool) -> Html:
    """The search."""
    if not available:
        return section("history", "The search", reason("No trial has a score."))
    words = (
        f"Score: {summary.metric_name}{'' if summary.is_sweep else ', in screening on one seed per trial'}. "
        "Pruned trials stand at their last report."
        f"{drawn_note(len(summary.stage(SCREEN)), MOST_POINTS)}"
    )
    return section("history", "The search", figure("history-figure", words))


def curves_section(summary: StudySummary, available: bool) -> Html:
    """Learning curves."""
    if not available:
        return section("curves", "Learning curves", reason("No run has reported more than one value."))
    with_curve = sum(len(run.curve) > 1 for run in summary.stage(SCREEN))
    words = f"Thin lines are single runs.{drawn_note(with_curve, MOST_LINES)}"
    return section("curves", "Learning curves", figure("curves-figure", words))


def trials_section(summary: StudySummary) -> Html:
    """The screening trials with their parameters, sortable by a click on a heading; of very many the best."""
    runs = summary.stage(summary.first_stage)
    if not runs:
        return section("trials", "Trials", reason("No trial has been started."))
    shown = sorted(columns(summary, ShownIn.PAGE), key=lambda one: one.cells is Cells.DURATION)  # the time comes last
    heads = [_HEADINGS.get(one.cells) or one.heading for one in shown]
    ordered = sorted(
        runs, key=lambda run: (not run.complete, -(summary.merit(run) or 0.0) if run.complete else run.number)
    )
    rows = [_trial_row(summary, run, shown) for run in ordered[:MOST_ROWS]]
    words = "Click a heading to sort. The columns of later stages show interquartile means."
    if len(ordered) > MOST_ROWS:
        words += f" These are the best {MOST_ROWS:,} of {len(ordered):,} trials; trials.csv has all."
    hint = note(words)
    return section("trials", "Trials", hint, table("trial-table", heads, rows))


_HEADINGS = {Cells.TRIAL: "trial", Cells.DURATION: "time"}
"""As a table of one run for each configuration calls them."""


def _trial_row(summary: StudySummary, run: RunRecord, shown: Sequence[RunColumn]) -> Html:
    winner = run.label in chosen(summary).labels
    name = f"{shown_label(summary, run.label)} {'★' if winner else ''}".rstrip()
    cells = [_cell(one.cells, one.value(run), run, name) for one in shown]
    return tag("tr", *cells, class_="winner" if winner else None)


def _cell(cells: Cells, value: Scalar, run: RunRecord, name: str) -> Html:
    if cells is Cells.TRIAL:
        return number_cell(run.number, name)
    if cells is Cells.OUTCOME:
        state = str(value).replace("_", " ")
        return tag("td", tag("span", state, class_=f"state {'failed' if run.failed else state}"))
    if cells is Cells.DURATION:
        return number_cell(run.seconds, format_seconds(run.seconds))
    if cells is Cells.PARAMETER or isinstance(value, str | bool):
        return value_cell(value)
    return number_cell(value)
