"""One training run: build, train, evaluate on a grid, report, checkpoint. The same in a trial and in `tuner train`."""

import logging
import math
import time
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from note_rl.errors import CheckpointError, DivergedError, PeerError
from note_rl.learners.base import num_parameters
from note_rl.seeding import integer
from note_rl.support.memory import release_freed
from note_rl.training.callbacks import Callback, Logs
from note_rl.training.counts import reported_by
from note_rl.types import TrainResult
from tuner.config.composition import RunConfig
from tuner.config.vocabulary import speaking_of_settings
from tuner.errors import UserError
from tuner.results.metric import missing_points
from tuner.runs.build import BuiltRun, build_distributed, build_run
from tuner.runs.checkpoints import BestWeights, Checkpoint, EpisodeLog, take_weights
from tuner.runs.evaluation_policy import acting_by, checking
from tuner.runs.evaluation_steps import EvaluationPlaces
from tuner.runs.run_strategy import role_of, together
from tuner.runs.run_threads import few_threads
from tuner.trial.context import TrialContext
from tuner.trial.folder import BEST_FILE, CHECKPOINT_FILE
from tuner.trial.messages import Outcome, TrialInterrupted
from tuner.trial.reporter import Reporter

_log = logging.getLogger(__name__)

LOG_INTERVAL_S = 1.0
SIGN_OF_LIFE_S = 1.0  # within an evaluation
EVALUATION_METRIC = "eval/mean_return"
TARGET_REWARD, EARLY_STOPPING = "target_reward", "early_stopping"
"""Reasons of a run to end before its budget does."""


@dataclass(frozen=True)
class EvaluationPoint:
    """Mean return without exploration, at a point of the grid.

    Attributes:
        fraction: Of the budget, as planned.
        num_env_steps: Done by then: a phase, such as a rollout, ends at the point or behind it, and may pass several.
        mean_return: Of the evaluation's episodes.
    """

    fraction: float
    num_env_steps: int
    mean_return: float


@dataclass(frozen=True)
class TrainOutcome:
    """Result of a training run.

    Attributes:
        folder: Where its files are.
        evaluations: On the grid of the run's budget, in order.
        returns: Undiscounted return of each training episode (of this call, if it continued a run).
        num_env_steps, num_gradient_steps: Over the life of the agent.
        seconds: Wall time of training and evaluation.
        stop_reason: `TARGET_REWARD`, or as `note_rl.types.TrainResult` has it.
        steps: Which way its last gradient steps were taken, and why not a quicker one: `how_steps_are_taken()`.
    """

    folder: Path
    evaluations: tuple[EvaluationPoint, ...]
    returns: tuple[float, ...]
    num_env_steps: int
    num_gradient_steps: int
    seconds: float
    stop_reason: str
    steps: str = ""

    @property
    def final_return(self) -> float:
        """Mean return of the last evaluation."""
        return self.evaluations[-1].mean_return


def run_trial(context: TrialContext) -> None:
    """The entry of a trial process: trains with the trial's config and seed."""
    config = {**context.spec.config, "seed": context.spec.seed}
    context.steps = run_training(RunConfig.from_json(config), context.folder, context).steps


def run_training(
    config: RunConfig, folder: Path, reporter: Reporter, episodes: EpisodeLog | None = None
) -> TrainOutcome:
    """Trains one agent, continuing from the checkpoint in the folder if there is one.

    Args:
        config: The run.
        folder: Must exist; the checkpoint is written here.
        reporter: Gets all events.
        episodes: Gets every training episode.

    Raises:
        TrialInterrupted: The reporter ended the run; if it is to be continued later, a checkpoint was written.
        UserError, note_rl.errors.NoteRLError: The run cannot be built.
        note_rl.errors.DivergedError: The loss became infinite or not a number.
        note_rl.errors.PeerError: A process that trains along was lost; a checkpoint was written where that can be.
    """
    role = role_of(build_distributed(config))
    if role is not None and not role.leads:
        raise UserError(f"{role.name} keeps no run: start it with the settings of the run, and resume= where rank 0 is")
    with few_threads(config.backend), speaking_of_settings(), together(config, reporter.check) as sharing:
        run = build_run(config, sharing)
        reporter.check()
        return _trained(run, folder, reporter, episodes)


def _trained(run: BuiltRun, folder: Path, reporter: Reporter, episodes: EpisodeLog | None) -> TrainOutcome:
    config, began = run.config, time.perf_counter()
    checkpoint = Checkpoint(run, folder / CHECKPOINT_FILE, episodes)
    if not checkpoint.restore() and config.init is not None:
        take_weights(run.agent, config.init)
    reporter.built(run.used)
    log = MetricsLog(run, reporter, episodes)
    grid = EvaluationGrid(run, checkpoint, reporter, log)
    try:
        grid.make_up()
        returns, stop_reason = _train(run, grid, log)
        grid.hold(_why(stop_reason, run))
    except TrialInterrupted as interruption:
        if interruption.outcome in (Outcome.STOPPED, Outcome.PAUSED):
            checkpoint.write()
        raise
    except PeerError as error:
        if not isinstance(error, DivergedError):
            _keep_what_is_here(checkpoint)
        raise
    assert not grid.missing(), "a run ends with all of its evaluations"
    return TrainOutcome(
        folder=checkpoint.folder,
        evaluations=grid.points(),
        returns=tuple(returns),
        num_env_steps=run.agent.num_env_steps,
        num_gradient_steps=run.agent.num_gradient_steps,
        seconds=time.perf_counter() - began,
        stop_reason=stop_reason,
        steps=str(run.agent.how_steps_are_taken()),
    )


def _keep_what_is_here(checkpoint: Checkpoint) -> None:
    """Writes a checkpoint though another process is lost: of its last whole gradient step, with all steps collected."""
    try:
        checkpoint.write()
    except (PeerError, CheckpointError) as error:  # parameters may have been over there
        _log.warning("no checkpoint could be written after a process was lost: %s", error)


def _train(run: BuiltRun, grid: "EvaluationGrid", log: "MetricsLog") -> tuple[Sequence[float], str]:
    """Trains for what is left of the budget: the returns of the episodes, and why it ended."""
    training = run.config.training
    if run.agent.num_env_steps >= training.total_steps:
        return (), "total_steps"
    if grid.target_reached:  # by an evaluation that an earlier attempt could not act upon
        return (), TARGET_REWARD
    train: Callable[..., TrainResult] = run.agent.distributed_training if run.sharing else run.agent.train
    result = train(
        optimizer=run.optimizer,
        total_steps=training.total_steps,
        callbacks=[log, grid],
        jit_compile=training.jit_compile,
        p=0,
        **run.sharing,
    )
    if run.agent.num_env_steps >= training.total_steps:
        return result.returns, "total_steps"
    at_target = result.stop_reason == "criterion" or grid.target_reached
    return result.returns, TARGET_REWARD if at_target else result.stop_reason


def _why(stop_reason: str, run: BuiltRun) -> str:
    """Why a run ended before its budget did, for people; nothing where it did not."""
    after = f"after {run.agent.num_env_steps:,} steps"
    if stop_reason == TARGET_REWARD:
        training = run.config.training
        if training.target_by == "evaluations":
            return f"target reached {after}: an evaluation returned {training.target_reward:g} or more"
        if training.reward_window == 1:
            return f"target reached {after}: the last episode returned {training.target_reward:g} or more"
        mean = f"the mean return of the last {training.reward_window} episodes"
        return f"target reached {after}: {mean} is {training.target_reward:g} or more"
    if stop_reason == EARLY_STOPPING:
        return f"stopped early {after}: returns no longer rise (plateau.early_stop)"
    return "" if stop_reason == "total_steps" else f"the agent ended its training {after}"


class EvaluationGrid(Callback):
    """Evaluates, reports and checkpoints when a point k/num_points of the budget is passed.

    Reports carry the point's fraction, not the exact step at which a training phase happened to end, so that runs are
    compared like with like. A point is done once it is reported: what an earlier attempt passed, and was stopped before
    it could report, is evaluated before training goes on, by the very parameters that passed it.
    """

    changes_parameters = False
    writes_checkpoints = True

    def __init__(self, run: BuiltRun, checkpoint: Checkpoint, reporter: Reporter, log: "MetricsLog") -> None:
        self._run = run
        self._checkpoint = checkpoint
        self._best = BestWeights(run, checkpoint.folder / BEST_FILE)
        self._places = EvaluationPlaces(checkpoint.folder)
        self._reporter = reporter
        self._log = log
        self._num_points = run.config.evaluation.num_points
        self._total_steps = run.config.training.total_steps
        self._passed = self._num_passed(run.agent.num_env_steps)
        self._training = False
        self._last_sign = time.monotonic()

    def _num_passed(self, num_env_steps: int) -> int:
        return min(num_env_steps * self._num_points // self._total_steps, self._num_points)

    @property
    def target_reached(self) -> bool:
        """Whether an evaluation has reached the target, where it is by these that a run ends."""
        training = self._run.config.training
        if training.target_reward is None or training.target_by != "evaluations":
            return False
        return any(value >= training.target_reward for _, value in self._reporter.reported)

    def points(self) -> tuple[EvaluationPoint, ...]:
        """All evaluations of the run so far."""
        most = self._run.agent.num_env_steps
        return tuple(
            EvaluationPoint(fraction, min(self._places.of(self._planned(fraction)), most), value)
            for fraction, value in sorted(self._reporter.reported)
        )

    def _planned(self, fraction: float) -> int:
        return round(fraction * self._total_steps)

    def make_up(self) -> None:
        """Evaluates what an earlier attempt has passed and not reported; of a new run, the weights it starts from.

        If everything is reported, the last point is reported again: the answer may have reached no attempt.
        """
        missed = self.missing()
        if missed:
            self._evaluate(missed, self._run.agent.num_env_steps)
        elif 0 < self._passed < self._num_points:
            self._tell_again(self._passed / self._num_points)
        elif self._run.config.init is not None and not (self._run.agent.num_env_steps or self._reporter.reported):
            metrics = self._measured(self._num_points)
            self._reporter.log(0, metrics)
            self._reporter.note(
                f"mean return {metrics[EVALUATION_METRIC]:.4g} with the weights of {self._run.config.init}"
            )

    def _tell_again(self, fraction: float) -> None:
        known = dict(self._reporter.reported)
        if fraction in known:  # not under another budget
            self._reporter.report(fraction, known[fraction], self._checkpoint.clock.seconds)

    def missing(self) -> list[int]:
        """Points, counted from 1, that are passed and not reported."""
        return missing_points(dict(self._reporter.reported), self._num_points, self._passed)

    def hold(self, why: str) -> None:
        """Of a run that ended by itself, before its budget did, the rest of the grid is its last value.

        Args:
            why: It ended; empty: it did not.
        """
        if why:
            self._reporter.ends(why, min(self._run.agent.num_env_steps / self._total_steps, 1.0))
        if self._passed < self._num_points:
            points = range(self._passed + 1, self._num_points + 1)
            self._passed = self._num_points
            self._evaluate(points, self._run.agent.num_env_steps)

    def on_train_begin(self, logs: Logs) -> None:
        """Tells a plateau of the last evaluation, for which an earlier attempt may have found no time."""
        self._training = True
        self._checkpoint.clock.go()
        num_env_steps = logs["num_env_steps"]
        known = [(round(step * self._total_steps), value) for step, value in self._reporter.reported]
        passed = [(steps, value) for steps, value in known if steps <= num_env_steps]
        if passed:
            steps, value = max(passed)
            self._run.agent.note_evaluation(value, steps)

    def on_train_end(self, logs: Logs) -> None:
        """Stops the clock: further evaluations are no part of training."""
        del logs
        self._training = False
        self._checkpoint.clock.halt()

    def on_phase_end(self, phase: int, logs: Logs) -> None:
        """Evaluates if a point was passed; of several passed at once, each gets the same evaluation."""
        del phase
        num_env_steps = int(logs["num_env_steps"])
        due = self._num_passed(num_env_steps)
        if due > self._passed:
            with self._checkpoint.clock.halted():
                self._evaluate(range(self._passed + 1, due + 1), num_env_steps)
            self._passed = due
        self._sign_of_life()

    def _sign_of_life(self) -> None:
        self._last_sign = time.monotonic()
        self._reporter.alive(min(self._run.agent.num_env_steps / self._total_steps, 1.0))

    def _goes_on(self) -> None:
        """Before each step of an evaluation, which may take longer than a trial may be silent."""
        if time.monotonic() - self._last_sign >= SIGN_OF_LIFE_S:
            self._sign_of_life()
        else:
            self._reporter.check()

    def _evaluate(self, points: Sequence[int], num_env_steps: int) -> None:
        known = dict(self._reporter.reported)
        fractions = [point / self._num_points for point in points]
        metrics: dict[str, float] = {}
        if any(fraction not in known for fraction in fractions):
            metrics = self._measured(points[-1])
            known = {**dict.fromkeys(fractions, metrics[EVALUATION_METRIC]), **known}
        if self._training:
            self._run.agent.note_evaluation(known[fractions[-1]], self._planned(fractions[-1]))
        self._places.note(map(self._planned, fractions), num_env_steps)
        is_saved = False
        for done, fraction in enumerate(fractions, start=1):
            is_saved = False
            try:
                self._reporter.report(fraction, known[fraction], self._checkpoint.clock.seconds)
            except TrialInterrupted as pause:
                self._write_metrics(num_env_steps, metrics)
                if pause.wait is None or not self._may_go_on:
                    raise
                self._go_on(pause.wait, fraction)
                self._places.note(map(self._planned, fractions[done:]), num_env_steps)
                is_saved = True
        self._write_metrics(num_env_steps, metrics)
        if self._training and self.target_reached:
            self._run.agent.stop_training = True
        if not is_saved:
            self._checkpoint.write()
        release_freed()

    @property
    def _may_go_on(self) -> bool:
        """Whether a run that goes on in this process is the one that it would be from its checkpoint."""
        return self._training and self._run.config.checkpoint.save_replay

    def _write_metrics(self, num_env_steps: int, metrics: dict[str, float]) -> None:
        """Those of an evaluation, once: its first report may end the run, and it is not made again."""
        taken = dict(metrics)
        metrics.clear()
        if taken:
            with suppress(TrialInterrupted):  # the next call ends the run
                self._reporter.log(num_env_steps, taken)

    def _go_on(self, wait: Callable[[], Path], fraction: float) -> None:
        """Waits behind a pause, in the middle of training, for the run that goes on: in a folder with copies of files.

        Nothing is built or restored again, which bit-exact checkpoints allow. As a run that is restored it says what
        it uses, and tells its last evaluation again.
        """
        self._checkpoint.write()
        began = time.perf_counter()
        folder = wait()
        self._run.agent.note_waiting(time.perf_counter() - began)
        self._checkpoint.move(folder)
        self._best.move(folder / BEST_FILE)
        self._places = EvaluationPlaces(folder)
        self._reporter.built(self._run.used)
        self._tell_again(fraction)
        self._log.begin_interval()

    def _measured(self, point: int) -> dict[str, float]:
        """An evaluation on the seeds of a point; keeps the weights if they were never evaluated better."""
        config, agent = self._run.config.evaluation, self._run.agent
        seed = integer(self._run.config.seed, "evaluation", point)
        acting_in = acting_by(agent, config.policy, config.eps, seed) or agent.greedy_in
        checked = checking(acting_in, self._goes_on)
        evaluation = agent.evaluate(config.num_episodes, seed=seed, acting_in=checked)
        self._best.offer(evaluation, seed)
        return {
            EVALUATION_METRIC: evaluation.mean,
            "eval/mean_length": float(np.mean(evaluation.lengths)),
            "num_parameters": float(num_parameters(agent.param)),
        }


class MetricsLog(Callback):
    """Logs training metrics about once a second and at the end of training, and keeps the episodes."""

    changes_parameters = False

    def __init__(self, run: BuiltRun, reporter: Reporter, episodes: EpisodeLog | None) -> None:
        self._agent = run.agent
        self._reporter = reporter
        self._episodes = episodes
        self._returns: list[float] = []
        self._lengths: list[float] = []
        self._of_phase: Logs = {}
        self._reduced = False
        self.begin_interval()

    def begin_interval(self) -> None:
        """Counts steps per second from now on."""
        self._last_time = time.perf_counter()
        self._last_steps = self._agent.num_env_steps

    def on_episode_end(self, episode: int, logs: Logs) -> None:
        """Keeps the return until the next line."""
        del episode
        self._returns.append(logs["reward"])
        self._lengths.append(logs["length"])
        if self._episodes is not None:
            self._episodes.add_episode(logs["reward"], int(logs["num_env_steps"]), logs["time"])

    def on_plateau(self, text: str, logs: Logs) -> None:
        """Says that learning rates were lowered; the first optimizer's is in the next row, which comes at once.

        Not here, where a run that ends while it logs would have been reduced and not know it.
        """
        self._of_phase = {**self._of_phase, **logs}
        self._reduced = True
        self._reporter.note(f"after {int(logs['num_env_steps']):,} steps: {text}")

    def on_phase_end(self, phase: int, logs: Logs) -> None:
        """Logs if it is time: what the phase was like, and scheduled values, which are among its logs."""
        del phase
        self._of_phase = logs
        if self._reduced or time.perf_counter() - self._last_time >= LOG_INTERVAL_S:
            self._write()

    def on_train_end(self, logs: Logs) -> None:
        """Logs what came since: a run may be over within a second."""
        del logs
        if self._of_phase:
            self._write()

    def _write(self) -> None:
        now, num_env_steps = time.perf_counter(), int(self._of_phase["num_env_steps"])
        values = {**reported_by(self._agent), **self._of_phase}
        metrics = {
            f"train/{name}": value for name, value in values.items() if name != "num_env_steps" and math.isfinite(value)
        }
        metrics["train/env_steps_per_s"] = (num_env_steps - self._last_steps) / max(now - self._last_time, 1e-9)
        if self._returns:
            metrics["train/episode_return"] = float(np.mean(self._returns))
            metrics["train/episode_length"] = float(np.mean(self._lengths))
        self._returns.clear()
        self._lengths.clear()
        self._last_time, self._last_steps, self._of_phase, self._reduced = now, num_env_steps, {}, False
        self._reporter.log(num_env_steps, metrics)
