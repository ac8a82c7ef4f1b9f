"""Training from the rollout just taken in whole sequences, for agents with a state."""

import numpy as np

from note_rl.errors import SettingsError
from note_rl.replay.experience.base import AgentView
from note_rl.replay.experience.rollout_experience import RolloutExperience
from note_rl.replay.rollout import Rollout
from note_rl.replay.whole_sequences import SequencedRollout
from note_rl.settings.experience import RolloutSettings
from note_rl.settings.switch_names import PR
from note_rl.types import Steps


class SequencedRolloutExperience(RolloutExperience):
    """As `RolloutExperience`, with minibatches of whole sequences and the states before them.

    Raises:
        SettingsError: Minibatches are drawn by priority, or do not consist of whole sequences.
    """

    def __init__(self, settings: RolloutSettings, view: AgentView, rng: np.random.Generator) -> None:
        super().__init__(settings, view, rng)
        if settings.priority is not None:
            raise SettingsError(
                "{} draws single transitions, and an agent with a memory learns from whole sequences: {}",
                *(PR.at(True), PR.leave_out()),
            )

    def _made(self, steps: Steps) -> Rollout:
        length = self.settings.steps_of_sequence(steps.ended.shape[1])
        return SequencedRollout(steps, self._view.discount(), self._frames, length)
