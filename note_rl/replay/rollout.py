"""On-policy experience: one rollout, its advantages, and the minibatches made of it."""

from collections.abc import Callable
from typing import Any

import numpy as np

from note_rl.replay.frame_ring import FrameRing
from note_rl.replay.returns import generalised_advantage, standardise, standardise_rows
from note_rl.replay.ring import flat, gathered
from note_rl.settings.replay_choices import RolloutPriority
from note_rl.types import IMPORTANCE_RATIO, STEP_COLUMNS, Array, BoolArray, FloatArray, IntArray, Sample, Steps

ValueFunction = Callable[..., Any]
"""Values [N] of observations [N, *obs]; of a `SequencedRollout` what its `_values` takes."""
RewardFunction = Callable[[Array, Array, Array], FloatArray]
_STACKS_AT_ONCE = 1024  # stacks of frames are large: never all of a rollout in memory


class Rollout:
    """T*E transitions of the current policy, ready to be read in minibatches and then forgotten.

    Args:
        steps: The transitions.
        gamma: Discount of one step.
        frames: A ring whose newest transitions these are, from which stacks of frames are read; None: observations are
            those of `steps`.
    """

    def __init__(self, steps: Steps, gamma: float, frames: FrameRing | None = None) -> None:
        elsewhere = ("obs", "next_obs") if frames is not None else ()
        self._columns = {name: flat(getattr(steps, name)) for name in STEP_COLUMNS if name not in elsewhere}
        self._extras: dict[str, Array] = {name: flat(values) for name, values in steps.extras.items()}
        self._gamma = gamma
        self._steps = steps
        self._frames = frames
        self._per_minibatch = False
        if steps.log_prob is not None:
            self._extras["log_prob_old"] = flat(steps.log_prob)
            if IMPORTANCE_RATIO in self._extras:  # log pi = log mu + log(pi / mu)
                self._extras["log_prob_old"] = self._extras["log_prob_old"] + np.log(self._extras[IMPORTANCE_RATIO])

    def __len__(self) -> int:
        """T * E."""
        return self._steps.num_env_steps

    def add_advantages(self, value: ValueFunction, gae_lambda: float, standardised: bool | str) -> None:
        """Adds advantage, return_ and value_old to what minibatches offer.

        Args:
            value: The agent's value function: [N, *obs] -> [N].
            gae_lambda: Weight of long against short returns, in [0, 1].
            standardised: Whether advantages get mean 0 and deviation 1 over the rollout, so that samples of a minibatch
                do not depend on each other; minibatch: over each minibatch.
        """
        steps = self._steps
        value_old, next_value = (values.reshape(steps.reward.shape) for values in self._values(value))
        reward = self._columns["reward"].reshape(steps.reward.shape)
        advantage, return_ = generalised_advantage(
            reward, value_old, next_value, steps.terminated, steps.ended, self._gamma, gae_lambda
        )
        self._per_minibatch = standardised == "minibatch"
        self._extras["advantage"] = flat(standardise(advantage) if standardised is True else advantage)
        self._extras["return_"] = flat(return_)
        self._extras["value_old"] = flat(value_old)

    def value_fit(self) -> tuple[FloatArray, FloatArray]:
        """The values that advantages were made with, and the returns that they should have predicted, [T*E] each."""
        return self._extras["value_old"], self._extras["return_"]

    def replace_reward(self, reward: RewardFunction) -> None:
        """Learns from another reward: [n] of (obs, action, next_obs), each [n, ...]. Comes before advantages."""
        parts = [
            reward(self._seen("obs", index), self._columns["action"][index], self._seen("next_obs", index))
            for index in self._pieces()
        ]
        self._columns["reward"] = np.concatenate(parts).astype(np.float32).reshape(len(self))

    def _values(self, value: ValueFunction) -> FloatArray:
        """Of `obs` and of `next_obs`, [2, T*E]: in one call, as for short rollouts calls cost more than sums."""
        names = ("obs", "next_obs")
        parts = [value(np.concatenate([self._seen(name, index) for name in names])) for index in self._pieces()]
        return np.concatenate([part.reshape(len(names), -1) for part in parts], axis=1)

    def _pieces(self) -> list[IntArray]:
        """All indices; in pieces where the observations of all together would fill the memory."""
        at_once = len(self) if self._frames is None else _STACKS_AT_ONCE
        return [np.arange(first, min(first + at_once, len(self))) for first in range(0, len(self), at_once)]

    def _seen(self, name: str, index: IntArray) -> Array:
        """`obs` or `next_obs` of the transitions at index [...]."""
        if self._frames is None:
            return gathered(self._columns[name], index)
        slots = self._frames.slots(len(self._frames) - len(self) + index)
        return self._frames.obs(slots) if name == "obs" else self._frames.next_obs(slots)

    def epochs(self, num_epochs: int, batch_size: int, rng: np.random.Generator) -> IntArray:
        """The minibatches of all epochs [K, B]: each epoch reads every transition at most once, shuffled.

        Where T*E is no multiple of the batch size, each epoch leaves out a different random rest.
        """
        size = len(self)
        num_batches = size // batch_size
        used = num_batches * batch_size
        order = np.concatenate([rng.permutation(size)[:used] for _ in range(num_epochs)])
        return order.reshape(num_epochs * num_batches, batch_size)

    def gather(self, index: IntArray, sync: BoolArray) -> Sample:
        """The transitions at index [K, B] as minibatches, with the target updates [K] that go with them."""
        terminated = gathered(self._columns["terminated"], index).astype(np.float32)
        extras = {name: gathered(values, index) for name, values in self._extras.items()}
        if self._per_minibatch:
            extras["advantage"] = standardise_rows(extras["advantage"])
        return Sample(
            obs=self._seen("obs", index),
            action=gathered(self._columns["action"], index),
            reward=gathered(self._columns["reward"], index),
            next_obs=self._seen("next_obs", index),
            terminated=terminated,
            discount=np.float32(self._gamma) * (1.0 - terminated),
            sync=sync,
            extras=extras,
            slots=index,
        )

    def sample(self, num_epochs: int, batch_size: int, rng: np.random.Generator) -> Sample:
        """All minibatches of all epochs as one update block, targets updated at the end."""
        index = self.epochs(num_epochs, batch_size, rng)
        sync = np.zeros(len(index), np.bool_)
        sync[-1] = True
        return self.gather(index, sync)


class RolloutScores:
    """How much there still is to be learned from each transition of a rollout, and minibatches drawn by that.

    A transition is drawn with probability score^alpha / sum of score^alpha, where
    score = lambda * |TD| + (1 - lambda) * |ratio - 1| + epsilon. Minibatches are drawn stratified.

    Args:
        priority: The numbers.
        size: T * E.
    """

    def __init__(self, priority: RolloutPriority, size: int) -> None:
        self.priority = priority
        self._td_error = np.full(size, priority.initial_td)
        self._ratio = np.full(size, priority.initial_ratio)
        self._live = np.ones(size, np.bool_)

    @property
    def scores(self) -> FloatArray:
        """[N], 0 where a transition was given up."""
        weight = self.priority.lambda_
        score = weight * np.abs(self._td_error) + (1.0 - weight) * np.abs(self._ratio - 1.0)
        return np.where(self._live, score + self.priority.epsilon, 0.0)

    @property
    def num_live(self) -> int:
        """Transitions that were not given up."""
        return int(np.count_nonzero(self._live))

    @property
    def drawn_in_proportion_to(self) -> FloatArray:
        """score^alpha of those not given up, the oldest first."""
        powers: FloatArray = self.scores[self._live] ** self.priority.alpha
        return powers

    def give_up_oldest(self, number: int) -> None:
        """Gives up a number of the oldest; a rollout lies in the order of time."""
        self._live[np.flatnonzero(self._live)[: max(number, 0)]] = False

    def draw(self, shape: tuple[int, int], rng: np.random.Generator) -> IntArray:
        """Indices [K, B]."""
        scores = self.scores
        running = np.cumsum(np.where(scores > 0.0, scores**self.priority.alpha, 0.0))
        mass = (np.arange(shape[1]) + rng.random(shape)) * (running[-1] / shape[1])
        index: IntArray = np.searchsorted(running, np.minimum(mass, np.nextafter(running[-1], 0.0)), side="right")
        return index

    def update(self, index: IntArray, td_error: FloatArray, ratio: FloatArray | None) -> None:
        """New TD errors and ratios [n] of the transitions at index [n]; without ratios, the former stay."""
        self._td_error[index] = td_error
        if ratio is not None:
            self._ratio[index] = ratio

    def keep_highest(self, number: int) -> None:
        """Gives up all but a number of the highest score."""
        live = np.flatnonzero(self._live)
        excess = len(live) - max(number, 1)
        if excess > 0:
            self._live[live[np.argpartition(self.scores[live], excess - 1)[:excess]]] = False
