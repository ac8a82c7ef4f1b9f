"""Changes by callbacks on rank 0 of several: parameters, slots of optimizers and numbers of layers, for all ranks."""

import zlib
from collections.abc import Mapping
from typing import Any

import numpy as np

from note_rl.errors import SettingsError
from note_rl.types import Array

_LEARNED = ("agent/", "optimizer/")


class ByHand:
    """Finds what was set between two gradient steps; looks only where a callback, or adjust_func(), may have done so.

    Args:
        agent: Of rank 0.
    """

    def __init__(self, agent: Any) -> None:
        self._agent = agent
        self._layers = agent.learner.layer_numbers()
        self._may_happen = False
        self._is_suspected = False
        self._sum: int | None = None  # of what the last gradient steps have left

    def suspect(self) -> None:
        """Something may have been set just now."""
        self._may_happen = self._is_suspected = True

    def note(self) -> None:
        """Gradient steps were taken, by all ranks alike."""
        self._sum = _sum_of(self._agent.learner.get_state()) if self._may_happen else None

    def found(self) -> tuple[dict[str, Array] | None, dict[str, dict[str, Any]]]:
        """Returns all that was learned, if something of it was set, and what was set of layers, by place and name.

        Raises:
            SettingsError: A layer is another one, or has other hooks: that cannot be sent to the other ranks.
        """
        if not self._is_suspected:
            return None, {}
        self._is_suspected = False
        state = self._agent.learner.get_state()
        return None if _sum_of(state) == self._sum else state, self._news_of_layers()

    def _news_of_layers(self) -> dict[str, dict[str, Any]]:
        before, self._layers = self._layers, self._agent.learner.layer_numbers()
        if self._layers.kinds != before.kinds:
            raise SettingsError(
                "a callback has exchanged, added or removed a layer or a hook of a layer, which reaches rank 0 alone: "
                "where several ranks train, it may set parameters and numbers of layers (layer.p = 0.1); do the rest "
                "before training, on every rank"
            )
        news = {
            place: {name: value for name, value in numbers.items() if before.numbers[place].get(name) != value}
            for place, numbers in self._layers.numbers.items()
        }
        return {place: numbers for place, numbers in news.items() if numbers}


def checksum_of(arrays: Mapping[str, Array]) -> int:
    """Returns a number that is the same for the same arrays, to the bit."""
    total = 0
    for _, values in sorted(arrays.items()):
        total = zlib.crc32(np.ascontiguousarray(values).reshape(-1).view(np.uint8).data, total)
    return total


def _sum_of(state: Mapping[str, Array]) -> int:
    """Of all but random numbers, which ranks have of their own."""
    return checksum_of({name: values for name, values in state.items() if name.startswith(_LEARNED)})
