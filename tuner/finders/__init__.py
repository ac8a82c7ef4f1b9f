"""Finders: a learning rate, an optimizer or an agent, found by small studies of runs in processes of their own.

    from tuner.finders import LRFinder, OptFinder, ParallelFinder

They take agents at hand and leave them as they are. `tuner find` does the same for agents of a configuration. Importing
this package does not import Optuna, which the processes of the runs have no use for; the first use of a finder does.
"""

import importlib
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from tuner.finders.finder_study import FinderPlace
    from tuner.finders.lr import LRFinder
    from tuner.finders.optimizer import OptFinder
    from tuner.finders.parallel import ParallelFinder

__all__ = ["FinderPlace", "LRFinder", "OptFinder", "ParallelFinder"]

_HOMES = {"LRFinder": "lr", "OptFinder": "optimizer", "ParallelFinder": "parallel", "FinderPlace": "finder_study"}


def __getattr__(name: str) -> Any:
    if name in _HOMES:
        return getattr(importlib.import_module(f"tuner.finders.{_HOMES[name]}"), name)
    raise AttributeError(f"module 'tuner.finders' has no attribute {name!r}")
