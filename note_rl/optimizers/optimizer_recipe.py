"""Making an optimizer again, elsewhere and for another agent of the same kind: class, settings, groups."""

import inspect
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from note_rl.errors import SettingsError
from note_rl.learners.base import parameter_groups


@dataclass(frozen=True)
class OptimizerRecipe:
    """How an optimizer is made; its slots are not part of it.

    Attributes:
        name: For people.
        kind: Its class; of a function that makes one from the parameters, the function.
        settings: Of the constructor, by name.
        groups: Of PyTorch: the settings of each group of parameters, and the parameters' places in `agent.param`,
            counted through all groups; None: it is given no parameters.
        is_function: Whether `kind` is a function that makes it from `agent.param`.
    """

    name: str
    kind: Callable[..., Any]
    settings: Mapping[str, Any]
    groups: tuple[tuple[tuple[int, ...], Mapping[str, Any]], ...] | None = None
    is_function: bool = False

    def make(self, param: Any) -> Any:
        """Makes an optimizer like it, fresh, for these parameters (what an agent has as `param`)."""
        if self.is_function:
            return self.kind(param)
        if self.groups is None:
            return self.kind.from_config(dict(self.settings))  # type: ignore[attr-defined]
        flat = [parameter for group in parameter_groups(param) for parameter in group]
        groups = [{**own, "params": [flat[place] for place in places]} for places, own in self.groups]
        return self.kind(groups, **self.settings)


def recipe_of(optimizer: Any, param: Any, name: str | None = None) -> OptimizerRecipe:
    """Returns how an optimizer is made again.

    Args:
        optimizer: Of either framework, or a function that makes one from the parameters.
        param: The parameters of the agent that it is for.
        name: What people call it; None: its class.

    Raises:
        SettingsError: It cannot be made again; says which argument is the reason.
    """
    kind = type(optimizer)
    if hasattr(optimizer, "param_groups"):
        settings = _known(kind, optimizer.defaults, skip=1)
        return OptimizerRecipe(name or kind.__name__, kind, settings, _groups(optimizer, param))
    if hasattr(optimizer, "get_config") and hasattr(kind, "from_config"):
        settings = dict(optimizer.get_config())
        _known(kind, settings)
        return OptimizerRecipe(name or kind.__name__, kind, settings)
    if callable(optimizer):
        called = name or str(getattr(getattr(optimizer, "func", optimizer), "__name__", kind.__name__))
        return OptimizerRecipe(called, optimizer, {}, is_function=True)
    raise SettingsError(f"an optimizer such as Adam, or a function that makes one, is needed; got {optimizer!r}")


def recipes_of(optimizer: Any, param: Any) -> list[OptimizerRecipe]:
    """Returns how one optimizer is made again, or each of a list with one per group of parameters."""
    several: Sequence[Any] = optimizer if isinstance(optimizer, list | tuple) else [optimizer]
    return [recipe_of(member, param) for member in several]


def _known(kind: type[Any], settings: Mapping[str, Any], skip: int = 0) -> dict[str, Any]:
    """Returns those of the settings that the constructor takes."""
    parameters = list(inspect.signature(kind).parameters.values())[skip:]
    for parameter in parameters:
        needed = parameter.default is parameter.empty and parameter.kind not in (
            parameter.VAR_KEYWORD,
            parameter.VAR_POSITIONAL,
        )
        if needed and parameter.name not in settings:
            raise SettingsError(
                f"{kind.__name__} cannot be made again in another process: its argument {parameter.name!r} is not "
                "among the settings that it remembers; give a function that makes it, such as "
                f"lambda param: {kind.__name__}(...)"
            )
    return {parameter.name: settings[parameter.name] for parameter in parameters if parameter.name in settings}


def _groups(optimizer: Any, param: Any) -> tuple[tuple[tuple[int, ...], Mapping[str, Any]], ...]:
    """Returns the groups of a PyTorch optimizer, parameters by their places."""
    flat = [parameter for group in parameter_groups(param) for parameter in group]
    places = {id(parameter): place for place, parameter in enumerate(flat)}
    groups = []
    for group in optimizer.param_groups:
        missing = sum(id(parameter) not in places for parameter in group["params"])
        if missing:
            raise SettingsError(
                f"the {type(optimizer).__name__} holds {missing} parameters that agent.param does not: make it from "
                "the parameters of this agent"
            )
        own = {name: value for name, value in group.items() if name != "params"}
        groups.append((tuple(places[id(parameter)] for parameter in group["params"]), own))
    return tuple(groups)
