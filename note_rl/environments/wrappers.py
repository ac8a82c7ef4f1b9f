"""Finding one's own wrapper among those of an environment."""

from typing import Any, TypeVar

import gymnasium

SomeWrapper = TypeVar("SomeWrapper", bound=gymnasium.Wrapper[Any, Any, Any, Any])


def wrapper_of(env: gymnasium.Env[Any, Any], kind: type[SomeWrapper]) -> SomeWrapper | None:
    """The outermost of an environment's wrappers that is of a kind, if there is one."""
    current: Any = env
    while isinstance(current, gymnasium.Wrapper):
        if isinstance(current, kind):
            return current
        current = current.env
    return None
