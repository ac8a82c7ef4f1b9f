"""The state that Optuna's CMA-ES sampler keeps in a storage, read without running anything.

Optuna writes it as a pickle, and a storage may come from anybody. So only the few classes are let in that such a state
is made of.
"""

import io
import pickle
from collections.abc import Sequence
from typing import Any, Final

from optuna.samplers import CmaEsSampler
from optuna.trial import FrozenTrial

from tuner.errors import UserError

_ARRAYS = ("_reconstruct", "scalar")
_PARTS: Final = frozenset(
    {("numpy", "dtype"), ("numpy", "ndarray")}
    | {(f"numpy.{core}.multiarray", name) for core in ("core", "_core") for name in _ARRAYS}
    | {("cmaes._cma", "CMA"), ("cmaes._cmawm", "CMAwM"), ("cmaes._sepcma", "SepCMA")}
)


class CarefulUnpickler(pickle.Unpickler):
    """Makes arrays and the optimizers of `cmaes`, nothing else."""

    def find_class(self, module: str, name: str) -> Any:
        """The class of that name.

        Raises:
            UserError: It is none of those.
        """
        if (module, name) not in _PARTS:
            raise UserError(
                f"the state of CMA-ES in this storage names {module}.{name}, which is no part of one: somebody has "
                "put it there. Begin another study in a storage of your own"
            )
        return super().find_class(module, name)


def read_carefully(sampler: CmaEsSampler) -> None:
    """Has a sampler read its state with `CarefulUnpickler`."""
    prefix = sampler._attr_key_optimizer

    def restore(completed: Sequence[FrozenTrial]) -> Any:
        """As `CmaEsSampler._restore_optimizer`: what the newest trial with a state holds."""
        for trial in reversed(completed):
            parts = {key: value for key, value in trial.system_attrs.items() if key.startswith(prefix)}
            if parts:
                content = bytes.fromhex(sampler._concat_optimizer_attrs(parts))
                return CarefulUnpickler(io.BytesIO(content)).load()
        return None

    setattr(sampler, "_restore_optimizer", restore)  # noqa: B010 - a method is replaced
