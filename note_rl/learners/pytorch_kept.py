"""What an agent goes back to when a burst of gradient steps has spoiled it."""

import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

import torch
from torch import Tensor, nn

from note_rl.learners.pytorch_tensors import named_tensors

Optimizers = Sequence[tuple[torch.optim.Optimizer, Sequence[Tensor]]]

_HOLDERS = (nn.Module, Tensor, Mapping, list, tuple)
_SMALL = 30_000  # numbers, which are copied in a hundredth of the time that two gradient steps take
_SELDOM = 32  # gradient steps between copies of more: they cost up to half a step


class Kept:
    """Copies of parameters, target networks and optimizer slots, from before a burst.

    Where a copy each time would cost more than 1 or 2 % of a burst, which is a short burst of a large network, steps
    are to be looked at one by one before they are taken, and a copy is made now and then only: for a finite loss whose
    gradient is not.

    Args:
        agent: Whose tensors are kept.
        optimizers: Whose slots are kept.
    """

    def __init__(self, agent: Any, optimizers: Optimizers) -> None:
        self._agent = agent
        self._optimizers = optimizers
        self._found_in: list[Any] = []
        self._tensors: _Tensors | None = None
        self._copies: list[_Copy] = []  # the newest first; the one before may be needed, too
        self._steps_since = _SELDOM

    def begin(self, num_gradient_steps: int) -> bool:
        """A burst of so many gradient steps follows; gives whether it may go on whatever its losses are."""
        tensors = self._look()
        short = num_gradient_steps == 1 or tensors.num_elements > _SMALL
        copying = not short or self._steps_since + num_gradient_steps > _SELDOM or tensors.device.type != "cpu"
        if copying:
            spare = self._copies.pop() if len(self._copies) == 2 else _Copy(tensors)
            self._copies.insert(0, spare if spare.tensors is tensors else _Copy(tensors))
            self._copies[0].take()
            self._steps_since = 0
        self._steps_since += num_gradient_steps
        return copying and num_gradient_steps > 1

    def go_back(self) -> None:
        """To what was before the burst, or before a former one if the parameters were not finite then, either."""
        for copy in self._copies:
            if copy.is_sound():
                copy.give_back()
                return

    def is_sound(self) -> bool:
        """Whether all parameters that learn are finite."""
        return all(bool(one.isfinite().all()) for _, parameters in self._optimizers for one in parameters)

    def _look(self) -> "_Tensors":
        """What there is to be copied; looked up anew where other objects hold it."""
        holders: list[Any] = [value for value in vars(self._agent).values() if isinstance(value, _HOLDERS)]
        for optimizer, _ in self._optimizers:  # slots are made at the first step, and all of them change together
            first: Mapping[str, Any] = next(iter(optimizer.state.values()), {})
            holders += [first.get("step"), len(optimizer.state)]
        same = len(holders) == len(self._found_in) and all(map(_is, holders, self._found_in))
        if self._tensors is None or not same:
            self._found_in = holders
            self._tensors = _Tensors(self._agent, self._optimizers)
        return self._tensors


class _Tensors:
    """Those that a burst may change.

    Attributes:
        flat: As vectors that share their memory, by type and place.
        other: Those that are not laid out so.
        num_elements: Numbers in all of them.
    """

    def __init__(self, agent: Any, optimizers: Optimizers) -> None:
        self.learning = [one.detach() for _, parameters in optimizers for one in parameters]
        self.device = self.learning[0].device
        self.without_slots = [optimizer for optimizer, _ in optimizers if not optimizer.state]
        found = [tensor.detach() for _, tensor in named_tensors(agent)]
        found += [slot for optimizer, _ in optimizers for slot in _slots_of(optimizer)]
        self.flat: dict[Any, list[Tensor]] = {}
        self.other: list[Tensor] = []
        for tensor in {(one.data_ptr(), one.shape): one for one in found}.values():
            if tensor.is_contiguous():
                self.flat.setdefault((tensor.dtype, tensor.device), []).append(tensor.view(-1))
            else:
                self.other.append(tensor)
        self.num_elements = sum(one.numel() for one in self._all())

    def _all(self) -> Iterator[Tensor]:
        for vectors in self.flat.values():
            yield from vectors
        yield from self.other


class _Copy:
    """One copy, in as few pieces of memory as possible."""

    def __init__(self, tensors: _Tensors) -> None:
        self.tensors = tensors
        self._flat = [torch.cat(vectors) for vectors in tensors.flat.values()]
        self._other = [tensor.clone() for tensor in tensors.other]

    def take(self) -> None:
        """From what is."""
        with torch.no_grad():
            for copy, vectors in zip(self._flat, self.tensors.flat.values(), strict=True):
                torch.cat(vectors, out=copy)
            for copy, tensor in zip(self._other, self.tensors.other, strict=True):
                copy.copy_(tensor)

    def give_back(self) -> None:
        """To what is; slots that were not there yet are forgotten."""
        with torch.no_grad():
            for copy, vectors in zip(self._flat, self.tensors.flat.values(), strict=True):
                for vector, values in zip(vectors, torch.split(copy, [len(one) for one in vectors]), strict=True):
                    vector.copy_(values)
            for copy, tensor in zip(self._other, self.tensors.other, strict=True):
                tensor.copy_(copy)
        for optimizer in self.tensors.without_slots:
            optimizer.state.clear()

    def is_sound(self) -> bool:
        """Whether all numbers are finite."""
        return all(math.isfinite(float(copy.double().abs().sum())) for copy in (*self._flat, *self._other))


def _slots_of(optimizer: torch.optim.Optimizer) -> Iterable[Tensor]:
    return (value for slots in optimizer.state.values() for value in slots.values() if isinstance(value, Tensor))


def _is(first: object, second: object) -> bool:
    return first is second or (isinstance(first, int) and first == second)
