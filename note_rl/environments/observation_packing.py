"""Observations that are dictionaries, in one array: where each key lies in it."""

import math
from dataclasses import dataclass
from typing import Any, Self

import numpy as np
from gymnasium import spaces
from gymnasium.wrappers import FlattenObservation

from note_rl.types import BoolArray

ACTION = "(action)"
"""The key of what is no part of an observation; see `shape_with_action`."""


@dataclass(frozen=True)
class PackedKey:
    """Place and shape of one key in a packed observation.

    Attributes:
        key: Its name.
        first: Where its numbers begin.
        shape: Of what it shows.
        is_image: Whether these are bytes, from 0 to 255.
    """

    key: str
    first: int
    shape: tuple[int, ...]
    is_image: bool

    @property
    def end(self) -> int:
        """Where they end."""
        return self.first + math.prod(self.shape)


class PackedShape(tuple[int, ...]):
    """The shape [n] of an observation that was a dictionary, and its parts.

    Args:
        parts: One behind the other.
    """

    parts: tuple[PackedKey, ...]

    def __new__(cls, parts: tuple[PackedKey, ...]) -> Self:
        """A tuple of one number."""
        made = super().__new__(cls, (parts[-1].end,))
        made.parts = parts
        return made

    def __reduce__(self) -> tuple[Any, ...]:
        """A tuple would be made again of its number only."""
        return type(self), (self.parts,)


def bytes_of(shape: tuple[int, ...]) -> BoolArray | None:
    """Which entries of a flat observation were bytes under a key, [n]; None: none, or it was no dictionary."""
    parts = [part for part in getattr(shape, "parts", ()) if part.is_image]
    if not parts:
        return None
    are_bytes = np.zeros(shape, np.bool_)
    for part in parts:
        are_bytes[part.first : part.end] = True
    return are_bytes


def shape_with_action(shape: tuple[int, ...], size: int) -> tuple[int, ...]:
    """Shape [n + size] of a flat observation [n] with the numbers of an action behind it, as critics take both."""
    if not isinstance(shape, PackedShape):
        return (shape[0] + size,)
    return PackedShape((*shape.parts, PackedKey(ACTION, shape.parts[-1].end, (size,), is_image=False)))


def observed_shape(env: Any) -> tuple[int, ...]:
    """Shape of what an environment shows, with its parts where that was a dictionary.

    Args:
        env: With observations as one array; see `flat_observations`.
    """
    if isinstance(env, FlattenObservation) and isinstance(env.env.observation_space, spaces.Dict):
        parts: list[PackedKey] = []
        for key, space in env.env.observation_space.spaces.items():
            is_box = isinstance(space, spaces.Box) and bool(space.shape)
            shape = tuple(space.shape or ()) if is_box else (spaces.flatdim(space),)
            parts.append(PackedKey(key, parts[-1].end if parts else 0, shape, is_box and space.dtype == np.uint8))
        return PackedShape(tuple(parts))
    return tuple(env.observation_space.shape or ())
