"""Translates the arguments of `tuner.tune` in Python into overrides."""

import inspect
import os
import sys
from collections.abc import Callable, Collection, Mapping, Sequence
from pathlib import Path
from types import ModuleType, NoneType
from typing import Any, Final

import numpy as np

from tuner.checking.features import InChecking
from tuner.config.composition import plain_choice
from tuner.config.overrides import to_hydra
from tuner.errors import UserError
from tuner.features import parts
from tuner.support.names import did_you_mean
from tuner.support.plain_text import MAX_NAME, one_line

_ELSEWHERE: Final = {
    "env": "env.id",
    "num_envs": "env.num_envs",
    "total_steps": "training.total_steps",
    "num_points": "evaluation.num_points",
    "num_episodes": "evaluation.num_episodes",
    "num_trials": "study.num_trials",
    "name": "study.name",
    "folder": "study.folder",
    "seed": "seed",
}
"""Arguments that are no argument of the function: where they stand in a configuration."""
_OF_ENVIRONMENTS: Final = ("env", "num_envs")
"""Those that mean nothing to a study of a function, which makes its environments itself: they are its own."""
_OF_BOTH: Final = "seed"
"""The study's, which gives each run of the function another one."""

_ACTIVATION: Final = "activation_fn"
_OF_PYTORCH: Final = "torch.nn."
_NO_DEFAULT = inspect.Parameter.empty
_PAIR: Final = 2


def as_typed(
    trainer: object, space: Mapping[str, Any] | None, settings: Mapping[str, Any], also: Sequence[str]
) -> list[str]:
    """Overrides for a function, or a class of another library, and its search space.

    Args:
        trainer: The function or class that is tuned.
        space: By argument: a pair (low, high), a list of choices, or what a search space may hold.
        settings: Arguments of the function, and of the study.
        also: Further overrides.

    Raises:
        UserError: The function cannot be found by a trial's process, does not take such arguments, or has no value to
            begin with for a parameter; a value is no number, text, list or dictionary.
    """
    if isinstance(also, str):
        raise UserError(f"also={also!r} must be a list of what is typed, such as also=['executor=inline']")
    chosen = next((found for part in parts(InChecking) if (found := part.trainer(trainer))), None)
    if not callable(trainer):
        raise UserError(
            f"tuner.tune takes a function, a class, or a list of what is typed, such as ['agent=ppo'], not "
            f"{one_line(repr(trainer), MAX_NAME)} ({type(trainer).__name__})"
        )
    if not isinstance(getattr(trainer, "__self__", None), NoneType | ModuleType | type):
        name = getattr(trainer, "__qualname__", trainer)
        raise UserError(
            f"{name} is a method of an object, and a trial, a process of its own, does not have that: "
            "give a function of a module that makes the object and calls it"
        )
    if chosen is not None:
        settings = {name: _by_paths(value) for name, value in settings.items()}
    settings = {name: _plain(f"{name}=", value) for name, value in settings.items()}
    of_study = {name for name in settings if name in _ELSEWHERE}
    added = "++"  # so a name that the class does not have is refused by the checks of its library
    if chosen is None:
        chosen, added = ["agent=function", f"agent._target_={_path_of(trainer)}"], "+"
        function = _Function(trainer)
        of_study -= function.own(settings)
        given = {name: value for name, value in settings.items() if name not in of_study}
        own = function.begins(space, given, {word.partition("=")[0].lstrip("+") for word in also})
        fixed: list[str] = []
    else:
        own = {name: value for name, value in settings.items() if name not in of_study}
        fixed = _not_searched(chosen[0], own, also) if space is None else []
    searched = [] if space is None else ["space=none", *(_searched(name, what) for name, what in space.items())]
    return [
        *chosen,
        *(f"{_ELSEWHERE[name]}={to_hydra(value)}" for name, value in settings.items() if name in of_study),
        *(f"{added}agent.{key}={to_hydra(value)}" for key, value in own.items()),
        *searched,
        *fixed,
        *also,
    ]


def _not_searched(agent: str, given: Collection[str], also: Sequence[str]) -> list[str]:
    """Overrides that take the given arguments out of the class's own search space.

    Args:
        agent: What is typed for the class.
        given: Names of arguments.
        also: Further overrides, which may choose another space.
    """
    if any(word.startswith("space=") for word in also):
        return []
    searched = plain_choice("space", agent.partition("=")[2])["agent"]
    typed = {word.lstrip("+~").partition("=")[0] for word in also}
    return [f"~space.agent.{name}" for name in given if name in searched and f"space.agent.{name}" not in typed]


def _by_paths(value: Any) -> Any:
    """A value for a class of another library, with what is typed in the place of each class in it."""
    if isinstance(value, Mapping):
        return {key: _name_of(one) if key == _ACTIVATION else _by_paths(one) for key, one in value.items()}
    return {"_target_": "hydra.utils.get_class", "path": _path_of(value)} if isinstance(value, type) else value


def _name_of(value: Any) -> Any:
    """An activation function of PyTorch as its name, which is how one is chosen."""
    is_of_pytorch = isinstance(value, type) and value.__module__.startswith(_OF_PYTORCH)
    return value.__name__ if is_of_pytorch else _by_paths(value)


def _plain(place: str, value: Any) -> Any:
    """A value as it can be typed: the numbers of NumPy as those of Python, paths as texts.

    Args:
        place: Where it stands, for the message.
        value: The given value.

    Raises:
        UserError: It is an object of another kind.
    """
    if isinstance(value, np.generic | np.ndarray):
        value = value.tolist()
    if value is None or isinstance(value, bool | int | float | str):
        return value
    if isinstance(value, os.PathLike):
        return os.fspath(value)
    if isinstance(value, Mapping) and all(isinstance(key, str) for key in value):
        return {key: _plain(place, one) for key, one in value.items()}
    if isinstance(value, list | tuple):
        return [_plain(place, one) for one in value]
    if place == "env=":
        raise UserError("env= takes the id of an environment as a text, such as env='CartPole-v1'")
    raise UserError(
        f"{place}{one_line(repr(value), MAX_NAME)}: a {type(value).__name__} cannot be handed to a trial, which is a "
        "process of its own; give numbers, texts, lists or dictionaries, and make objects in the function"
    )


def _searched(name: str, what: Any) -> str:
    place = f"space={{{name!r}: "
    if isinstance(what, tuple):
        ends = _plain(place, what)
        if len(ends) != _PAIR or not all(isinstance(end, int | float) for end in ends):
            raise UserError(f"{place}{what}}}: a pair is (low, high), two numbers; write choices as a list")
        what = {"low": ends[0], "high": ends[1]}
    elif isinstance(what, list | np.ndarray):
        what = {"choices": what}
    elif not isinstance(what, Mapping):
        raise UserError(
            f"{place}{what!r}}}: give a pair (low, high), a list of choices, or dict(low=..., high=..., log=True)"
        )
    return f"+space.agent.{name}={to_hydra(_plain(place, what))}"


class _Function:
    """The arguments of a training function.

    Args:
        function: It.
    """

    def __init__(self, function: Callable[..., Any]) -> None:
        self._name = getattr(function, "__name__", "it")
        try:
            found = inspect.signature(function).parameters
        except ValueError as error:  # of a function in C
            raise UserError(
                f"{self._name} has no signature, from which its arguments are read: write a function of a module that "
                "calls it, and give that"
            ) from error
        self._is_open = any(one.kind is one.VAR_KEYWORD for one in found.values())
        single = (inspect.Parameter.POSITIONAL_OR_KEYWORD, inspect.Parameter.KEYWORD_ONLY)
        self._takes = {name: one for name, one in found.items() if one.kind in single}

    def own(self, settings: Mapping[str, Any]) -> set[str]:
        """Those arguments with names of settings of a study that are the function's.

        Raises:
            UserError: One may be either's.
        """
        for name, value in settings.items():
            if name in _ELSEWHERE and name in self._takes and name not in (*_OF_ENVIRONMENTS, _OF_BOTH):
                given = to_hydra(value)
                raise UserError(
                    f"{name}={given} may be an argument of {self._name} or a setting of the study: type it in also=, "
                    f"as '+agent.{name}={given}' for {self._name} or '{_ELSEWHERE[name]}={given}' for the study"
                )
        own = {name for name in _OF_ENVIRONMENTS if name in settings}
        for name in own:
            if name not in self._takes and not self._is_open:
                raise UserError(
                    f"{name}={settings[name]}: a function makes its environment itself, and {self._name} has no "
                    f"argument {name}; leave it out"
                )
        return own

    def begins(self, space: Mapping[str, Any] | None, own: Mapping[str, Any], also: Collection[str]) -> dict[str, Any]:
        """The arguments, and for those that are searched its own defaults: the default configuration.

        Args:
            space: The search space.
            own: The given values of arguments.
            also: The settings that are typed beside them.

        Raises:
            UserError: There is no such argument, or one has no value.
        """
        if not space:
            raise UserError(
                "space is missing: what is searched of the function, as space={'learning_rate': (1e-4, 1e-2)}"
            )
        for name in (*own, *space):
            if name not in self._takes and not self._is_open:
                given = f"{name}=" if name in own else f"space={{{name!r}: ...}}"
                near = did_you_mean(name, [*self._takes, *(_ELSEWHERE if name in own else [])])
                raise UserError(f"{given}: {self._name} has no argument {name}{near}")
        known = dict(own)
        for name in space:
            default = self._takes[name].default if name in self._takes else _NO_DEFAULT
            if name not in known and default is _NO_DEFAULT:
                raise UserError(
                    f"space has {name}, which has no value to compare with: give {name}=... beside space, or give it a "
                    "default in the function"
                )
            if name not in known:
                known[name] = _plain(f"the default of {name}, ", default)
        for name, one in self._takes.items():
            is_given = name in known or name == _OF_BOTH or f"agent.{name}" in also
            if one.default is _NO_DEFAULT and not is_given:
                raise UserError(f"{self._name} needs {name}, which has no default: give {name}=...")
        return known


def _path_of(trainer: Callable[..., Any]) -> str:
    """By which a process of a trial finds it."""
    module, name = getattr(trainer, "__module__", ""), getattr(trainer, "__qualname__", "")
    if not name or "<" in name:
        raise UserError(f"{name or trainer} has no name by which another process finds it: use a function of a module")
    if module == "__main__":
        file = getattr(sys.modules["__main__"], "__file__", None)
        if file is None:
            raise UserError(
                f"{name} was made in a notebook or a prompt, and trials are processes of their own: write it to a "
                "file (in a notebook: %%writefile my_training.py), import it from there, and give that"
            )
        spec = getattr(sys.modules["__main__"], "__spec__", None)  # of `python -m`
        module = Path(file).stem if spec is None else spec.name
    return f"{module}.{name}"
