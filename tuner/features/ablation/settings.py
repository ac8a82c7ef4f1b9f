"""How large an ablation is."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Final

from note_rl.errors import SettingsError
from note_rl.errors.wording import Name, as_setting
from note_rl.support.setting_fields import setting
from note_rl.support.value_kinds import Count, Number, described
from tuner.config.section_base import Section

MIN_SEEDS: Final = 5
"""With fewer there is no interval, and a difference means nothing without one."""

RACE_SEEDS: Final = (3, 16)
"""From the first at which anybody can drop out to the last that the test of a race is made for."""

_TOO_FEW: Final = ": on fewer there is no interval, and no difference can be distinguished from luck"


@described("true, false, or endings of the names of parameters")
def _ranges(name: Name, value: Any) -> bool | tuple[str, ...]:
    if isinstance(value, bool):
        return value
    if not value:
        raise SettingsError("{} names no parameter: type true for all, or false for none", as_setting(name).at([]))
    return (value,) if isinstance(value, str) else tuple(value)


@dataclass(frozen=True)
class AblationSettings(Section):
    """How large an ablation is.

    Attributes:
        num_seeds: On which each configuration of the path is measured.
        num_race_seeds: Others, on which it is found out which change comes next.
        until: Once this share of the gain is reached in the race, what is left to change is changed together; None:
            each change by itself to the end.
        ranges: Whether it is also measured how far each parameter may move; or which parameters, by their endings.
        num_checks: Values on each side of the winner's, at most, at which the score of such a parameter is measured.
    """

    num_seeds: int = setting(10, Count(MIN_SEEDS, hint=_TOO_FEW))
    num_race_seeds: int = setting(5, Count(*RACE_SEEDS))
    until: float | None = setting(0.95, Number(0.0, 1.0, above=True, hint=", or null for every change by itself"))
    ranges: bool | str | Sequence[str] = setting(False, _ranges)
    num_checks: int = setting(3, Count(1, 8))  # as many halvings leave less than a hundredth of what there was

    def looks_ahead(self, num_changes: int) -> bool:
        """Whether it is asked on the way how much of the gain is reached."""
        return self.until is not None and num_changes > 2

    def fewest_runs(self, num_changes: int) -> int:
        """Runs where there is a gain, if races end as soon as they can, and the first change brings all of it."""
        least = RACE_SEEDS[0]
        if self.looks_ahead(num_changes):
            return num_changes * least + 3 * self.num_race_seeds - least + 3 * self.num_seeds
        return _race_pairs(num_changes) * least + (num_changes + 1) * self.num_seeds

    def most_runs(self, num_changes: int) -> int:
        """Runs if every step is raced to its end, and every change turns out to need another look."""
        if num_changes == 1:
            return 2 * self.num_seeds
        ends = 2 if self.looks_ahead(num_changes) else 0
        return (_race_pairs(num_changes) + ends) * self.num_race_seeds + 2 * (num_changes + 1) * self.num_seeds


def _race_pairs(num_changes: int) -> int:
    """Configurations in the races of a whole path: one fewer in each, and the last change needs none."""
    return num_changes * (num_changes + 1) // 2 - 1
