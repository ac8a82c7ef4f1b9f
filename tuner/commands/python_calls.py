"""What `tuner.tune` is called with in Python, as what would be typed."""

import inspect
import sys
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, Final

from tuner.checking.features import InChecking
from tuner.config.overrides import to_hydra
from tuner.errors import UserError
from tuner.features import parts

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

_NO_DEFAULT = inspect.Parameter.empty


def as_typed(
    trainer: Callable[..., Any], space: Mapping[str, Any] | None, settings: Mapping[str, Any], also: Sequence[str]
) -> list[str]:
    """What would be typed for a function, or a class of another library, and its search space.

    Args:
        trainer: What is tuned.
        space: By argument: a pair (low, high), a list of choices, or what a search space may hold.
        settings: Arguments of the function, and of the study.
        also: What is typed beside it.

    Raises:
        UserError: The function cannot be found by a trial's process, or a parameter has no value to begin with.
    """
    chosen = next((found for part in parts(InChecking) if (found := part.trainer(trainer))), None)
    own = {name: value for name, value in settings.items() if name not in _ELSEWHERE}
    general = [f"{_ELSEWHERE[name]}={to_hydra(value)}" for name, value in settings.items() if name in _ELSEWHERE]
    if chosen is None:
        chosen, own = ["agent=function", f"agent._target_={_path_of(trainer)}"], _begins(trainer, space, own)
        if "env" in settings:
            raise UserError(f"env={settings['env']}: a function makes its environment itself; leave env out")
    added = "+" if chosen[0] == "agent=function" else ""
    searched = [] if space is None else ["space=none", *(_searched(name, what) for name, what in space.items())]
    return [
        *chosen,
        *general,
        *(f"{added}agent.{key}={to_hydra(value)}" for key, value in own.items()),
        *searched,
        *also,
    ]


def _searched(name: str, what: Any) -> str:
    if isinstance(what, tuple):
        if len(what) != len(("low", "high")):
            raise UserError(f"space={{{name!r}: {what}}}: a pair is (low, high); write choices as a list")
        what = {"low": what[0], "high": what[1]}
    elif isinstance(what, list):
        what = {"choices": what}
    elif not isinstance(what, Mapping):
        raise UserError(
            f"space={{{name!r}: {what!r}}}: give a pair (low, high), a list of choices, or "
            "dict(low=..., high=..., log=True)"
        )
    return f"+space.agent.{name}={to_hydra(dict(what))}"


def _begins(trainer: Callable[..., Any], space: Mapping[str, Any] | None, own: Mapping[str, Any]) -> dict[str, Any]:
    """The arguments, and for those that are searched the function's own defaults: the default configuration."""
    if not space:
        raise UserError("space is missing: what is searched of the function, as space={'learning_rate': (1e-4, 1e-2)}")
    takes = inspect.signature(trainer).parameters
    known = dict(own)
    for name in space:
        default = takes[name].default if name in takes else _NO_DEFAULT
        if name not in known and default is _NO_DEFAULT:
            raise UserError(
                f"space has {name}, which has no value to compare with: give {name}=... beside space, or give it a "
                "default in the function"
            )
        known.setdefault(name, default)
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
