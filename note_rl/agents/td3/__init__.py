"""Twin delayed deep deterministic policy gradient (Fujimoto et al. 2018, https://arxiv.org/abs/1802.09477)."""

from note_rl.agents.ddpg import DDPGSettings
from note_rl.support.setting_fields import setting
from note_rl.support.value_kinds import NOT_NEGATIVE


class TD3Settings(DDPGSettings):
    """`DDPG` with the smaller of two critics' values, smoothed targets and a delayed actor.

    The actor learns only in the gradient steps after which targets are updated: every 2, which is the delay of the
    paper, unless set() is given another `update_batches`.
    """

    groups_at_sync = (0,)
    default_update_batches = 2

    target_noise: float = setting(
        default=0.2,
        kind=NOT_NEGATIVE,
        text="Deviation of the noise on the target's action, in units of half the action's range.",
        effect="higher: smoother values over actions, less exact ones",
        typical="0.1 to 0.3",
    )
    noise_clip: float = setting(
        default=0.5,
        kind=NOT_NEGATIVE,
        text="Where that noise is cut.",
        effect="higher: rarer cuts",
        typical="2 to 3 times target_noise",
    )
