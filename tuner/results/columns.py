"""The columns of the table of runs: one list for trials.csv, for rows in Python, for the page and for trackers."""

from functools import partial
from operator import attrgetter

from tuner.features import parts
from tuner.results.csv_text import csv_text
from tuner.results.features import Cells, InResults, RunColumn, ShownIn
from tuner.results.records import CONFIRM, RACE, TEST, RunRecord, Scalar, StudySummary
from tuner.results.statistics import iqm

_FILE, _PAGE, _TRACKER = ShownIn


def columns(summary: StudySummary, table: ShownIn) -> list[RunColumn]:
    """The columns of one of the tables, in their order; all rows have all of them."""
    return [column for column in _all(summary) if table in column.shown_in]


def rows(summary: StudySummary) -> list[dict[str, Scalar]]:
    """All runs of all stages with the columns of trials.csv."""
    chosen = columns(summary, ShownIn.FILE)
    return [{column.name: column.value(run) for column in chosen} for run in summary.runs]


def trials_csv(summary: StudySummary) -> str:
    """The same as CSV text."""
    chosen = columns(summary, ShownIn.FILE)
    return csv_text([[column.name for column in chosen], *([one.value(run) for one in chosen] for run in summary.runs)])


def _all(summary: StudySummary) -> list[RunColumn]:
    runs, everywhere = summary.runs, _FILE | _PAGE | _TRACKER
    measures = dict.fromkeys(name for run in runs for name in run.scores)
    own = [column for part in parts(InResults) for column in part.columns(summary)]
    later = [stage for stage in (RACE, CONFIRM, TEST) if summary.stage(stage)]
    paths = dict.fromkeys(path for run in runs for path in run.params)
    return [
        _field("stage", _FILE | _TRACKER),
        _field("number", everywhere, cells=Cells.TRIAL),
        _field("label", _FILE | _TRACKER, "configuration"),
        _field("seed", _FILE | _TRACKER),
        *(column for column in own if column.says_which),
        RunColumn("outcome", _outcome, everywhere, cells=Cells.OUTCOME),
        _field("value", everywhere, "score"),
        *(column for column in own if not column.says_which),
        *(RunColumn(_title(name), partial(_measured, name), _FILE) for name in measures),
        *(RunColumn(_title(other.name), partial(_measured, other.name), _PAGE | _TRACKER) for other in summary.others),
        *(RunColumn(stage, partial(_in_stage, summary, stage), _PAGE) for stage in later),
        _field("seconds", everywhere, cells=Cells.DURATION),
        *(RunColumn(path, partial(_drawn, path), everywhere, cells=Cells.PARAMETER) for path in paths),
        _field("reason", _FILE | _TRACKER),
        _field("folder", _FILE),
        *([_field("host", everywhere)] if any(run.host for run in runs) else []),
    ]


def _title(measure: str) -> str:
    """The column of an objective: of seconds there is one already, those that the whole run took."""
    return "seconds of training" if measure == "seconds" else measure


def _field(name: str, shown_in: ShownIn, title: str = "", cells: Cells = Cells.PLAIN) -> RunColumn:
    return RunColumn(name, attrgetter(name), shown_in, title, cells)


def _outcome(run: RunRecord) -> Scalar:
    return "running" if run.outcome is None else run.outcome.value


def _measured(name: str, run: RunRecord) -> Scalar:
    return run.scores.get(name)


def _drawn(path: str, run: RunRecord) -> Scalar:
    return run.params.get(path)


def _in_stage(summary: StudySummary, stage: str, run: RunRecord) -> Scalar:
    """The score of the configuration of a run in a later stage."""
    scores = [other.score for other in summary.stage(stage, run.label) if other.score is not None]
    return float(iqm(scores)) if scores else None
