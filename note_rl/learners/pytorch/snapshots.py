"""The state that an agent goes back to when an update block of gradient steps has made it not finite."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from operator import is_
from typing import Any

import torch
from torch import Tensor, nn

from note_rl.learners.pytorch.tensors import named_tensors

Optimizers = Sequence[tuple[torch.optim.Optimizer, Sequence[Tensor]]]

_HOLDERS = (nn.Module, Tensor, dict, list, tuple)
_SMALL = 30_000  # numbers, which are copied in a hundredth of the time that two gradient steps take
SELDOM = 32  # gradient steps between copies of more: they cost up to half a step


class Snapshots:
    """Copies of parameters, target networks and optimizer slots, from before an update block.

    Where a copy each time would cost more than 1 or 2 % of an update block (a short one of a large network), steps are
    to be looked at one by one before they are taken, and a copy is made now and then only: for a finite loss whose
    gradient is not.

    Args:
        agent: Whose tensors are kept.
        optimizers: Whose slots are kept.
        seldom: Gradient steps between such copies; 0: there is one each time.

    Attributes:
        num_since: Gradient steps since the newest copy, those of the running update block included.
    """

    def __init__(self, agent: Any, optimizers: Optimizers, seldom: int) -> None:
        self._agent = agent
        self._optimizers = optimizers
        self._found_in: list[Any] = []
        self._tensors: _Tensors | None = None
        self._copies: list[_Copy] = []  # the newest first; the one before may be needed, too
        self._seldom = seldom
        self.num_since = seldom

    def begin(self, num_gradient_steps: int) -> bool:
        """Prepares for an update block of a number of gradient steps; returns whether a copy was made.

        If so, the block may go on whatever its losses are.
        """
        self.num_since += num_gradient_steps
        seldom = self.num_since <= self._seldom and self._optimizers[0][1][0].device.type == "cpu"
        if seldom and num_gradient_steps == 1:
            return False
        tensors = self._look()
        if seldom and tensors.num_elements > _SMALL:
            return False
        spare = self._copies.pop() if len(self._copies) == 2 else _Copy(tensors)
        self._copies.insert(0, spare if spare.tensors is tensors else _Copy(tensors))
        self._copies[0].take()
        self.num_since = num_gradient_steps
        return True

    def go_back(self) -> None:
        """Restores what was before the update block, or before an earlier one if that was not finite, either."""
        for copy in self._copies:
            if copy.is_sound():
                copy.give_back()
                return

    def is_sound(self) -> bool:
        """Whether the agent could go on as it is."""
        return _Copy(self._look()).is_sound()

    def _look(self) -> "_Tensors":
        """Returns what there is to be copied; looked up anew where other objects hold it."""
        holders: list[Any] = [value for value in vars(self._agent).values() if isinstance(value, _HOLDERS)]
        for optimizer, _ in self._optimizers:  # slots are made at the first step, and they change together
            first: Mapping[str, Any] = next(iter(optimizer.state.values()), {})
            holders.append(first.get("step"))
        same = len(holders) == len(self._found_in) and all(map(is_, holders, self._found_in))
        if self._tensors is None or not same:
            self._found_in = holders
            self._tensors = _Tensors(self._agent, self._optimizers)
        return self._tensors


class _Tensors:
    """The tensors that an update block may change.

    Attributes:
        flat: As vectors that share their memory, by type and place; what learns comes first.
        learning: How many numbers of these learn.
        other: Those that are not laid out so.
        num_elements: Numbers in all of them.
    """

    def __init__(self, agent: Any, optimizers: Optimizers) -> None:
        learning = [parameter.detach() for _, parameters in optimizers for parameter in parameters]
        self.without_slots = [optimizer for optimizer, _ in optimizers if not optimizer.state]
        tensors = [*learning, *(tensor.detach() for _, tensor in named_tensors(agent))]
        tensors += [slot for optimizer, _ in optimizers for slot in _slots_of(optimizer)]
        once = {(tensor.data_ptr(), tensor.shape): tensor for tensor in tensors}  # targets may share memory
        places = {parameter.data_ptr() for parameter in learning}
        self.flat: dict[Any, list[Tensor]] = {}
        self.learning: dict[Any, int] = {}
        self.other: list[Tensor] = []
        for tensor in once.values():
            if tensor.is_contiguous():
                key = (tensor.dtype, tensor.device)
                self.flat.setdefault(key, []).append(tensor.view(-1))
                self.learning[key] = self.learning.get(key, 0) + tensor.numel() * (tensor.data_ptr() in places)
            else:
                self.other.append(tensor)
        self.num_elements = sum(tensor.numel() for tensor in self._all())

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
        """Copies what is."""
        with torch.no_grad():
            for copy, vectors in zip(self._flat, self.tensors.flat.values(), strict=True):
                torch.cat(vectors, out=copy)
            for copy, tensor in zip(self._other, self.tensors.other, strict=True):
                copy.copy_(tensor)

    def give_back(self) -> None:
        """Restores what was; slots that were not there yet are forgotten."""
        with torch.no_grad():
            for copy, vectors in zip(self._flat, self.tensors.flat.values(), strict=True):
                for vector, values in zip(vectors, torch.split(copy, list(map(len, vectors))), strict=True):
                    vector.copy_(values)
            for copy, tensor in zip(self._other, self.tensors.other, strict=True):
                tensor.copy_(copy)
        for optimizer in self.tensors.without_slots:
            optimizer.state.clear()

    def is_sound(self) -> bool:
        """Whether what learns is finite, and all else is a number: masks, for one, may hold infinite ones."""
        learning = [copy[:size] for copy, size in zip(self._flat, self.tensors.learning.values(), strict=True)]
        return all(bool(parameters.isfinite().all()) for parameters in learning) and not any(
            bool(copy.isnan().any()) for copy in (*self._flat, *self._other)
        )


def _slots_of(optimizer: torch.optim.Optimizer) -> Iterable[Tensor]:
    return (value for slots in optimizer.state.values() for value in slots.values() if isinstance(value, Tensor))
