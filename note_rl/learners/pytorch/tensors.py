"""The tensors that an agent and its optimizers consist of, by name."""

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

from note_rl.learners.pytorch.torch_internals import compiler_left_out, foreach_add_
from note_rl.types import Array, FloatArray

_RANDOM = "random/torch"
_HOST = torch.device("cpu")
_TOGETHER = 2**17  # bytes; larger ones gain nothing by sharing a transfer
_ALIGNED = 256  # bytes, as memory of a GPU itself is


def named_tensors(agent: Any) -> Iterator[tuple[str, Tensor]]:
    """Yields the parameters and buffers of everything the agent holds, under the names of its attributes."""
    for name, value in vars(agent).items():
        if name != "param":
            yield from _named_tensors_in(name, value)


def arrays_of(agent: Any) -> dict[str, Array]:
    """Returns the values of `named_tensors`, copied."""
    return {name: as_array(tensor) for name, tensor in named_tensors(agent)}


def _named_tensors_in(name: str, value: Any) -> Iterator[tuple[str, Tensor]]:
    if isinstance(value, nn.Module):
        for key, tensor in value.state_dict(keep_vars=True).items():
            yield f"{name}/{key}", tensor
    elif isinstance(value, Tensor):
        yield name, value
    elif isinstance(value, Mapping):
        for key, item in value.items():
            yield from _named_tensors_in(f"{name}/{key}", item)
    elif isinstance(value, (list, tuple)):
        for index, item in enumerate(value):
            yield from _named_tensors_in(f"{name}/{index}", item)


def optimizer_slots(optimizer: torch.optim.Optimizer) -> Iterator[tuple[str, Tensor]]:
    """Yields what the optimizer remembers of each parameter."""
    for index, slots in _state_dict(optimizer)["state"].items():
        for name, value in slots.items():
            yield f"{index}/{name}", torch.as_tensor(value)


def load_slots(optimizer: torch.optim.Optimizer, state: Mapping[str, Array], prefix: str) -> None:
    """Loads slots from the state; the hyperparameters stay those of the optimizer at hand."""
    slots: dict[int, dict[str, Tensor]] = {}
    for name, values in state.items():
        if name.startswith(prefix):
            index, _, slot = name.removeprefix(prefix).partition("/")
            slots.setdefault(int(index), {})[slot] = torch.from_numpy(np.array(values))
    with compiler_left_out():
        optimizer.load_state_dict({"state": slots, "param_groups": optimizer.state_dict()["param_groups"]})


def _state_dict(optimizer: torch.optim.Optimizer) -> dict[str, Any]:
    with compiler_left_out():
        return optimizer.state_dict()


def random_state(device: torch.device) -> dict[str, Array]:
    """Returns the state of the generators that torch draws from, of which there is one per device."""
    state = {f"{_RANDOM}/cpu": as_array(torch.get_rng_state())}
    if device.type == "cuda":
        state[f"{_RANDOM}/cuda"] = as_array(torch.cuda.get_rng_state(device))
    return state


def set_random_state(device: torch.device, state: Mapping[str, Array]) -> None:
    """Takes over what there is of a random state."""
    if f"{_RANDOM}/cpu" in state:
        torch.set_rng_state(torch.from_numpy(np.array(state[f"{_RANDOM}/cpu"])))
    if f"{_RANDOM}/cuda" in state and device.type == "cuda":
        torch.cuda.set_rng_state(torch.from_numpy(np.array(state[f"{_RANDOM}/cuda"])), device)


def stacked(rows: Sequence[Tensor | None]) -> FloatArray | None:
    """Returns rows [B] as [K, B] in float32; None where some are missing."""
    present = [row.detach() for row in rows if row is not None]
    if len(present) < len(rows):
        return None
    return as_array(present[0].float())[None] if len(present) == 1 else as_array(torch.stack(present).float())


def gradients_of(loss: Tensor, parameters: Sequence[Tensor], keep: bool = False) -> list[Tensor | None]:
    """Returns the gradient of a loss along each parameter; None where it has none, or is frozen (requires_grad_).

    Args:
        loss: [].
        parameters: Those that are frozen stay as they are.
        keep: Whether the graph is still needed afterwards.
    """
    learning = [parameter for parameter in parameters if parameter.requires_grad]
    if not learning:
        return [None] * len(parameters)
    found = iter(torch.autograd.grad(loss, learning, retain_graph=keep, allow_unused=True))
    return [next(found) if parameter.requires_grad else None for parameter in parameters]


def as_vector(gradients: Sequence[Tensor | None], parameters: Sequence[Tensor]) -> Tensor:
    """Returns all numbers in a row; 0 where there is no gradient."""
    complete = [
        torch.zeros_like(parameter) if gradient is None else gradient
        for gradient, parameter in zip(gradients, parameters, strict=True)
    ]
    dense = [gradient.to_dense() if gradient.is_sparse else gradient for gradient in complete]
    return torch.cat([gradient.reshape(-1) for gradient in dense])


def as_tensor(values: Array, device: torch.device) -> Tensor:
    """Returns an array as a tensor; integers of 32 bits become such of 64, which torch takes for indices."""
    if values.dtype == np.int32:
        values = values.astype(np.int64)
    tensor = torch.from_numpy(values if values.flags.c_contiguous else np.ascontiguousarray(values))
    return tensor if device.type == "cpu" else tensor.to(device)


def as_own_tensor(values: Array, device: torch.device) -> Tensor:
    """Returns a copy of an array as a tensor, in which a user's method may write: `s /= 255`; see `as_tensor`."""
    return as_tensor(np.array(values) if device.type == "cpu" else values, device)


def as_rows(values: Array, device: torch.device) -> Sequence[Tensor]:
    """Returns the minibatches [B, ...] of an array [K, B, ...] as tensors; see `as_tensor`."""
    return (as_tensor(values[0], device),) if len(values) == 1 else as_tensor(values, device).unbind(0)


def columns_on(device: torch.device, columns: Mapping[str, Array]) -> dict[str, Sequence[Tensor]]:
    """Returns the minibatches of columns [K, B, ...] as tensors; see `as_rows`. Small columns reach a GPU together."""
    if device.type == "cpu":
        return {name: as_rows(values, device) for name, values in columns.items()}
    small = {name: values for name, values in columns.items() if values.nbytes <= _TOGETHER}
    together = in_one_transfer([as_tensor(values, _HOST) for values in small.values()], device)
    moved = dict(zip(small, together, strict=True))
    return {
        name: moved[name].unbind(0) if name in moved else as_rows(values, device) for name, values in columns.items()
    }


def in_one_transfer(tensors: Sequence[Tensor], device: torch.device) -> list[Tensor]:
    """Returns tensors of the CPU on another device: a transfer takes as long for a hundred kilobytes as for a few."""
    places, end = [], 0
    for tensor in tensors:
        places.append(end)
        end += -(-tensor.nbytes // _ALIGNED) * _ALIGNED
    packed = torch.empty(end, dtype=torch.uint8)
    for place, tensor in zip(places, tensors, strict=True):
        packed[place : place + tensor.nbytes].copy_(tensor.reshape(-1).view(torch.uint8))
    there = packed.to(device)
    return [
        there[place : place + tensor.nbytes].view(tensor.dtype).view(tensor.shape)
        for place, tensor in zip(places, tensors, strict=True)
    ]


def as_tensors(columns: Mapping[str, Array], device: torch.device) -> dict[str, Tensor]:
    """Returns arrays as tensors, under the same names."""
    return {name: as_tensor(values, device) for name, values in columns.items()}


def as_array(tensor: Tensor) -> Array:
    """Returns a copy in NumPy."""
    values: Array = tensor.detach().cpu().numpy().copy()
    return values


class TensorsOf:
    """The tensors of an agent; see `note_rl.learners.target_networks.Weights`."""

    def __init__(self, agent: Any, groups: Sequence[Sequence[Tensor]]) -> None:
        self._agent = agent
        self._learning = [parameter for group in groups for parameter in group]

    def learning(self) -> list[str]:
        """Returns the names of those that learn."""
        ours = {id(parameter) for parameter in self._learning}
        return [name for name, tensor in named_tensors(self._agent) if id(tensor) in ours]

    def read(self) -> dict[str, Array]:
        """Returns all of them, by name."""
        return arrays_of(self._agent)

    def move(self) -> None:
        """Changes what learns."""
        with torch.no_grad():
            foreach_add_(self._learning, 1.0)
