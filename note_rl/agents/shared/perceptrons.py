"""Settings of the networks of fixed kinds, in no framework."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import get_args

from note_rl.agents.shared.layer_kinds import INITIALIZER
from note_rl.support.setting_fields import check_fields, documented, like, setting
from note_rl.support.value_kinds import NOT_NEGATIVE, OneOf, widths
from note_rl.types import Activation


@documented
@dataclass(frozen=True)
class MLPSettings:
    """Of a multilayer perceptron."""

    hidden_sizes: Sequence[int] = setting(
        (64, 64),
        widths,
        text="Widths of the hidden layers.",
        effect="higher: richer functions, slower steps",
        typical="32 to 512 each",
    )
    activation: Activation = setting("relu", OneOf(get_args(Activation)), text="Behind each of them.")
    initializer: str | None = setting(
        None,
        INITIALIZER,
        text="Of the weights: orthogonal, glorot_uniform, he_uniform or uniform; None: orthogonal where the agent "
        "begins so (PPO, A2C), else uniform.",
    )
    noisy_std: float = setting(
        0.0,
        NOT_NEGATIVE,
        text="Deviation with which the noise of dense layers starts, by which an agent explores (sigma_0 of NoisyNet, "
        "Fortunato et al. 2018); 0: there is none.",
        effect="higher: more exploration at the start",
        typical="0 or 0.5",
    )

    def __post_init__(self) -> None:
        """Refuses values of another kind or out of range (SettingsError)."""
        check_fields(self)


@documented
@dataclass(frozen=True)
class CNNSettings:
    """Of the convolutional network of Mnih et al. 2015."""

    hidden_sizes: Sequence[int] = like(MLPSettings, "hidden_sizes", default=(512,))
    noisy_std: float = like(MLPSettings, "noisy_std")

    def __post_init__(self) -> None:
        """Refuses values of another kind or out of range (SettingsError)."""
        check_fields(self)
