"""Running means that forget."""

from typing import Any

from note_rl.support.value_kinds import Number

_WEIGHT = Number(0.0, 1.0, above=True)


def weight_of_newest(smooth: float) -> float:
    """Checked (SettingsError)."""
    return float(_WEIGHT("smooth", smooth))


class RunningMean:
    """Exponential moving average without the pull towards where it began (Kingma & Ba 2015, section 3).

    Args:
        smooth: Weight of the newest value, in (0, 1].
    """

    def __init__(self, smooth: float) -> None:
        self.smooth = weight_of_newest(smooth)
        self.count = 0
        self._sum = 0.0
        self._weight = 0.0

    def add(self, value: float) -> None:
        """One more value."""
        self._sum += self.smooth * (value - self._sum)
        self._weight += self.smooth * (1.0 - self._weight)
        self.count += 1

    @property
    def value(self) -> float:
        """The average; 0/0 is refused by the caller."""
        return self._sum / self._weight

    @property
    def num_effective(self) -> float:
        """Of how many independent values an ordinary mean would be as certain."""
        return min(float(self.count), (2.0 - self.smooth) / self.smooth)

    def to_json(self) -> list[float]:
        """For checkpoints."""
        return [self.count, self._sum, self._weight]

    def take(self, stored: Any) -> None:
        """Goes on from what to_json() gave."""
        count, self._sum, self._weight = stored
        self.count = int(count)
