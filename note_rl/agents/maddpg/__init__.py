"""Multi-agent deep deterministic policy gradient (Lowe et al. 2017, https://arxiv.org/abs/1706.02275)."""

from typing import Any

from note_rl.agents.shared import CriticSettings
from note_rl.support.setting_fields import setting
from note_rl.support.value_kinds import NOT_NEGATIVE, flag


class MADDPGSettings(CriticSettings):
    """An actor per agent that sees what the agent sees, and a critic per agent that sees all agents.

    Actions are discrete (explore with `SoftmaxPolicy`: action() gives probabilities) or numbers within bounds (explore
    with noise). Where the paper differentiates through a Gumbel-softmax sample of discrete actions, the expectation
    over the agent's own actions is taken exactly; the others act as their actors say now.

    `param` holds one group per actor and one per critic, in this order, each trained by its own loss: give one
    optimizer per group, or one for all.
    """

    env: Any = setting(text="A PettingZoo parallel environment or a list-style one, a list of such or a factory.")
    gamma: float = 0.95
    tau: float = 0.01
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
