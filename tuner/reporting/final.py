"""The tables at the end of a study: the best trials with their parameters, and the test runs."""

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass

from rich import box
from rich.console import Console, ConsoleOptions, Group, RenderableType, RenderResult
from rich.measure import Measurement
from rich.table import Table
from rich.text import Text

from tuner.features import parts
from tuner.reporting.features import InReporting
from tuner.results.features import chosen
from tuner.results.findings import estimate
from tuner.results.insights.targets import reached_in_words, targets_of
from tuner.results.number_format import describe_params, format_number, format_value, in_two_lines, join_words
from tuner.results.records import CONFIRM, RACE, TEST, RunRecord, StudySummary
from tuner.results.run_labels import shown_label

TOP = 10


@dataclass(frozen=True)
class FinalTable:
    """A study as tables, finished or not: its best trials, and the test runs if there are any.

    As many parameters as the width has room for, the most important first.
    """

    summary: StudySummary

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
        tables: list[RenderableType] = []
        best = best_trials(self.summary, TOP)
        if best:
            tables.append(_widest(self.summary, best, console, options))
        if self.summary.stage(TEST):
            tables.append(_test_table(self.summary))
            tables += [table for part in parts(InReporting) for table in part.test_tables(self.summary)]
        failed = [run for run in self.summary.runs if run.failed]
        if failed:
            tables.append(_failures(failed))
        for table in tables:
            yield table
            yield ""


def best_trials(summary: StudySummary, top: int) -> list[RunRecord]:
    """The best complete screening trials, what the study chose first, whatever their screening scores."""
    complete = [run for run in summary.stage(summary.first_stage) if run.complete]
    complete.sort(key=lambda run: (not _is_chosen(summary, run), -(summary.merit(run) or 0.0), run.number))
    return complete[:top]


def _is_chosen(summary: StudySummary, run: RunRecord) -> bool:
    return run.label in chosen(summary).labels


def _widest(
    summary: StudySummary, best: Sequence[RunRecord], console: Console, options: ConsoleOptions
) -> RenderableType:
    """The table with the most parameters that still fits."""
    paths = sorted({path: None for run in best for path in run.params}, key=lambda path: -_importance(summary, path))
    for shown in range(len(paths), -1, -1):
        table = _trial_table(summary, best, paths[:shown])
        # One column less than the terminal: some wrap a line that fills them.
        if Measurement.get(console, options, table).maximum < options.max_width or shown == 0:
            break
    remarks = [f"* {chosen(summary).mark}"] if _is_chosen(summary, best[0]) else []
    lines = []
    if shown < len(paths):
        remarks.append(f"no room for {join_words(paths[shown:])}")
        one = next((run for run in best if run.label == summary.winner_label), best[0])
        params = describe_params(one.params, summary.weights, limit=len(paths))
        lines.append(Text(f" {shown_label(summary, one.label)}: {params}"))
    return Group(table, Text(" " + "; ".join(remarks), style="dim"), *lines) if remarks else table


def _trial_table(summary: StudySummary, best: Sequence[RunRecord], paths: Sequence[str]) -> Table:
    stages = [stage for stage in (RACE, CONFIRM) if summary.stage(stage)]
    table = _table(f"Best trials by {summary.metric_name}")
    table.add_column("trial", no_wrap=True, vertical="bottom")
    for name in (summary.first_stage, *(other.name for other in summary.others), *stages):
        table.add_column(name, justify="right", no_wrap=True, vertical="bottom")
    for path in paths:
        table.add_column(Text(in_two_lines(path)), justify="right", no_wrap=True)
    for run in best:
        scores = [[other.score for other in summary.stage(stage, run.label)] for stage in stages]
        cells = [
            Text(shown_label(summary, run.label) + (" *" if _is_chosen(summary, run) else "")),
            Text(format_number(run.score or 0.0)),
            *(Text(_mean([run.scores[other.name]])) for other in summary.others),
            *(Text(_mean([score for score in own if score is not None])) for own in scores),
            *(Text(format_value(run.params[path]) if path in run.params else "") for path in paths),
        ]
        table.add_row(*cells, style="bold" if _is_chosen(summary, run) else None)
    return table


def _test_table(summary: StudySummary) -> Table:
    """One row per tested configuration: IQM with interval, and every score."""
    table = _table("On test seeds")
    table.add_column("configuration", no_wrap=True)
    table.add_column("IQM", justify="right", no_wrap=True)
    table.add_column("95 % interval", no_wrap=True)
    for other in summary.others:
        table.add_column(Text(other.name), justify="right", no_wrap=True)
    targets = targets_of(summary)
    for target in targets:
        table.add_column(f"reached {target.target:g}", justify="right", no_wrap=True)
    table.add_column("scores")
    width = max((len(format_number(run.score)) for run in summary.stage(TEST) if run.score is not None), default=0)
    for label in dict.fromkeys(run.label for run in summary.stage(TEST)):
        runs = summary.stage(TEST, label)
        scores = [run.score for run in runs if run.score is not None]
        name = Text(shown_label(summary, label) + (" *" if label in chosen(summary).labels else ""))
        measured = [[run.scores[other.name] for run in runs if other.name in run.scores] for other in summary.others]
        others = [_mean(column) for column in measured]
        others += [reached_in_words(target, runs) for target in targets]
        if not scores:
            table.add_row(name, "", "", *others, f"none of {len(runs)} runs has a score")
            continue
        found = estimate(scores)
        interval = "too few seeds" if found.low is None else found.around
        missing = f"  ({len(runs) - len(scores)} without a score)" if len(scores) < len(runs) else ""
        texts = [format_number(score) for score in sorted(scores, reverse=True)]
        listed = " ".join(text.rjust(width) for text in texts)
        table.add_row(name, found.mean, interval, *others, listed + missing)
    return table


def _failures(failed: Sequence[RunRecord]) -> Table:
    """The kinds of failure with their most frequent reason."""
    table = _table("Failed runs", show_header=False)
    for kind, count in Counter(run.outcome for run in failed).most_common():
        reasons = Counter(run.reason or "no reason given" for run in failed if run.outcome is kind)
        table.add_row(Text(f"{count} {str(kind).replace('_', ' ')}"), Text(reasons.most_common(1)[0][0]))
    return table


def _table(title: str, show_header: bool = True) -> Table:
    heading = Text(title, style="bold")
    return Table(box=box.SIMPLE_HEAD, show_edge=False, title=heading, title_justify="left", show_header=show_header)


def _importance(summary: StudySummary, path: str) -> float:
    return summary.weights.get(path, 0.0)


def _mean(scores: Sequence[float]) -> str:
    return format_number(float(estimate(scores).iqm)) if scores else ""
