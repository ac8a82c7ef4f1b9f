"""Metrics as JSON lines in the run's folder: readable by anything, complete up to the last line after a kill.

A trial process writes its own metrics.jsonl in the same form (`TrialContext.log`); this tracker is for runs that are no
trials.
"""

import io
import json
import logging
import math
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path

from tuner.support.text_files import atomic_write, open_to_append, parse_json
from tuner.trackers.base import RunInfo, Table
from tuner.trial.folder import METRICS_FILE, append_line, cut_torn_tail

SUMMARY_FILE = "summary.json"

logger = logging.getLogger(__name__)


class JsonlTracker:
    """Appends `{"step": 128, "train/loss": 0.5}` to metrics.jsonl of each run; finishing a run writes summary.json."""

    def __init__(self) -> None:
        self._open: set[JsonlRun] = set()

    def start_run(self, info: RunInfo) -> "JsonlRun":
        """Begin or continue the file of a run; a last line torn by a kill is cut off first."""
        run = JsonlRun(info, self._open.discard)
        self._open.add(run)
        return run

    def close(self, timeout_s: float = 10.0) -> None:
        """Closes the files of runs that nobody finished. Nothing is ever under way."""
        for run in list(self._open):
            run.close()


class JsonlRun:
    """One run's metrics.jsonl. A disk that refuses is one warning, and the run goes on.

    Args:
        info: what is tracked.
        closed: called when nothing more is written, so that nobody holds on to it.
    """

    def __init__(self, info: RunInfo, closed: Callable[["JsonlRun"], None]) -> None:
        self._info = info
        self._closed = closed
        self._file: io.FileIO | None = None
        path = info.folder / METRICS_FILE
        try:
            info.folder.mkdir(parents=True, exist_ok=True)
            cut_torn_tail(path)
            self._file = open_to_append(path)
        except OSError as error:
            self._give_up(error)

    def log(self, step: int, metrics: Mapping[str, float]) -> None:
        """Appends one line. JSON knows no NaN and no infinity: those become null."""
        if self._file is None:
            return
        values = {name: float(value) for name, value in metrics.items()}
        line = {name: value if math.isfinite(value) else None for name, value in values.items()}
        try:
            append_line(self._file, {"step": int(step), **line}, durable=False)
        except OSError as error:
            self._give_up(error)

    def finish(self, exit_code: int = 0, summary: Mapping[str, object] | None = None) -> None:
        """Closes the file and writes summary.json, aside and moved."""
        if self._file is None:
            return
        info = self._info
        content = {"name": info.name, "group": info.group, "job_type": info.job_type, "exit_code": exit_code}
        values = {name: value for name, value in (summary or {}).items() if not isinstance(value, Table)}
        try:
            atomic_write(info.folder / SUMMARY_FILE, json.dumps({**content, "summary": values}, indent=2))
        except OSError as error:
            self._give_up(error)
        self.close()

    def close(self) -> None:
        """Closes the file; nothing is written after that."""
        if self._file is not None:
            self._file.close()
            self._file = None
        self._closed(self)

    def _give_up(self, error: OSError) -> None:
        self.close()
        logger.warning("metrics of %s are not written to %s any more: %s", self._info.name, self._info.folder, error)


def read_metrics(folder: Path) -> Iterator[tuple[int, dict[str, float]]]:
    """Reads the (step, metrics) pairs of a run's metrics.jsonl, null as NaN; a damaged line is passed over.

    Args:
        folder: of a run, finished or not; nothing is yielded if it has no metrics.
    """
    path = folder / METRICS_FILE
    if not path.exists():
        return
    with path.open("rb") as file:
        for line in file:
            pair = _metrics_in(line)
            if pair is not None:
                yield pair


def _metrics_in(line: bytes) -> tuple[int, dict[str, float]] | None:
    try:
        content = parse_json(line)
        step = int(content.pop("step"))
        values = {name: math.nan if value is None else float(value) for name, value in content.items()}
    except (ValueError, TypeError, KeyError, AttributeError, OverflowError):
        return None
    return (step, values) if line.endswith(b"\n") else None
