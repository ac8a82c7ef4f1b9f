"""A run of an algorithm of SBX, which is Stable-Baselines3 with networks in JAX."""

from typing import Any, Final

from tuner.features.sb3.sb3_trainer import Sb3
from tuner.features.sb3.sbx_state import import_sbx

_FUNCTIONS: Final = {"LeakyReLU": "leaky_relu"}
"""Activation functions whose name in Flax is not the lower-case one of PyTorch."""


class Sbx(Sb3):
    """An algorithm of SBX in the place of an agent (`agent.library=sbx`); all else is as with Stable-Baselines3."""

    library = "sbx"

    def _imported(self) -> Any:
        return import_sbx(self._kind.package, self._device)

    def _activation_function(self, name: str) -> Any:
        from importlib import import_module

        return getattr(import_module("flax.linen"), _FUNCTIONS.get(name, name.lower()))
