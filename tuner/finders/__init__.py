"""Finders: a learning rate, an optimizer or an agent, found by small studies of runs in processes of their own.

    from tuner.finders import LRFinder, OptFinder, ParallelFinder

They take agents at hand and leave them as they are. `tuner find` does the same for agents of a configuration.
"""

from tuner.finders.lr import LRFinder
from tuner.finders.optimizer import OptFinder
from tuner.finders.parallel import ParallelFinder
from tuner.finders.study import Workplace

__all__ = ["LRFinder", "OptFinder", "ParallelFinder", "Workplace"]
