"""Functions and constructors that take the fields of a dataclass of settings as arguments of their own."""

import functools
import inspect
from collections.abc import Callable
from typing import Any, Concatenate, ParamSpec, Protocol, TypeVar, overload

from note_rl.support.setting_fields import fields_of, with_texts

_P = ParamSpec("_P")
_S = TypeVar("_S", covariant=True)
_A = TypeVar("_A")
_B = TypeVar("_B")
_C = TypeVar("_C")
_R = TypeVar("_R")


class _Taking(Protocol[_P, _S]):
    """A function that is called with the arguments before the settings, and the fields of these."""

    @overload
    def __call__(self, function: Callable[[_A, _S], _R], /) -> Callable[Concatenate[_A, _P], _R]: ...
    @overload
    def __call__(self, function: Callable[[_A, _B, _S], _R], /) -> Callable[Concatenate[_A, _B, _P], _R]: ...
    @overload
    def __call__(self, function: Callable[[_A, _B, _C, _S], _R], /) -> Callable[Concatenate[_A, _B, _C, _P], _R]: ...


def taking(settings: Callable[_P, _S]) -> _Taking[_P, _S]:
    """Gives a function the fields of a settings dataclass as arguments, in place of its last one.

        @taking(AdamSettings)
        def adam(parameters, settings): ...  # called as adam(parameters, learning_rate=1e-3)

    Args:
        settings: The class. It checks the values.
    """

    def decorated(function: Callable[..., Any]) -> Callable[..., Any]:
        *own, last = inspect.signature(function).parameters.values()

        @functools.wraps(function)
        def called(*arguments: Any, **keywords: Any) -> Any:
            by_name = {one.name: keywords.pop(one.name) for one in own if one.name in keywords}
            num_own = len(own) - len(by_name)
            by_name[last.name] = settings(*arguments[num_own:], **keywords)
            return function(*arguments[:num_own], **by_name)

        fields = inspect.signature(settings).parameters.values()
        called.__signature__ = inspect.Signature([*own, *fields])  # type: ignore[attr-defined]
        del called.__wrapped__
        if function.__doc__ is not None:
            called.__doc__ = with_texts(function.__doc__, "Args", fields_of(settings))  # type: ignore[arg-type]
        return called

    return decorated
