"""Soft actor-critic (Haarnoja et al. 2018, https://arxiv.org/abs/1812.05905)."""

from collections.abc import Sequence
from dataclasses import InitVar

from note_rl.agents.shared import BoundedSettings
from note_rl.settings import GSDE
from note_rl.settings.state_dependent_noise import gsde as gsde_kind
from note_rl.support.setting_fields import setting
from note_rl.support.value_kinds import POSITIVE, Number


class SACSettings(BoundedSettings):
    """Maximises return and entropy, for actions that are numbers within bounds; acts with `SquashedGaussianPolicy`.

    With `gsde` the loss draws actions from the distribution that each state has by itself, independently of each other.
    """

    hidden_size: InitVar[int | Sequence[int]] = (256, 256)
    alpha: float | None = setting(
        default=None,
        kind=POSITIVE,
        text="Weight of the entropy; None: learned so that the entropy comes to `target_entropy`.",
        effect="higher: more exploration",
        typical="0.01 to 0.5 in units of the reward",
    )
    initial_alpha: float = setting(
        default=1.0,
        kind=POSITIVE,
        text="Where a learned `alpha` starts.",
        effect="higher: more exploration at the start",
        typical="0.1 to 1",
    )
    target_entropy: float | None = setting(
        default=None,
        kind=Number(),
        text="Entropy that a learned `alpha` aims at, of actions in [-1, 1]; None: -1 per number of the action "
        "(section 7, appendix D).",
        effect="higher: more exploration",
        typical="-2 to 0 per number of the action",
    )
    gsde: GSDE | None = setting(
        default=None,
        kind=gsde_kind,
        text="Noise before tanh is a learned function of the state, which lasts for some steps (`SquashedGSDEPolicy`); "
        "None: its deviations are outputs of the network, and it is new in each step.",
    )
    initial_log_std: float = setting(
        default=-3.0,
        kind=Number(),
        text="Log deviation of the noise matrix at the start, with `gsde`.",
        effect="higher: wider exploration at the start",
        typical="-3 to 0",
    )
