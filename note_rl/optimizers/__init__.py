"""The same optimizers under the same argument names for both frameworks, so that one configuration fits both."""

from dataclasses import dataclass

from note_rl.support.setting_fields import check_fields, documented, like, setting
from note_rl.support.value_kinds import NOT_NEGATIVE, POSITIVE, SHARE_BELOW_1


@documented
@dataclass(frozen=True)
class OptimizerSettings:
    """Of every optimizer."""

    learning_rate: float = setting(
        1e-3,
        POSITIVE,
        text="Size of a gradient step.",
        effect="higher: learning is faster, until it is unstable",
        typical="1e-5 to 1e-2",
    )

    def __post_init__(self) -> None:
        """Refuses values of another kind or out of range (SettingsError).

        In Python a rate may also be 0, which freezes what it is for, or a schedule or tensor of the framework's own.
        """
        is_left_alone = not isinstance(self.learning_rate, int | float) or self.learning_rate == 0
        check_fields(self, left_out=("learning_rate",) if is_left_alone else ())


@documented
@dataclass(frozen=True)
class AdamSettings(OptimizerSettings):
    """Of Adam (Kingma & Ba 2015)."""

    beta1: float = setting(
        0.9,
        SHARE_BELOW_1,
        text="Decay of the mean of gradients, per step.",
        effect="higher: steadier directions that follow more slowly",
        typical="0.5 to 0.95",
    )
    beta2: float = setting(
        0.999,
        SHARE_BELOW_1,
        text="Decay of the mean of squared gradients, per step.",
        effect="higher: steadier sizes of steps",
        typical="0.99 to 0.9999",
    )
    epsilon: float = setting(
        1e-8,
        POSITIVE,
        text="Added to the root of that mean, so that nothing is divided by 0.",
        effect="higher: smaller steps where gradients are small",
        typical="1e-8 to 1e-3",
    )
    weight_decay: float = setting(
        0.0,
        NOT_NEGATIVE,
        text="How strongly weights are drawn to 0; 0: not at all.",
        effect="higher: smaller weights",
        typical="0 to 0.1",
    )


@documented
@dataclass(frozen=True)
class AdamWSettings(AdamSettings):
    """Of Adam with decoupled weight decay (Loshchilov & Hutter 2019)."""

    weight_decay: float = like(AdamSettings, "weight_decay", default=0.01)


@documented
@dataclass(frozen=True)
class RMSpropSettings(OptimizerSettings):
    """Of RMSprop (Tieleman & Hinton 2012)."""

    rho: float = setting(
        0.99,
        SHARE_BELOW_1,
        text="Decay of the mean of squared gradients, per step.",
        effect="higher: steadier sizes of steps",
        typical="0.9 to 0.999",
    )
    epsilon: float = setting(
        1e-8,
        POSITIVE,
        text="Added to the root of that mean, by which the gradient is divided.",
        effect="higher: smaller steps where gradients are small",
        typical="1e-8 to 1e-3",
    )
    momentum: float = setting(
        0.0,
        SHARE_BELOW_1,
        text="Share of the last step that is taken again.",
        effect="higher: faster along steady slopes, and past their end",
        typical="0 to 0.95",
    )
    weight_decay: float = like(AdamSettings, "weight_decay")


@documented
@dataclass(frozen=True)
class SGDSettings(OptimizerSettings):
    """Of stochastic gradient descent."""

    learning_rate: float = like(OptimizerSettings, "learning_rate", default=1e-2)
    momentum: float = like(RMSpropSettings, "momentum")
    weight_decay: float = like(AdamSettings, "weight_decay")
