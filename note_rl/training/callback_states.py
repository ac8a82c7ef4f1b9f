"""State of callbacks in checkpoints, and how it comes back to them: arrays and JSON, never a pickle."""

import logging
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import numpy as np

from note_rl.errors import CheckpointError, SettingsError
from note_rl.training.callbacks import Callback
from note_rl.types import Array, under

_log = logging.getLogger(__name__)
CALLBACKS = "callbacks"
"""Under this name their states stand among the arrays and in the head of a checkpoint."""

_KINDS = "biuf"  # of arrays that a checkpoint holds: true and false, whole numbers, numbers


class CallbackStates:
    """The states of the callbacks of one train().

    Args:
        callbacks: In their order, by which those of one class are distinguished.

    Raises:
        SettingsError: A class has only one of `get_state` and `set_state`.
        CheckpointError: A state cannot be stored.
    """

    def __init__(self, callbacks: Sequence[Any]) -> None:
        self._named: dict[str, Any] = {}
        for one in callbacks:
            if not _keeps_state(one):
                continue
            kind, number = type(one).__name__, 1
            while _name(kind, number) in self._named:
                number += 1
            self._named[_name(kind, number)] = one
        self.get_state()

    def get_state(self) -> tuple[dict[str, Array], dict[str, Any]]:
        """Returns the arrays, as `callbacks/NAME/KEY`, and by the callback's name what else its state holds.

        Raises:
            CheckpointError: A state cannot be stored; names the class and the key.
        """
        arrays: dict[str, Array] = {}
        values: dict[str, Any] = {}
        for name, one in self._named.items():
            values[name] = {}
            for key, value in _checked_state(one).items():
                if isinstance(value, np.ndarray | np.generic):
                    arrays[f"{CALLBACKS}/{name}/{key}"] = np.array(value)
                else:
                    values[name][key] = value
        return arrays, values

    def set_state(self, arrays: Mapping[str, Array], head: Mapping[str, Any]) -> None:
        """Gives each callback what a checkpoint holds of it; says of which there is none here.

        Args:
            arrays: Of the whole checkpoint.
            head: Of the whole checkpoint.
        """
        for name, values in head.get(CALLBACKS, {}).items():
            state = {**values, **{key: np.array(value) for key, value in under(f"{CALLBACKS}/{name}", arrays).items()}}
            if name in self._named:
                self._named[name].set_state(state)
            elif state:
                _log.warning(
                    "the checkpoint holds the state of a callback %s, which this training is without: it is left out",
                    name,
                )


def check_callbacks(stored: object) -> None:
    """Refuses what no head of a checkpoint holds under `callbacks` (ValueError)."""
    if not isinstance(stored, dict) or not all(isinstance(values, dict) for values in stored.values()):
        raise ValueError("its states of callbacks are none")


def _name(kind: str, number: int) -> str:
    return kind if number == 1 else f"{kind} {number}"


def _keeps_state(callback: Any) -> bool:
    """Whether it has both methods, which an object of any class may have."""
    has = {name: _defines(callback, name) for name in ("get_state", "set_state")}
    if len(set(has.values())) > 1:
        given, missing = sorted(has, key=lambda name: not has[name])
        raise SettingsError(
            f"the callback {type(callback).__name__} has {given}() and no {missing}(): a run that is resumed needs both"
        )
    return has["get_state"]


def _defines(callback: Any, name: str) -> bool:
    method = getattr(callback, name, None)
    return callable(method) and getattr(method, "__func__", None) is not getattr(Callback, name)


def _checked_state(callback: Any) -> Mapping[str, Any]:
    kind, state = type(callback).__name__, callback.get_state()
    if not isinstance(state, Mapping):
        raise CheckpointError(f"{kind}.get_state() must give a mapping, such as {{'count': 3}}, got {state!r:.100}")
    for key, value in state.items():
        if not isinstance(key, str) or not key or "/" in key:
            raise CheckpointError(f"{kind}.get_state() has the key {key!r:.100}: keys are words without a slash")
        if not _is_storable(value):
            raise CheckpointError(
                f"{kind}.get_state() has {key}={value!r:.100}, of the type {type(value).__name__}, which a checkpoint "
                "cannot hold: give an array of numbers, or None, a number, a text, or lists and dicts of these"
            )
    return state


def _is_storable(value: object) -> bool:
    if isinstance(value, np.ndarray | np.generic):
        return value.dtype.kind in _KINDS and value.dtype.itemsize <= 8
    return _is_json(value)


def _is_json(value: object) -> bool:
    """Whether JSON gives it back as it is: no tuple, which would be a list, and no array within a list."""
    if isinstance(value, list):
        return _all_json(value)
    if isinstance(value, dict):
        return all(isinstance(key, str) for key in value) and _all_json(value.values())
    return value is None or type(value) in (bool, int, float, str)


def _all_json(values: Iterable[object]) -> bool:
    return all(map(_is_json, values))
