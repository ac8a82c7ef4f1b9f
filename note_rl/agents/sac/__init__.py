"""Soft actor-critic (Haarnoja et al. 2018, https://arxiv.org/abs/1812.05905)."""

from collections.abc import Sequence
from dataclasses import InitVar

from note_rl.agents.declaration import Given
from note_rl.agents.shared import BoundedSettings, CommonSettings
from note_rl.errors import SettingsError
from note_rl.errors.wording import out_of_range
from note_rl.settings import GSDE
from note_rl.settings.state_dependent_noise import gsde as gsde_kind
from note_rl.support.setting_fields import setting
from note_rl.support.value_kinds import POSITIVE, Count, Number, flag


class TemperatureSettings(CommonSettings):
    """Of algorithms that weigh the entropy of their policy by `alpha`, which may be learned."""

    alpha: float | None = setting(
        default=None,
        kind=POSITIVE,
        text="Weight of the entropy; None: learned so that the entropy comes to `target_entropy`.",
        effect="higher: more exploration",
        typical="0.01 to 0.5 in units of the reward",
    )
    initial_alpha: float = setting(
        default=1.0,
        kind=POSITIVE,
        fixed=True,
        text="Where a learned `alpha` starts.",
        effect="higher: more exploration at the start",
        typical="0.1 to 1",
    )


class SACSettings(TemperatureSettings, BoundedSettings):
    """Maximises return and entropy, for actions that are numbers within bounds; acts with `SquashedGaussianPolicy`.

    With `gsde` the loss draws actions from the distribution that each state has by itself, independently of each other.

    With more critics than give a target it is REDQ (Chen et al. 2021, https://arxiv.org/abs/2101.05982). With dropout
    and layer normalisation in two of them it is DroQ (Hiraoka et al. 2022, https://arxiv.org/abs/2110.02034). Both take
    about 20 gradient steps for each environment step. Unlike there, the actor learns in all of them.
    """

    reported_names = ("q_mean", "entropy", "alpha")

    hidden_size: InitVar[int | Sequence[int]] = (256, 256)
    target_entropy: float | None = setting(
        default=None,
        kind=Number(),
        text="Entropy that a learned `alpha` aims at, of actions in [-1, 1]; None: -1 per number of the action "
        "(section 7, appendix D).",
        effect="higher: more exploration",
        typical="-2 to 0 per number of the action",
    )
    gsde: GSDE | None = setting(
        default=None,
        kind=gsde_kind,
        text="Noise before tanh is a learned function of the state, which lasts for some steps (`SquashedGSDEPolicy`); "
        "None: its deviations are outputs of the network, and it is new in each step.",
    )
    initial_log_std: float = setting(
        default=-3.0,
        kind=Number(),
        fixed=True,
        text="Log deviation of the noise matrix at the start, with `gsde`.",
        effect="higher: wider exploration at the start",
        typical="-3 to 0",
    )
    num_critics: int = setting(
        default=2,
        kind=Count(),
        text="Critics, each with a target network.",
        effect="higher: steadier values, slower steps",
        typical="2, or 5 to 10 with num_target_critics=2",
    )
    num_target_critics: int | None = setting(
        default=None,
        kind=Count(),
        text="How many target networks, drawn anew for each sample, give its target: the smallest of their values. If "
        "fewer than all are drawn, the actor follows the mean of all critics, else their smallest value. None: all.",
        effect="higher: more careful values",
        typical="2",
    )
    critic_dropout: float = setting(
        default=0.0,
        kind=Number(0.0, 0.99),
        fixed=True,
        text="Share of the numbers in hidden layers of the critics, and of their targets, that is set to 0 in losses.",
        effect="higher: less overfitting with many gradient steps per environment step, slower learning",
        typical="0.001 to 0.1",
    )
    critic_layer_norm: bool = setting(
        default=False, kind=flag, text="Whether hidden layers of the critics are normalised, before their activation."
    )

    @classmethod
    def check_together(cls, given: Given) -> None:
        """Refuses to draw more critics than there are (SettingsError)."""
        super().check_together(given)
        drawn = getattr(given, "num_target_critics", None)
        if drawn is not None and drawn > given.num_critics:
            rule = f"be at most the number of critics, {given.num_critics}"
            raise SettingsError(out_of_range("num_target_critics", rule, drawn))

    @property
    def num_drawn(self) -> int:
        """How many target networks give a target."""
        return self.num_critics if self.num_target_critics is None else self.num_target_critics

    @property
    def draws_critics(self) -> bool:
        """Whether those are fewer than there are."""
        return self.num_drawn < self.num_critics
