"""Saved state of a model: arrays and numbers, where Stable-Baselines3 itself writes pickles.

So a folder of somebody else runs no code when a run goes on from it.
"""

import random
from collections.abc import Mapping
from typing import Any

import numpy as np

from tuner.errors import UserError
from tuner.features.sb3.sb3_internals import (
    COUNTERS,
    end_episodes,
    episode_starts_of,
    goes_on,
    normaliser_of,
    variables_of,
)
from tuner.features.sb3.sbx_state import are_finite, arrays_of, is_of_jax, put_arrays_back
from tuner.trial.messages import JsonDict

_REPLAY = ("pos", "full")
_MOMENTS = ("obs_rms", "ret_rms")
_WORKED_OUT = ("advantages", "returns")
"""Of a rollout once it is whole."""


def state_of(model: Any, values: Any = None) -> JsonDict:
    """Networks, optimizers, counters, the replay pool or rollout and the normaliser of a model, and random numbers.

    Args:
        model: Of Stable-Baselines3, at a step of its training.
        values: Of the observations that it has acted upon last, where it learns from rollouts.
    """
    state: JsonDict = {
        "parameters": model.get_parameters(),
        "variables": variables_of(model),
        "counters": {name: getattr(model, name) for name in COUNTERS if hasattr(model, name)},
        "random": random_numbers(),
    }
    if is_of_jax(model):
        state["jax"] = arrays_of(model)
    replay = getattr(model, "replay_buffer", None)
    if replay is not None:
        filled = replay.buffer_size if replay.full else replay.pos
        state["replay"] = {
            **{name: getattr(replay, name) for name in _REPLAY},
            "arrays": {name: _first(array, filled) for name, array in _arrays(replay).items()},
            "begins": episode_starts_of(replay),
        }
    rollout = getattr(model, "rollout_buffer", None)
    if rollout is not None and values is not None and rollout.pos > 0:
        behind = np.asarray(values.cpu() if hasattr(values, "cpu") else values).flatten()
        state["rollout"] = _rows_of(rollout, behind * goes_on(model))
    normaliser = normaliser_of(model)
    if normaliser is not None:
        state["normaliser"] = {
            name: _moments(getattr(normaliser, name)) for name in _MOMENTS if hasattr(normaliser, name)
        }
    return state


def _rows_of(rollout: Any, values: Any) -> JsonDict:
    """Collected rows of a rollout, with the value of what follows added to the last reward: new episodes begin there.

    Args:
        rollout: It.
        values: Of what comes behind it, [E]; 0 where an episode has ended.
    """
    rows = {name: _first(array, rollout.pos) for name, array in _arrays(rollout).items() if name not in _WORKED_OUT}
    rows["rewards"] = rows["rewards"].copy()
    rows["rewards"][-1] += rollout.gamma * values
    return {"pos": rollout.pos, "rows": rows}


def put_rollout_back(rollout: Any, kept: JsonDict) -> None:
    """Gives a rollout that begins the rows that were collected of it before."""
    for name, rows in kept["rows"].items():
        _fill(getattr(rollout, name), rows)
    rollout.pos = kept["pos"]


def put_back(model: Any, state: JsonDict) -> None:
    """Gives a new model of the same settings what `state_of` has kept, but for random numbers.

    Raises:
        UserError: It does not fit the model: it is damaged, or of other settings.
    """
    try:
        _put_back(model, state)
    except (KeyError, IndexError, TypeError, ValueError, AttributeError, RuntimeError) as error:
        raise UserError(f"the saved state of the model is damaged, or not of these settings: {error!r}") from error


def _put_back(model: Any, state: JsonDict) -> None:
    model.set_parameters(state["parameters"], device=model.device)
    if "jax" in state:
        put_arrays_back(model, state["jax"])
    variables = variables_of(model)
    for name, kept in state["variables"].items():
        variables[name].data.copy_(kept.to(variables[name].device))
    for name in COUNTERS:
        if name in state["counters"]:
            setattr(model, name, state["counters"][name])
    if "replay" in state:
        replay = model.replay_buffer
        for name in _REPLAY:
            setattr(replay, name, state["replay"][name])
        for name, kept in state["replay"]["arrays"].items():
            _fill(getattr(replay, name), kept)
        end_episodes(replay, state["replay"].get("begins"))
    for name, kept in state.get("normaliser", {}).items():
        _set_moments(getattr(normaliser_of(model), name), kept)
    if hasattr(model, "weights"):  # of ARS, which moves them in place of its policy
        model.weights = _vector(model)


def is_finite(model: Any) -> bool:
    """Whether no weight of a model is infinite or no number."""
    import torch

    if is_of_jax(model):
        return are_finite(model)
    return all(bool(torch.isfinite(one).all()) for one in model.policy.parameters())


def has_diverged(model: Any, error: Exception) -> bool:
    """Whether an error of a model is due to numbers that are no longer finite."""
    refused = isinstance(error, ValueError) and "but found invalid values" in str(error)  # of a distribution of PyTorch
    return refused or not is_finite(model)


def random_numbers() -> JsonDict:
    """The state of all random numbers that training draws from."""
    import torch

    kind, keys, *rest = np.random.get_state()  # noqa: NPY002 - what Stable-Baselines3 draws from
    version, words, gauss = random.getstate()
    found: JsonDict = {"torch": torch.get_rng_state(), "numpy": [kind, keys, *rest]}
    found["python"] = [version, np.asarray(words, np.uint32), gauss]
    if torch.cuda.is_available():
        found["cuda"] = list(torch.cuda.get_rng_state_all())
    return found


def set_random_numbers(state: JsonDict) -> None:
    """Puts them back."""
    import torch

    torch.set_rng_state(state["torch"])
    np.random.set_state(tuple(state["numpy"]))  # noqa: NPY002
    version, words, gauss = state["python"]
    random.setstate((version, tuple(int(word) for word in words), gauss))
    if "cuda" in state and len(state["cuda"]) == torch.cuda.device_count():
        torch.cuda.set_rng_state_all(state["cuda"])


def _arrays(replay: Any) -> dict[str, Any]:
    """The arrays of a pool, those of observations that are dictionaries among them."""
    return {name: value for name, value in vars(replay).items() if _is_column(value, replay.buffer_size)}


def _is_column(value: Any, size: int) -> bool:
    if isinstance(value, Mapping):
        return bool(value) and all(_is_column(one, size) for one in value.values())
    is_array = isinstance(value, np.ndarray) and value.ndim > 0 and value.dtype.kind in "biuf"  # no dictionaries
    return is_array and len(value) == size


def _first(array: Any, number: int) -> Any:
    if isinstance(array, Mapping):
        return {key: one[:number] for key, one in array.items()}
    return array[:number]


def _fill(array: Any, kept: Any) -> None:
    if isinstance(array, Mapping):
        for key, one in kept.items():
            array[key][: len(one)] = one
    else:
        array[: len(kept)] = kept


def _moments(found: Any) -> JsonDict:
    if isinstance(found, Mapping):
        return {"of": {key: _moments(one) for key, one in found.items()}}
    return {"mean": np.asarray(found.mean), "var": np.asarray(found.var), "count": float(found.count)}


def _set_moments(found: Any, kept: JsonDict) -> None:
    if "of" in kept:
        for key, one in kept["of"].items():
            _set_moments(found[key], one)
    else:
        found.mean, found.var, found.count = kept["mean"], kept["var"], kept["count"]


def _vector(model: Any) -> Any:
    import torch

    return torch.nn.utils.parameters_to_vector(model.policy.parameters()).detach().clone()
