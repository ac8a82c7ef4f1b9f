"""Recurrent replay for Q-learning (Kapturowski et al. 2019, https://openreview.net/forum?id=r1lyTjAqYX)."""

from collections.abc import Mapping
from types import MappingProxyType
from typing import Any

from note_rl.agents.shared import FrameSettings, TargetSettings
from note_rl.errors import SettingsError
from note_rl.errors.wording import choice
from note_rl.support.setting_fields import setting
from note_rl.support.value_kinds import SHARE_BELOW_1, Count, flag

RESCALING = 1e-3
"""Of the paper: what is left of differences between large returns."""


class R2D2Settings(FrameSettings, TargetSettings):
    """Double Q-learning with a memory, for discrete actions: it learns from stored sequences.

    The state with which the agent acted is stored with each step, and a sequence begins with it. The first steps of a
    sequence only bring that state up to date. Unlike in the paper, one process collects, and sequences are drawn
    uniformly.

    set() begins with rollouts of 20 steps, and about 20 gradient steps on 32 stored sequences after each.
    """

    on_policy = False
    action_kinds = ("discrete",)
    batch_attributes = ("ended", "state_before", "episode_start")
    needs_memory = True
    reported_names = ("q_mean",)
    set_defaults = MappingProxyType(
        {
            "sequences": True,
            "sequence_length": 20,
            "batch": 32,
            "replay_ratio": 20.0,
            "pool_size": 100_000,
            "learning_starts": 1_000,
            "max_grad_norm": 10.0,
        }
    )

    burn_in: float = setting(
        default=0.25,
        kind=SHARE_BELOW_1,
        text="Share of a sequence that only brings the stored state up to date: its first steps, without a loss.",
        effect="higher: states are nearer to those of the present network, and fewer steps are learned from",
        typical="0 to 0.5",
    )
    return_steps: int = setting(
        default=5,
        kind=Count(),
        text="Rewards that a target adds up before the value of what is seen behind them: n of n-step returns.",
        effect="higher: rewards reach what was done long before sooner, and so do actions of older policies",
        typical="1 to 10",
    )
    rescale: bool = setting(
        default=False,
        kind=flag,
        text="Whether values are learned on a scale on which large ones lie closer together (Pohlen et al. 2018).",
        effect="with it, one learning rate serves small and large rewards",
    )

    def meaning(self) -> Mapping[str, Any]:
        """The scale of values."""
        return {"rescale": self.rescale}


def steps_of_burn_in(share: float, num_steps: int) -> int:
    """Returns how many of the steps of a sequence have no loss; one at least has."""
    return min(round(share * num_steps), num_steps - 1)


def needs_a_memory(agent: Any) -> SettingsError:
    """Makes the error about a network without a memory."""
    return SettingsError(
        "{} learns from what its network remembers, and this network has no memory: use {}",
        *(type(agent).__name__, choice("recurrent_network")),
    )
