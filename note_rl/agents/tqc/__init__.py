"""Truncated quantile critics (TQC, Kuznetsov et al. 2020, https://arxiv.org/abs/2005.04269)."""

from note_rl.agents.declaration import Given
from note_rl.agents.sac import SACSettings
from note_rl.errors import SettingsError
from note_rl.errors.wording import out_of_range
from note_rl.support.setting_fields import setting
from note_rl.support.value_kinds import Count


class TQCSettings(SACSettings):
    """`SAC` whose critics estimate quantiles of the return; the largest ones are left out of targets.

    Targets are made of the quantiles of all target networks together. Overestimated returns are among the largest of
    these. The actor follows the mean of all quantiles of all critics. The paper has 5 critics with three hidden layers
    of 512 units.
    """

    num_critics: int = setting(
        default=2,
        kind=Count(),
        text="Critics, each with a target network; all of these give the targets.",
        effect="higher: steadier values, slower steps",
        typical="2 to 5",
    )
    num_target_critics: int | None = setting(init=False)
    num_quantiles: int = setting(
        default=25,
        kind=Count(),
        text="Quantiles of the return that each critic estimates.",
        effect="higher: finer distributions, and steps slow down by the square of it",
        typical="10 to 50",
    )
    num_dropped_per_critic: int = setting(
        default=2,
        kind=Count(0),
        text="How many of the largest quantiles are left out of each target, as a number per critic: with 2 critics, "
        "twice as many of all quantiles. 0: none.",
        effect="higher: lower values, which limits overestimation; too high: values are underestimated",
        typical="0 to 5 of 25",
    )

    @classmethod
    def check_together(cls, given: Given) -> None:
        """Refuses to drop all quantiles (SettingsError)."""
        super().check_together(given)
        if given.num_dropped_per_critic >= given.num_quantiles:
            rule = f"be below num_quantiles, {given.num_quantiles}"
            raise SettingsError(out_of_range("num_dropped_per_critic", rule, given.num_dropped_per_critic))

    @property
    def num_kept(self) -> int:
        """How many quantiles of all target networks together give a target."""
        return self.num_critics * (self.num_quantiles - self.num_dropped_per_critic)
