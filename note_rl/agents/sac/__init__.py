"""Soft actor-critic (Haarnoja et al. 2018, https://arxiv.org/abs/1812.05905)."""

from collections.abc import Sequence
from dataclasses import InitVar

from note_rl.agents.shared import BoundedSettings
from note_rl.support.setting_fields import setting
from note_rl.support.value_kinds import POSITIVE, Number


class SACSettings(BoundedSettings):
    """Maximises return and entropy, for actions that are numbers within bounds; acts with `SquashedGaussianPolicy`."""

    hidden_size: InitVar[int | Sequence[int]] = (256, 256)
    alpha: float | None = setting(
        default=None,
        kind=POSITIVE,
        text="Weight of the entropy; None: learned so that the entropy comes to `target_entropy`.",
        effect="higher: more exploration",
        typical="0.01 to 0.5 in units of the reward",
    )
    target_entropy: float | None = setting(
        default=None,
        kind=Number(),
        text="Entropy that a learned `alpha` aims at, of actions in [-1, 1]; None: -1 per number of the action "
        "(section 7, appendix D).",
        effect="higher: more exploration",
        typical="-2 to 0 per number of the action",
    )
