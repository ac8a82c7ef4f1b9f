"""The state that Optuna's CMA-ES sampler keeps in a storage, read without running anything.

Optuna writes it as a pickle, and a storage may come from anybody. So only the few classes are let in that such a state
is made of.
"""

import io
import pickle
from typing import Any, Final

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


def load_state(content: bytes) -> Any:
    """The optimizer in a state.

    Raises:
        UserError: The state names anything else.
    """
    return CarefulUnpickler(io.BytesIO(content)).load()
