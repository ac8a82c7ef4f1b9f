"""Deep Q-network (Mnih et al. 2015, https://doi.org/10.1038/nature14236)."""

from note_rl.agents.shared import SizedSettings, TargetSettings


class DQNSettings(SizedSettings, TargetSettings):
    """Q-learning with a replay pool and a target network, for discrete actions.

    Plain, n-step or prioritized is a matter of the replay: targets use `self.discount`, and every loss hands its TD
    errors over.
    """

    on_policy = False
    action_kinds = ("discrete",)

    tau: float = 1.0
