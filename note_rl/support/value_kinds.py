"""Kinds of values, which both doors of every setting ask: what a value must be, in words, and what it then means.

A kind is asked with the name of a value, or the setting that it is of, and the value that was typed. It gives the value
as it is meant (1e4 is 10000 where something is counted, a NumPy number a plain one) or refuses it. The kind of a
setting stands beside its default, see `note_rl.support.setting_fields`; those of further arguments of methods stand
here.
"""

import functools
import inspect
import math
import numbers
import os
from collections.abc import Callable, Collection, Iterable, Mapping
from dataclasses import dataclass
from typing import Any, ParamSpec, Protocol, TypeVar

import numpy as np

from note_rl.errors import SettingsError
from note_rl.errors.wording import Name, as_setting, out_of_range
from note_rl.support.near_names import nearest

_P = ParamSpec("_P")
_R = TypeVar("_R")


class Kind(Protocol):
    """Kind of values that a setting takes."""

    @property
    def range(self) -> str:
        """The values that it takes, in words."""

    def __call__(self, name: Name, value: Any) -> Any:
        """The value as it is meant.

        Raises:
            SettingsError: It is of another kind or out of range.
        """


def _is_number(value: object) -> bool:
    return isinstance(value, numbers.Real) and not isinstance(value, bool | np.bool_)


@dataclass(frozen=True)
class Count:
    """A whole number from `least` on, in whatever type of number it is written.

    Attributes:
        least, most: The range; without `most` it has no end.
        hint: What else a refusal says.
    """

    least: int = 1
    most: int | None = None
    hint: str = ""

    @property
    def range(self) -> str:
        """From where on, or to where."""
        return f"a whole number, {self._ends()}"

    def __call__(self, name: Name, value: Any) -> int:
        """The number as an int."""
        if not _is_number(value) or not (isinstance(value, numbers.Integral) or float(value).is_integer()):
            raise SettingsError(out_of_range(name, "be a whole number", value))
        if value < self.least or (self.most is not None and value > self.most):
            raise SettingsError(out_of_range(name, f"be {self._ends()}", value, self.hint))
        return int(value)

    def _ends(self) -> str:
        return f"at least {self.least}" if self.most is None else f"from {self.least} to {self.most}"


@dataclass(frozen=True)
class Number:
    """A finite number between two others, each of which may be left out of the range.

    Attributes:
        lowest, highest: The range.
        above: Whether `lowest` itself is out of range.
        below: Whether `highest` itself is.
        hint: What else a refusal says.
    """

    lowest: float = -math.inf
    highest: float = math.inf
    above: bool = False
    below: bool = False
    hint: str = ""

    @property
    def range(self) -> str:
        """From where to where."""
        if math.isfinite(self.highest):
            start, end = ("above" if self.above else "from"), ("below " if self.below else "")
            return f"{start} {self.lowest:g} to {end}{self.highest:g}"
        return self._lower_end() if math.isfinite(self.lowest) else "any number"

    def __call__(self, name: Name, value: Any) -> float:
        """The number, as a plain one."""
        if not _is_number(value) or not math.isfinite(value):
            raise SettingsError(out_of_range(name, "be a finite number", value, self.hint))
        at_an_end = (self.above and value == self.lowest) or (self.below and value == self.highest)
        if at_an_end or not self.lowest <= value <= self.highest:
            raise SettingsError(out_of_range(name, self._demand(), value, self.hint))
        plain: float = value.item() if isinstance(value, np.generic) else value
        return plain

    def _demand(self) -> str:
        if not math.isfinite(self.highest):
            return f"be {self._lower_end()}"
        if not self.above and not self.below:
            return f"lie between {self.lowest:g} and {self.highest:g}"
        return f"be {self._lower_end()} and {'below' if self.below else 'at most'} {self.highest:g}"

    def _lower_end(self) -> str:
        return f"{'above' if self.above else 'at least'} {self.lowest:g}"


@dataclass(frozen=True)
class OneOf:
    """One of several words.

    Attributes:
        words: These.
        hint: What else a refusal says.
    """

    words: tuple[str, ...]
    hint: str = ""

    @property
    def range(self) -> str:
        """The words."""
        return " or ".join(", ".join(self.words).rsplit(", ", 1))

    def __call__(self, name: Name, value: Any) -> Any:
        """The word."""
        if value not in self.words:
            asked = f"one of {', '.join(self.words)}" if len(self.words) > 1 else self.range
            raise SettingsError(out_of_range(name, f"be {asked}", value, self.hint))
        return value


@dataclass(frozen=True)
class Described:
    """A kind that is a function of name and value, with what it takes in words."""

    range: str
    check: Callable[[Name, Any], Any]

    def __call__(self, name: Name, value: Any) -> Any:
        """The value as the function returns it."""
        return self.check(name, value)


def described(values: str) -> Callable[[Callable[[Name, Any], Any]], Described]:
    """Makes a kind of a function; `values` says in words what it takes."""
    return functools.partial(Described, values)


@described("True or False")
def flag(name: Name, value: Any) -> bool:
    """True or False."""
    if not isinstance(value, bool | np.bool_):
        raise SettingsError(out_of_range(name, "be True or False", value))
    return bool(value)


@described("a whole number, at least 1, or 'auto'")
def count_or_auto(name: Name, value: Any) -> int | str:
    """A number, or "auto"."""
    if isinstance(value, str):
        if value != "auto":
            raise SettingsError(out_of_range(name, "be a number or 'auto'", value))
        return value
    return Count()(name, value)


@described("a whole number, at least 1, or 'rollout'")
def count_or_rollout(name: Name, value: Any) -> int | str:
    """A number, or "rollout"."""
    if isinstance(value, str):
        if value != "rollout":
            raise SettingsError(out_of_range(name, "be a number or 'rollout' (all of it at once)", value))
        return value
    return Count()(name, value)


@described("True, False or 'minibatch'")
def flag_or_minibatch(name: Name, value: Any) -> bool | str:
    """True, False or "minibatch"."""
    if isinstance(value, str) and value == "minibatch":
        return "minibatch"
    return bool(flag(name, value))


@described("True, False or 'auto'")
def flag_or_auto(name: Name, value: Any) -> bool | str:
    """True, False or "auto"."""
    if isinstance(value, str) and value == "auto":
        return value
    if not isinstance(value, bool | np.bool_):
        raise SettingsError(out_of_range(name, "be True, False or 'auto'", value))
    return bool(value)


@described("a number of transitions, a share of the pool between 0 and 1, or a function that gives either")
def window(name: Name, value: Any) -> Any:
    """A number of transitions, a share of the pool between 0 and 1, or a function that is asked for either."""
    if callable(value):
        return value
    if not _is_number(value):
        raise SettingsError(out_of_range(name, "be a number of transitions, a share of the pool or a function", value))
    if isinstance(value, numbers.Integral) or (value > 1 and float(value).is_integer()):
        return Count()(name, value)
    if not 0.0 < value < 1.0:
        raise SettingsError(
            "{} is a share and must lie between 0 and 1; a number of transitions is a whole number",
            as_setting(name).at(value),
        )
    return float(value)


@described("a number of transitions, or a function that gives it")
def count_or_function(name: Name, value: Any) -> Any:
    """A number of transitions, or a function that is asked for it."""
    return value if callable(value) else Count()(name, value)


@described("a device such as 'cpu' or 'cuda:0'")
def device(name: Name, value: Any) -> str:
    """A device by its name, or as an object of the framework's own."""
    if not isinstance(value, str) and type(value).__name__ != "device":
        raise SettingsError(out_of_range(name, "be a name such as 'cpu' or 'cuda:0'", value))
    return str(value)


@described("the name of a file")
def file_name(name: Name, value: Any) -> Any:
    """The name of a file."""
    if not isinstance(value, str | os.PathLike):
        raise SettingsError(out_of_range(name, "be the name of a file", value))
    return value


@described("a list of whole numbers, each at least 1")
def widths(name: Name, value: Any) -> tuple[int, ...]:
    """Widths of layers."""
    if isinstance(value, str) or not isinstance(value, Iterable):
        raise SettingsError(out_of_range(name, "be a list of whole numbers such as [64, 64]", value))
    return tuple(Count()(name, one) for one in value)


@described("a whole number, at least 1, or a list of them")
def width_or_widths(name: Name, value: Any) -> int | tuple[int, ...]:
    """The width of layers, or that of each of them."""
    return widths(name, value) if isinstance(value, Iterable) else Count()(name, value)


SHARE = Number(0.0, 1.0)
SHARE_ABOVE_0 = Number(0.0, 1.0, above=True)
SHARE_BELOW_1 = Number(0.0, 1.0, below=True)
POSITIVE = Number(0.0, above=True)
NOT_NEGATIVE = Number(0.0)
MULTIPLIED_BY = OneOf(("auto", "mkl", "onednn"))
# Of arguments of methods, and of options, that are no settings.
KINDS: dict[str, Kind] = {
    **dict.fromkeys(("num_episodes", "max_steps", "min_exp_per_proc", "save_freq", "max_save_files"), Count()),
    "seed": Count(0),
    "save_data": flag,
    "jit_compile": flag_or_auto,
    "memory_mb": Number(0.0, above=True),
    "safety_factor": Number(0.0, 1.0, above=True, hint=" (the share of memory_mb that is used)"),
    "path": file_name,
}


def checked(**arguments: Any) -> dict[str, Any]:
    """The arguments, each as its kind gives it; None, and what has no kind, as it is.

    Raises:
        SettingsError: Naming the first value of another kind or out of range.
    """
    return {
        name: value if value is None or name not in KINDS else KINDS[name](name, value)
        for name, value in arguments.items()
    }


def refuse_given(values: Mapping[str, Any], names: Iterable[str], reason: str) -> None:
    """Refuses the first of these names that has a value (SettingsError); None and False are none."""
    for name in names:
        if values.get(name) is not None and values[name] is not False:
            raise SettingsError(f"{name}={values[name]} {reason}")


def refuse_unknown(door: str, arguments: Collection[str], known: Collection[str]) -> None:
    """Refuses names that a method does not take.

    Args:
        door: The method's name.
        arguments: The names that were typed.
        known: Those that it takes.

    Raises:
        SettingsError: Naming the first one, and the nearest that there is.
    """
    for name in arguments:
        if name not in known:
            raise SettingsError(f"{door}() has no argument {name!r}; {_instead(name, known)}")


def _instead(name: str, known: Collection[str]) -> str:
    if name in ELSEWHERE:
        return ELSEWHERE[name]
    other = OTHER_NAMES.get(name)
    if other in known:
        return f"here it is {other}"
    near = nearest(name, known, 1)
    return f"did you mean {near[0]}?" if near else f"it takes {', '.join(known) or 'none'}"


# What older manuals and other libraries call the same things.
OTHER_NAMES = {
    "hidden_dim": "hidden_size",
    "buffer_size": "pool_size",
    "capacity": "pool_size",
    "batch_size": "batch",
    "global_batch_size": "batch",
    "n_steps": "rollout_steps",
    "n_epochs": "num_epochs",
    "n_envs": "num_envs",
    "target_update_interval": "update_batches",
    "timesteps": "total_steps",
    "total_timesteps": "total_steps",
    "callback": "callbacks",
    "n_eval_episodes": "num_episodes",
    "file": "path",
    "filename": "path",
    "file_name": "path",
    "filepath": "path",
}
# What is said in another place here, and where.
ELSEWHERE = {
    "epsilon": "epsilon belongs to the policy: EpsGreedyQPolicy(eps=...)",
    "eps": "eps belongs to the policy: EpsGreedyQPolicy(eps=...)",
    "shuffle": "minibatches are drawn at random always; leave it out",
    "learning_rate": "the learning rate is the optimizer's: Adam(..., 1e-3)",
    "lr": "the learning rate is the optimizer's: Adam(..., 1e-3)",
    "train_loss": "it is for Keras agents; train() of PyTorch agents begins with the optimizer",
    "window_size_func": "it is a method or attribute of the agent: agent.window_size_func = lambda p: 1000",
    "window_size_fn": "it is a method or attribute of the agent: agent.window_size_fn = lambda p: 1000",
    "strategy": "train() takes its gradient steps alone: distributed_training(optimizer, strategy, ...) shares them",
    "replicas": "train() takes its gradient steps alone: distributed_training(..., replicas=2) shares them",
}


def checked_arguments(**kinds: Kind) -> Callable[[Callable[_P, _R]], Callable[_P, _R]]:
    """Has a method refuse keywords it does not take and values of the wrong kind, in words.

    Args:
        **kinds: By parameter, where the table has another kind or none under its name.
    """

    def decorated(method: Callable[_P, _R]) -> Callable[_P, _R]:
        signature = inspect.signature(method)
        parameters = list(signature.parameters.values())[1:]
        known = [one.name for one in parameters if one.kind is not one.VAR_KEYWORD]
        is_open = len(known) < len(parameters)  # what further ones it takes, it says itself

        @functools.wraps(method)
        def told(*arguments: _P.args, **keywords: _P.kwargs) -> _R:
            if not is_open:
                refuse_unknown(method.__name__, keywords, known)
            try:
                bound = signature.bind(*arguments, **keywords)
            except TypeError as error:
                raise SettingsError(f"{method.__name__}(): {error}") from None
            for name, value in bound.arguments.items():
                kind = kinds.get(name) or KINDS.get(name)
                if kind is not None and not (value is None and signature.parameters[name].default is None):
                    bound.arguments[name] = kind(name, value)
            return method(*bound.args, **bound.kwargs)

        return told

    return decorated
