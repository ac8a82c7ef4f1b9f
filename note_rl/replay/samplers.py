"""Which slots of a ring to read."""

from collections.abc import Mapping
from typing import Protocol

import numpy as np

from note_rl.errors import DivergedError
from note_rl.replay.min_tree import MinTree
from note_rl.replay.ring import Ring
from note_rl.replay.sum_tree import SumTree
from note_rl.settings.replay_choices import Priority
from note_rl.types import Array, FloatArray, IntArray


class Sampler(Protocol):
    """Chooses slots of a ring; it is notified of what happens to them."""

    def added(self, slots: IntArray, ring: Ring) -> None:
        """These slots [n] were written."""

    def dropped(self, slots: IntArray) -> None:
        """These slots [n] are no longer kept."""

    def draw(self, shape: tuple[int, int], ring: Ring, rng: np.random.Generator) -> tuple[IntArray, FloatArray | None]:
        """Slots of the given shape [K, B] and their importance weights, None if all are 1."""

    def get_state(self) -> dict[str, Array]:
        """The state that a checkpoint needs."""

    def set_state(self, state: Mapping[str, Array], ring: Ring) -> None:
        """Takes over a stored state."""


class UniformSampler:
    """Every stored transition is equally likely; a transition may occur twice."""

    def added(self, slots: IntArray, ring: Ring) -> None:
        """Nothing to be noted."""

    def dropped(self, slots: IntArray) -> None:
        """Nothing to be noted."""

    def draw(self, shape: tuple[int, int], ring: Ring, rng: np.random.Generator) -> tuple[IntArray, FloatArray | None]:
        """Slots [K, B], no weights."""
        return ring.slots(rng.integers(len(ring), size=shape)), None

    def get_state(self) -> dict[str, Array]:
        """Nothing."""
        return {}

    def set_state(self, state: Mapping[str, Array], ring: Ring) -> None:
        """Nothing to take over."""


class PrioritizedSampler:
    """Transition i is drawn with probability p_i^alpha / sum_k p_k^alpha, p = |TD error| + epsilon.

    Importance weights are (N * P(i))^-beta, divided by the largest of the minibatch, and beta goes from its start to 1
    with training (Schaul et al. 2016, eq. 1 and section 3.4, https://arxiv.org/abs/1511.05952). Each minibatch is drawn
    stratified: one transition from each of B equal parts of the sum. New transitions get the largest priority so far.

    Args:
        priority: The numbers.
    """

    def __init__(self, priority: Priority) -> None:
        self.priority = priority
        self.alpha = priority.alpha
        self.progress = 0.0  # of training, 0 to 1
        self.beta_factor = 1.0  # by which beta is adapted
        self.max_td = priority.initial_td
        self.num_live = 0  # transitions with a priority
        self._tree = SumTree(0)
        self._minima: MinTree | None = None  # kept up to date once something has been trimmed

    @property
    def scheduled_beta(self) -> float:
        """Exponent of the importance weights as it was set, on its way to 1."""
        return self.priority.beta + (1.0 - self.priority.beta) * self.progress

    @property
    def beta(self) -> float:
        """Current exponent of the importance weights."""
        return self.scheduled_beta if self.beta_factor == 1.0 else min(self.scheduled_beta * self.beta_factor, 1.0)

    @property
    def scores(self) -> FloatArray:
        """p^alpha by slot, 0 where nothing is kept; to be read only."""
        return self._tree.values

    @property
    def nbytes(self) -> int:
        """Memory taken."""
        return self._tree.nbytes

    def added(self, slots: IntArray, ring: Ring) -> None:
        """New transitions are taken to be as surprising as any so far."""
        if self._tree.capacity != ring.num_slots:
            self._tree, self._minima = SumTree(ring.num_slots), None
        self.num_live += len(slots) - int(np.count_nonzero(self.scores[slots]))
        self._put(slots, self._score(np.full(len(slots), self.max_td)))
        if ring.num_slots > ring.capacity and len(ring) == ring.capacity:  # what has moved into the margin
            self.dropped(ring.slots(-1 - np.arange(min(len(slots), ring.num_slots - ring.capacity))))

    def dropped(self, slots: IntArray) -> None:
        """They are never drawn again."""
        if len(slots):
            self.num_live -= int(np.count_nonzero(self.scores[slots]))
            self._put(slots, 0.0)

    def _put(self, slots: IntArray, scores: FloatArray | float) -> None:
        self._tree.set(slots, scores)
        if self._minima is not None:
            self._minima.changed(slots)

    def keep_highest(self, number: int) -> None:
        """Gives up all transitions but a number of the highest priority.

        O(excess log pool), which is what was stored since the last time; the first time O(pool).
        """
        excess = self.num_live - number
        if excess > 0:
            if self._minima is None:
                self._minima = MinTree(self._tree.padded)
            self.dropped(self._minima.lowest(excess))

    def draw(self, shape: tuple[int, int], ring: Ring, rng: np.random.Generator) -> tuple[IntArray, FloatArray | None]:
        """Slots and weights [K, B]."""
        total = self._tree.total
        parts = (np.arange(shape[1]) + rng.random(shape)) * (total / shape[1])
        slots = self._tree.find(parts.ravel()).reshape(shape)
        probability = self.scores[slots].astype(np.float64) / total
        weights = (self.num_live * probability) ** -self.beta
        return slots, (weights / weights.max(axis=1, keepdims=True)).astype(np.float32)

    def update(self, slots: IntArray, td_error: FloatArray) -> None:
        """New TD errors [n] of slots [n], of either sign; slots given up in the meantime stay so.

        Raises:
            DivergedError: An error that is not finite.
        """
        live = self.scores[slots] > 0.0
        magnitude = np.abs(td_error[live])
        if not np.isfinite(magnitude).all():
            raise DivergedError("a TD error handed to prioritized_replay.update() is not finite")
        if len(magnitude):
            self.max_td = max(self.max_td, float(magnitude.max()))
            self._put(slots[live], self._score(magnitude))

    def set_alpha(self, alpha: float) -> None:
        """Changes the exponent of all priorities; O(pool)."""
        if alpha == self.alpha:
            return
        scores = self.scores
        if self.alpha > 0.0:
            errors = np.power(scores, 1.0 / self.alpha, dtype=np.float64)
        else:  # all were alike: nothing is known of them
            errors = np.full(len(scores), self.max_td)
        self.alpha = alpha
        self._tree.fill(np.where(scores > 0.0, np.power(errors, alpha), 0.0).astype(np.float32))
        self._minima = None

    def _score(self, magnitude: FloatArray) -> FloatArray:
        scores: FloatArray = np.power(magnitude + self.priority.epsilon, self.alpha)
        return np.maximum(scores, np.finfo(np.float32).tiny)  # 0 means: not there

    def get_state(self) -> dict[str, Array]:
        """The priorities and what is counted."""
        return {
            "scores": self.scores,
            "counts": np.array([self.max_td, self.alpha, self.progress, self.num_live], np.float64),
        }

    def set_state(self, state: Mapping[str, Array], ring: Ring) -> None:
        """Takes over a stored state; a pool that was stored without priorities starts with equal ones."""
        self._tree, self._minima = SumTree(ring.num_slots), None
        self.num_live = 0
        if "scores" not in state:
            self.added(ring.slots(np.arange(len(ring))), ring)
            return
        self._tree.fill(np.asarray(state["scores"]))
        self.max_td, self.alpha, self.progress, live = (float(number) for number in state["counts"])
        self.num_live = int(live)
