"""Soft actor-critic for discrete actions (Christodoulou 2019, https://arxiv.org/abs/1910.07207)."""

from dataclasses import InitVar

from note_rl.agents.sac import TemperatureSettings
from note_rl.agents.shared import MakeNetwork, SizedSettings, TargetSettings
from note_rl.support.setting_fields import setting
from note_rl.support.value_kinds import SHARE


class SACDiscreteSettings(TemperatureSettings, SizedSettings, TargetSettings):
    """Maximises return and entropy, for actions of which one is chosen; acts with `SoftmaxPolicy`.

    Critics return the values of all actions. Expectations over the policy are sums over actions: losses sample nothing.

    A learned `alpha` aims at an entropy of `target_entropy_ratio` * log(number of actions). The paper's ratio is 0.98.
    Then a trained policy is still almost random: the likelier one of two actions has a probability of 0.58. At a ratio
    of 0.3 the likeliest of 2, 4 and 18 actions has a probability of 0.95, 0.91 and 0.85, if the others are equally
    likely. Where the environment restricts actions, the number of actions is that of the allowed ones.
    """

    on_policy = False
    action_kinds = ("discrete",)
    reported_names = ("q_mean", "entropy", "alpha")

    critic_network: InitVar[MakeNetwork | None] = setting(
        default=None, text="The same for the critics; None: as `network`."
    )
    target_entropy_ratio: float = setting(
        default=0.3,
        kind=SHARE,
        text="Entropy that a learned `alpha` aims at, as a share of the largest possible one.",
        effect="higher: more exploration, until the policy cannot act on what it has learned",
        typical="0.1 to 0.7",
    )
