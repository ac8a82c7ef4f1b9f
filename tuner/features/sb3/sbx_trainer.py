"""A run of an algorithm of SBX, which is Stable-Baselines3 with networks in JAX."""

from collections.abc import Sequence
from typing import Any, Final

from tuner.errors import UserError
from tuner.features.sb3.sb3_trainer import Sb3
from tuner.features.sb3.sbx_state import import_sbx

_FUNCTIONS: Final = {"LeakyReLU": "leaky_relu"}
"""Activation functions whose name in Flax is not the lower-case one of PyTorch."""
_LAYERS_OF_DQN: Final = 2


class Sbx(Sb3):
    """An algorithm of SBX in the place of an agent (`agent.library=sbx`); all else is as with Stable-Baselines3."""

    library = "sbx"

    def _check(self) -> None:
        super()._check()
        sizes = self._policy_kwargs.get("net_arch")
        has_two = isinstance(sizes, Sequence) and len(sizes) == _LAYERS_OF_DQN and len(set(sizes)) == 1
        if self._kind.name == "DQN" and sizes is not None and not has_two:
            raise UserError(
                f"agent.net_arch={sizes}: DQN of sbx has {_LAYERS_OF_DQN} hidden layers of one size; type "
                "agent.net_arch=[64,64] or so"
            )

    def _imported(self) -> Any:
        return import_sbx(self._kind.package, self._device)

    def _activation_function(self, name: str) -> Any:
        from importlib import import_module

        function = _FUNCTIONS.get(name, name.lower())
        flax = import_module("flax.linen")
        return getattr(flax, function) if hasattr(flax, function) else getattr(import_module("jax.nn"), function)
