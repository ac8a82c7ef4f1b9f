"""Generative adversarial imitation learning (Ho & Ermon 2016, https://arxiv.org/abs/1606.03476)."""

from collections.abc import Sequence
from dataclasses import InitVar

from note_rl.agents.ppo import PPOSettings
from note_rl.settings import GSDE
from note_rl.support.setting_fields import setting
from note_rl.support.value_kinds import NOT_NEGATIVE, width_or_widths


class GAILSettings(PPOSettings):
    """PPO whose reward is how much a discriminator takes the agent for the expert.

    Train with `IRL=True, PPO=True, expert=..., normalise_obs=True`: the environment's reward is then seen in the logs
    only. The reward is the log-odds of the discriminator, log D - log(1 - D) (Fu et al. 2018,
    https://arxiv.org/abs/1710.11248, section 6): -log(1 - D) of the first paper is positive whatever the agent does and
    so pays for every step survived, which solves CartPole without any expert. Its gradient is kept small at the
    samples (Mescheder et al. 2018, https://arxiv.org/abs/1801.04406, eqs. 9 and 10), or it soon knows each expert
    state by heart and says nothing of what lies between.
    """

    batch_attributes = ("log_prob_old", "advantage", "return_", "value_old", "expert_obs", "expert_action")
    reported_names = ("entropy", "clip_fraction", "value_loss", "approx_kl", "expert_log_odds", "agent_log_odds")

    discriminator_size: InitVar[int | Sequence[int]] = setting(
        default=(64, 64),
        kind=width_or_widths,
        text="Width of the discriminator's hidden layers, one number or one per layer; a single number means two.",
        effect="higher: it tells agent and expert apart by finer differences",
        typical="32 to 256",
    )
    gradient_penalty: float = setting(
        default=1.0,
        kind=NOT_NEGATIVE,
        text="Weight of the squared gradient of the discriminator at the samples of either side.",
        effect="higher: smoother rewards, which tell less",
        typical="0.1 to 10",
    )
    gsde: GSDE | None = setting(init=False)
