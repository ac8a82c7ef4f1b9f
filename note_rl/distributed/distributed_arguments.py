"""The arguments of distributed_training() as the manuals print them."""

from collections.abc import Callable
from functools import wraps
from numbers import Integral
from typing import ParamSpec

from note_rl.errors import SettingsError
from note_rl.settings import Budget
from note_rl.types import TrainResult

_P = ParamSpec("_P")


def distributed_budget(episodes: int | None, num_episodes: int | None, total_steps: int | None) -> Budget:
    """Returns how long to train; both names of episodes are the manuals'.

    Raises:
        SettingsError: More than one of them is given.
    """
    if episodes is not None and num_episodes is not None:
        raise SettingsError(f"episodes={episodes} and num_episodes={num_episodes} mean the same; give one of them")
    return Budget(total_steps=total_steps, episodes=num_episodes if episodes is None else episodes)


def global_batch_first(method: Callable[_P, TrainResult]) -> Callable[_P, TrainResult]:
    """Lets distributed_training() be called as older manuals print it, with the batch of all replicas first.

    A whole number in place of the optimizer becomes the keyword `global_batch_size`; what follows moves up.
    """

    @wraps(method)
    def moved_up(*given: _P.args, **named: _P.kwargs) -> TrainResult:
        agent, *others = given
        if not (others and isinstance(others[0], Integral)):
            return method(*given, **named)
        first = others.pop(0)
        if named.get("global_batch_size") is not None:
            raise SettingsError(
                f"distributed_training({first}, ..., global_batch_size={named['global_batch_size']}): the whole number "
                "before the optimizer is the batch of all replicas already; give one of them"
            )
        named["global_batch_size"] = first
        return method(*[agent, *others], **named)  # type: ignore[arg-type]

    return moved_up
