"""How large an ablation is."""

from dataclasses import dataclass
from typing import Final

from tuner.errors import UserError

MIN_SEEDS: Final = 5
"""With fewer there is no interval, and a difference means nothing without one."""

RACE_SEEDS: Final = (3, 16)
"""From the first at which anybody can drop out to the last that the test of a race is made for."""

MOST_CHECKS: Final = 8
"""As many halvings leave less than a hundredth of what there was."""


@dataclass(frozen=True)
class AblationSettings:
    """How large an ablation is.

    Attributes:
        num_seeds: On which each configuration of the path is measured.
        num_race_seeds: Others, on which it is found out which change comes next.
        until: Once this share of the gain is reached in the race, what is left to change is changed together; None:
            each change by itself to the end.
        ranges: Whether it is also measured how far each parameter may move; or which parameters, by their endings.
        num_checks: At so many values on each side of the winner's, at most, the score of such a parameter is measured.
    """

    num_seeds: int = 10
    num_race_seeds: int = 5
    until: float | None = 0.95
    ranges: bool | tuple[str, ...] = False
    num_checks: int = 3

    def __post_init__(self) -> None:
        """Refuses what measures nothing."""
        if self.num_seeds < MIN_SEEDS:
            raise UserError(
                f"num_seeds={self.num_seeds} must be at least {MIN_SEEDS}: on fewer there is no interval, and no "
                "difference can be told from luck"
            )
        least, most = RACE_SEEDS
        if not least <= self.num_race_seeds <= most:
            raise UserError(f"num_race_seeds={self.num_race_seeds} must be from {least} to {most}")
        if self.until is not None and not 0.0 < self.until <= 1.0:
            raise UserError(
                f"until={self.until:g} must be a share of the gain, above 0 and at most 1, or null for every change by "
                "itself"
            )
        if not 1 <= self.num_checks <= MOST_CHECKS:
            raise UserError(f"num_checks={self.num_checks} must be from 1 to {MOST_CHECKS}")
        if self.ranges == ():
            raise UserError("ranges=[] names no parameter: type ranges=true for all, or ranges=false for none")

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
