"""The two ways of training from experience: from a replay pool, and from the rollout just taken."""

import logging
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import Protocol

import numpy as np

from note_rl.replay.buffer import ReplayBuffer
from note_rl.replay.rollout import Rollout
from note_rl.settings import ReplaySettings, RolloutSettings
from note_rl.types import Array, BoolArray, FloatArray, IntArray, Sample, Steps

_log = logging.getLogger(__name__)
_MAX_BURST = 512  # gradient steps per framework call: enough to amortise the call, little enough to stay responsive
_MAX_BURST_BYTES = 64 * 2**20


@dataclass
class Clock:
    """What has been counted over the agent's life."""

    num_env_steps: int = 0
    num_gradient_steps: int = 0
    num_episodes: int = 0
    num_phases: int = 0


class Experience(Protocol):
    """Says how much to collect, keeps it, and turns it into bursts of minibatches."""

    def phase_length(self, num_envs: int, remaining: int | None) -> int | None:
        """Steps per environment to collect before the next training phase; None: until an episode ends."""

    def store(self, steps: Steps) -> None:
        """Takes in what was collected."""

    def bursts(self, clock: Clock) -> Iterator[Sample]:
        """The training phase: minibatches, one burst after the other; nothing while it is too early to learn."""

    def get_state(self) -> dict[str, Array]:
        """What a checkpoint must hold to go on exactly."""

    def set_state(self, state: Mapping[str, Array]) -> None:
        """Takes over a stored state."""


class ReplayExperience:
    """Trains from a replay pool, `gradient_steps` after every `train_freq` environment steps."""

    def __init__(self, settings: ReplaySettings, gamma: Callable[[], float], rng: np.random.Generator) -> None:
        self.settings = settings
        self.buffer = ReplayBuffer(settings.capacity)
        self._gamma = gamma
        self._rng = rng
        self._new_steps = 0
        self._warned = False

    def phase_length(self, num_envs: int, remaining: int | None) -> int | None:
        """`train_freq` environment steps, rounded up to whole steps of all environments."""
        if self.settings.train_freq is None:
            return None
        wanted = self.settings.train_freq if remaining is None else min(self.settings.train_freq, remaining)
        return -(-wanted // num_envs)

    def store(self, steps: Steps) -> None:
        """Adds the steps to the pool."""
        self.buffer.add(steps)
        self._new_steps = steps.num_env_steps

    def bursts(self, clock: Clock) -> Iterator[Sample]:
        """Minibatches for one phase, in bursts of a few fixed sizes so that compiled code is reused."""
        settings = self.settings
        if clock.num_env_steps < settings.learning_starts or len(self.buffer) < settings.batch_size:
            return
        if settings.gradient_steps is not None:
            sync = self._sync(settings.gradient_steps, clock)
            for first, last in _fixed_chunks(settings.gradient_steps, self._max_burst()):
                shape = (last - first, settings.batch_size)
                yield self.buffer.sample(shape, self._gamma(), sync[first:last], self._rng)
            return
        slots = self._one_pass()
        sync = self._sync(len(slots), clock)
        for first, last in _ladder_chunks(len(slots), self._max_burst()):
            yield self.buffer.gather(slots[first:last], self._gamma(), sync[first:last])

    def _one_pass(self) -> IntArray:
        """Every stored transition once, shuffled, the rest of the division left out: [K, B]."""
        batch_size = self.settings.batch_size
        num_batches = len(self.buffer) // batch_size
        if num_batches > 100 * self._new_steps and not self._warned:
            self._warned = True
            _log.warning(
                "each phase passes over the whole pool: now %d gradient steps for %d new environment steps; "
                "set num_updates to train less often",
                num_batches,
                self._new_steps,
            )
        return self._rng.permutation(len(self.buffer))[: num_batches * batch_size].reshape(-1, batch_size)

    def _sync(self, num_gradient_steps: int, clock: Clock) -> BoolArray:
        """After which of the coming gradient steps the targets are updated: [K]."""
        every = self.settings.target_update_env_steps
        if every is not None:  # environment steps do not pass while training: the targets move between phases
            before = (clock.num_env_steps - self._new_steps) // every
            sync = np.zeros(num_gradient_steps, np.bool_)
            sync[-1] = clock.num_env_steps // every > before
            return sync
        done = clock.num_gradient_steps + np.arange(num_gradient_steps + 1)
        return np.diff(done // (self.settings.target_update_interval or 1)) > 0

    def _max_burst(self) -> int:
        per_step = self.settings.batch_size * 2 * self.buffer.ring.obs_nbytes
        return max(1, min(_MAX_BURST, _MAX_BURST_BYTES // max(per_step, 1)))

    def get_state(self) -> dict[str, Array]:
        """The pool."""
        return self.buffer.get_state()

    def set_state(self, state: Mapping[str, Array]) -> None:
        """Takes over a stored pool."""
        self.buffer.set_state(state)


class RolloutExperience:
    """Trains from each rollout for some epochs, then forgets it."""

    def __init__(
        self,
        settings: RolloutSettings,
        gamma: Callable[[], float],
        gae_lambda: Callable[[], float],
        value: Callable[[Array], FloatArray] | None,
        standardised: bool,
        rng: np.random.Generator,
    ) -> None:
        self.settings = settings
        self._gamma = gamma
        self._gae_lambda = gae_lambda
        self._value = value
        self._standardised = standardised
        self._rng = rng
        self._rollout: Rollout | None = None

    def phase_length(self, num_envs: int, remaining: int | None) -> int | None:
        """Always whole rollouts: a shorter last one would be another problem."""
        return self.settings.num_steps

    def store(self, steps: Steps) -> None:
        """Keeps the rollout and works out its advantages, if the agent has a value function."""
        self._rollout = Rollout(steps, self._gamma())
        if self._value is not None:
            self._rollout.add_advantages(self._value, self._gae_lambda(), self._standardised)

    def bursts(self, clock: Clock) -> Iterator[Sample]:
        """All epochs over the rollout in one burst; then it is forgotten."""
        assert self._rollout is not None, "store() comes first"
        yield self._rollout.sample(self.settings.num_epochs, self.settings.batch_size, self._rng)
        self._rollout = None

    def get_state(self) -> dict[str, Array]:
        """Nothing: between phases there is no rollout."""
        return {}

    def set_state(self, state: Mapping[str, Array]) -> None:
        """Nothing to take over."""


def _fixed_chunks(total: int, largest: int) -> list[tuple[int, int]]:
    """Ranges of length `largest` and one rest: at most two lengths, whatever the phase."""
    return [(first, min(first + largest, total)) for first in range(0, total, largest)]


def _ladder_chunks(total: int, largest: int) -> list[tuple[int, int]]:
    """Ranges whose lengths are powers of two, for totals that change from phase to phase."""
    chunks = []
    first = 0
    while first < total:
        length = min(1 << (total - first).bit_length() - 1, 1 << largest.bit_length() - 1)
        chunks.append((first, first + length))
        first += length
    return chunks
