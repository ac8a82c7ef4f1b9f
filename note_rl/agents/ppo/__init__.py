"""Proximal policy optimization (Schulman et al. 2017, https://arxiv.org/abs/1707.06347)."""

from typing import ClassVar

from note_rl.agents.actor_critic import ActorCriticSettings
from note_rl.settings.fields import setting
from note_rl.support.value_kinds import POSITIVE


class PPOSettings(ActorCriticSettings):
    """Clipped policy gradient with generalised advantages, for actions of all kinds.

    Acts with `SoftmaxPolicy` where it chooses, with `GaussianPolicy` where actions are numbers.
    """

    batch_attributes: ClassVar[tuple[str, ...]] = ("log_prob_old", "advantage", "return_", "value_old")

    clip: float = setting(
        default=0.2,
        kind=POSITIVE,
        text="How far the probability ratio may leave 1 before the gradient is cut.",
        effect="higher: larger changes of the policy by one rollout",
        typical="0.1 to 0.3",
    )
    clip_value: float | None = setting(
        default=None,
        kind=POSITIVE,
        text="How far the value may leave that of the rollout before its gradient is cut; None: any distance.",
        effect="higher: larger changes of the value by one rollout",
        typical="0.2, where returns are of the size of 1",
    )
