"""Whether a value may be that of an argument of these classes, by its annotation; nothing of them is imported."""

import math
import re
from collections.abc import Mapping, Sequence
from typing import Any, Final

from note_rl.errors import SettingsError
from note_rl.support.value_kinds import NOT_NEGATIVE, POSITIVE, SHARE, SHARE_ABOVE_0, Count, Kind
from tuner.checking.other_libraries import falls_from
from tuner.config.annotations import written
from tuner.config.vocabulary import about_part
from tuner.errors import UserError

_BOUNDS: Final[Mapping[str, Kind]] = {
    **dict.fromkeys(("gamma", "gae_lambda"), SHARE),
    "tau": SHARE_ABOVE_0,
    **dict.fromkeys(("learning_rate", "clip_range", "clip_range_vf", "delta_std"), POSITIVE),
    **dict.fromkeys(("vf_coef", "target_kl", "target_policy_noise", "target_noise_clip"), NOT_NEGATIVE),
    **dict.fromkeys(("exploration_fraction", "exploration_initial_eps", "exploration_final_eps"), SHARE),
    **dict.fromkeys(("batch_size", "buffer_size", "n_delta", "n_epochs", "n_quantiles", "n_steps"), Count()),
    **dict.fromkeys(("policy_delay", "target_update_interval"), Count()),
    **dict.fromkeys(("learning_starts", "top_quantiles_to_drop_per_net"), Count(0)),
}
"""Ranges of settings, those of the same settings of our own agents. The classes check none of them."""
_TEXTS: Final[Mapping[str, str]] = {"ent_coef": r"auto(_\d*\.?\d+(e-?\d+)?)?", "target_entropy": "auto"}
"""Settings that may be a text, and which."""
_KINDS: Final = {"bool": "true or false", "list": "a list", "tuple": "a list", "dict": "a group {NAME: VALUE}"}
_GRADIENT_STEPS: Final = "gradient_steps"
_AS_MANY_AS_STEPS: Final = -1
_INTERVAL: Final = "tuple[int, str]"
_UNITS: Final = ("step", "episode")
_IN_AN_INTERVAL: Final = 2


def check_value(path: str, value: Any, annotation: str | None, schedules: Sequence[str] = ()) -> Any:
    """The value as the class takes it: 1e3 is a whole number where one is needed, [1,episode] a pair.

    Args:
        path: Of the setting, as typed.
        value: Its value.
        annotation: Of the argument; None: it may be anything.
        schedules: The settings that may fall to 0.

    Raises:
        UserError: It is of another kind, or out of range.
    """
    name, kind = path.rpartition(".")[2], annotation or ""
    if _is_number(value) and not math.isfinite(value):
        raise UserError(f"{path}={value} must be a finite number")
    if _INTERVAL in kind:
        return _interval(path, value)
    names = set(re.findall(r"\w+", kind))
    if isinstance(value, str) and falls_from(value) and name in schedules:
        typed = f"{path}={falls_from(value)} agent.linear=[{name}]"
        raise UserError(f"{path}={value} is a number that falls to 0: here that is typed {typed}")
    if names and kind != "Any" and not _fits(name, value, names):
        raise UserError(f"{path}={written(value)} must be {_wanted(names, name)}")
    if name == _GRADIENT_STEPS and _is_number(value) and value < 1 and value != _AS_MANY_AS_STEPS:
        raise UserError(f"{path}={value} must be at least 1, or -1: as many as there were environment steps")
    if name in _BOUNDS and _is_number(value):
        try:
            _BOUNDS[name](name, value)
        except SettingsError as error:
            raise UserError(about_part("agent", {name: value}, error)) from error
    return _as_annotated(value, names)


def check_sizes(path: str, value: Any, parts: Sequence[str], needs_all: bool) -> Any:
    """Sizes of hidden layers as the policies take them.

    Args:
        path: Of the setting, as typed.
        value: Its value.
        parts: The networks that may have layers of their own; empty: all have the same.
        needs_all: Whether each of them has to be named, if one is.

    Raises:
        UserError: It is something else.
    """
    rule = f"{path}={written(value)} must be a list of whole numbers, such as [64,64]"
    if parts:
        rule += f", or {{{', '.join(f'{part}: [64,64]' for part in parts)}}}"
    if isinstance(value, Mapping):
        if not set(value) <= set(parts) or not value or (needs_all and set(value) != set(parts)):
            raise UserError(rule)
        return {part: _sizes(sizes, rule) for part, sizes in value.items()}
    return _sizes(value, rule)


def _sizes(value: Any, rule: str) -> list[int]:
    is_list = isinstance(value, Sequence) and not isinstance(value, str)
    if not is_list or not all(_is_number(one) and float(one).is_integer() and one >= 1 for one in value):
        raise UserError(rule)
    return [int(one) for one in value]


def _is_number(value: Any) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool)


def _fits(name: str, value: Any, names: set[str]) -> bool:
    """Whether an annotation with these words admits a value; objects of other classes are left to the class."""
    if value is None:
        return bool(names & {"None", "Optional"})
    if isinstance(value, bool):
        return "bool" in names
    if _is_number(value):
        return "float" in names or ("int" in names and float(value).is_integer())
    if isinstance(value, str):
        return "str" in names and re.fullmatch(_TEXTS.get(name, ".*"), value) is not None
    if isinstance(value, Mapping):
        return bool(names & {"dict", "Dict", "Mapping"})
    if isinstance(value, Sequence):
        return bool(names & {"list", "tuple", "Sequence", "List", "Tuple"})
    return not isinstance(value, type) or bool(names & {"type", "Callable"})


def _wanted(names: set[str], name: str) -> str:
    """The kinds of an annotation, in words."""
    if "type" in names:
        return "a class, written {_target_: hydra.utils.get_class, path: package.module.NAME}"
    number = "a number" if "float" in names else "a whole number" if "int" in names and "dict" not in names else ""
    kinds = [number] if number else [words for kind, words in _KINDS.items() if kind in names][:1]
    kinds += ["auto"] if name in _TEXTS else ["a text"] if "str" in names and not kinds else []
    kinds += ["null"] if names & {"None", "Optional"} else []
    return " or ".join(kinds)


def _interval(path: str, value: Any) -> int | tuple[int, str]:
    """Steps, or a number of steps or episodes."""
    if _is_number(value) and float(value).is_integer() and value >= 1:
        return int(value)
    if isinstance(value, Sequence) and not isinstance(value, str) and len(value) == _IN_AN_INTERVAL:
        number, unit = value
        if _is_number(number) and float(number).is_integer() and number >= 1 and unit in _UNITS:
            return int(number), str(unit)
    raise UserError(f"{path}={written(value)} must be a whole number of steps, at least 1, or one such as [1,episode]")


def _as_annotated(value: Any, names: set[str]) -> Any:
    """A number as whole or not as an annotation says; what is none, or may be both, stays."""
    if not _is_number(value) or {"int", "float"} <= names:
        return value
    if "float" in names:
        return float(value)
    return int(value) if "int" in names and float(value).is_integer() else value
