"""The sections of the page, in the order of a reader's questions: what came out, how sure, why, how to repeat it."""

import html
import re
from collections import Counter
from collections.abc import Mapping, Sequence

from tuner.records import CONFIRM, RACE, SCREEN, STAGES, TEST, RunRecord, Scalar, StudySummary
from tuner.reporting.markup import Html, join, tag
from tuner.results import Finding, Verdict, estimate
from tuner.wording import describe_subject, format_number, format_seconds, format_signed, format_value, short_names

MIN_TRIALS_FOR_IMPORTANCE = 8

_TONES = {
    Finding.BETTER: "good",
    Finding.DEFAULT_AS_GOOD: "poor",
    Finding.ALL_FAILED: "bad",
}


def header(summary: StudySummary) -> Html:
    """Name and subject."""
    what = (describe_subject(summary.agent, summary.env_id), summary.backend, summary.metric_name)
    subject = " · ".join(filter(None, what))
    return tag(
        "header", tag("p", "Study", class_="kicker"), tag("h1", summary.name), tag("p", subject, class_="subject")
    )


def verdict_section(found: Verdict) -> Html:
    """The sentence, the numbers it rests on, and what qualifies it."""
    numbers = [
        ("winner, test IQM", _with_interval(found.winner)),
        ("default, test IQM", _with_interval(found.default)),
        ("difference", _difference(found)),
        ("P(winner beats default)", "" if found.improvement is None else f"{found.improvement:.2f}"),
        ("selection optimism", "" if found.optimism is None else format_signed(found.optimism)),
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
    if found.difference is None:
        return ""
    low, high = found.difference.low, found.difference.high
    interval = "" if low is None or high is None else f" [{format_signed(low)}, {format_signed(high)}]"
    return format_signed(found.difference.iqm) + interval


def comparison_section(summary: StudySummary, found: Verdict) -> Html:
    """Winner and default on test seeds."""
    title = "Winner and default on test seeds"
    if found.winner is None:
        return section("comparison", title, reason("There are no finished test runs to compare yet."))
    names = list(dict.fromkeys(name for run in summary.stage(TEST) for name in run.scores))
    heads = ["configuration", "seed", summary.metric_name, *names]
    rows = []
    for run in summary.stage(TEST):
        scores = [_number(run.scores.get(name)) for name in names]
        rows.append(tag("tr", _text(run.label), _number(run.seed, str(run.seed)), _number(run.score), *scores))
    table = tag("details", tag("summary", "All test runs"), _table("test-runs", heads, rows))
    note = "Each point is one run on a seed that was used for nothing else. The diamond is the interquartile mean."
    return section("comparison", title, figure("comparison-figure", note), table)


def history_section(summary: StudySummary, available: bool) -> Html:
    """The search."""
    if not available:
        return section("history", "The search", reason("No trial has a score."))
    note = (
        f"Score: {summary.metric_name}, in screening on one seed per trial. Pruned trials stand at their last report."
    )
    return section("history", "The search", figure("history-figure", note))


def curves_section(available: bool) -> Html:
    """Learning curves."""
    if not available:
        return section("curves", "Learning curves", reason("No run has reported more than one value."))
    return section("curves", "Learning curves", figure("curves-figure", "Thin lines are single runs."))


def importance_section(summary: StudySummary) -> Html:
    """What the score depends on, where there are enough trials to say."""
    title = "Which parameters matter"
    missing = importance_missing(summary)
    if missing:
        return section("importance", title, reason(missing))
    note = "Shares of all parameters together. They rest on the screening trials and say nothing about direction."
    slices = "Score of each complete screening trial against the value of its parameter."
    return section("importance", title, figure("importance-figure", note), figure("slices-figure", slices))


def importance_missing(summary: StudySummary) -> str:
    """Why no importances are shown; empty if they are."""
    complete = sum(run.complete for run in summary.stage(SCREEN))
    if complete < MIN_TRIALS_FOR_IMPORTANCE:
        return (
            f"{complete} of at least {MIN_TRIALS_FOR_IMPORTANCE} trials are complete: too few to tell parameters apart."
        )
    return "" if summary.importances else "The study has not worked out importances (too few or too equal trials)."


def trials_section(summary: StudySummary) -> Html:
    """All screening trials with their parameters, sortable by a click on a heading."""
    runs = summary.stage(SCREEN)
    if not runs:
        return section("trials", "Trials", reason("No trial has been started."))
    names = short_names(dict.fromkeys(path for run in runs for path in run.params))
    stages = [stage for stage in (RACE, CONFIRM, TEST) if summary.stage(stage)]
    heads = ["trial", "outcome", "score", *stages, *names.values(), "time"]
    ordered = sorted(runs, key=lambda run: (not run.complete, -(run.score or 0.0) if run.complete else run.number))
    rows = [_trial_row(summary, run, stages, list(names)) for run in ordered]
    hint = tag("p", "Click a heading to sort. The columns of later stages show interquartile means.", class_="note")
    return section(
        "trials", "Trials", hint, _table("trial-table", heads, rows, titles={v: k for k, v in names.items()})
    )


def _trial_row(summary: StudySummary, run: RunRecord, stages: Sequence[str], paths: Sequence[str]) -> Html:
    later = []
    for stage in stages:
        scores = [other.score for other in summary.stage(stage, run.label) if other.score is not None]
        later.append(_number(estimate(scores).iqm if scores else None))
    winner = run.label == summary.winner_label
    state = "running" if run.outcome is None else run.outcome.replace("_", " ")
    kind = "failed" if run.failed else state
    return tag(
        "tr",
        _number(run.number, run.label + (" ★" if winner else "")),
        tag("td", tag("span", state, class_=f"state {kind}")),
        _number(run.value if run.complete or run.value is not None else None),
        *later,
        *(_value(run.params.get(path)) for path in paths),
        _number(run.seconds, format_seconds(run.seconds)),
        class_="winner" if winner else None,
    )


def failures_section(summary: StudySummary) -> Html:
    """Failed runs of all stages with kind and reason; nothing where none failed."""
    failed = [run for run in summary.runs if run.failed]
    if not failed:
        return section("failures", "Failures", reason("No run failed."))
    rows = [
        tag(
            "tr",
            _text(f"{run.stage}/{run.number}"),
            _text(run.label),
            tag("td", tag("span", str(run.outcome).replace("_", " "), class_="state failed")),
            tag("td", run.reason or "no reason given", class_="wrap"),
            tag("td", tag("code", run.folder), class_="wrap"),
        )
        for run in failed
    ]
    return section(
        "failures", "Failures", _table("failure-table", ["run", "configuration", "kind", "reason", "files"], rows)
    )


def reproduce_section(summary: StudySummary) -> Html:
    """The command that trains the winner again."""
    if not summary.retrain_command:
        return section("reproduce", "Train it again", reason("There is no winner yet."))
    button = tag("button", "Copy", type="button", id="copy", data_target="command")
    command = tag("pre", tag("code", summary.retrain_command, id="command"))
    return section("reproduce", "Train it again", tag("div", command, button, class_="command"))


def about_section(summary: StudySummary) -> Html:
    """Budget, seeds, versions and notes."""
    spent = sum(run.seconds for run in summary.runs)
    seeds = {stage: len({run.seed for run in summary.stage(stage)}) for stage in STAGES if summary.stage(stage)}
    facts: dict[str, str] = {
        "runs": ", ".join(_tally(summary, stage) for stage in STAGES if summary.stage(stage)) or "none",
        "time": f"{format_seconds(summary.seconds)} in all, {format_seconds(spent)} summed over runs",
        "study seed": "not noted" if summary.seed is None else str(summary.seed),
        "different seeds": ", ".join(f"{stage} {count}" for stage, count in seeds.items()) or "none",
        **{name: format_value(value) for name, value in summary.budget.items()},
    }
    notes = [tag("li", note) for note in summary.notes]
    return section(
        "about",
        "About this study",
        tag("ul", *notes, class_="details") if notes else "",
        tag("div", _facts("Budget and seeds", facts), _facts("Versions", summary.versions), class_="columns"),
    )


def _tally(summary: StudySummary, stage: str) -> str:
    kinds = Counter("running" if run.outcome is None else run.outcome.replace("_", " ") for run in summary.stage(stage))
    return f"{stage} {sum(kinds.values())} ({', '.join(f'{count} {kind}' for kind, count in kinds.most_common())})"


def _facts(title: str, facts: Mapping[str, str]) -> Html:
    rows = [tag("tr", tag("th", name, scope="row"), tag("td", value, class_="wrap")) for name, value in facts.items()]
    return tag("div", tag("h3", title), tag("table", tag("tbody", *rows), class_="facts"))


def section(name: str, title: str, *content: str) -> Html:
    """A section with its heading."""
    return tag("section", tag("h2", title), *content, id=name)


def reason(text: str) -> Html:
    """Why something is not shown."""
    return tag("p", text, class_="reason")


def figure(name: str, caption: str) -> Html:
    """The place of a figure, drawn by page.js."""
    return tag("figure", tag("div", id=name, class_="plot"), tag("figcaption", caption))


def _table(name: str, heads: Sequence[str], rows: Sequence[Html], titles: Mapping[str, str] | None = None) -> Html:
    headings = [
        tag("th", tag("button", _breakable(head), type="button", title=(titles or {}).get(head)), scope="col")
        for head in heads
    ]
    head, body = tag("thead", tag("tr", *headings)), tag("tbody", *rows)
    return tag("div", tag("table", head, body, id=name, class_="sortable"), class_="scroll")


def _breakable(name: str) -> Html:
    """A parameter's name that may be broken at its underscores and dots where paper is narrow."""
    return Html(re.sub(r"([_.])", r"\1<wbr>", html.escape(name)))


def _text(text: str) -> Html:
    return tag("td", text)


def _number(value: float | None, text: str | None = None) -> Html:
    """A cell sorted by its value; an empty one is sorted last."""
    if value is None:
        return tag("td", "", class_="number")
    return tag("td", format_number(value) if text is None else text, class_="number", data_value=repr(float(value)))


def _value(value: Scalar) -> Html:
    """A parameter's cell, with the full value to hover."""
    if isinstance(value, int | float) and not isinstance(value, bool):
        cell = tag("td", format_value(value), class_="number", data_value=repr(float(value)), title=repr(value))
        return cell
    return tag("td", "" if value is None else format_value(value))


def footer() -> Html:
    """What lies beside the page."""
    files = join(
        ["The same as data: ", tag("code", "report.json"), " and ", tag("code", "trials.csv"), " in this folder."]
    )
    return tag("footer", tag("p", files))
