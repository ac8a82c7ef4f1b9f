"""The process of a comparison: one candidate trains with one seed, for as long as all others do."""

import math
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Final, Literal, TypeAlias

import numpy as np

from note_rl.support.setting_fields import setting
from note_rl.support.value_kinds import Count
from note_rl.training.callbacks import Callback, Logs
from note_rl.training.frozen import FrozenData
from tuner.config.composition import RunConfig
from tuner.config.section_base import Section
from tuner.errors import UserError
from tuner.finders.find_arguments import trained, with_strategy
from tuner.finders.finder_process import Measured
from tuner.finders.subjects import ConfiguredSubject, LiveSubject, Subject
from tuner.results.metric import AUC, Mixed
from tuner.runs.training import run_training
from tuner.trackers.history import HistoryTracker
from tuner.trial.context import TrialContext
from tuner.trial.messages import JsonDict

Metric: TypeAlias = Literal["reward", "loss", "frozen_loss"]

_REPORTS: Final = 20  # of a run, at most: each is written to the storage
_BAD: Final = 1e30  # a loss that is not finite, in JSON


@dataclass(frozen=True)
class CandidateBudget(Section):
    """How long each candidate trains: one of the two is given.

    Attributes:
        episodes: Episodes.
        total_steps: Environment steps.
        num_gradient_steps: Of a comparison on frozen data.
    """

    episodes: int | None = setting(None, Count())
    total_steps: int | None = setting(None, Count())
    num_gradient_steps: int = setting(200, Count())

    def __post_init__(self) -> None:
        """Refuses both."""
        super().__post_init__()
        if self.episodes is not None and self.total_steps is not None:
            raise UserError(
                f"episodes={self.episodes} and total_steps={self.total_steps} both say how long: give one of them"
            )

    def share(self, num_episodes: int, num_env_steps: int) -> float:
        """The done part, 0 to 1."""
        if self.total_steps is not None:
            return min(num_env_steps / self.total_steps, 1.0)
        return min(num_episodes / (self.episodes or 1), 1.0)


@dataclass(frozen=True)
class CandidateTrial:
    """Called in the process of each run.

    Attributes:
        subjects: The candidates by name.
        budget: How long each trains.
        metric: reward: what training returns; loss: its mean over training; frozen_loss: its mean on fixed minibatches
            over a number of gradient steps on the data of the beginning.
        options: Further arguments of train().
        key: The entry of a point that is the name of the subject.
    """

    subjects: Mapping[str, Subject]
    budget: CandidateBudget
    metric: Metric = "reward"
    options: JsonDict = field(default_factory=dict)
    key: str = "candidate"

    def __call__(self, context: TrialContext, point: JsonDict) -> Measured:
        """Trains the subject of this point with its seed."""
        subject, seed = self.subjects[str(point[self.key])], int(point["seed"])
        if self.metric == "frozen_loss":
            return _frozen(subject, seed, self.budget.num_gradient_steps, context)
        if isinstance(subject, ConfiguredSubject):
            return _configured(subject, seed, context)
        assert isinstance(subject, LiveSubject)
        return self._live(subject, seed, context)

    def _live(self, subject: LiveSubject, seed: int, context: TrialContext) -> Measured:
        options, scope = with_strategy(self.options)
        with scope:
            agent, optimizer = subject.build(seed)
        context.built({})
        watch = _LossRecorder(self.budget, context)
        length = {"episodes": self.budget.episodes, "total_steps": self.budget.total_steps}
        result = trained(agent, options, optimizer=optimizer, **length, callbacks=[watch], p=0)
        rewards, ends = list(map(float, result.returns)), list(map(float, result.episode_steps))
        found = {"rewards": rewards, "losses": watch.losses, "seconds": result.seconds}
        found |= {"num_env_steps": result.num_env_steps, "num_gradient_steps": result.num_gradient_steps}
        if self.metric == "loss":
            known = [loss for loss in result.losses if math.isfinite(loss)]
            if not known:
                raise UserError("no gradient step was taken, so there is no loss: train longer")
            return Measured((float(np.mean(known)),), found)
        if not rewards:
            raise UserError("no episode ended, so there is no return: train longer")
        if self.budget.episodes is not None:
            return Measured((float(np.mean(rewards)),), found)
        return Measured((AUC()(list(zip(ends, rewards, strict=True))),), found)


class _LossRecorder(Callback):
    """Writes down the loss with each episode, reports, and gives signs of life."""

    changes_parameters = False

    def __init__(self, budget: CandidateBudget, context: TrialContext) -> None:
        self.losses: list[float] = []
        self._budget = budget
        self._context = context
        self._returns: list[float] = []
        self._num_reported = 0

    def on_episode_end(self, episode: int, logs: Logs) -> None:
        """The loss is that of the last training phase."""
        self._returns.append(float(logs["reward"]))
        if math.isfinite(logs["loss"]):
            self.losses.append(float(logs["loss"]))
        due = int(_REPORTS * self._budget.share(episode + 1, int(logs["num_env_steps"])))
        if due > self._num_reported:
            recent = self._returns[-max(1, len(self._returns) // 5) :]
            self._num_reported = due
            self._context.report(due / _REPORTS, float(np.mean(recent)))

    def on_phase_end(self, phase: int, logs: Logs) -> None:
        """Still at work."""
        del phase
        self._context.alive(self._budget.share(len(self._returns), int(logs["num_env_steps"])))


def _configured(subject: ConfiguredSubject, seed: int, context: TrialContext) -> Measured:
    """Trains as `tuner train` does; a run that was stopped goes on from its checkpoint."""
    history = HistoryTracker(context.folder)
    outcome = run_training(RunConfig.from_json({**subject.config, "seed": seed}), context.folder, context, history)
    context.steps = outcome.steps
    history.close()
    curve = [(point.fraction, point.mean_return) for point in outcome.evaluations]
    rewards = [row.episode_reward for row in history.rows]  # those of earlier attempts included
    found = {"rewards": rewards, "losses": [], "seconds": outcome.seconds}
    found |= {"num_env_steps": outcome.num_env_steps, "num_gradient_steps": outcome.num_gradient_steps}
    return Measured((Mixed()(curve),), found)


def _frozen(subject: Subject, seed: int, num_steps: int, context: TrialContext) -> Measured:
    """The mean of the losses on fixed minibatches while the candidate takes its steps on the others."""
    agent, optimizer = subject.build(seed)
    data = FrozenData(agent, optimizer, num_steps)
    losses: list[float] = []
    try:
        for number in range(num_steps):
            loss = data.step()
            losses.append(loss if math.isfinite(loss) else _BAD)
            if (number + 1) * _REPORTS % num_steps < _REPORTS:
                context.report((number + 1) / num_steps, losses[-1])
            if losses[-1] == _BAD:
                raise FloatingPointError(f"the loss is no longer finite at gradient step {number}")
    finally:
        data.close()
    return Measured((float(np.mean(losses)),), {"losses": losses, "rewards": []})
