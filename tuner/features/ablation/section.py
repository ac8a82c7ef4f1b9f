"""The section about what made the winner better than the default configuration."""

from tuner.features.ablation.effects import (
    StepEffect,
    ablation_command,
    percent,
    sentences,
    step_effects,
    step_names,
)
from tuner.features.ablation.facts import ABLATION, Ablation
from tuner.features.ablation.found_ranges import checks_note, edge_words, found_range, range_sentences
from tuner.features.ablation.range_figures import range_figures
from tuner.reporting.elements import figure, figure_grid, note, number_cell, reason, section, table, text_cell
from tuner.reporting.markup import Html, tag
from tuner.results.findings import Finding, estimate
from tuner.results.number_format import counted, format_seconds, format_value
from tuner.results.records import StudySummary


def ablation_section(summary: StudySummary, finding: Finding) -> Html:
    """The path from the default configuration to the winner, measured by runs; without one, how to have it.

    Args:
        summary: Of the study.
        finding: Its verdict: what has not made the winner better is not said to have done so.
    """
    is_better = finding is Finding.BETTER
    title = "Which changes made the winner better" if is_better else "What the changes of the winner are worth"
    found = ABLATION.of(summary)
    if found is None:
        state = "" if is_better else "The winner is not known to be better than the default configuration. "
        return section("ablation", title, reason(f"{state}Not measured yet: {ablation_command(summary)}"))
    told = [tag("li", sentence) for sentence in sentences(found)]
    of_before = "" if found.winner == summary.winner_label else f" That was the winner then; now {_now(summary)}."
    words = (
        f"{counted(found.num_runs, 'run')}, {format_seconds(found.seconds)} in all, on seeds that the study has not "
        "seen. From each configuration the change came next that did best in a race on seeds of its own (Fawcett & "
        f"Hoos 2016).{of_before}"
    )
    drawn = figure("ablation-figure", "Points are runs, diamonds interquartile means with their 95 % intervals.")
    return section("ablation", title, tag("ul", *told, class_="kinds"), note(words), drawn, _table(found))


def checked_ranges_section(summary: StudySummary) -> Html:
    """How far each parameter may move; where that was not measured, how to have it."""
    title, found = "How far each parameter may move", ABLATION.of(summary)
    if found is None or not found.ranges:
        return section("checked-ranges", title, reason(f"Not measured yet: {ablation_command(summary)} ranges=true"))
    told = [tag("li", sentence) for sentence in range_sentences(found)]
    how = (
        f"{checks_note(found)}, on seeds that the study has not seen. A model of the screening trials said "
        "where to look first; from there distances were doubled while the score held, and halved once it had fallen."
    )
    caption = (
        f"Score of {found.winner} with other values of one parameter, all else unchanged: interquartile means "
        "with their 95 % intervals. The star is the winner, the band its interval; what is above the dotted line holds."
    )
    grid = figure_grid(list(range_figures(found, summary.scales)), caption)
    parts = (tag("ul", *told, class_="kinds"), note(how), grid, _range_table(found))
    return section("checked-ranges", title, *parts)


def _range_table(found: Ablation) -> Html:
    heads = ["parameter", "winner", "holds from", "to", "next below", "next above"]
    rows = []
    for one in found.ranges:
        span = found_range(found, one)
        values = (span.value, span.below.holds_at, span.above.holds_at)
        cells = [number_cell(value, format_value(value)) for value in values]
        words = [text_cell(edge_words(found, edge)) for edge in (span.below, span.above)]
        rows.append(tag("tr", text_cell(one.path), *cells, *words))
    return table("checked-range-table", heads, rows)


def _now(summary: StudySummary) -> str:
    return f"it is {summary.winner_label}" if summary.winner_label else "there is none yet"


def _table(found: Ablation) -> Html:
    heads = ["step", "parameter", "from", "to", "score", "gain", "share", "effect"]
    start = [number_cell(0, "0"), text_cell("default"), text_cell(""), text_cell("")]
    empty = [number_cell(None), number_cell(None), text_cell("")]
    rows = [tag("tr", *start, number_cell(estimate(found.default).iqm), *empty)]
    named = zip(step_effects(found), step_names(found), strict=True)
    rows += [_row(number, one, name) for number, (one, name) in enumerate(named, start=1)]
    return table("ablation-table", heads, rows)


def _row(number: int, one: StepEffect, name: str) -> Html:
    before, after = (", ".join(map(format_value, values)) for values in zip(*_values(one), strict=True))
    return tag(
        "tr",
        number_cell(number, str(number)),
        tag("td", name, title=", ".join(change.path for change in one.changes), class_="wrap"),
        text_cell(before),
        text_cell(after),
        number_cell(one.score.iqm),
        number_cell(one.gain.iqm, one.gain.signed),
        number_cell(one.share, percent(one.share)),
        text_cell(one.effect.value),
    )


def _values(one: StepEffect) -> list[tuple[object, object]]:
    return [(change.before, change.after) for change in one.changes]
