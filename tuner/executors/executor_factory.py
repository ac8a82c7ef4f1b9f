"""From the configuration group `executor` to what runs trials: the one way, for studies, finders and sweeps."""

from collections.abc import Mapping
from contextlib import AbstractContextManager, closing
from typing import Any

from tuner.errors import UserError
from tuner.executors import head_start
from tuner.executors.base import Executor, Seats
from tuner.runs.build import build_node

_OFFERS = sorted(name for name in vars(Executor) if not name.startswith("_"))


def make_executor(node: Mapping[str, Any], **instead: Any) -> AbstractContextManager[Executor]:
    """The executor that a choice of the group describes; it is closed with the context.

    Args:
        node: The choice, resolved.
        **instead: Arguments in the place of those of the choice, as objects.

    Raises:
        UserError: It cannot be made from these settings, or is no executor.
    """
    if instead:
        make = build_node("executor", {**node, "_partial_": True})
        executor = make(**instead)
    else:
        executor = head_start.taken(node) or build_node("executor", node)
    missing = [name for name in _OFFERS if not hasattr(executor, name)]
    if missing:
        raise UserError(
            f"executor ({node.get('_target_')}) has no {', '.join(missing)}: an executor offers all that "
            "tuner.executors.base.Executor lists"
        )
    return closing(executor)


def warm_up(executor: Executor) -> None:
    """Has an executor that needs seconds to start begin with it now, where its class can."""
    begin = getattr(executor, "warm_up", None)
    if begin is not None:
        begin()


def check_executor(node: Mapping[str, Any]) -> None:
    """Refuses what `make_executor` would refuse, as far as its class has a `check` of arguments. Starts nothing.

    Raises:
        UserError: Says what is wrong with it.
    """
    make = build_node("executor", {**node, "_partial_": True})
    check_arguments = getattr(make.func, "check", None)  # one of the user's own may have none
    if check_arguments is not None:
        check_arguments(*make.args, **make.keywords)


def count_seats(node: Mapping[str, Any]) -> Seats:
    """How many trials the executor of a choice runs at a time, which a class may know better than its settings say."""
    make = build_node("executor", {**node, "_partial_": True})
    count = getattr(make.func, "count_seats", None)
    if count is None:
        return Seats(int(node.get("parallel", 1)))
    seats: Seats = count(*make.args, **make.keywords)
    return seats


def runs_in_this_process(node: Mapping[str, Any]) -> bool:
    """Whether all trials of the executor of a choice share the controller's process."""
    make = build_node("executor", {**node, "_partial_": True})
    return bool(getattr(make.func, "in_this_process", False))
