"""The functions that users give to make networks: each call has to make another one."""

from collections.abc import Callable
from typing import Any

from note_rl.errors import SettingsError

MAKERS = ("network", "critic_network")


def refuse_the_same_again(makers: Any) -> None:
    """Has what makes the networks of an agent refuse to return one that it has returned before.

    An agent would take the same object for its network and its target, and for all of its critics.

    Args:
        makers: Holds the functions under the names of `MAKERS`; those that are not None are replaced.
    """
    made: list[Any] = []
    for name in MAKERS:
        if getattr(makers, name, None) is not None:
            setattr(makers, name, _anew(name, getattr(makers, name), made))


def _anew(name: str, make: Callable[..., Any], made: list[Any]) -> Callable[..., Any]:
    def network(*arguments: Any, **keywords: Any) -> Any:
        one = make(*arguments, **keywords)
        if any(one is other for other in made):
            raise SettingsError(
                f"{name} has to make another network in each call, and returned the same {type(one).__name__} twice: "
                "make it inside of the function"
            )
        made.append(one)
        return one

    return network
