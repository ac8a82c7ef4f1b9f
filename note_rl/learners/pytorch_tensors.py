"""The tensors that an agent and its optimizers consist of, by name."""

from collections.abc import Iterator, Mapping
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

from note_rl.types import Array


def named_tensors(agent: Any) -> Iterator[tuple[str, Tensor]]:
    """Parameters and buffers of everything the agent holds, under the names of its attributes."""
    for name, value in vars(agent).items():
        if name != "param":
            yield from _named_tensors_in(name, value)


def _named_tensors_in(name: str, value: Any) -> Iterator[tuple[str, Tensor]]:
    if isinstance(value, nn.Module):
        for key, tensor in value.state_dict(keep_vars=True).items():
            yield f"{name}/{key}", tensor
    elif isinstance(value, Tensor):
        yield name, value
    elif isinstance(value, Mapping):
        for key, one in value.items():
            yield from _named_tensors_in(f"{name}/{key}", one)
    elif isinstance(value, (list, tuple)):
        for index, one in enumerate(value):
            yield from _named_tensors_in(f"{name}/{index}", one)


def optimizer_slots(optimizer: torch.optim.Optimizer) -> Iterator[tuple[str, Tensor]]:
    """What the optimizer remembers of each parameter."""
    for index, slots in optimizer.state_dict()["state"].items():
        for name, value in slots.items():
            yield f"{index}/{name}", torch.as_tensor(value)


def load_slots(optimizer: torch.optim.Optimizer, state: Mapping[str, Array], prefix: str) -> None:
    """Slots from the state; the hyperparameters stay those of the optimizer at hand."""
    slots: dict[int, dict[str, Tensor]] = {}
    for name, values in state.items():
        if name.startswith(prefix):
            index, _, slot = name.removeprefix(prefix).partition("/")
            slots.setdefault(int(index), {})[slot] = torch.from_numpy(np.array(values))
    optimizer.load_state_dict({"state": slots, "param_groups": optimizer.state_dict()["param_groups"]})


def as_array(tensor: Tensor) -> Array:
    """A copy in NumPy."""
    values: Array = tensor.detach().cpu().numpy().copy()
    return values
