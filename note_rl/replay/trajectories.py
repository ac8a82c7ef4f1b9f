"""Triplets of one trajectory: what lies between them, as two steps of many."""

import numpy as np

from note_rl.replay.episodes import EpisodeIndex
from note_rl.replay.ring import Ring
from note_rl.types import BoolArray, FloatArray, IntArray, Transitions

_TRIES = 8
_LOOKED_AT_FIRST = 256


class TripletReader:
    """Reads states s_i, s_k, s_j with i < k < j of one episode as the two long transitions i -> k and k -> j.

    Every array gets an axis of length 2 behind [K, B]: obs is (s_i, s_k), action what was done there, next_obs
    (s_k, s_j), the reward the sum of gamma^t r_t on the way, terminated whether the task ended at its end, discount
    gamma to the number of steps, which is `num_steps`, or 0 where it ended. The episode is that of the slot read,
    i, k and j any three of its stored states, the true last one included, all triplets being equally likely. Episodes
    of a single step have no triplet; another slot is taken for them.

    Args:
        episodes: Where episodes begin and end in the ring.
    """

    def __init__(self, episodes: EpisodeIndex) -> None:
        self._episodes = episodes

    def possible(self, ring: Ring) -> bool:
        """Whether any stored episode is long enough; looks through the pool only where none of the newest is."""
        newest = ring.slots(np.arange(max(len(ring) - _LOOKED_AT_FIRST, 0), len(ring)))
        if self._long_enough(ring, newest).any():
            return True
        return bool(self._long_enough(ring, ring.slots(np.arange(len(ring)))).any())

    def __call__(self, ring: Ring, slots: IntArray, gamma: float, rng: np.random.Generator) -> Transitions:
        """See `readers.Reader`; arrays are [K, B, 2, ...]."""
        slots = self._replace_short(ring, slots, rng)
        before = self._episodes.stored_before(slots, ring)
        states = before + self._episodes.until_end(slots, ring) + 2  # of the episode, as far as it is stored
        i, k, j = _three_of(states, rng)
        first = ring.ahead(slots, -before)
        begin = ring.ahead(first[..., None], np.stack([i, k], axis=-1))  # [K, B, 2]
        length = np.stack([k - i, j - k], axis=-1)
        last = ring.ahead(begin, length - 1)
        terminated = ring.column("terminated", last).astype(np.float32)
        return Transitions(
            obs=ring.obs(begin),
            action=ring.column("action", begin),
            reward=_discounted_sums(ring, begin, length, gamma),
            next_obs=ring.next_obs(last),
            terminated=terminated,
            discount=(np.power(np.float64(gamma), length) * (1.0 - terminated)).astype(np.float32),
            extras={"num_steps": length.astype(np.float32)},
        )

    def _long_enough(self, ring: Ring, slots: IntArray) -> BoolArray:
        steps = self._episodes.stored_before(slots, ring) + self._episodes.until_end(slots, ring)
        long_enough: BoolArray = steps >= 1
        return long_enough

    def _replace_short(self, ring: Ring, slots: IntArray, rng: np.random.Generator) -> IntArray:
        slots = slots.copy()
        for _ in range(_TRIES):
            short = ~self._long_enough(ring, slots)
            if not short.any():
                return slots
            slots[short] = ring.slots(rng.integers(len(ring), size=int(short.sum())))
        everything = ring.slots(np.arange(len(ring)))  # rare: nearly all episodes are short
        good = everything[self._long_enough(ring, everything)]
        short = ~self._long_enough(ring, slots)
        slots[short] = rng.choice(good, size=int(short.sum()))
        return slots


def _three_of(number: IntArray, rng: np.random.Generator) -> tuple[IntArray, IntArray, IntArray]:
    """Three different integers below `number` (at least 3) in increasing order, every choice equally likely."""
    one = rng.integers(number)
    two = rng.integers(number - 1)
    two += two >= one
    three = rng.integers(number - 2)
    three += three >= np.minimum(one, two)
    three += three >= np.maximum(one, two)
    ordered = np.sort(np.stack([one, two, three]), axis=0)
    return ordered[0], ordered[1], ordered[2]


def _discounted_sums(ring: Ring, begin: IntArray, length: IntArray, gamma: float) -> FloatArray:
    """Sums of gamma^t * r_t over `length` steps from each beginning; the work is the sum of the lengths."""
    lengths = length.ravel()
    offsets = np.concatenate([[0], np.cumsum(lengths)[:-1]])
    step = np.arange(lengths.sum()) - np.repeat(offsets, lengths)
    slots = ring.ahead(np.repeat(begin.ravel(), lengths), step)
    powers = np.power(np.float64(gamma), np.arange(lengths.max()))
    discounted = powers[step] * ring.column("reward", slots)
    return np.add.reduceat(discounted, offsets).reshape(length.shape).astype(np.float32)
