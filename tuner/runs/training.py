"""One training run: build, train, evaluate on a grid, report, checkpoint. The same in a trial and in `tuner train`."""

import math
import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol

import numpy as np

from note_rl.seeding import integer
from note_rl.training.callbacks import Callback, Logs
from note_rl.training.counts import reported_by
from tuner.config.composing import RunConfig
from tuner.results.objective import missing_points
from tuner.runs.adaptation import write_adaptation
from tuner.runs.build import BuiltRun, build_run
from tuner.runs.threads import few_threads
from tuner.trial.context import TrialContext
from tuner.trial.folder import CHECKPOINT_FILE
from tuner.trial.messages import Outcome, TrialInterrupted
from tuner.trial.reporter import Reporter

LOG_INTERVAL_S = 1.0
EVALUATION_METRIC = "eval/mean_return"


class EpisodeLog(Protocol):
    """Who keeps the training episodes of a run."""

    def add_episode(self, reward: float, step: int) -> None:
        """An episode has ended, with this return, after so many environment steps."""

    def write(self) -> None:
        """A checkpoint is about to be written: what comes before it will not be told again."""


@dataclass(frozen=True)
class EvaluationPoint:
    """Mean return without exploration after a fraction of the budget."""

    fraction: float
    num_env_steps: int
    mean_return: float


@dataclass(frozen=True)
class TrainOutcome:
    """What a training run came to.

    Attributes:
        folder: Where its files are.
        evaluations: On the grid of the run's budget, in order.
        returns: Undiscounted return of each training episode (of this call, if it continued a run).
        num_env_steps, num_gradient_steps: Over the life of the agent.
        seconds: Wall time of training and evaluation.
        stop_reason: As `note_rl.types.TrainResult` has it.
    """

    folder: Path
    evaluations: tuple[EvaluationPoint, ...]
    returns: tuple[float, ...]
    num_env_steps: int
    num_gradient_steps: int
    seconds: float
    stop_reason: str

    @property
    def final_return(self) -> float:
        """Mean return of the last evaluation."""
        return self.evaluations[-1].mean_return


def run_trial(context: TrialContext) -> None:
    """The entry of a trial process: trains with the trial's config and seed."""
    config = {**context.spec.config, "seed": context.spec.seed}
    run_training(RunConfig.from_json(config), context.folder, context)


def run_training(
    config: RunConfig, folder: Path, reporter: Reporter, episodes: EpisodeLog | None = None
) -> TrainOutcome:
    """Trains one agent, continuing from the checkpoint in the folder if there is one.

    Args:
        config: The run.
        folder: Must exist; the checkpoint is written here.
        reporter: Told of everything.
        episodes: Told of every training episode.

    Raises:
        TrialInterrupted: The reporter ended the run; if it is to be continued later, a checkpoint was written.
        UserError, note_rl.errors.NoteRLError: The run cannot be built.
        note_rl.errors.DivergedError: The loss became infinite or not a number.
    """
    with few_threads(config.backend):
        return _trained(config, folder, reporter, episodes)


def _trained(config: RunConfig, folder: Path, reporter: Reporter, episodes: EpisodeLog | None) -> TrainOutcome:
    began = time.perf_counter()
    run = build_run(config)
    checkpoint = Checkpoint(run, folder / CHECKPOINT_FILE, episodes)
    checkpoint.restore()
    reporter.built(run.used)
    grid = EvaluationGrid(run, checkpoint, reporter)
    try:
        grid.make_up()
        returns, stop_reason = _train(run, [MetricsLog(run, reporter, episodes), grid])
    except TrialInterrupted as interruption:
        if interruption.outcome is Outcome.STOPPED:
            checkpoint.write()
        raise
    assert not grid.missing(), "a run ends with all of its evaluations"
    return TrainOutcome(
        folder=folder,
        evaluations=grid.points(),
        returns=tuple(returns),
        num_env_steps=run.agent.num_env_steps,
        num_gradient_steps=run.agent.num_gradient_steps,
        seconds=time.perf_counter() - began,
        stop_reason=stop_reason,
    )


def _train(run: BuiltRun, callbacks: Sequence[Callback]) -> tuple[Sequence[float], str]:
    """Trains for what is left of the budget: the returns of the episodes, and why it ended."""
    training = run.config.training
    if run.agent.num_env_steps >= training.total_steps:
        return (), "total_steps"
    result = run.agent.train(
        optimizer=run.optimizer,
        total_steps=training.total_steps,
        callbacks=callbacks,
        jit_compile=training.jit_compile,
        p=0,
    )
    return result.returns, result.stop_reason


class Checkpoint:
    """The checkpoint of a run: the newest has the plain name, kept older ones are named by their environment steps."""

    def __init__(self, run: BuiltRun, path: Path, episodes: EpisodeLog | None = None) -> None:
        self._agent = run.agent
        self._settings = run.config.checkpoint
        self._path = path
        self._episodes = episodes

    def restore(self) -> None:
        """Takes over what an earlier attempt left."""
        if self._path.exists():
            self._agent.restore(self._path)
            self._keep_older()  # it may have been killed before it could

    def write(self) -> None:
        """Replaces the newest checkpoint in one move, once all that belongs to it is written.

        A run that is killed in between passes these steps again; what is written behind a checkpoint would be lost.
        """
        if self._episodes is not None:
            self._episodes.write()
        write_adaptation(self._agent, self._path.parent)
        self._agent.save(self._path, save_data=self._settings.save_replay)
        self._keep_older()

    def _keep_older(self) -> None:
        if self._settings.keep <= 1:
            return
        stem, suffix = self._path.stem, self._path.suffix
        copy = self._path.with_name(f"{stem}_{self._agent.num_env_steps:012d}{suffix}")
        copy.unlink(missing_ok=True)
        copy.hardlink_to(self._path)  # the next write puts a new file under the plain name and leaves this one alone
        for old in sorted(self._path.parent.glob(f"{stem}_*{suffix}"))[: -self._settings.keep]:
            old.unlink()


class EvaluationGrid(Callback):
    """Evaluates, reports and checkpoints when a point k/num_points of the budget is passed.

    Reports carry the point's fraction, not the exact step at which a training phase happened to end, so that runs are
    compared like with like. A point is done once it is reported: what an earlier attempt passed, and was stopped before
    it could report, is evaluated before training goes on, by the very parameters that passed it.
    """

    def __init__(self, run: BuiltRun, checkpoint: Checkpoint, reporter: Reporter) -> None:
        self._run = run
        self._checkpoint = checkpoint
        self._reporter = reporter
        self._num_points = run.config.evaluation.num_points
        self._total_steps = run.config.training.total_steps
        self._passed = self._num_passed(run.agent.num_env_steps)

    def _num_passed(self, num_env_steps: int) -> int:
        return min(num_env_steps * self._num_points // self._total_steps, self._num_points)

    def points(self) -> tuple[EvaluationPoint, ...]:
        """All evaluations of the run so far."""
        return tuple(
            EvaluationPoint(fraction, round(fraction * self._total_steps), value)
            for fraction, value in sorted(self._reporter.reported)
        )

    def make_up(self) -> None:
        """Evaluates what an earlier attempt has passed and not reported."""
        missed = self.missing()
        if missed:
            self._evaluate(missed, self._run.agent.num_env_steps)

    def missing(self) -> list[int]:
        """Points, counted from 1, that are passed and not reported."""
        return missing_points(dict(self._reporter.reported), self._num_points, self._passed)

    def on_train_end(self, logs: Logs) -> None:
        """Of a run that ended by itself, before its budget did, the rest of the grid is what it came to."""
        del logs
        if self._passed < self._num_points:
            self._evaluate(range(self._passed + 1, self._num_points + 1), self._run.agent.num_env_steps)

    def on_phase_end(self, phase: int, logs: Logs) -> None:
        """Evaluates if a point was passed; of several passed at once, each gets the same evaluation."""
        del phase
        num_env_steps = int(logs["num_env_steps"])
        due = self._num_passed(num_env_steps)
        if due > self._passed:
            self._evaluate(range(self._passed + 1, due + 1), num_env_steps)
            self._passed = due
        self._reporter.alive(min(num_env_steps / self._total_steps, 1.0))

    def _evaluate(self, points: Sequence[int], num_env_steps: int) -> None:
        known = dict(self._reporter.reported)
        fractions = [point / self._num_points for point in points]
        metrics: dict[str, float] = {}
        if any(fraction not in known for fraction in fractions):
            seed = integer(self._run.config.seed, "evaluation", points[-1])
            evaluation = self._run.agent.evaluate(self._run.config.evaluation.num_episodes, seed=seed)
            metrics = {EVALUATION_METRIC: evaluation.mean, "eval/mean_length": float(np.mean(evaluation.lengths))}
            known = {**dict.fromkeys(fractions, evaluation.mean), **known}
        try:
            for fraction in fractions:
                self._reporter.report(fraction, known[fraction])
        finally:  # the first report may end the run, and what is reported is not evaluated again
            if metrics:
                self._reporter.log(num_env_steps, metrics)
        self._checkpoint.write()


class MetricsLog(Callback):
    """Logs training metrics about once a second, and keeps the episodes."""

    def __init__(self, run: BuiltRun, reporter: Reporter, episodes: EpisodeLog | None) -> None:
        self._agent = run.agent
        self._reporter = reporter
        self._episodes = episodes
        self._returns: list[float] = []
        self._lengths: list[float] = []
        self._last_time = time.perf_counter()
        self._last_steps = run.agent.num_env_steps

    def on_episode_end(self, episode: int, logs: Logs) -> None:
        """Keeps the return until the next line."""
        del episode
        self._returns.append(logs["reward"])
        self._lengths.append(logs["length"])
        if self._episodes is not None:
            self._episodes.add_episode(logs["reward"], int(logs["num_env_steps"]))

    def on_phase_end(self, phase: int, logs: Logs) -> None:
        """Logs if it is time: what the phase was like, and scheduled values, which are among its logs."""
        del phase
        elapsed = time.perf_counter() - self._last_time
        if elapsed < LOG_INTERVAL_S:
            return
        num_env_steps = int(logs["num_env_steps"])
        values = {**reported_by(self._agent), **logs}
        metrics = {
            f"train/{name}": value for name, value in values.items() if name != "num_env_steps" and math.isfinite(value)
        }
        metrics["train/env_steps_per_s"] = (num_env_steps - self._last_steps) / elapsed
        if self._returns:
            metrics["train/episode_return"] = float(np.mean(self._returns))
            metrics["train/episode_length"] = float(np.mean(self._lengths))
        self._returns.clear()
        self._lengths.clear()
        self._last_time = time.perf_counter()
        self._last_steps = num_env_steps
        self._reporter.log(num_env_steps, metrics)
