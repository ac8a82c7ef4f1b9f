"""From slots of a ring to transitions of one step or of n, or to sequences of them."""

from dataclasses import replace
from typing import Protocol

import numpy as np

from note_rl.replay.ring import Ring
from note_rl.types import EPISODE_START, BoolArray, IntArray, Transitions


class Reader(Protocol):
    """Makes transitions of slots."""

    def __call__(self, ring: Ring, slots: IntArray, gamma: float, rng: np.random.Generator) -> Transitions:
        """The transitions at slots [K, B], whose shape is in front of every array.

        Args:
            ring: Where they lie.
            slots: Which ones.
            gamma: Discount of one step.
            rng: For readers that choose something themselves.
        """


def one_step(
    ring: Ring, slots: IntArray, gamma: float, rng: np.random.Generator, first: IntArray | None = None
) -> Transitions:
    """The transitions as they were stored; see `Reader`, and for `first` `Ring.extras`."""
    terminated = ring.column("terminated", slots).astype(np.float32)
    return Transitions(
        obs=ring.obs(slots),
        action=ring.column("action", slots),
        reward=ring.column("reward", slots),
        next_obs=ring.next_obs(slots),
        terminated=terminated,
        discount=np.float32(gamma) * (1.0 - terminated),
        extras=ring.extras(slots, first=first),
    )


class NStep:
    """Reads n steps of the same environment as one transition (Sutton & Barto 2018, eq. 7.1).

    The reward is the sum of gamma^i * r_(t+i), the next observation that after the last of these steps. Where the
    episode ends before, or nothing further is stored, there are fewer steps, and the discount is gamma to the power of
    their true number.

    Args:
        num_steps: n.
    """

    def __init__(self, num_steps: int) -> None:
        self.num_steps = num_steps

    def __call__(self, ring: Ring, slots: IntArray, gamma: float, rng: np.random.Generator) -> Transitions:
        """See `Reader`."""
        num_taken = self._num_taken(ring, slots)
        reward = np.array(ring.column("reward", slots), np.float64)
        trailing = (...,) + (None,) * (reward.ndim - slots.ndim)  # rewards may be one per agent
        for step in range(1, self.num_steps):
            further = ring.column("reward", ring.ahead(slots, step))
            reward += np.where((step < num_taken)[trailing], gamma**step * further, 0.0)
        last = ring.ahead(slots, num_taken - 1)
        terminated = ring.column("terminated", last).astype(np.float32)
        discount = np.power(np.float64(gamma), num_taken)[trailing] * (1.0 - terminated)
        return Transitions(
            obs=ring.obs(slots),
            action=ring.column("action", slots),
            reward=reward.astype(np.float32),
            next_obs=ring.next_obs(last),
            terminated=terminated,
            discount=discount.astype(np.float32),
            extras=ring.extras(slots, last),
        )

    def _num_taken(self, ring: Ring, slots: IntArray) -> IntArray:
        """How many steps can be taken from each slot: 1 to n."""
        stored = (len(ring) - 1 - ring.ages(slots)) // ring.num_envs + 1
        taken = np.ones(slots.shape, np.int64)
        going_on = np.ones(slots.shape, np.bool_)
        for step in range(1, self.num_steps):
            going_on &= ~_is_over(ring, ring.ahead(slots, step - 1)) & (step < stored)
            taken += going_on
        return taken


def _is_over(ring: Ring, slots: IntArray) -> BoolArray:
    """Where the episode or, of a single agent, the task has ended: a task may end within an episode."""
    ended, terminated = ring.column("ended", slots), ring.column("terminated", slots)
    over: BoolArray = ended | terminated if terminated.ndim == ended.ndim else ended
    return over


class SequenceReader:
    """Reads T consecutive steps of the same environment at once: the arrays of transitions get an axis T after [K, B].

    Nothing is cut off where an episode ends: the steps behind belong to the next one. `ended` [K, B, T] among the
    extras says where that is, and `next_obs` there is the true last observation.

    Of an agent with a memory, `state_before` [K, B, S] is the state before the first step, and `episode_start`
    [K, B, T] is 1 where an episode begins.

    Args:
        num_steps: T. From each slot that is read, this many steps must be stored.
    """

    def __init__(self, num_steps: int) -> None:
        self.num_steps = num_steps

    def __call__(self, ring: Ring, slots: IntArray, gamma: float, rng: np.random.Generator) -> Transitions:
        """See `Reader`."""
        index = ring.ahead(slots[..., None], np.arange(self.num_steps))
        read = one_step(ring, index, gamma, rng, first=slots)
        extras = {**read.extras, "ended": ring.column("ended", index)}
        if EPISODE_START in extras:
            extras[EPISODE_START] = extras[EPISODE_START].astype(np.float32)
        return replace(read, extras=extras)
