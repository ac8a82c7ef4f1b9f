"""Replay: a ring to store in, a sampler that says what to read, and a reader that makes minibatches of it."""

import logging
from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np

from note_rl.replay.episodes import EpisodeIndex
from note_rl.replay.frame_ring import FrameRing
from note_rl.replay.readers import Reader, one_step
from note_rl.replay.ring import Ring
from note_rl.replay.samplers import PrioritizedSampler, Sampler, UniformSampler
from note_rl.types import TRANSITION_COLUMNS, Array, BoolArray, FloatArray, IntArray, Sample, Steps, nested, under

_log = logging.getLogger(__name__)


@dataclass(frozen=True, kw_only=True)
class Parts:
    """The parts of a buffer.

    Attributes:
        sampler: Chooses slots; None: uniformly.
        reader: Makes transitions of slots.
        episodes: Kept up to date for readers that need it.
        frame_stack: Frames of an observation as it is read.
        chained: Whether the reader looks at neighbours in time, so that what is stored must be one unbroken story.
    """

    sampler: Sampler | None = None
    reader: Reader = one_step
    episodes: EpisodeIndex | None = None
    frame_stack: int = 1
    chained: bool = False


class ReplayBuffer:
    """The newest `capacity` transitions, read back in minibatches."""

    def __init__(self, capacity: int, parts: Parts | None = None) -> None:
        self.parts = parts or Parts()
        self.capacity = capacity
        self.sampler: Sampler = self.parts.sampler or UniformSampler()
        self.ring = self._make_ring(False)

    def _make_ring(self, images: bool) -> Ring:
        num_frames = self.parts.frame_stack
        return FrameRing(self.capacity, num_frames) if num_frames > 1 or images else Ring(self.capacity)

    def add(self, steps: Steps) -> None:
        """Stores T*E transitions over the oldest. Images are stored once, not a second time as what is seen next."""
        num_envs = steps.ended.shape[1]
        if self.ring.num_envs == 0 and steps.obs.dtype == np.uint8 and steps.obs.ndim >= 4:
            self.ring = self._make_ring(True)
        if self.ring.num_envs not in (0, num_envs) and (self.parts.chained or isinstance(self.ring, FrameRing)):
            _log.warning(
                "the pool was gathered in %d environments side by side and is now filled from %d: what it holds cannot "
                "be read on as episodes, and is forgotten",
                self.ring.num_envs,
                num_envs,
            )
            self._forget()
        slots = self.ring.add(steps)
        if self.parts.episodes is not None:
            self.parts.episodes.add(steps, slots, self.ring.num_slots)
        self.sampler.added(slots, self.ring)

    def _forget(self) -> None:
        self.drop_oldest(len(self))
        self.ring = self._make_ring(isinstance(self.ring, FrameRing))
        if self.parts.episodes is not None:
            self.parts.episodes.set_state({})

    def drop_oldest(self, count: int) -> None:
        """Forgets a number of the oldest."""
        self.sampler.dropped(self.ring.drop_oldest(count))

    def interrupt(self) -> None:
        """Notes that the next steps stored do not continue the episodes that are running in the pool."""
        self.ring.interrupt()
        if self.parts.episodes is not None:
            self.parts.episodes.interrupt()

    def sample(self, shape: tuple[int, int], gamma: float, sync: BoolArray, rng: np.random.Generator) -> Sample:
        """K minibatches of B transitions for one update block.

        Args:
            shape: (K, B).
            gamma: Discount of one step.
            sync: Whether targets are updated after each gradient step. [K]
            rng: Chooses the slots.
        """
        slots, weights = self.sampler.draw(shape, self.ring, rng)
        return self.gather(slots, gamma, sync, rng, weights)

    def gather(
        self,
        slots: IntArray,
        gamma: float,
        sync: BoolArray,
        rng: np.random.Generator,
        weights: FloatArray | None = None,
    ) -> Sample:
        """The transitions at the given slots [K, B]; see sample()."""
        read = self.parts.reader(self.ring, slots, gamma, rng)
        columns = {name: getattr(read, name) for name in TRANSITION_COLUMNS}
        return Sample(**columns, extras=read.extras, sync=sync, weights=weights, slots=slots)

    def update_priorities(self, slots: IntArray, td_error: FloatArray) -> None:
        """New TD errors [K, B] of the transitions at slots [K, B]; without priorities, nothing happens."""
        if isinstance(self.sampler, PrioritizedSampler):
            self.sampler.update(slots.ravel(), td_error.ravel())

    @property
    def num_live(self) -> int:
        """How many transitions can be sampled: those stored, less those given up for their low priority."""
        return self.sampler.num_live if isinstance(self.sampler, PrioritizedSampler) else len(self)

    def __len__(self) -> int:
        """How many transitions are stored."""
        return len(self.ring)

    def get_state(self) -> dict[str, Array]:
        """All that is stored, as named arrays."""
        episodes = self.parts.episodes.get_state() if self.parts.episodes is not None else {}
        return {
            **self.ring.get_state(),
            **nested("sampler", self.sampler.get_state()),
            **nested("episodes", episodes),
        }

    def set_state(self, state: Mapping[str, Array]) -> None:
        """Takes over a stored state; refuses one of another capacity or kind (CheckpointError)."""
        self.ring = self._make_ring("frames/counts" in state)
        self.ring.set_state(state)
        if self.parts.episodes is not None:
            self.parts.episodes.set_state(under("episodes", state))
        self.sampler.set_state(under("sampler", state), self.ring)
