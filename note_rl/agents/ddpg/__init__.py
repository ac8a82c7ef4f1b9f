"""Deep deterministic policy gradient (Lillicrap et al. 2016, https://arxiv.org/abs/1509.02971)."""

from note_rl.agents.shared import BoundedSettings


class DDPGSettings(BoundedSettings):
    """An actor that climbs the critic's values, for actions that are numbers within bounds."""
