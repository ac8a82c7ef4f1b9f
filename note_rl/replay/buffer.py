"""Replay: a ring to store in and a sampler that says what to read."""

from collections.abc import Mapping

import numpy as np

from note_rl.replay.ring import Ring
from note_rl.replay.samplers import Sampler, UniformSampler
from note_rl.types import Array, BoolArray, FloatArray, IntArray, Sample, Steps


class ReplayBuffer:
    """The newest `capacity` transitions, read back in minibatches."""

    def __init__(self, capacity: int, sampler: Sampler | None = None) -> None:
        self.ring = Ring(capacity)
        self.sampler = sampler or UniformSampler()

    def add(self, steps: Steps) -> None:
        """Stores T*E transitions over the oldest."""
        self.ring.add(steps)

    def sample(self, shape: tuple[int, int], gamma: float, sync: BoolArray, rng: np.random.Generator) -> Sample:
        """K minibatches of B transitions for one burst.

        Args:
            shape: (K, B).
            gamma: Discount of one step.
            sync: Whether targets are updated after each gradient step. [K]
            rng: Chooses the slots.
        """
        slots, weights = self.sampler.draw(shape, len(self), rng)
        return self.gather(slots, gamma, sync, weights)

    def gather(self, slots: IntArray, gamma: float, sync: BoolArray, weights: FloatArray | None = None) -> Sample:
        """The transitions at the given slots [K, B]."""
        data = self.ring.read(slots)
        terminated = data["terminated"].astype(np.float32)
        return Sample(
            obs=data["obs"],
            action=data["action"],
            reward=data["reward"],
            next_obs=data["next_obs"],
            terminated=terminated,
            discount=np.float32(gamma) * (1.0 - terminated),
            sync=sync,
            weights=weights,
            slots=slots,
        )

    def __len__(self) -> int:
        """How many transitions are stored."""
        return len(self.ring)

    def get_state(self) -> dict[str, Array]:
        """All that is stored, as named arrays."""
        return self.ring.get_state()

    def set_state(self, state: Mapping[str, Array]) -> None:
        """Takes over a stored state; refuses one of another capacity (CheckpointError)."""
        self.ring.set_state(state)
