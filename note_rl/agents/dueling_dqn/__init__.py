"""Dueling DQN (Wang et al. 2016, https://arxiv.org/abs/1511.06581)."""

from collections.abc import Sequence
from dataclasses import InitVar

from note_rl.agents.dqn import DQNSettings
from note_rl.agents.shared import MakeNetwork
from note_rl.support.setting_fields import setting
from note_rl.support.value_kinds import width_or_widths


class DuelingDQNSettings(DQNSettings):
    """DQN whose network estimates the value of a state and the advantage of each action apart.

    The value is learned from every transition, whichever action it took. The same as `DQN` with `dueling=True`, but for
    one hidden layer before the streams in place of two.
    """

    hidden_size: InitVar[int | Sequence[int]] = setting(
        default=(64,),
        kind=width_or_widths,
        text="Width of the hidden layers before the streams, one number or one per layer; a single number means one.",
        effect="higher: richer functions, slower steps",
        typical="32 to 512",
        kw_only=False,
    )
    network: InitVar[MakeNetwork | None] = setting(
        default=None,
        text="Makes what both streams share from (observation shape, number of outputs); None: an `MLP`.",
    )
    dueling: bool = True
