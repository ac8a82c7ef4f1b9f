"""Evaluating losses without leaving a trace: whatever that changes is put back."""

from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from functools import partial
from typing import Any

import torch
from torch import Tensor, nn

from note_rl.learners.kept_contents import PutBack, contents_kept, environment_kept, is_environment
from note_rl.learners.pytorch.modes import networks_of
from note_rl.learners.pytorch.tensors import named_tensors
from note_rl.seeding import shared_random_state

_KEPT = (int, float, bool, str, type(None), Tensor)
_OF_EVERY_LAYER = frozenset(vars(nn.Module()))


@contextmanager
def undisturbed(agent: Any, device: torch.device, among: Sequence[Tensor] | None = None) -> Iterator[list[Tensor]]:
    """Puts back attributes, what they hold, tensors and the random state as they were before the block.

    Args:
        agent: Whose.
        device: Whose random state is put back besides that of the CPU.
        among: The only tensors that may change; None: all may.

    Yields:
        A list that holds, after the block, the tensors that had changed.
    """
    attributes = dict(vars(agent))
    put_back = [*_contents_of(agent), *_numbers_of_layers(agent), shared_random_state()]
    among = [tensor for _, tensor in named_tensors(agent)] if among is None else among
    before = [(tensor, tensor.detach().clone()) for tensor in among]
    changed: list[Tensor] = []
    try:
        with torch.random.fork_rng(devices=[device] if device.type == "cuda" else []):
            yield changed
    finally:
        vars(agent).clear()
        vars(agent).update(attributes)
        for one in put_back:
            one()
        with torch.no_grad():
            for tensor, values in before:
                if not torch.equal(tensor, values):
                    tensor.copy_(values)
                    changed.append(tensor)


def _contents_of(agent: Any) -> Iterator[PutBack]:
    """Yields what puts back what can change within an agent, its layers and environments, but for their own objects."""
    values = [value for name, value in vars(agent).items() if name not in agent._bookkeeping]
    for layer in _layers_of(agent):
        values += [value for name, value in vars(layer).items() if name not in _OF_EVERY_LAYER]
    return contents_kept(values, _of_generator_or_environment)


def _of_generator_or_environment(value: Any) -> Iterator[PutBack]:
    if isinstance(value, torch.Generator):
        yield partial(value.set_state, value.get_state())
    elif is_environment(value):
        yield from environment_kept(value)


def _numbers_of_layers(agent: Any) -> Iterator[PutBack]:
    """Yields what puts back the numbers and words of layers, and which tensors are among their attributes."""
    for layer in _layers_of(agent):
        state = vars(layer)
        yield partial(state.update, {name: value for name, value in state.items() if isinstance(value, _KEPT)})


def _layers_of(agent: Any) -> Iterable[nn.Module]:
    return {id(layer): layer for network in networks_of(agent) for layer in network.modules()}.values()
