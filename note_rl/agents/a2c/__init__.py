"""Advantage actor-critic (Mnih et al. 2016, https://arxiv.org/abs/1602.01783, without the asynchrony)."""

from types import MappingProxyType
from typing import Literal

from note_rl.agents.actor_critic import ActorCriticSettings


class A2CSettings(ActorCriticSettings):
    """One gradient step on each short rollout of many environments, for actions of all kinds.

    set() begins with one minibatch of the whole rollout, in one epoch: a second step on the same transitions would be
    off the policy that they come from, and nothing here corrects for that.
    """

    batch_attributes = ("advantage", "return_", "state_before", "episode_start")
    reported_names = ("entropy", "value_loss")
    set_defaults = MappingProxyType({"PPO": True, "rollout_steps": 5, "batch": "rollout", "num_epochs": 1})

    gae_lambda: float = 1.0
    entropy_coef: float = 0.01
    normalise_advantage: bool | Literal["minibatch"] = False
