"""Supervised steps of an agent: on data that was collected once, with targets and advantages held still.

What a learning rate does to a loss can only be seen where nothing else moves; finders work with this.
"""

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, fields, replace
from typing import Any

import numpy as np

from note_rl.collect.policy_runner import PolicyRunner
from note_rl.errors import SettingsError
from note_rl.learners.adjustable import LEARNING_RATE
from note_rl.learners.declarations import check_loss
from note_rl.settings import RolloutSettings
from note_rl.training.normal_inputs import with_normal_inputs
from note_rl.training.train_options import train_options
from note_rl.training.trainer import Trainer
from note_rl.types import Array, FloatArray, Sample, Steps

_HELD_OUT = 8  # minibatches of the fixed set that losses are measured on
_LEAST_STEPS = 1000  # environment steps put into a replay pool, if it holds as many


@dataclass(frozen=True)
class PolicyChange:
    """How far a policy has moved from the one that chose the actions.

    Attributes:
        kl: Estimate of KL(old || new), never negative: mean of r - 1 - log r over ratios r of new to old probability
            (Schulman 2020, "Approximating KL Divergence", k3: http://joschu.net/blog/kl-approx.html).
        ess: Share of the samples that are still worth something, (mean r)^2 / mean r^2.
    """

    kl: float
    ess: float


class FrozenData:
    """An agent and minibatches of its own experience. Its `train()` is not to be called any more.

    Args:
        agent: An agent that nobody else uses; its settings say how it explores and what it trains from.
        optimizer: Takes the steps.
        num_batches: Minibatches to train on; None: those of one phase of ordinary training.

    Raises:
        NoteRLError: Settings, environment and agent do not fit each other.
    """

    def __init__(self, agent: Any, optimizer: Any, num_batches: int | None) -> None:
        check_loss(type(agent))
        settings = agent.settings
        kept = {name: schedule for name, schedule in settings.schedules.items() if name != LEARNING_RATE}
        agent.settings = replace(settings, schedules=kept)
        self._trainer: Trainer = agent._ready_trainer(optimizer, train_options({"jit_compile": False, "p": 0}))
        self._agent, self._learner = agent, agent.learner
        self._act = PolicyRunner(self._learner, agent.obs_normaliser, settings.multi_agent)
        self._hyperparameters = self._trainer.schedules.move_to(0.0)
        self.num_per_phase = 0  # gradient steps of one phase of ordinary training
        self._train, self._held_out = self._gather(num_batches)
        self._next = 0
        self._diverged = False  # since the beginning
        self._beginning = self._learner.get_state()
        self._log_prob_old = self._log_prob()

    def restart(self) -> None:
        """Parameters and optimizer as they were at the beginning, and the first minibatch again."""
        self._learner.set_state(self._beginning)
        self._next = 0
        self._diverged = False

    def step(self, num_steps: int = 1) -> float:
        """Gradient steps, each on the next minibatch, beginning again after the last one.

        Returns:
            The loss on the fixed minibatches behind them; may be not finite, and is not where a step led nowhere.
        """
        for _ in range(num_steps):
            if self._diverged:
                break
            sample = self._train[self._next % len(self._train)]
            self._next += 1
            update = self._learner.update(sample, self._hyperparameters)
            self._diverged |= update.diverged
        return math.nan if self._diverged else self.loss()

    def loss(self) -> float:
        """The mean loss on the fixed minibatches, of all groups together."""
        with np.errstate(all="ignore"):
            return float(np.mean([self._learner.loss_of(sample).sum() for sample in self._held_out]))

    def policy_change(self) -> PolicyChange | None:
        """How far the policy has moved; None where it knows no probabilities of its actions."""
        new = self._log_prob()
        if new is None or self._log_prob_old is None:
            return None
        if self._diverged:
            return PolicyChange(math.nan, math.nan)
        with np.errstate(all="ignore"):
            log_ratio = np.asarray(new, np.float64) - self._log_prob_old
            ratio = np.exp(log_ratio)
            kl = float(np.mean(ratio - 1.0 - log_ratio))
            return PolicyChange(kl, float(np.mean(ratio) ** 2 / np.mean(ratio**2)))

    def close(self) -> None:
        """Closes the environments that were made here."""
        self._trainer.collector.end(False)
        self._trainer.close()

    def _log_prob(self) -> FloatArray | None:
        """log-probabilities [n] of the actions in the fixed minibatches."""
        if self._trainer.settings.multi_agent or self._act.is_recurrent:  # states are not kept with the steps
            return None
        obs = np.concatenate([_rows(sample, sample.obs) for sample in self._held_out])
        action = np.concatenate([_rows(sample, sample.action) for sample in self._held_out])
        return self._trainer.state.policy.log_prob(self._learner.act(obs), action)

    def _gather(self, num_batches: int | None) -> tuple[list[Sample], list[Sample]]:
        """Minibatches to train on, and a fixed set to measure on: of another rollout, or drawn from the same pool."""
        trainer = self._trainer
        trainer.collector.begin(self._act)
        experience = trainer.experience.settings
        if isinstance(experience, RolloutSettings):
            measured, trained = self._collect(), self._collect()
            held_out = self._minibatches(_HELD_OUT, [measured])
            return self._minibatches(num_batches, [trained]), held_out
        wanted = max(experience.learning_starts, experience.batch_size, min(_LEAST_STEPS, experience.capacity))
        while trainer.clock.num_env_steps < wanted:
            trainer.experience.store(self._collect())
        return self._minibatches(num_batches), self._minibatches(_HELD_OUT)

    def _collect(self) -> Steps:
        trainer = self._trainer
        length = trainer.experience.phase_length(trainer.collector.num_envs, None)
        steps, _ = trainer.collector.collect(self._act, length)
        trainer.clock.num_env_steps += steps.num_env_steps
        if trainer.settings.normalise_obs:
            self._agent.obs_normaliser.update(steps.obs)
        return steps

    def _minibatches(self, count: int | None, stored: Sequence[Steps] = ()) -> list[Sample]:
        """Minibatches, drawn as in training; rollouts, which training forgets, are stored for each phase."""
        found: list[Sample] = []
        while not found or (count is not None and len(found) < count):
            for steps in stored:
                self._trainer.experience.store(steps)
            before = len(found)
            for block in self._trainer.experience.update_blocks(self._trainer.clock):
                found.extend(_apart(with_normal_inputs(block, self._agent, self._trainer.state.sampling)))
            if len(found) == before:
                raise SettingsError("there is nothing to train on: collect more, or make the batch smaller")
            self.num_per_phase = len(found) - before
        return found[:count]


def _rows(sample: Sample, values: Array) -> Array:
    """One row for each transition of the first minibatch, those of sequences included."""
    rows: Array = values[0].reshape(-1, *values.shape[sample.reward.ndim :])
    return rows


def _apart(sample: Sample) -> Iterator[Sample]:
    """Each minibatch of an update block for itself, without an update of the targets."""
    for k in range(sample.num_gradient_steps):
        values = {part.name: _one(getattr(sample, part.name), k) for part in fields(sample)}
        yield Sample(**{**values, "sync": np.zeros(1, np.bool_)})


def _one(values: Any, k: int) -> Any:
    if isinstance(values, dict):
        return {name: _one(array, k) for name, array in values.items()}
    found: Array | None = None if values is None else values[k : k + 1]
    return found
