"""The reporter of a run that is no trial: the same files in its folder, trackers, progress, and Ctrl-C."""

import json
import os
from collections.abc import Callable, Mapping, Set
from contextlib import AbstractContextManager
from dataclasses import asdict
from pathlib import Path

from note_rl.support.formats import marked
from tuner.errors import UserError
from tuner.runs.function_state import REPORT_METRIC, REPORT_STEP
from tuner.runs.progress_bar import Progress
from tuner.runs.stop_signals import StopRequest
from tuner.runs.training import EVALUATION_METRIC, TrainOutcome
from tuner.support.interrupts import unbroken
from tuner.support.text_files import atomic_write, open_to_append, parse_json, sweep_unfinished
from tuner.trackers.base import RunInfo, RunTracker, Tracker
from tuner.trackers.history import HistoryTracker
from tuner.trial.folder import (
    METRICS_FILE,
    REPORTS_FILE,
    RESULT_FILE,
    acquire_lock,
    append_line,
    cut_torn_tail,
    read_reports,
)
from tuner.trial.messages import JsonDict, Outcome, TrialInterrupted

_LOCK_PATIENCE_S = 1.0


class RunRecorder:
    """Writes reports.jsonl and history.parquet, tells trackers and the progress display, and ends the run on request.

    A use as a context manager holds the folder: two processes never train in one folder.

    Args:
        info: The run.
        tracker: Gets every metric, and the end.
        progress: Shown to the user.
        num_env_steps: Steps already done, of a run that is continued; metrics behind that are about to come again.
        prepare: Called when the folder is held, before anything in it is read.
    """

    _stopping = "writing the checkpoint"
    """The effect of the first Ctrl-C, in words."""

    def __init__(
        self,
        info: RunInfo,
        tracker: Tracker,
        progress: Progress,
        num_env_steps: int = 0,
        prepare: Callable[[], None] | None = None,
    ) -> None:
        self.history = HistoryTracker(info.folder, int(info.config.get("training", {}).get("reward_window", 100)))
        self._info = info
        self._tracker = tracker
        self._progress = progress
        self._run: RunTracker | None = None
        self._stop = StopRequest(self._stopping)
        self._ended = False  # by itself
        lock = acquire_lock(info.folder, _LOCK_PATIENCE_S)
        if lock is None:
            raise UserError(f"another process is training in {info.folder}; wait for it, or stop it")
        self._lock = lock
        try:
            if prepare is not None:
                prepare()
            sweep_unfinished(info.folder)
            cut_torn_tail(info.folder / REPORTS_FILE)
            self._reported = dict(read_reports(info.folder))
            self._best = max(self._reported.values(), default=None)  # of all evaluations
            _drop_metrics_after(info.folder / METRICS_FILE, num_env_steps, set(map(self._env_steps, self._reported)))
        except BaseException:
            os.close(lock)
            raise

    @property
    def began(self) -> bool:
        """Whether everything was built, and training began."""
        return self._run is not None

    @property
    def reported(self) -> list[tuple[float, float]]:
        """The (fraction, mean return) pairs so far."""
        return list(self._reported.items())

    def built(self, config: JsonDict) -> None:
        """Training begins."""
        del config
        self._run = self._tracker.start_run(self._info)
        self._progress.started(self._budget())

    def report(self, step: float, value: float, seconds: float | None = None) -> None:
        """Notes an evaluation."""
        if step not in self._reported:
            with open_to_append(self._info.folder / REPORTS_FILE) as file:
                append_line(file, {"step": step, "value": value, "seconds": seconds}, durable=True)
            self._reported[step] = value
        self.check()

    def log(self, step: int, metrics: Mapping[str, float]) -> None:
        """Hands metrics on; those of an evaluation after its reports, which may be for several points of the grid."""
        assert self._run is not None
        self._run.log(step, metrics)
        if EVALUATION_METRIC not in metrics:
            self._progress.measured(step, metrics)
        elif self._reported and not self._ended:  # weights to start from are noted, the last ones are the outcome
            value = metrics[EVALUATION_METRIC]
            self._progress.evaluated(step, value, self._best is not None and value > self._best)
            self._best = value if self._best is None else max(self._best, value)

    def add_episode(self, reward: float, step: int, at: float | None = None) -> None:
        """Keeps an episode in the history, and shows it."""
        self.history.add_episode(reward, step, at)
        self._progress.episode_ended(self.history.newest, len(self.history))

    def write(self) -> None:
        """Writes the history down."""
        self.history.write()

    def note(self, text: str) -> None:
        """Shows a line."""
        self._progress.noted(text)

    def ends(self, reason: str, used: float) -> None:
        """Shows why the run ends before its budget does."""
        del used
        self._ended = True
        self._progress.noted(reason)

    def alive(self, progress: float) -> None:
        """Ends the run if that was asked for."""
        self._progress.advanced(progress)
        self.check()

    def _budget(self) -> int | None:
        """Environment steps that progress is shown in; None: it has none."""
        return int(self._info.config["training"]["total_steps"])

    def _env_steps(self, fraction: float) -> int:
        return round(fraction * int(self._info.config.get("training", {}).get("total_steps", 0)))

    def check(self) -> None:
        """Ends the run if that was asked for."""
        if self._stop.requested:
            raise TrialInterrupted(Outcome.STOPPED, "interrupted")

    @property
    def stopped_at_once(self) -> bool:
        """Whether the user has asked twice: whatever was raised then, it was no crash."""
        return self._stop.at_once

    def stopping_on_signals(self) -> AbstractContextManager[None]:
        """Ctrl-C and SIGTERM end the run at its next phase, with a checkpoint; a later one ends it at once."""
        return self._stop.handling_signals()

    def finished(self, outcome: TrainOutcome) -> None:
        """The run came to its end."""
        summary = {
            "final_return": outcome.final_return,
            "num_env_steps": outcome.num_env_steps,
            "num_gradient_steps": outcome.num_gradient_steps,
            "seconds": outcome.seconds,
            "stop_reason": outcome.stop_reason,
            **({"steps": outcome.steps} if outcome.steps else {}),
        }
        evaluations = [asdict(point) for point in outcome.evaluations]
        if outcome.evaluations:
            summary["best_return"] = max(point.mean_return for point in outcome.evaluations)
        self._write_result({"outcome": Outcome.COMPLETE, **summary, "evaluations": evaluations})
        self._end(0, summary)

    def failed(self, outcome: Outcome, reason: str) -> None:
        """The run ended early."""
        self._write_result({"outcome": outcome, "reason": reason})
        self._end(int(outcome is not Outcome.STOPPED), {"outcome": str(outcome), "reason": reason})

    def _end(self, exit_code: int, summary: Mapping[str, object]) -> None:
        try:
            self._progress.ended()
            if not self._stop.at_once:  # what belongs to the last checkpoint was written before it
                self.history.close()
            if self._run is not None:
                self._run.finish(exit_code, summary)
            self._tracker.close()
        finally:
            os.close(self._lock)

    def _write_result(self, result: Mapping[str, object]) -> None:
        self._stop.over()
        with unbroken():
            atomic_write(self._info.folder / RESULT_FILE, json.dumps(marked(result), indent=2) + "\n")


class FunctionRecorder(RunRecorder):
    """Of a plain function, which measures nothing but what it reports: trackers get that, too."""

    _stopping = "waiting for the next report"

    def _budget(self) -> None:
        """It counts no steps."""

    def report(self, step: float, value: float, seconds: float | None = None) -> None:
        """Notes a report, at its share of the budget in steps."""
        if step not in self._reported:
            self.log(self._env_steps(step), {REPORT_METRIC: value, REPORT_STEP: step})
            self._progress.scored(step, value)
        super().report(step, value, seconds)


def report_row(step: float, value: float, total_steps: int) -> tuple[int, dict[str, float]]:
    """A trial's report for trackers: its place among environment steps, and the row."""
    place = round(step * total_steps) if 0.0 < step <= 1.0 else round(step)
    return place, {REPORT_METRIC: value, REPORT_STEP: step}


def _drop_metrics_after(path: Path, num_env_steps: int, reported: Set[int]) -> None:
    """Removes the lines of an attempt that went further than its last checkpoint.

    Evaluations stay, and what a function has reported (at these environment steps): neither comes again.
    """
    cut_torn_tail(path)
    if not path.exists():
        return
    lines = path.read_text(errors="replace").splitlines(keepends=True)
    kept = [line for line in lines if not _is_behind(line, num_env_steps, reported)]
    if len(kept) < len(lines):
        atomic_write(path, "".join(kept))


def _is_behind(line: str, num_env_steps: int, reported: Set[int]) -> bool:
    """Whether a line of metrics is of a later step and will come again; a damaged one is not known to be."""
    try:
        entry = parse_json(line)
        stays = EVALUATION_METRIC in entry or (REPORT_STEP in entry and entry["step"] in reported)
        return bool(entry["step"] > num_env_steps and not stays)
    except (ValueError, TypeError, KeyError):
        return False
