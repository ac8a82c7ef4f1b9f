"""Deep Q-network (Mnih et al. 2015, https://doi.org/10.1038/nature14236), and the parts of Rainbow.

Each part can be used alone or with any of the others (Hessel et al. 2018, https://arxiv.org/abs/1710.02298).
Prioritized and n-step replay are parts of the replay, noisy layers of the network (`MLPSettings.noisy_std`).
"""

from collections.abc import Mapping
from typing import Any, ClassVar

from note_rl.agents.declaration import Given
from note_rl.agents.shared import SizedSettings, TargetSettings
from note_rl.errors import SettingsError
from note_rl.errors.wording import SettingName
from note_rl.support.setting_fields import setting
from note_rl.support.value_kinds import Count, Number, OneOf, flag

EXPECTED, CATEGORICAL, QUANTILES = "expected", "categorical", "quantiles"

Q_NOISE, TARGET_Q_NOISE, CHOICE_Q_NOISE = "q_noise", "target_q_noise", "choice_q_noise"
"""Normal numbers for noisy layers in one minibatch: of the online network, of the target network, and of the online
network where it chooses the next action (Fortunato et al. 2018, section 3.1). The agent reads them as attributes."""


class DQNSettings(SizedSettings, TargetSettings):
    """Q-learning with a replay pool and a target network, for discrete actions.

    Plain, n-step or prioritized is a matter of the replay: targets use `self.discount`, and every loss hands its TD
    errors over. Where a network has noisy layers (`noisy_std`), the agent explores by their noise.
    """

    on_policy = False
    action_kinds = ("discrete",)
    resamples_noise = True
    reported_names = ("q_mean", "at_bounds")

    q_noise: ClassVar[Any] = None
    target_q_noise: ClassVar[Any] = None
    choice_q_noise: ClassVar[Any] = None

    tau: float = 1.0
    double: bool = setting(
        default=False,
        kind=flag,
        text="Whether the online network chooses the next action and the target network gives its value (double "
        "Q-learning, van Hasselt et al. 2016); else the target network does both.",
    )
    dueling: bool = setting(
        default=False,
        kind=flag,
        text="Whether the network estimates the value of a state and the advantage of each action in two streams (Wang "
        "et al. 2016), behind its hidden layers.",
    )
    stream_size: int = setting(
        default=64,
        kind=Count(),
        text="Width of the hidden layer of each stream, with `dueling`.",
        effect="higher: richer functions, slower steps",
        typical="32 to 512",
    )
    values: str = setting(
        default=EXPECTED,
        kind=OneOf((EXPECTED, CATEGORICAL, QUANTILES)),
        text="What is learned about the return of an action: expected, its mean; categorical, the probabilities of "
        "`num_atoms` returns (C51, Bellemare et al. 2017); quantiles, `num_quantiles` of its quantiles (QR-DQN, Dabney "
        "et al. 2018).",
    )
    num_atoms: int = setting(
        default=51,
        kind=Count(2),
        text="Returns from `v_min` to `v_max`, at equal distances, that get probabilities, with categorical `values`.",
        effect="higher: finer distributions, slower steps",
        typical="21 to 101",
    )
    v_min: float = setting(
        default=-100.0,
        kind=Number(),
        fixed=True,
        text="The lowest return that categorical `values` can stand for; lower ones count as this.",
        effect="farther from `v_max`: nothing is cut off, and atoms are farther apart",
        typical="-1 / (1 - gamma) or 0, for rewards in [-1, 1]",
    )
    v_max: float = setting(
        default=100.0,
        kind=Number(),
        fixed=True,
        text="The highest return that categorical `values` can stand for; higher ones count as this.",
        effect="farther from `v_min`: nothing is cut off, and atoms are farther apart",
        typical="1 / (1 - gamma), for rewards in [-1, 1]",
    )
    num_quantiles: int = setting(
        default=50,
        kind=Count(),
        text="Quantiles of each return, with quantiles as `values`.",
        effect="higher: finer distributions, and steps slow down by the square of it",
        typical="25 to 200",
    )

    def meaning(self) -> Mapping[str, Any]:
        """How values are read from outputs."""
        if self.values != CATEGORICAL:
            return {"values": self.values}
        agent: Any = self
        read = agent.action_values  # by the bounds that the agent was made with
        return {"values": self.values, "v_min": float(read.v_min), "v_max": float(read.v_max)}

    @classmethod
    def check_together(cls, given: Given) -> None:
        """Refuses bounds that leave no room between them (SettingsError)."""
        super().check_together(given)
        if not given.v_min < given.v_max:
            raise SettingsError(
                "{} is the lowest return and {} the highest: lower the one or raise the other",
                *(SettingName("v_min").at(given.v_min), SettingName("v_max").at(given.v_max)),
            )
