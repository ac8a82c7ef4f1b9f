"""The learning rates of optimizers at hand, read and set, whichever framework they are of."""

from collections.abc import Callable, Sequence
from typing import Any

from note_rl.errors import SettingsError

_Setting = tuple[float, Callable[[float], object]]


class Rates:
    """Moves the learning rates of one or several optimizers together.

    The first rate is the one that is named; all others keep their ratio to it.

    Args:
        optimizer: One, or a list of them.
        only: Index of the one in the list that is moved, while the others stay; None: all.

    Raises:
        SettingsError: A rate that follows a schedule of the optimizer's own, or no such optimizer.
    """

    def __init__(self, optimizer: Any, only: int | None = None) -> None:
        optimizers: Sequence[Any] = optimizer if isinstance(optimizer, list | tuple) else [optimizer]
        if only is not None and not 0 <= only < len(optimizers):
            raise SettingsError(f"optimizer {only} is asked for, but there are {len(optimizers)}, counted from 0")
        moved = optimizers if only is None else [optimizers[only]]
        self._settings = [setting for member in moved for setting in _settings(member)]

    @property
    def now(self) -> float:
        """Returns the first rate as it was when this was made."""
        return self._settings[0][0]

    def set(self, rate: float) -> None:
        """Gives the first this rate, the others in proportion."""
        first = self.now
        for own, assign in self._settings:
            assign(rate * own / first if first > 0.0 else rate)


def _settings(optimizer: Any) -> list[_Setting]:
    """Returns each rate of an optimizer, with what sets it."""
    groups = getattr(optimizer, "param_groups", None)
    if groups is not None:  # of PyTorch
        return [(float(group["lr"]), _group_rate(optimizer, index)) for index, group in enumerate(groups)]
    variable = getattr(optimizer, "learning_rate", None)
    if not hasattr(variable, "assign"):
        raise SettingsError(
            f"{type(optimizer).__name__} has a learning-rate schedule of its own, so its rate cannot be set; "
            "give it a number"
        )
    assert variable is not None
    return [(float(variable), variable.assign)]


def _group_rate(optimizer: Any, index: int) -> Callable[[float], object]:
    """Returns what sets the rate of a group, which is another dictionary after each load_state_dict()."""
    return lambda rate: optimizer.param_groups[index].update(lr=rate)
