"""Observations as arrays of the shape and type that their space says, and what cannot be made such an array."""

import logging
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, cast

import gymnasium
import numpy as np
from gymnasium import spaces

from note_rl.errors import EnvironmentMismatchError, say_once
from note_rl.types import Array, FloatArray

_log = logging.getLogger(__name__)
_NUMBERS = "biuf"  # kinds of NumPy types that are real numbers
_EXACT = 2**24
"""Single precision, in which networks compute, holds every whole number up to this one, and not the next."""
_SMALLER = "show smaller numbers, or a large one as several (divmod)"
_LOOKS, _LEVELS = 100, 1_000
"""Reads in double precision that are looked at, and how many numbers between the lowest and the highest are enough."""
_DARK = 128
"""Bytes that reach this far may be colours."""
_LONGEST = 2**24  # numbers of a flat observation: 64 MiB each


def id_of(env: Any) -> str | None:
    """The id of an environment, None where it has none; anybody may keep something else as `spec`."""
    told = getattr(getattr(env, "spec", None), "id", None)
    return told if isinstance(told, str) else None


def name_of(env: Any) -> str:
    """Name of an environment in messages: its id and its class, or its class alone."""
    inner = getattr(env, "unwrapped", env)
    env_id = id_of(env)
    if hasattr(inner, "shown_name"):  # one that stands for another
        return str(inner.shown_name)
    return type(inner).__name__ if env_id is None else f"{env_id} ({type(inner).__name__})"


class _Precision:
    """Says once that single precision hardly tells apart what an environment shows, such as the seconds since 1970.

    Args:
        name: Of the environment.
    """

    def __init__(self, name: str) -> None:
        self._name = name
        self._num_looks = _LOOKS
        self._low: FloatArray = np.array(np.inf)
        self._high: FloatArray = np.array(-np.inf)

    def look(self, obs: FloatArray) -> None:
        """Looks at the first observations [n, *obs], in double precision."""
        if self._num_looks:
            self._num_looks -= 1
            self._low, self._high = np.minimum(self._low, obs.min(0)), np.maximum(self._high, obs.max(0))
            if not self._num_looks:
                self._say()

    def _say(self) -> None:
        largest, moved = np.maximum(np.abs(self._low), np.abs(self._high)), self._high - self._low
        next_one = np.spacing(largest.astype(np.float32))
        coarse = (largest > _EXACT) & (moved > 0) & (moved < _LEVELS * next_one)
        if coarse.any():
            say_once(
                _log,
                f"{self._name} shows numbers near {largest[coarse][0]:,.10g} that differ by {moved[coarse][0]:,.4g}: "
                f"networks compute in single precision, where the next one is {next_one[coarse][0]:g} away, and "
                "observations are normalised after that; show the difference from a constant, or a large number as "
                "several (divmod)",
            )


class ObservationReader:
    """Brings observations of a Box to its shape, and to its type (64-bit floats to 32-bit ones).

    Args:
        name: Of the environment, for messages.
        space: Of one observation.
        part: Which part of the observations of the environment that is, for messages; empty: all of it.
        among: Type of the vector that it becomes a part of; None: it stands alone.

    Attributes:
        shape, dtype: Of one observation as it is stored.
    """

    def __init__(self, name: str, space: spaces.Box, part: str = "", among: np.dtype[Any] | None = None) -> None:
        self.shape: tuple[int, ...] = space.shape
        self._own = np.dtype(np.float32 if space.dtype == np.float64 else space.dtype)
        self.dtype = self._own if among is None else among
        self._name, self._space, self._part = name, space, part
        self._precision = _Precision(name)

    def one(self, obs: Any, method: str) -> Array:
        """One observation [*obs], which may be the very array that was given.

        Args:
            obs: What the environment gave.
            method: That gave it, for messages.

        Raises:
            EnvironmentMismatchError: It has another shape, or does not hold such numbers.
        """
        return self._read(obs, self.shape, method)

    def several(self, obs: Any, num: int, method: str) -> Array:
        """The same of several observations, [num, *obs]."""
        return self._read(obs, (num, *self.shape), method)

    def _read(self, obs: Any, shape: tuple[int, ...], method: str) -> Array:
        try:
            array = np.asarray(obs)
        except (TypeError, ValueError, RuntimeError):  # lists of unlike lengths, a tensor with a gradient
            array = np.empty(0, np.object_)
        if isinstance(obs, np.ma.MaskedArray) and np.ma.is_masked(obs):
            raise self._refusal(method, "gave an observation with masked entries", "fill them: obs.filled(0.0)")
        if array.dtype.kind not in _NUMBERS:
            raise self._refusal(method, f"gave {_kind(obs)} as an observation", "give an array of numbers")
        if array.shape != shape:
            batch = "" if shape == self.shape else f", and there are {shape[0]} of them"
            raise self._refusal(
                method,
                f"gave an observation of the shape {list(array.shape)} where {list(shape)} is expected{batch}",
                "let both have the same shape",
            )
        own = array if array.dtype == self._own else self._as(self._own, array, method)
        return own if self._own == self.dtype else self._as(self.dtype, own, method)

    def _as(self, dtype: np.dtype[Any], array: Array, method: str) -> Array:
        """In another type, in which whole numbers stay what they are."""
        with np.errstate(all="ignore"):  # infinity, and what no whole number stands for, are looked for below and later
            stored = array.astype(dtype)
            if dtype.kind != "f":
                lost, remedy = stored != array, "give the space dtype=np.float32, or give such numbers"
            elif array.dtype.kind in "iu":
                lost, remedy = stored.astype(array.dtype) != array, _SMALLER
            else:
                self._precision.look(array[None] if array.shape == self.shape else array)
                return stored
        if lost.any():
            number = array[lost].flat[0]
            what = f"gave {number if array.dtype.kind in 'iu' else f'{number:g}'} in an observation"
            raise self._refusal(method, f"{what}, which {dtype} does not hold", remedy)
        return stored

    def _refusal(self, method: str, what: str, remedy: str) -> EnvironmentMismatchError:
        part = f" (part {self._part})" if self._part else ""
        return EnvironmentMismatchError(
            f"{method} of {self._name} {what}{part}; its observation_space is {self._space}: {remedy}"
        )


def _of_the_type(value: Any, space: spaces.Space[Any]) -> Any:
    """A whole number, or an array of such, in the type of a space of whole numbers, if that holds it."""
    if not isinstance(value, np.ndarray | np.generic) or value.dtype.kind not in "iu" or space.dtype is None:
        return value
    cast = value.astype(space.dtype)
    return cast if np.array_equal(cast, value) else value


def _kind(obs: Any) -> str:
    if obs is None:
        return "None"
    return f"a {type(obs).__name__}" + (f" of {obs.dtype}" if isinstance(obs, np.ndarray) else "")


def all_finite(values: Array) -> bool:
    """Whether no number is nan or infinite. Of a few numbers it takes half a microsecond, a quarter of all()."""
    return values.dtype.kind != "f" or np.count_nonzero(np.isfinite(values)) == values.size


def check_finite(name: str, obs: Array) -> None:
    """Refuses observations [..., *obs] with nan or infinity in them.

    Raises:
        EnvironmentMismatchError: Naming the environment, the value and its place.
    """
    if all_finite(obs):
        return
    place = np.argwhere(~np.isfinite(obs))[0]
    raise EnvironmentMismatchError(
        f"an observation of {name} holds {obs[tuple(place)]:g}, and nothing can be learned from that: reset() and "
        "step() must give finite numbers in single precision (gymnasium.wrappers.TransformObservation with "
        "np.nan_to_num replaces others)"
    )


def say_if_rounded(name: str, obs: Array) -> None:
    """Says once that networks see whole numbers [..., *obs] rounded, which are stored as they are."""
    if obs.dtype.kind not in "iu" or obs.dtype.itemsize < 4 or not obs.size:
        return
    furthest = max(int(obs.max()), int(obs.min()), key=abs)
    if abs(furthest) > _EXACT:
        say_once(
            _log,
            f"{name} shows {furthest:,}, and networks compute in single precision, which rounds whole numbers beyond "
            f"{_EXACT:,}: {_SMALLER}",
        )


def say_if_dark(name: str, space: spaces.Space[Any] | None) -> None:
    """Says once that networks see next to nothing of bytes that are no colours, such as boards of 0 and 1."""
    if not isinstance(space, spaces.Box) or space.dtype != np.uint8:
        return
    highest = int(space.high.max(initial=0))
    if highest < _DARK:
        say_once(
            _log,
            f"{name} shows bytes of at most {highest}, and the networks of this package divide bytes by 255, as those "
            "of pictures: give its observation_space dtype=np.int8, of which they see the numbers themselves",
        )


def check_rewards(name: str, rewards: Array) -> None:
    """Refuses rewards, or sums of them, with nan or infinity among them (EnvironmentMismatchError)."""
    if not all_finite(rewards):
        raise EnvironmentMismatchError(
            f"step() of {name} gave None, nan or infinity as a reward, or a number beyond 3.4e38: it must give a "
            "number that is finite in single precision in every step"
        )


def check_keys(name: str, space: spaces.Space[Any], observation: Any, method: str, part: str = "") -> None:
    """Refuses a part of an observation that its Dict or Tuple has no space for.

    Args:
        name: Of the environment, for messages.
        space: Of the observation.
        observation: What the environment gave.
        method: That gave it, for messages.
        part: Which part of its observations that is, for messages; empty: all of it.

    Raises:
        EnvironmentMismatchError: Naming the part.
    """
    if isinstance(space, spaces.Dict) and isinstance(observation, Mapping):
        given: dict[Any, Any] = dict(observation)
        known: dict[Any, spaces.Space[Any]] = dict(space.spaces)
    elif isinstance(space, spaces.Tuple) and isinstance(observation, tuple | list):
        given, known = dict(enumerate(observation)), dict(enumerate(space.spaces))
    else:
        return
    for key, value in given.items():
        if key not in known:
            raise EnvironmentMismatchError(
                f"{method} of {name} gave an observation with {part}[{key!r}], and its observation space {space} has "
                "no such part: add it to the space, or leave it out"
            )
        check_keys(name, known[key], value, method, f"{part}[{key!r}]")


def has_fixed_size(space: spaces.Space[Any]) -> bool:
    """Whether each observation of a space has as many numbers as any other; other packages' spaces may not say."""
    try:
        return bool(space.is_np_flattenable and spaces.flatdim(space) >= 0)
    except NotImplementedError:
        return False


def _without_size(space: spaces.Space[Any]) -> str:
    """Which parts of a space have no fixed size."""
    if isinstance(space, spaces.Dict):
        parts = [f"{key!r} ({type(one).__name__})" for key, one in space.spaces.items() if not has_fixed_size(one)]
        return f"whose observations of {' and '.join(parts)} have no fixed size"
    return "whose observations have no fixed size"


Encode = Callable[[Any, str], Array]


@dataclass(frozen=True)
class _Leaf:
    """One part of an observation: the keys that lead to it, where its numbers lie, and how they are made."""

    keys: tuple[Any, ...]
    place: slice
    encode: Encode


class FlatReader:
    """Brings observations of several parts, or of no array, into one vector: one-hot what is discrete.

    The same vector as that of `gymnasium.spaces.flatten`, which takes a number outside of its Discrete for another one.

    Args:
        name: Of the environment, for messages.
        space: Of one observation.
        part: Which part of the observations of the environment that is, for messages; empty: all of it.

    Attributes:
        space: Of the vector.

    Raises:
        EnvironmentMismatchError: Observations have no fixed size.
    """

    def __init__(self, name: str, space: spaces.Space[Any], part: str = "") -> None:
        if not has_fixed_size(space):
            raise EnvironmentMismatchError(
                f"{name} has the observation space {space}, {_without_size(space)}, and networks take arrays of one "
                "size: give a Box (padded with zeros, for example), or a Dict or Tuple of such; "
                "gymnasium.wrappers.FilterObservation keeps some parts of a Dict only"
            )
        size = spaces.flatdim(space)
        if size > _LONGEST:
            raise EnvironmentMismatchError(
                f"{name} has the observation space {space}, which is a vector of {size:,} numbers, as each choice of a "
                f"Discrete is one, and {_LONGEST:,} are the most: show the number in a Box, or its digits"
            )
        self.space = cast(spaces.Box, spaces.flatten_space(space))
        self._name, self._given, self._part = name, space, part
        self._dtype = ObservationReader(name, self.space).dtype
        self._leaves: list[_Leaf] = []
        self._num = 0
        self._num_looks = 2  # at the first reset and the first step
        self._add(space, ())

    def _add(self, space: spaces.Space[Any], keys: tuple[Any, ...]) -> None:
        if isinstance(space, spaces.Dict | spaces.Tuple):
            inner = space.spaces.items() if isinstance(space, spaces.Dict) else enumerate(space.spaces)
            for key, part in inner:
                self._add(part, (*keys, key))
            return
        size = spaces.flatdim(space)
        self._leaves.append(_Leaf(keys, slice(self._num, self._num + size), self._encoder(space, keys)))
        self._num += size

    def _encoder(self, space: spaces.Space[Any], keys: tuple[Any, ...]) -> Encode:
        part = self._part + "".join(f"[{key!r}]" for key in keys)
        if isinstance(space, spaces.Box):
            reader = ObservationReader(self._name, space, part, among=self._dtype)
            return lambda value, method: reader.one(value, method).reshape(-1)
        where = f" ({part})" if part else ""

        def encode(value: Any, method: str) -> Array:
            known = np.asarray(value, space.dtype) if isinstance(value, list) else value
            if not space.contains(known):
                known = _of_the_type(known, space)
            if not space.contains(known):
                raise EnvironmentMismatchError(
                    f"{method} of {self._name} gave {str(value)[:100]} in an observation{where}, which is not in its "
                    f"observation space {space}"
                )
            return np.asarray(spaces.flatten(space, known))

        return encode

    def one(self, observation: Any, method: str) -> Array:
        """The vector of one observation.

        Args:
            observation: What the environment gave.
            method: That gave it, for messages.

        Raises:
            EnvironmentMismatchError: It is not in the space.
        """
        if self._num_looks:
            self._num_looks -= 1
            check_keys(self._name, self._given, observation, method)
        flat = np.empty(self._num, self._dtype)
        for leaf in self._leaves:
            flat[leaf.place] = leaf.encode(self._found(observation, leaf.keys, method), method)
        return flat

    def _found(self, observation: Any, keys: tuple[Any, ...], method: str) -> Any:
        part = observation
        for key in keys:
            try:
                part = part[key]
            except (TypeError, LookupError) as error:
                raise EnvironmentMismatchError(
                    f"{method} of {self._name} gave an observation without {key!r} ({_kind(part)}); its observation "
                    f"space is {self._given}"
                ) from error
        return part


class FlatObservation(gymnasium.wrappers.FlattenObservation[Any, Any, Any]):
    """Shows observations of several parts, or of no array, as one vector; see `FlatReader`."""

    def __init__(self, env: gymnasium.Env[Any, Any]) -> None:
        self._reader = FlatReader(name_of(env), env.observation_space)
        super().__init__(env)

    def observation(self, observation: Any) -> Array:
        """The vector."""
        return self._reader.one(observation, "reset() or step()")
