"""Parts shared by both ways of training from experience, and their interface to the agent."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Protocol

import numpy as np

from note_rl.environments.normalise import ObservationNormaliser
from note_rl.errors import AgentContractError
from note_rl.replay.hindsight import GoalFunctions
from note_rl.replay.whole_sequences import ValueFromState
from note_rl.settings.demonstrations import Demonstrations, Expert, as_demonstrations
from note_rl.settings.switch_names import IRL, PR
from note_rl.types import Array, BoolArray, FloatArray, Sample, Steps, Update

RewardFunction = Callable[[Array, Array, Array], FloatArray]

MAX_BLOCK_BYTES = 64 * 2**20
"""Of observations that are gathered for one framework call."""


@dataclass
class Clock:
    """Counts over the agent's life, and how far the present call of train() has come (0 to 1)."""

    num_env_steps: int = 0
    num_gradient_steps: int = 0
    num_episodes: int = 0
    num_phases: int = 0
    progress: float = 0.0

    def gradient_steps_to_come(self, beginning: "Clock") -> float:
        """How many are left of a call of train() that began then, if it goes on like this; 0 if nothing has passed."""
        passed = self.progress - beginning.progress
        done = self.num_gradient_steps - beginning.num_gradient_steps
        return done * (1.0 - self.progress) / passed if passed > 0 else 0.0

    def sync_every(self, num_gradient_steps: int, every: int) -> BoolArray:
        """Returns after which of the coming gradient steps targets move that move at an interval, [K]."""
        sync = np.zeros(num_gradient_steps, np.bool_)
        sync[(-self.num_gradient_steps - 1) % every :: every] = True
        return sync


@dataclass(frozen=True, kw_only=True)
class AgentView:
    """Interface of experience to the agent, as plain functions of arrays; the trainer makes it.

    Attributes:
        gamma: Current discount of one step; None: the agent has none, and nothing is discounted.
        gae_lambda: Current weight of long against short returns.
        value: Values [N] of observations [N, *obs]; None: no advantages are worked out.
        value_from: In place of it for an agent that learns from sequences, whose values depend on states as well.
        in_sequences: Whether rollouts are learned from in whole sequences, with the states before them.
        reward: The learned reward [N] of (obs, action, next_obs), each [N, ...].
        goals: What hindsight needs to know of the task.
        standardise_advantage: Whether advantages get mean 0 and deviation 1 over a rollout; minibatch: over each
            minibatch.
        normaliser: Of observations [..., *obs], as the agent sees them when it acts; None: they stay as stored.
        normalise_reward: Rewards of any shape as they are to be learned from; None: as stored.
        normal_nbytes: Bytes of the normal numbers that go with each sample (`Declared.normal_inputs`).
    """

    gamma: Callable[[], float] | None = None
    gae_lambda: Callable[[], float] = lambda: 0.95
    value: Callable[[Array], FloatArray] | None = None
    value_from: ValueFromState | None = None
    in_sequences: bool = False
    reward: RewardFunction | None = None
    goals: GoalFunctions | None = None
    standardise_advantage: bool | str = True
    normaliser: ObservationNormaliser | None = None
    normalise_reward: Callable[[FloatArray], FloatArray] | None = None
    normal_nbytes: int = 0

    @property
    def normalises_obs(self) -> bool:
        """Whether observations are seen otherwise than they are stored."""
        return self.normaliser is not None and self.normaliser.moments is not None

    def seen(self, obs: Array) -> Array:
        """Observations [..., *obs] as the agent sees them."""
        return obs if self.normaliser is None else self.normaliser(obs)

    def discount(self) -> float:
        """Gamma; 1 for an agent that has none."""
        return 1.0 if self.gamma is None else self.gamma()


class Experience(Protocol):
    """Says how much to collect, keeps it, and turns it into update blocks of minibatches.

    Attributes:
        settings: Of the next phase: some of their numbers may be replaced between phases.
        ahead: Environment steps, or episodes, beyond the last phase, which count for the next one.
    """

    settings: Any
    ahead: int

    def phase_length(self, num_envs: int, remaining: int | None, collected: Sequence[Steps] = ()) -> int | None:
        """Steps per environment of the next round of collecting; None: until an episode ends.

        Args:
            num_envs: E.
            remaining: Environment steps that are left of the budget; None: there is no end.
            collected: Rounds of the same phase that have been taken already.
        """

    def store(self, steps: Steps, num_rounds: int = 1) -> None:
        """Takes in what was collected in a number of rounds."""

    def interrupt(self) -> None:
        """Notes that the next steps stored do not continue the running episodes: environments were made anew."""

    def update_blocks(self, clock: Clock) -> Iterator[Sample]:
        """The training phase: minibatches, one update block after the other; nothing while it is too early to learn.

        Each update block is drawn when it is asked for, and so knows the feedback() of those before.
        """

    def feedback(self, sample: Sample, update: Update) -> None:
        """Takes the results of an update block: new priorities, where there are any."""

    def priorities(self) -> FloatArray | None:
        """Priorities of the transitions, in proportion to which they are drawn, oldest first, [n]; None: all alike."""

    def logs(self) -> dict[str, float]:
        """Values of the last training phase for logs, by name."""

    def get_state(self) -> dict[str, Array]:
        """The state that a checkpoint needs to go on exactly."""

    def set_state(self, state: Mapping[str, Array]) -> None:
        """Takes over a stored state."""


class BatchTransform:
    """Changes to every minibatch before the agent gets it: learned reward, expert, normalisation.

    Args:
        view: The agent.
        learned_reward: Whether its reward() replaces that of the environment.
        expert: Demonstrations that go with every minibatch.
    """

    def __init__(self, view: AgentView, learned_reward: bool, expert: Expert | None) -> None:
        if learned_reward and view.reward is None:
            raise AgentContractError(
                "{} learns from the agent's own reward: define reward(self, s, a, next_s) -> [B]", IRL.at(True)
            )
        self._view = view
        self._reward = view.reward if learned_reward else None
        self._expert: Demonstrations | None = None if expert is None else as_demonstrations(expert)
        self._leaves_rewards = self._reward is None and view.normalise_reward is None

    def learned(self, obs: Array, action: Array, next_obs: Array, otherwise: FloatArray) -> FloatArray:
        """The reward to learn from, [...]: the agent's, if it learns one, of observations as the agent sees them."""
        if self._reward is None:
            normalise = self._view.normalise_reward
            return otherwise if normalise is None else normalise(otherwise)
        lead = otherwise.ndim
        reward = self._reward(*(values.reshape(-1, *values.shape[lead:]) for values in (obs, action, next_obs)))
        return np.asarray(reward, np.float32).reshape(otherwise.shape)

    def seen(self, obs: Array) -> Array:
        """Observations as the agent is to see them."""
        return self._view.seen(obs)

    def with_expert(self, sample: Sample, rng: np.random.Generator) -> Sample:
        """The minibatches with `expert_obs` and `expert_action` [K, B, ...]."""
        if self._expert is None:
            return sample
        pairs = self._expert.sample((sample.reward.shape[0], sample.reward.shape[1]), rng)
        pairs["expert_obs"] = self.seen(pairs["expert_obs"])
        return replace(sample, extras={**sample.extras, **pairs})

    def transformed(self, sample: Sample, rng: np.random.Generator) -> Sample:
        """Everything, for minibatches that come from a pool."""
        if self._leaves_rewards and not self._view.normalises_obs:
            return self.with_expert(sample, rng)
        obs, next_obs = self.seen(sample.obs), self.seen(sample.next_obs)
        reward = self.learned(obs, sample.action, next_obs, sample.reward)
        return self.with_expert(replace(sample, obs=obs, next_obs=next_obs, reward=reward), rng)


def check_handed_over(update: Update) -> FloatArray:
    """The TD errors of an update.

    Raises:
        AgentContractError: The agent gave none.
    """
    if update.td_error is None:
        raise AgentContractError(
            "{} draws transitions by their TD error, but __call__ never says it: call "
            "self.prioritized_replay.update(TD) there, TD being target minus prediction [B]",
            PR.at(True),
        )
    return update.td_error


def fixed_chunks(total: int, largest: int) -> list[tuple[int, int]]:
    """Ranges of length `largest` and one rest: at most two lengths, whatever the phase."""
    return [(first, min(first + largest, total)) for first in range(0, total, largest)]


def ladder_chunks(total: int, largest: int) -> list[tuple[int, int]]:
    """Ranges whose lengths are powers of two, for totals that change from phase to phase."""
    chunks = []
    first = 0
    while first < total:
        length = min(1 << (total - first).bit_length() - 1, 1 << largest.bit_length() - 1)
        chunks.append((first, first + length))
        first += length
    return chunks
