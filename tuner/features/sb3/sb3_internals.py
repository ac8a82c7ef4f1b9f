"""The private names of Stable-Baselines3 that are used, and why there is no public way."""

import sys
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from importlib import import_module
from typing import Any, cast

import numpy as np

_WRITER = "torch.utils.tensorboard"


def import_quickly(package: str) -> Any:
    """Imports one of these libraries without TensorFlow.

    Its logger imports TensorBoard's writer where it is installed, and that imports TensorFlow: three seconds in every
    trial, for files that nobody asked for. Without the writer it goes on.
    """
    with without(*(() if _WRITER in sys.modules else (_WRITER,))):
        return import_module(package)


@contextmanager
def without(*names: str) -> Iterator[None]:
    """Within the block, modules are as if they were not installed."""
    modules = cast(dict[str, Any], sys.modules)
    before = {name: modules.get(name) for name in names}
    modules.update(dict.fromkeys(names))  # an import of it is an ImportError
    try:
        yield
    finally:
        for name, module in before.items():
            if module is None:
                modules.pop(name, None)
            else:
                modules[name] = module


VARIABLES = ("log_ent_coef", "ent_coef_tensor")
"""Tensors beside the networks (SAC, TQC, CrossQ); `get_parameters()` leaves them out, `save()` writes a pickle."""


def variables_of(model: Any) -> dict[str, Any]:
    """Tensors that are learned or held beside the networks, as the temperature of SAC."""
    return {name: tensor for name in VARIABLES if (tensor := getattr(model, name, None)) is not None}


_PROGRESS = "_current_progress_remaining"
_UPDATE_OF_PROGRESS = "_update_current_progress_remaining"
_BEGINS = "_current_ep_start"
_BEGUN = "_last_episode_starts"
"""Names on which schedules, hindsight and rollouts depend, and which there is no public way to."""

COUNTERS = (
    *("num_timesteps", "_n_updates", "_episode_num", "_n_calls", "exploration_rate", "reset_idx"),
    _PROGRESS,
)
"""Counters of a model: most have no public name, and without them schedules begin anew.

The exploration rate of DQN follows from the others, but only behind a first step, which would be taken without any.
"""


def count_progress_to(model: Any, total_steps: int) -> None:
    """Has the progress of a model be that of the whole run, by which its schedules go.

    ARS divides by the steps of this call of `learn()`, which are fewer where a run goes on; the others do not.
    """

    def update(num_steps: int, of_this_call: int) -> None:
        del of_this_call
        setattr(model, _PROGRESS, 1.0 - num_steps / total_steps)

    setattr(model, _UPDATE_OF_PROGRESS, update)


def normaliser_of(model: Any) -> Any:
    """The VecNormalize of a model, or None; `get_vec_normalize_env()` is public."""
    return model.get_vec_normalize_env()


def episode_starts_of(replay: Any) -> Any:
    """Where the episodes begin that are not at their ends, of HerReplayBuffer; None of other pools."""
    return getattr(replay, _BEGINS, None)


def end_episodes(replay: Any, starts: Any) -> None:
    """Cuts off the episodes that a pool holds the beginning of: its environments begin new ones.

    Without that a return over several steps would lead from one episode into the next.

    Args:
        replay: The pool, filled.
        starts: See `episode_starts_of`.
    """
    if starts is not None:
        setattr(replay, _BEGINS, starts)
        with warnings.catch_warnings(action="ignore"):
            replay.truncate_last_trajectory()
    elif replay.pos > 0 or replay.full:
        last = replay.pos - 1
        if replay.handle_timeout_termination:
            replay.timeouts[last] = np.maximum(replay.timeouts[last], 1.0 - replay.dones[last])  # may be bootstrapped
        replay.dones[last] = True


def goes_on(model: Any) -> Any:
    """Whether the last step of each environment has not ended its episode, [E] of 0 and 1."""
    return 1.0 - np.asarray(getattr(model, _BEGUN), np.float32)
