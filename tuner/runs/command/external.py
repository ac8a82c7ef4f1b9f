"""A run of a program: started, watched, and ended."""

import os
import signal
import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from note_rl.errors import NoteRLError
from tuner.errors import UserError
from tuner.results.metric import STEP_TOLERANCE
from tuner.runs.command.metric_files import MetricReader, Point
from tuner.runs.command.metric_source import MetricSource, check_within
from tuner.runs.command.score_grid import ScoreGrid
from tuner.runs.command.script_arguments import CHECKPOINT, ScriptLine, check_command
from tuner.runs.command.script_folder import SCRIPT_FOLDER, ScriptFolder, newest_of
from tuner.runs.command.script_process import ScriptProcess, wait_a_moment
from tuner.runs.function_state import folder_of
from tuner.support.plain_text import MAX_REASON, one_line, plain
from tuner.trial.context import TrialContext, current_trial
from tuner.trial.launch import SILENCE_VARIABLE
from tuner.trial.reporter import Reporter

_SILENCE_SHARE = 0.9  # of the time after which the controller would end the run, without naming the metric
_MOST_CHECKPOINTS = 2  # that are tried, before a program begins anew
_OUT_OF_MEMORY = (
    "MemoryError",
    "OutOfMemoryError",
    "CUDA out of memory",
    "can't allocate memory",
    "RESOURCE_EXHAUSTED",
)


class ScriptError(NoteRLError):
    """A program ended with an exit status other than 0, or had to be ended as it gave no value.

    Attributes:
        may_be_its_checkpoint: Whether a checkpoint that is not whole may be why: nobody has ended it from outside,
            or it was silent for too long.
    """

    may_be_its_checkpoint = False


class Script:
    """A program in the place of an agent. Called with a seed it runs, within a trial or a run of `tuner train`.

    Args:
        command: As typed in a shell, with placeholders: {seed}, {steps}, {folder}, and one for each parameter.
        metric: The name of the score: tag, key or column. Not used by read=output.
        read: Where the metric is: tensorboard, jsonl, csv, wandb or output.
        files: Which files in the program's working directory; "": those of the usual name.
        step: The name of the step axis, where the file has none of its own.
        pattern: Of read=output: a regular expression with the groups `step` and `value`.
        window: The score is the mean of this many last values; None: of those since the last point of the grid.
        resume_flag: Put behind the command when a run goes on; {checkpoint} in it is the newest file of `checkpoint`.
        checkpoint: Which files in the working directory it goes on from.
        steps: The step at which the program is done.
        points: At how many points of the budget runs are compared.
        parameters: Values of placeholders.

    Raises:
        UserError: One of them is wrong.
    """

    def __init__(  # noqa: PLR0913 - the keys of conf/agent/command.yaml
        self,
        command: str,
        metric: str = "",
        read: str = "tensorboard",
        files: str = "",
        step: str | None = None,
        pattern: str = "",
        window: int | None = None,
        resume_flag: str | None = None,
        checkpoint: str | None = None,
        steps: int = 100_000,
        points: int = 10,
        **parameters: Any,
    ) -> None:
        self._steps, self._points, self._window = steps, points, window
        self._checkpoint, self._parameters = checkpoint, parameters
        self._line = ScriptLine(command, "agent.command")
        self._resume = ScriptLine(resume_flag, "agent.resume_flag") if resume_flag else None
        check_command(self._line, self._resume, parameters)
        self._source = MetricSource(read, metric, files, step, pattern)
        check_within("checkpoint", checkpoint or "")
        self._check_numbers()

    def _check_numbers(self) -> None:
        for name, value in (("steps", self._steps), ("points", self._points), ("window", self._window)):
            if value is not None and value < 1:
                raise UserError(f"agent.{name}={value} must be 1 or more")
        named = self._resume is not None and CHECKPOINT in self._resume.placeholders
        if named and not self._checkpoint:
            raise UserError(
                "agent.resume_flag has {checkpoint}: agent.checkpoint says which files these are, as '*.pt'"
            )
        if self._checkpoint and not named:
            raise UserError("agent.checkpoint is for {checkpoint} in agent.resume_flag, as '--resume {checkpoint}'")

    def __call__(self, seed: int) -> None:
        """Runs the program to its end.

        Raises:
            UserError: It gave no value of its metric.
            ScriptError, MemoryError: It failed.
            TrialInterrupted: The run was to end early; so has the program, with all that it has started.
        """
        trial = current_trial()
        if trial is None:
            raise UserError("agent=command runs by tuner train or tuner tune only")
        if _is_done(trial):
            return
        folder = ScriptFolder(folder_of(trial))
        watch = self._watch(folder, trial)
        ways = self._ways_on(folder.path, seed)
        if ways and not isinstance(trial, TrialContext) and not folder.was_made_here:
            raise UserError(
                f"{folder.path} was not made by a run in this place: with agent.resume_flag the command would run and "
                "read what lies there, with all your rights. Look at it and, if it is your own, move the folder of the "
                f"run back to where it was made, or delete {SCRIPT_FOLDER} in it to begin the command anew"
            )
        folder.note_place()
        if ways:
            folder.restore(watch.reader, watch.grid)
            watch.take_in()  # what an earlier attempt wrote behind its last report
        for way in ways:
            watch.go_on()
            before = watch.grid.num_values
            try:
                return self._run(seed, way, watch)
            except ScriptError as error:
                if watch.grid.num_values > before or not error.may_be_its_checkpoint:
                    raise
                trial.note(f"it did not go on with {' '.join(way)}: {one_line(str(error))}")
                trial.alive(watch.grid.reached)  # another start takes its time
        watch = self._watch(folder, trial)
        watch.begin_anew(keep=bool(ways))
        try:
            self._run(seed, [], watch)
        except ScriptError:
            folder.take_back()  # unless a value came: it was not the checkpoint's fault
            raise

    def _watch(self, folder: ScriptFolder, trial: Reporter) -> "_Watch":
        reader = self._source.reader(folder.path, folder.path.parent)
        return _Watch(folder, reader, ScoreGrid(self._steps, self._points, self._window), trial)

    def _ways_on(self, work: Path, seed: int) -> list[list[str]]:
        """Arguments behind the command that continue it: from the newest checkpoint, or from the one before."""
        if self._resume is None or not work.is_dir():
            return []
        values = self._values(seed, work)
        if not self._checkpoint:
            return [self._resume.filled(values, Path.cwd())]
        found = newest_of(work, self._checkpoint, _MOST_CHECKPOINTS)
        return [self._resume.filled({**values, CHECKPOINT: path}, Path.cwd()) for path in found]

    def _values(self, seed: int, work: Path) -> dict[str, object]:
        return {**self._parameters, "seed": seed, "steps": self._steps, "folder": work}

    def _run(self, seed: int, way: list[str], watch: "_Watch") -> None:
        here, work = Path.cwd(), watch.folder.path
        words = [*self._line.filled(self._values(seed, work), here), *way]
        watch.trial.note(f"started: {' '.join(words)}")
        script = ScriptProcess(words, work, work.parent, _environment(here))
        try:
            self._follow(script, watch, goes_on=bool(way))
        finally:
            script.end()

    def _follow(self, script: ScriptProcess, watch: "_Watch", goes_on: bool) -> None:
        grid, trial = watch.grid, watch.trial
        began, before = time.monotonic(), grid.num_values
        patience = _SILENCE_SHARE * float(os.environ.get(SILENCE_VARIABLE, "inf"))
        while True:
            status = script.status  # before the files are read: nothing comes behind that
            watch.reader.is_complete = status == 0
            if watch.take_in():
                watch.folder.settle()
                trial.alive(grid.reached)
            else:
                trial.check()
            if status is not None:
                break
            if grid.num_values == before and time.monotonic() - began > patience:
                trial.alive(grid.reached)  # to end it takes its time
                limit = f"executor.limits.silence_s={patience / _SILENCE_SHARE:g} s"
                if goes_on:
                    raise _silent(limit)
                instead = self._source.found_instead(watch.reader)
                raise UserError(f"{self._source} did not appear within {limit}: {instead}")
            script.wait(wait_a_moment(began))
        if status != 0:
            raise _failure(status, script.tail())
        if not grid.num_values:
            printed = "" if script.tail() else "; it printed nothing"
            instead = self._source.found_instead(watch.reader)
            raise UserError(
                f"the command ended with exit status 0, but {self._source} never appeared: {instead}{printed}"
            )
        if grid.reached < 1.0 - 1.0 / self._points - STEP_TOLERANCE:
            last = f"{grid.reached * self._steps:,.0f} of {self._steps:,}"
            silent = " and gave no value after it was resumed" if goes_on and grid.num_values == before else ""
            trial.ends(f"the command ended at step {last}{silent}: its last score counts for the rest", grid.reached)
        _report(grid.finish(), trial)


@dataclass(frozen=True)
class _Watch:
    """A program under watch: its folder, the reader of its values, the grid of scores, and the trial."""

    folder: ScriptFolder
    reader: MetricReader
    grid: ScoreGrid
    trial: Reporter

    def take_in(self) -> int:
        """Reports what has come; returns how many values that were."""
        before = self.grid.num_values
        _report(self.grid.take(self.reader.poll()), self.trial)
        return self.grid.num_values - before

    def go_on(self) -> None:
        """Before a program is started that may give values again."""
        self.reader.skip_rest()
        self.grid.begin_attempt()
        self.folder.save(self.reader, self.grid)

    def begin_anew(self, keep: bool) -> None:
        """Before a program is started in an empty folder."""
        self.reader.skip_earlier()
        self.folder.empty(self.reader, self.grid, keep)


def _report(points: Sequence[Point], trial: Reporter) -> None:
    """Reports scores, but not those of points that an earlier attempt has reported."""
    for at, score in points:
        if at > max((step for step, _ in trial.reported), default=0.0) + STEP_TOLERANCE:
            trial.report(at, score)


def _is_done(trial: Reporter) -> bool:
    """Whether an earlier attempt has reported all points.

    The last one that it has reported is reported again: the answer may have reached no attempt.
    """
    step, value = max(trial.reported, default=(0.0, 0.0))
    if step >= 1.0 - STEP_TOLERANCE:
        trial.note("all points were reported before: the command is not started again")
        return True
    if step:
        trial.report(step, value)
    return False


def _failure(status: int, last_lines: str) -> Exception:
    """The error of a program that failed."""
    if status == -signal.SIGKILL:
        how = "was killed by SIGKILL, which the kernel does when memory runs out"
    elif status < 0:
        name = next((one.name for one in signal.Signals if one == -status), f"signal {-status}")
        how = f"was ended by {name}"
    else:
        how = f"ended with exit status {status}"
    *before, last = last_lines.splitlines() or [""]
    text = f"the command {how}; " + (f"its last line: {last}" if last else "it printed nothing")
    text += "".join(f"\n  {line}" for line in ("before it:", *before)) if before else ""
    text = plain(text, MAX_REASON)
    if any(sign in last_lines for sign in _OUT_OF_MEMORY):
        return MemoryError(text)
    error = ScriptError(text)
    error.may_be_its_checkpoint = -status not in (signal.SIGKILL, signal.SIGTERM, signal.SIGINT, signal.SIGHUP)
    return error


def _silent(limit: str) -> ScriptError:
    error = ScriptError(f"the command gave no value within {limit}, and was ended")
    error.may_be_its_checkpoint = True
    return error


def _environment(here: Path) -> dict[str, str]:
    """This process's, where modules beside the command are found as if it ran there, and the name of that folder."""
    paths = [str(here), *filter(None, [os.environ.get("PYTHONPATH")])]
    return {**os.environ, "PYTHONPATH": os.pathsep.join(paths), "PYTHONUNBUFFERED": "1", "TUNER_HERE": str(here)}
