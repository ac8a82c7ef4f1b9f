"""Making an agent again, elsewhere: from its class and the arguments it was made with."""

import inspect
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from note_rl.support.value_kinds import refuse_unknown


@dataclass(frozen=True)
class Recipe:
    """How an agent was made.

    Attributes:
        kind: Its class.
        arguments: Of the constructor, by position.
        keywords: Of the constructor, by name.
    """

    kind: type[Any]
    arguments: tuple[Any, ...]
    keywords: Mapping[str, Any]

    def make(self) -> Any:
        """Another agent like it, parameters as the constructor leaves them; `build()` is called if it has one."""
        agent = self.kind(*self.arguments, **self.keywords)
        build = getattr(agent, "build", None)
        if build is not None:
            build()
        return agent

    def named_arguments(self) -> dict[str, Any]:
        """The arguments by the names that the constructor gives them."""
        bound = inspect.signature(self.kind).bind(*self.arguments, **self.keywords)
        return dict(bound.arguments)


def plain_attributes(agent: Any) -> dict[str, Any]:
    """Numbers and words among the attributes of an agent's own, which may have changed since it was made."""
    values = {name: value for name, value in vars(agent).items() if name not in agent._bookkeeping}
    plain = {name: value.item() if isinstance(value, np.generic) else value for name, value in values.items()}
    return {name: value for name, value in plain.items() if type(value) in (int, float, bool, str)}


class ConstructorSignature:
    """`__signature__` of classes: the parameters of `__init__`, whichever class in between defines `__new__`.

    Python before 3.11.5 shows those of an inherited `__new__` instead, which takes anything.
    """

    def __get__(self, instance: object | None, owner: type[Any]) -> inspect.Signature:
        if instance is not None:
            raise AttributeError("__signature__")  # an agent that is called has the signature of its __call__
        of_init = inspect.signature(owner.__init__)
        return of_init.replace(parameters=list(of_init.parameters.values())[1:], return_annotation=of_init.empty)


class Rebuildable:
    """Base of what remembers how it was made. The `recipe` holds the very objects that the constructor was given."""

    __signature__ = ConstructorSignature()
    recipe: Recipe

    def __new__(cls, *arguments: Any, **keywords: Any) -> Any:
        """Notes the arguments before any constructor of a subclass runs (SettingsError: one that it does not take)."""
        taken = inspect.signature(cls).parameters
        if not any(one.kind is one.VAR_KEYWORD for one in taken.values()):
            refuse_unknown(cls.__name__, keywords, taken)
        further = super().__new__
        made = further(cls) if further is object.__new__ else further(cls, *arguments, **keywords)
        object.__setattr__(made, "recipe", Recipe(cls, arguments, keywords))  # a keras.Model is not ready for its own
        return made
