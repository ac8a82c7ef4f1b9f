"""Training from the rollout just taken in whole sequences, for agents with a state."""

import numpy as np

from note_rl.replay.experience.base import AgentView
from note_rl.replay.experience.rollout_experience import RolloutExperience
from note_rl.replay.rollout import Rollout
from note_rl.replay.whole_sequences import SequencedRollout
from note_rl.settings.experience import RolloutSettings
from note_rl.types import Steps


class SequencedRolloutExperience(RolloutExperience):
    """As `RolloutExperience`, with minibatches of whole sequences and the states before them.

    Args:
        settings, view, rng: See `RolloutExperience`.
        length: Steps of a sequence. It stays, whatever becomes of the batch size.
    """

    def __init__(self, settings: RolloutSettings, view: AgentView, rng: np.random.Generator, length: int) -> None:
        super().__init__(settings, view, rng)
        self._length = length

    @property
    def _batch_size(self) -> int:
        """Whole sequences, as many as the current batch size holds, and one at least."""
        return max(super()._batch_size // self._length, 1) * self._length

    def _made(self, steps: Steps) -> Rollout:
        return SequencedRollout(steps, self._view.discount(), self._frames, self._length)
