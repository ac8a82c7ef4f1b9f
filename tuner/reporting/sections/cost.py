"""The sections about the study itself: what failed, what it cost, whether more would pay, how to repeat it."""

from collections.abc import Mapping

from tuner.reporting.downsampling import MOST_ROWS
from tuner.reporting.elements import copied_command, figure, note, number_cell, reason, section, table, text_cell
from tuner.reporting.markup import Html, join, tag
from tuner.results.features import all_stages, chosen
from tuner.results.findings import Finding
from tuner.results.insights.effort import costs, ended_by_themselves, expected_best, machines
from tuner.results.insights.failures import failure_kinds
from tuner.results.insights.method import checklist
from tuner.results.number_format import format_seconds, format_value
from tuner.results.records import StudySummary
from tuner.results.run_labels import shown_label
from tuner.results.verdict import verdict


def failures_section(summary: StudySummary) -> Html:
    """The kinds of failure with what they have in common, and all failed runs of all stages."""
    kinds = failure_kinds(summary)
    if not kinds:
        return section("failures", "Failures", reason("No run failed."))
    listed = []
    for kind in kinds:
        count = f"{len(kind.runs)} {kind.outcome.replace('_', ' ')}"
        same = "" if kind.num_same == len(kind.runs) else f" ({kind.num_same} of them)"
        parts = [tag("strong", count, class_="state failed"), f": {kind.reason}{same}. "]
        parts += [f"In common: {kind.common}. "] if kind.common else []
        listed.append(tag("li", *parts, tag("em", f"{kind.remedy[:1].upper()}{kind.remedy[1:]}.")))
    failed = [run for kind in kinds for run in kind.runs]
    rows = [
        tag(
            "tr",
            text_cell(f"{run.stage}/{run.number}"),
            text_cell(shown_label(summary, run.label)),
            tag("td", tag("span", str(run.outcome).replace("_", " "), class_="state failed")),
            tag("td", run.reason or "no reason given", class_="wrap"),
            tag("td", tag("code", run.place), class_="wrap"),
        )
        for run in failed[:MOST_ROWS]
    ]
    heads = ["run", "configuration", "kind", "reason", "files"]
    title = "All failed runs" if len(failed) <= MOST_ROWS else f"{MOST_ROWS:,} of {len(failed):,} failed runs"
    every = tag("details", tag("summary", title), table("failure-table", heads, rows))
    return section("failures", "Failures", tag("ul", *listed, class_="kinds"), every)


def expected_best_section(summary: StudySummary) -> Html:
    """Whether more trials would have been worth it."""
    title = "Is more tuning worth it?"
    found = expected_best(summary)
    if found is None:
        return section("more", title, reason("Too few trials have a score."))
    words = (
        "Best screening score to be expected of this many trials drawn from these (Dodge et al. 2019). "
        "It is a tuning score: one seed, and the best of many."
    )
    return section(
        "more", title, tag("p", found.sentence(_default_is_as_good(summary))), figure("expected-figure", words)
    )


def cost_section(summary: StudySummary) -> Html:
    """The cost of each stage."""
    found = costs(summary)
    if not found:
        return section("cost", "Cost", reason("Nothing has run yet."))
    with_steps = any(one.env_steps is not None for one in found)
    heads = ["stage", "runs", "complete", "pruned", "failed", "time of its runs", "lost to failures"]
    rows = []
    for one in found:
        cells = [
            *(number_cell(count, str(count)) for count in (one.num_runs, one.num_complete, one.num_pruned)),
            number_cell(one.num_failed, str(one.num_failed)),
            number_cell(one.seconds, format_seconds(one.seconds)),
            number_cell(one.lost_seconds, format_seconds(one.lost_seconds)),
        ]
        steps = [] if one.env_steps is None else [number_cell(one.env_steps, f"{one.env_steps:,}")]
        rows.append(tag("tr", text_cell("jobs" if summary.is_sweep else one.stage), *cells, *steps))
    spent = sum(one.seconds for one in found)
    whole = (
        f"{format_seconds(summary.seconds)} in all, {format_seconds(spent)} summed over runs, of which several may "
        "have run at a time."
    )
    heads += ["environment steps"] if with_steps else []
    tables = (table("cost-table", heads, rows), _machines(summary), _ended_by_themselves(summary))
    return section("cost", "Cost", tag("p", whole), *tables)


def _machines(summary: StudySummary) -> Html:
    """Where the runs were, if not all here."""
    rows = [
        tag(
            "tr",
            text_cell(one.host or "the controller's own"),
            number_cell(one.num_runs, str(one.num_runs)),
            number_cell(one.num_failed, str(one.num_failed)),
            number_cell(one.seconds, format_seconds(one.seconds)),
        )
        for one in machines(summary)
    ]
    return table("machine-table", ["machine", "runs that ended there", "failed", "time"], rows) if rows else Html("")


def _ended_by_themselves(summary: StudySummary) -> Html:
    """The complete runs that took less than their budget."""
    runs = ended_by_themselves(summary)
    if not runs:
        return Html("")
    rows = [
        tag(
            "tr",
            text_cell(f"{run.stage}/{run.number}"),
            text_cell(shown_label(summary, run.label)),
            tag("td", run.reason, class_="wrap"),
        )
        for run in runs[:MOST_ROWS]
    ]
    words = "Runs that ended early by their own rule; their last value counts for the rest of the budget"
    title = words if len(runs) <= MOST_ROWS else f"{words} ({MOST_ROWS:,} of {len(runs):,})"
    heads = ["run", "configuration", "reason"]
    return tag("details", tag("summary", title), table("ended-table", heads, rows))


def reproduce_section(summary: StudySummary) -> Html:
    """The command that trains the winner again, and the one that runs the study again."""
    parts: list[str] = []
    if summary.retrain_command:
        if remark := chosen(summary).remark:
            parts += [note(remark)]
        elif _keeps_default(summary):
            if summary.default_command:
                words = "The verdict keeps the default configuration, which this trains:"
                parts += [note(words), copied_command("default-command", summary.default_command)]
            parts += [note("This trains the winner of the search:")]
        parts += [copied_command("command", summary.retrain_command)]
    elif not summary.is_sweep:
        parts += [reason("There is no winner yet.")]
    if summary.study_command:
        words = "This command continues the study; in another folder, with the same versions, it repeats the study:"
        parts += [note(words), copied_command("study-command", summary.study_command)]
    title = "Run it again" if summary.is_sweep else "Train it again"
    return section("reproduce", title, *(parts or [reason("No command is known.")]))


def _keeps_default(summary: StudySummary) -> bool:
    return _default_is_as_good(summary) and summary.winner_label != summary.default_label


def _default_is_as_good(summary: StudySummary) -> bool:
    return not summary.is_sweep and verdict(summary).finding is Finding.DEFAULT_AS_GOOD


def about_section(summary: StudySummary) -> Html:
    """How it was made: notes, a checklist, the search space, budget, seeds and versions."""
    seeds = {stage: len({run.seed for run in summary.stage(stage)}) for stage in all_stages() if summary.stage(stage)}
    facts: dict[str, str] = {
        "study seed": "not noted" if summary.seed is None else str(summary.seed),
        "different seeds": ", ".join(f"{stage} {count}" for stage, count in seeds.items()) or "none",
        **{name: format_value(value) for name, value in summary.budget.items()},
    }
    notes = [tag("li", text) for text in summary.notes]
    words = "What to report of a search, after Eimer, Lindauer and Raileanu (2023):"
    return section(
        "about",
        "About this study",
        tag("ul", *notes, class_="details") if notes else "",
        note(words),
        _facts("How it was made", checklist(summary)),
        _facts("Search space", summary.space) if summary.space else "",
        tag("div", _facts("Budget and seeds", facts), _facts("Versions", summary.versions), class_="columns"),
    )


def _facts(title: str, facts: Mapping[str, str]) -> Html:
    rows = [tag("tr", tag("th", name, scope="row"), tag("td", value, class_="wrap")) for name, value in facts.items()]
    return tag("div", tag("h3", title), tag("table", tag("tbody", *rows), class_="facts"))


def footer() -> Html:
    """The footer, which names the files beside the page."""
    files = join(
        ["The same as data: ", tag("code", "report.json"), " and ", tag("code", "trials.csv"), " in this folder."]
    )
    return tag("footer", tag("p", files))
