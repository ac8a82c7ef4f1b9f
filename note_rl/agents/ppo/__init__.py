"""Proximal policy optimization (Schulman et al. 2017, https://arxiv.org/abs/1707.06347)."""

from typing import ClassVar

from note_rl.agents.actor_critic import ActorCriticSettings
from note_rl.support.setting_fields import setting
from note_rl.support.value_kinds import POSITIVE


class PPOSettings(ActorCriticSettings):
    """Clipped policy gradient with generalised advantages, for actions of all kinds.

    Acts with `SoftmaxPolicy` where it chooses, with `GaussianPolicy` where actions are numbers. Under
    `EpsGreedyQPolicy` another policy mu acts than the policy pi that is learned. The objective is then the decoupled
    one of Hilton et al. 2022 (https://arxiv.org/abs/2110.00641): pi_old / mu weighs each step, as an expectation over
    mu is to become one over pi_old, and what is clipped is pi / pi_old. Values and advantages are those of mu, so that
    what is maximised tells how much pi gains on mu in the states that mu visits.
    """

    batch_attributes: ClassVar[tuple[str, ...]] = (
        "log_prob_old",
        "advantage",
        "return_",
        "value_old",
        "importance_ratio",
        "state_before",
        "episode_start",
    )
    reported_names: ClassVar[tuple[str, ...]] = ("entropy", "clip_fraction", "value_loss", "approx_kl")

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
