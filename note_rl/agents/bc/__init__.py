"""Behaviour cloning (Pomerleau 1991, https://doi.org/10.1162/neco.1991.3.1.88)."""

from dataclasses import InitVar
from types import MappingProxyType
from typing import Literal

from note_rl.agents.actor_critic import ActorCriticSettings
from note_rl.agents.shared import MakeNetwork
from note_rl.settings import GSDE
from note_rl.support.setting_fields import setting


class BCSettings(ActorCriticSettings):
    """Does what an expert did in the same situation; for discrete and for continuous actions.

    It learns from a data set alone, `set(dataset=...)`, and nothing of the rewards in it. There is a network of the
    value as well, which does not learn, so that PPO, A2C and TRPO can start from the weights of both.
    """

    on_policy = False
    reported_names = ("entropy", "log_likelihood")
    set_defaults = MappingProxyType({"offline": True, "pool_size": 1_000_000, "train_freq": 100, "num_updates": 100})

    critic_network: InitVar[MakeNetwork | None] = setting(init=False)
    gamma: float = setting(init=False)
    gae_lambda: float = setting(init=False)
    value_coef: float = setting(init=False)
    normalise_advantage: bool | Literal["minibatch"] = setting(init=False)
    gsde: GSDE | None = setting(init=False)
