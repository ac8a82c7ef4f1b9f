"""Deep Q-network (Mnih et al. 2015, https://doi.org/10.1038/nature14236)."""

from note_rl.agents.shared import SizedSettings
from note_rl.settings.fields import setting
from note_rl.support.checking import SHARE_ABOVE_0


class DQNSettings(SizedSettings):
    """Q-learning with a replay pool and a target network, for discrete actions.

    Plain, n-step or prioritized is a matter of the replay: targets use `self.discount`, and every loss hands its TD
    errors over.
    """

    on_policy = False
    action_kinds = ("discrete",)

    tau: float = setting(
        default=1.0,
        kind=SHARE_ABOVE_0,
        text="Share of the online parameters taken over at each target update; 1 copies.",
        effect="higher: targets follow faster, and less steadily",
        typical="1, or 0.001 to 0.05 at every step",
    )
