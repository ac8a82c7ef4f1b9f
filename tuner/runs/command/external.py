"""A run of a program: started, watched, and ended."""

import os
import shutil
import signal
import time
from pathlib import Path
from typing import Any

from note_rl.errors import NoteRLError
from tuner.errors import UserError
from tuner.results.objective import STEP_TOLERANCE
from tuner.runs.command.metric_files import MetricReader
from tuner.runs.command.metric_source import MetricSource, check_within
from tuner.runs.command.score_grid import ScoreGrid
from tuner.runs.command.script_arguments import CHECKPOINT, ScriptLine, check_command
from tuner.runs.command.script_process import ScriptProcess, wait_a_moment
from tuner.runs.function_state import folder_of
from tuner.support.plain_text import MAX_REASON, plain
from tuner.trial.context import current_trial
from tuner.trial.launch import SILENCE_VARIABLE
from tuner.trial.reporter import Reporter

SCRIPT_FOLDER = "script"
"""The working directory of the program, in the folder of the run."""

_SILENCE_SHARE = 0.9  # of the time after which the controller would end the run, without naming the metric
_OUT_OF_MEMORY = (
    "MemoryError",
    "OutOfMemoryError",
    "CUDA out of memory",
    "can't allocate memory",
    "RESOURCE_EXHAUSTED",
)


class ScriptError(NoteRLError):
    """A program ended with an exit status other than 0."""


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
        UserError: What is wrong with them.
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
        folder = folder_of(trial)
        work = (folder / SCRIPT_FOLDER).absolute()
        extra = self._way_on(work, seed)
        if extra is None:
            shutil.rmtree(work, ignore_errors=True)  # of an attempt that cannot be gone on with
        work.mkdir(parents=True, exist_ok=True)
        here = Path.cwd()
        words = [*self._line.filled(self._values(seed, work), here), *(extra or ())]
        reader = self._source.reader(work, folder)
        reader.poll()  # what an earlier attempt wrote
        trial.note(f"started: {' '.join(words)}")
        script = ScriptProcess(words, work, folder, _environment(here))
        try:
            self._follow(script, reader, trial)
        finally:
            script.end()

    def _values(self, seed: int, work: Path) -> dict[str, object]:
        return {**self._parameters, "seed": seed, "steps": self._steps, "folder": work}

    def _way_on(self, work: Path, seed: int) -> list[str] | None:
        """What is put behind the command so that it goes on; None: it begins anew."""
        if self._resume is None or not work.is_dir():
            return None
        values = self._values(seed, work)
        if self._checkpoint:
            found = [path for path in work.glob(f"**/{self._checkpoint}") if path.exists()]
            if not found:
                return None
            values[CHECKPOINT] = max(found, key=lambda path: path.stat().st_mtime)
        return self._resume.filled(values, Path.cwd())

    def _follow(self, script: ScriptProcess, reader: MetricReader, trial: Reporter) -> None:
        grid = ScoreGrid(self._steps, self._points, self._window)
        began = time.monotonic()
        patience = _SILENCE_SHARE * float(os.environ.get(SILENCE_VARIABLE, "inf"))
        while True:
            status = script.status  # before the files are read: nothing comes behind that
            if _take_in(reader, grid, trial):
                trial.alive(grid.reached)
            else:
                trial.check()
            if status is not None:
                break
            if not grid.num_values and time.monotonic() - began > patience:
                limit = f"executor.limits.silence_s={patience / _SILENCE_SHARE:g} s"
                instead = self._source.found_instead(reader)
                raise UserError(f"{self._source} did not appear within {limit}: {instead}")
            script.wait(wait_a_moment(began))
        if status != 0:
            raise _failure(status, script.tail())
        if not grid.num_values:
            printed = "" if script.tail() else "; it printed nothing"
            instead = self._source.found_instead(reader)
            raise UserError(
                f"the command ended with exit status 0, but {self._source} never appeared: {instead}{printed}"
            )
        if grid.reached < 1.0 - 1.0 / self._points - STEP_TOLERANCE:
            last = f"{grid.reached * self._steps:,.0f} of {self._steps:,}"
            trial.ends(f"the command ended at step {last}: its last score counts for the rest", grid.reached)
        for at, score in grid.finish():
            trial.report(at, score)


def _take_in(reader: MetricReader, grid: ScoreGrid, trial: Reporter) -> int:
    """Reports what has come; returns how many values that were."""
    found = reader.poll()
    for step, value in found:
        for at, score in grid.add(step, value):
            trial.report(at, score)
    return len(found)


def _failure(status: int, last_lines: str) -> Exception:
    """The error of a program that failed."""
    if status == -signal.SIGKILL:
        how = "was killed by SIGKILL, which the kernel does when memory runs out"
    elif status < 0:
        how = f"was ended by {signal.Signals(-status).name}"
    else:
        how = f"ended with exit status {status}"
    *before, last = last_lines.splitlines() or [""]
    text = f"the command {how}; " + (f"its last line: {last}" if last else "it printed nothing")
    text += "".join(f"\n  {line}" for line in ("before it:", *before)) if before else ""
    kind = MemoryError if any(sign in last_lines for sign in _OUT_OF_MEMORY) else ScriptError
    return kind(plain(text, MAX_REASON))


def _environment(here: Path) -> dict[str, str]:
    """This process's, where modules beside the command are found as if it ran there."""
    paths = [str(here), *filter(None, [os.environ.get("PYTHONPATH")])]
    return {**os.environ, "PYTHONPATH": os.pathsep.join(paths), "PYTHONUNBUFFERED": "1"}
