"""An executor that begins to import a framework while its command is still being checked.

A fork server takes seconds for that, and what a study reads and checks before its first trial takes one more. So a
command begins with the executor of its configuration, once that is sound; `make_executor` hands it out. An executor
that nobody asks for, as the command is refused, is closed.
"""

import os
import sys
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from tuner.executors.base import Executor
from tuner.executors.local import LocalExecutor
from tuner.runs.build import build_node


@dataclass
class _Begun:
    """An executor, and all that it depends on.

    Attributes:
        executor: Nobody has asked for it yet.
        node: The choice that it was made of.
        surroundings: Where Python looks for modules, and the environment variables.
    """

    executor: LocalExecutor
    node: Mapping[str, Any]
    surroundings: tuple[list[str], dict[str, str]]


_HYDRAS = "HYDRA_"  # variables that Hydra sets while it runs a job; trials get them, too

_begun: list[_Begun] = []


def begin(node: Mapping[str, Any]) -> None:
    """Starts the executor of a choice of the group, if it is one that has something to import."""
    if _begun or node.get("_target_") != f"{LocalExecutor.__module__}.{LocalExecutor.__qualname__}":
        return
    executor = build_node("executor", node)
    assert isinstance(executor, LocalExecutor)
    _begun.append(_Begun(executor, node, _surroundings()))
    executor.warm_up()


def taken(node: Mapping[str, Any]) -> Executor | None:
    """The executor of a choice, if it was begun and nothing has changed since; from now on it is the caller's."""
    if not _begun or (_begun[0].node, _begun[0].surroundings) != (node, _surroundings()):
        return None
    return _begun.pop().executor


def end() -> None:
    """Closes an executor that nobody has asked for."""
    while _begun:
        _begun.pop().executor.close()


def _surroundings() -> tuple[list[str], dict[str, str]]:
    return list(sys.path), {name: value for name, value in os.environ.items() if not name.startswith(_HYDRAS)}
