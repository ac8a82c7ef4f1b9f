"""Training from the rollout just taken in whole sequences, for agents with a state."""

from note_rl.replay.experience.rollout_experience import RolloutExperience
from note_rl.replay.rollout import Rollout
from note_rl.replay.whole_sequences import SequencedRollout
from note_rl.types import Steps


class SequencedRolloutExperience(RolloutExperience):
    """As `RolloutExperience`, with minibatches of whole sequences and the states before them."""

    def _made(self, steps: Steps) -> Rollout:
        length = self.settings.steps_of_sequence(steps.ended.shape[1])
        return SequencedRollout(steps, self._view.discount(), self._frames, length)
