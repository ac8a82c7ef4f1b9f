"""The training loop: collect, store, train; the same for every algorithm and framework."""

import logging
import math
import time
from collections import deque
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from typing import Any

import numpy as np

from note_rl.callbacks import Hooks
from note_rl.checkpoint import nested, under
from note_rl.collect.collector import Collector
from note_rl.environments import VectorEnvironment, make_environments
from note_rl.errors import DivergedError, SettingsError
from note_rl.experience import Clock, Experience, ReplayExperience, RolloutExperience
from note_rl.learners.base import LEARNING_RATE, Learner
from note_rl.seeding import generator
from note_rl.settings import Budget, ReplaySettings, Settings
from note_rl.types import Array, Episode, TrainResult

_log = logging.getLogger(__name__)


@dataclass
class _Account:
    """What one call of train() gathers."""

    returns: list[float] = field(default_factory=list)
    lengths: list[int] = field(default_factory=list)
    episode_steps: list[int] = field(default_factory=list)
    losses: list[float] = field(default_factory=list)


class Trainer:
    """Brings a learner, environments and experience together and keeps the count over an agent's life."""

    def __init__(self, agent: Any, learner: Learner, settings: Settings, seed: int) -> None:
        self.agent = agent
        self.learner = learner
        self.settings = settings
        self.seed = seed
        self.clock = Clock()
        self.envs = VectorEnvironment(make_environments(agent.env, settings.num_envs), seed)
        self.collector = Collector(self.envs, settings.policy, generator(seed, "exploration"))
        self._sampling = generator(seed, "sampling")
        self.experience = self._make_experience()
        recent = settings.trial_count or 1
        self._recent: deque[float] = deque(maxlen=recent)

    def _make_experience(self) -> Experience:
        chosen = self.settings.experience
        agent = self.agent
        if isinstance(chosen, ReplaySettings):
            return ReplayExperience(chosen, lambda: float(getattr(agent, "gamma", 1.0)), self._sampling)
        chosen.check_num_envs(len(self.envs))
        return RolloutExperience(
            chosen,
            gamma=lambda: float(getattr(agent, "gamma", 1.0)),
            gae_lambda=lambda: float(getattr(agent, "gae_lambda", 0.95)),
            value=self.learner.value if hasattr(agent, "value") else None,
            standardised=bool(getattr(agent, "normalise_advantage", True)),
            rng=self._sampling,
        )

    def run(self, budget: Budget, hooks: Hooks) -> TrainResult:
        """Trains until the budget is used up, the criterion is reached or somebody sets `agent.stop_training`.

        Raises:
            DivergedError: A loss was not finite.
        """
        account = _Account()
        began = time.perf_counter()
        self.agent.stop_training = False
        hooks("on_train_begin")
        stop_reason = self._stop_reason(budget, account)
        if stop_reason is None:
            hooks("on_episode_begin", 0)
        while stop_reason is None:
            self._phase(budget, account, hooks)
            stop_reason = self._stop_reason(budget, account)
        hooks("on_train_end")
        return TrainResult(
            **asdict(account),
            num_env_steps=self.clock.num_env_steps,
            num_gradient_steps=self.clock.num_gradient_steps,
            seconds=time.perf_counter() - began,
            stop_reason=stop_reason,
        )

    def _phase(self, budget: Budget, account: _Account, hooks: Hooks) -> None:
        hyperparameters = self._scheduled(budget.progress(self.clock.num_env_steps, len(account.returns)))
        remaining = None if budget.total_steps is None else budget.total_steps - self.clock.num_env_steps
        length = self.experience.phase_length(len(self.envs), remaining)
        steps, episodes = self.collector.collect(self.learner.act, length)
        self.clock.num_env_steps += steps.num_env_steps
        self._note_episodes(episodes, account, hooks)
        self.experience.store(steps)
        loss = self._train(hyperparameters, hooks)
        account.losses.append(loss)
        self.clock.num_phases += 1
        if hooks.wants("on_phase_end"):
            logs = {
                "num_env_steps": self.clock.num_env_steps,
                "num_gradient_steps": self.clock.num_gradient_steps,
                "loss": loss,
                **hyperparameters,
                **self._policy_numbers(),
            }
            hooks("on_phase_end", self.clock.num_phases, logs)

    def _note_episodes(self, episodes: list[Episode], account: _Account, hooks: Hooks) -> None:
        for episode in episodes:
            number = len(account.returns)
            account.returns.append(episode.return_)
            account.lengths.append(episode.length)
            account.episode_steps.append(self.clock.num_env_steps)
            self._recent.append(episode.return_)
            self.clock.num_episodes += 1
            logs = {
                "reward": episode.return_,
                "length": float(episode.length),
                "num_env_steps": float(self.clock.num_env_steps),
            }
            hooks("on_episode_end", number, logs)
            hooks("on_episode_begin", number + 1)

    def _train(self, hyperparameters: Mapping[str, float], hooks: Hooks) -> float:
        """Mean loss over the gradient steps of this phase; nan if there were none."""
        losses = []
        for sample in self.experience.bursts(self.clock):
            first = self.clock.num_gradient_steps
            hooks("on_batch_begin", first)
            loss = self.learner.update(sample, hyperparameters).loss
            self.clock.num_gradient_steps += sample.num_gradient_steps
            losses.append(loss)
            if not np.isfinite(loss).all():
                step = first + int(np.argmin(np.isfinite(loss).all(axis=-1)))
                raise DivergedError(
                    f"the loss is no longer finite at gradient step {step}; a lower learning rate or gradient clipping "
                    "(max_grad_norm) usually helps"
                )
            if hooks.wants("on_batch_end"):
                for offset, value in enumerate(loss.sum(axis=-1)):
                    hooks("on_batch_end", first + offset, {"loss": float(value)})
        return float(np.concatenate(losses).sum(axis=-1).mean()) if losses else math.nan

    def _scheduled(self, progress: float) -> dict[str, float]:
        """Moves the policy's and the agent's numbers; returns those that the learner needs."""
        for_learner = {}
        for name, schedule in self.settings.schedules.items():
            value = float(schedule(progress))
            if hasattr(self.settings.policy, name):
                setattr(self.settings.policy, name, value)
                continue
            for_learner[name] = value
            if name != LEARNING_RATE:
                setattr(self.agent, name, value)
        return for_learner

    def _policy_numbers(self) -> dict[str, float]:
        policy = self.settings.policy
        return {name: float(getattr(policy, name)) for name in self.settings.schedules if hasattr(policy, name)}

    def _stop_reason(self, budget: Budget, account: _Account) -> str | None:
        if self.agent.stop_training:
            return "stop_training"
        if budget.total_steps is not None and self.clock.num_env_steps >= budget.total_steps:
            return "total_steps"
        if budget.episodes is not None and len(account.returns) >= budget.episodes:
            return "episodes"
        criterion = self.settings.criterion
        if criterion is not None and len(self._recent) == self._recent.maxlen and np.mean(self._recent) >= criterion:
            return "criterion"
        return None

    def learner_schedules(self) -> list[str]:
        """Names of scheduled values that are not the policy's.

        Raises:
            SettingsError: A name that is neither the policy's, the agent's nor the learning rate.
        """
        names = [name for name in self.settings.schedules if not hasattr(self.settings.policy, name)]
        for name in names:
            if name != LEARNING_RATE and not hasattr(self.agent, name):
                raise SettingsError(
                    f"there is a schedule for {name!r}, but neither {type(self.settings.policy).__name__} nor "
                    f"{type(self.agent).__name__} has such a number; did you mean learning_rate?"
                )
        return names

    def get_state(self, with_experience: bool) -> tuple[dict[str, Array], dict[str, Any]]:
        """Arrays and JSON-able values from which training goes on exactly, learner not included."""
        arrays = nested("collector", self.collector.get_state())
        if with_experience:
            arrays.update(nested("experience", self.experience.get_state()))
        head = {
            "seed": self.seed,
            "clock": asdict(self.clock),
            "recent": list(self._recent),
            "random": {
                "exploration": self.collector.rng.bit_generator.state,
                "sampling": self._sampling.bit_generator.state,
            },
        }
        return arrays, head

    def set_state(self, arrays: Mapping[str, Array], head: Mapping[str, Any]) -> None:
        """Takes over a stored state; refuses one that does not fit (CheckpointError)."""
        experience = under("experience", arrays)
        if experience:
            self.experience.set_state(experience)
        if not self.collector.set_state(under("collector", arrays)):
            _log.warning(
                "the environment did not come back to where it was (it is not deterministic given its seed): "
                "training goes on, but not bit for bit"
            )
        self.clock = Clock(**head["clock"])
        self._recent.extend(head["recent"])
        self.collector.rng.bit_generator.state = head["random"]["exploration"]
        self._sampling.bit_generator.state = head["random"]["sampling"]

    def close(self) -> None:
        """Closes the environments."""
        self.envs.close()
