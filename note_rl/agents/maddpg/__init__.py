"""Multi-agent deep deterministic policy gradient (Lowe et al. 2017, https://arxiv.org/abs/1706.02275)."""

from collections.abc import Sequence
from dataclasses import InitVar
from typing import Any

from note_rl.agents.shared import CommonSettings, MakeNetwork
from note_rl.settings.fields import setting
from note_rl.support.checking import NOT_NEGATIVE, SHARE_ABOVE_0, flag, width_or_widths


class MADDPGSettings(CommonSettings):
    """An actor per agent that sees what the agent sees, and a critic per agent that sees all agents.

    Actions are discrete (explore with `SoftmaxPolicy`: action() gives probabilities) or numbers within bounds (explore
    with noise). Where the paper differentiates through a Gumbel-softmax sample of discrete actions, the expectation
    over the agent's own actions is taken exactly; the others act as their actors say now.

    `param` holds one group per actor and one per critic, in this order, each trained by its own loss: give one
    optimizer per group, or one for all.
    """

    on_policy = False

    hidden_size: InitVar[int | Sequence[int]] = setting(
        default=(64, 64),
        kind=width_or_widths,
        text="Width of the hidden layers, one number or one per layer; a single number means two layers.",
        effect="higher: richer functions, slower steps",
        typical="32 to 256",
        kw_only=False,
    )
    env: Any = setting(text="A PettingZoo parallel environment or a list-style one, a list of such or a factory.")
    critic_network: InitVar[MakeNetwork | None] = setting(
        default=None, text="The same for the critic; None: as `network`."
    )
    gamma: float = 0.95
    tau: float = setting(
        default=0.01,
        kind=SHARE_ABOVE_0,
        text="Share of the online parameters taken over at each target update.",
        effect="higher: targets follow faster, and less steadily",
        typical="0.001 to 0.05",
    )
    entropy_coef: float = setting(
        default=0.01,
        kind=NOT_NEGATIVE,
        text="Weight of the entropy bonus of discrete actors.",
        effect="higher: more exploration",
        typical="0 to 0.1",
    )
    centralised: bool = setting(
        default=True,
        kind=flag,
        text="Whether critics see all agents; False makes independent DDPG of it.",
        effect="with it, critics know why rewards change as others learn, and have more inputs",
    )
    grouped: bool = setting(
        default=False, kind=flag, text="Two groups only, all actors and all critics, for two optimizers."
    )
