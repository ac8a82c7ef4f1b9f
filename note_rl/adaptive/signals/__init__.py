"""Signals of adaptation, one file each: every module of this package is imported, and registers what it defines.

To add one, put a file here, or define it anywhere else and either import that or hand the object to
`Adaptive(signals=[...])` (in YAML: a node with `_target_`):

    @register
    class MeanReward(Signal):
        name = "mean_reward"
        text = "mean reward of the transitions learned from"
        target = 1.0

        def after_update(self, sample, update, view):
            return float(sample.reward.mean())
"""

import importlib
import pkgutil

from note_rl.adaptive.signals.base import Signal, TrainingView
from note_rl.settings.signals import Need, register

__all__ = ["Need", "Signal", "TrainingView", "register"]

for _module in pkgutil.iter_modules(__path__):
    importlib.import_module(f"{__name__}.{_module.name}")
