"""The saved state of a model of SBX, which uses JAX: the arrays of its networks and optimizers, and its random keys.

JAX is not imported for models of the other libraries.
"""

import os
import sys
import warnings
from collections.abc import Iterator
from importlib import import_module
from typing import Any, Final

import numpy as np

from tuner.errors import UserError
from tuner.features.sb3.sb3_internals import import_quickly, without
from tuner.trial.context import current_trial
from tuner.trial.messages import JsonDict

_KEYS: Final = ("key", "noise_key")
_PREALLOCATE: Final = "XLA_PYTHON_CLIENT_PREALLOCATE"
"""The environment variable for whether JAX takes three quarters of a graphics card when it starts."""
_THREADS: Final = "NPROC"
"""The environment variable for the number of threads of JAX, which does not read `OMP_NUM_THREADS`."""


def import_sbx(package: str, device: str) -> Any:
    """Imports the library, with as many threads as the trial has.

    TensorFlow Probability, which it needs, loads more where TensorFlow is loaded, and fails without tf-keras.

    Args:
        package: Of the algorithms.
        device: cpu: JAX is to leave graphics cards alone, unless it was imported before outside of a trial. Of a card
            it takes what it needs only, as others run there.

    Raises:
        UserError: JAX has no such device, and would use another one without a word.
    """
    os.environ.setdefault(_PREALLOCATE, "false")
    os.environ.setdefault(_THREADS, os.environ.get("OMP_NUM_THREADS", "1"))
    is_of_user = "jax" in sys.modules and current_trial() is None  # in a notebook, where all JAX would move there
    if device == "cpu" and not is_of_user:
        import_module("jax").config.update("jax_platforms", "cpu")
    elif device not in ("cpu", "auto"):
        found = import_module("jax").default_backend()
        if found != "gpu":
            raise UserError(
                f"agent.device={device}: JAX finds no graphics card here, only {found}; type agent.device=cpu"
            )
    with without("tensorflow"), warnings.catch_warnings(action="ignore"):  # of names of JAX that it still uses
        return import_quickly(package)


def is_of_jax(model: Any) -> bool:
    """Whether a model is one of SBX."""
    return type(model).__module__.partition(".")[0] == "sbx"


def arrays_of(model: Any) -> JsonDict:
    """The arrays of all that a model of SBX learns, and its random keys, by where they are."""
    leaves = import_module("jax").tree_util.tree_leaves
    found = {name: [np.asarray(one) for one in leaves(value)] for _, name, value in _learned(model)}
    adaptive = getattr(model, "adaptive_lr", None)
    rate = {} if adaptive is None else {"adaptive_lr": float(adaptive.current_adaptive_lr)}
    return {"arrays": found, **rate}


def put_arrays_back(model: Any, kept: JsonDict) -> None:
    """Gives a new model of the same settings what `arrays_of` has kept."""
    jax = import_module("jax")
    for owner, name, value in list(_learned(model)):
        now, structure = jax.tree_util.tree_flatten(value)
        leaves = [jax.numpy.asarray(one) for one in kept["arrays"][name]]
        if [np.shape(one) for one in now] != [np.shape(one) for one in leaves]:
            raise ValueError(f"{name} has arrays of other shapes")
        setattr(owner, name.rpartition(".")[2], jax.tree_util.tree_unflatten(structure, leaves))
    if "adaptive_lr" in kept:
        model.adaptive_lr.current_adaptive_lr = kept["adaptive_lr"]


def are_finite(model: Any) -> bool:
    """Whether no weight of a model of SBX is infinite or no number."""
    leaves = import_module("jax").tree_util.tree_leaves
    states = [value for _, _, value in _learned(model) if hasattr(value, "params")]
    return all(bool(np.isfinite(np.asarray(one)).all()) for state in states for one in leaves(state.params))


def _learned(model: Any) -> Iterator[tuple[Any, str, Any]]:
    """Yields owner, name and value of each state of a network and each random key."""
    state = import_module("flax.training.train_state").TrainState
    for whose, owner in (("model", model), ("policy", model.policy)):
        for name, value in sorted(vars(owner).items()):
            if isinstance(value, state) or name in _KEYS:
                yield owner, f"{whose}.{name}", value
