"""The private names of Stable-Baselines3 that are used, and why there is no public way."""

import sys
from importlib import import_module
from typing import Any, cast

_WRITER = "torch.utils.tensorboard"


def import_quickly(package: str) -> Any:
    """Imports one of these libraries without TensorFlow.

    Its logger imports TensorBoard's writer where it is installed, and that imports TensorFlow: three seconds in every
    trial, for files that nobody asked for. Without the writer it goes on.
    """
    before = sys.modules.get(_WRITER)
    if before is None:
        cast(dict[str, Any], sys.modules)[_WRITER] = None  # an import of it is an ImportError
    try:
        return import_module(package)
    finally:
        if before is None:
            sys.modules.pop(_WRITER, None)


VARIABLES = ("log_ent_coef", "ent_coef_tensor")
"""Tensors beside the networks (SAC, TQC, CrossQ); `get_parameters()` leaves them out, `save()` writes a pickle."""


def variables_of(model: Any) -> dict[str, Any]:
    """Tensors that are learned or held beside the networks, as the temperature of SAC."""
    return {name: tensor for name in VARIABLES if (tensor := getattr(model, name, None)) is not None}


COUNTERS = ("num_timesteps", "_n_updates", "_episode_num", "_n_calls", "_current_progress_remaining")
"""What a model has counted: there is no public name for the last four, and without them schedules begin anew."""


def normaliser_of(model: Any) -> Any:
    """The VecNormalize of a model, or None; `get_vec_normalize_env()` is public."""
    return model.get_vec_normalize_env()
