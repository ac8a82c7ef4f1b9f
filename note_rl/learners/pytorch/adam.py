"""Adam without the Python around it: by torch's fused kernel, called directly, and as arithmetic that can be recorded.

With a few small networks, `torch.optim.Adam.step()` spends 100-300 us on bookkeeping and 10 us on arithmetic. Where the
optimizer is a plain Adam, its slots are looked up once and the kernel is called with them.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from operator import is_
from typing import Any

import numpy as np
import torch
from torch import Tensor

from note_rl.learners.pytorch.torch_internals import base_of, foreach_add_, fused_adam_, fused_adamw_, has_step_hooks
from note_rl.types import FloatArray

_SLOT_NAMES = ("exp_avg", "exp_avg_sq", "step")  # in the state of the optimizer
_FUSED_ON = ("cpu", "cuda")  # devices that have the kernel
_NUM_CONSTANTS = 5  # of the numbers that a step depends on, which are the same for an update block


@dataclass(eq=False)
class Slots:
    """Everything that a step changes: parameters, their moments, and how often each was changed.

    Attributes:
        kept: The parameters, by their position among those of the optimizer.
        parameters: The same.
        first: First moments.
        second: Second moments.
        steps: Numbers of steps, [] each.
        counters: The memory of these, in as few tensors as possible.
        alike: The numbers of steps of all parameters of the optimizer [P] at once, if they are equal.
    """

    kept: tuple[int, ...]
    parameters: list[Tensor]
    first: list[Tensor]
    second: list[Tensor]
    steps: list[Tensor]
    counters: list[Tensor]
    alike: FloatArray | None

    def are_those_of(self, optimizer: torch.optim.Optimizer) -> bool:
        """Whether the optimizer has not been given others since they were looked up."""
        known = zip(self.parameters, self.first, self.second, self.steps, strict=True)
        for parameter, *ours in known:
            state = optimizer.state.get(parameter)
            if not state or not all(map(is_, ours, map(state.get, _SLOT_NAMES))):
                return False
        return True


class PlainAdam:
    """The steps of one plain Adam of torch, or AdamW.

    Args:
        optimizer: Which `is_plain_adam`.
        parameters: All of its.

    Attributes:
        numbers: What the step to come depends on besides gradients, [7]; see `adam_step`.
        decoupled: Whether weights decay by themselves rather than by way of the gradient, as in AdamW.
    """

    def __init__(self, optimizer: torch.optim.Optimizer, parameters: Sequence[Tensor]) -> None:
        self._optimizer = optimizer
        self._parameters = list(parameters)
        self._slots: dict[tuple[int, ...], Slots] = {}  # by the parameters that have a gradient
        self._numbers: FloatArray = np.zeros(7, np.float32)
        self.numbers = torch.from_numpy(self._numbers)
        self.begin()

    def begin(self) -> None:
        """An update block begins, during which nobody else touches the optimizer; before, somebody may have."""
        self._drop_others()
        group = self._optimizer.param_groups[0]
        self.decoupled = bool(group.get("decoupled_weight_decay", isinstance(self._optimizer, torch.optim.AdamW)))
        self._kernel: Any = fused_adamw_ if self.decoupled else fused_adam_
        self._rate, (self._beta1, self._beta2) = group["lr"], group["betas"]
        decay, epsilon = group["weight_decay"], group["eps"]
        self._options: dict[str, Any] = {
            "lr": self._rate,
            "beta1": self._beta1,
            "beta2": self._beta2,
            "weight_decay": decay,
            "eps": epsilon,
            "amsgrad": False,
            "maximize": False,
        }
        shrinking = self._rate * decay if self.decoupled else -decay
        self._numbers[:_NUM_CONSTANTS] = 1.0 - self._beta1, self._beta2, 1.0 - self._beta2, epsilon, shrinking

    def slots(self, kept: tuple[int, ...]) -> Slots | None:
        """Returns those of the parameters that have a gradient; None before their first step, which makes them."""
        if kept not in self._slots:
            parameters = [self._parameters[index] for index in kept]
            states = [self._optimizer.state[parameter] for parameter in parameters]  # empty before the first step
            if not all(states):
                return None
            found = self._found(kept, parameters, states)  # may replace numbers of steps that others count with
            self._drop_others()
            self._slots[kept] = found
        return self._slots[kept]

    def _drop_others(self) -> None:
        """Gives up slots that are no longer those of the optimizer."""
        self._slots = {kept: slots for kept, slots in self._slots.items() if slots.are_those_of(self._optimizer)}

    def forget(self) -> None:
        """Gives up what it knows: the optimizer takes its steps by itself from now on."""
        self._slots = {}

    def is_there(self, slots: Slots) -> bool:
        """Whether these are still what a step changes."""
        return self._slots.get(slots.kept) is slots

    def _found(self, kept: tuple[int, ...], parameters: list[Tensor], states: list[dict[str, Tensor]]) -> Slots:
        complete, alike = len(kept) == len(self._parameters), None
        for state in states:  # the kernel counts where the parameters are; torch's first step may count on the CPU
            state["step"] = state["step"].to(self._parameters[0].device)
        counters = [_counter(states)] if complete else [state["step"] for state in states]
        if complete and counters[0].device.type == "cpu" and bool((counters[0] == counters[0][0]).all()):
            alike = counters[0].numpy()
        first, second, steps = ([state[name] for state in states] for name in _SLOT_NAMES)
        return Slots(kept, parameters, first, second, steps, counters, alike)

    def follow(self, slots: Slots, gradients: list[Tensor]) -> None:
        """Takes one step by the kernel, along gradients in the memory layout of their parameters."""
        if not gradients:
            return
        if len(slots.kept) < len(self._parameters):
            for others in self._slots.values():
                others.alike = None
        with torch.no_grad():
            foreach_add_(slots.counters, 1)
            self._kernel(slots.parameters, gradients, slots.first, slots.second, [], slots.steps, **self._options)

    def announce(self, slots: Slots) -> None:
        """Works out the numbers for the step to come, which is not taken here, of slots that are `alike`."""
        assert slots.alike is not None
        step = float(slots.alike[0]) + 1.0
        self._numbers[_NUM_CONSTANTS] = self._rate / (1.0 - self._beta1**step)
        self._numbers[_NUM_CONSTANTS + 1] = math.sqrt(1.0 - self._beta2**step)

    @staticmethod
    def count(slots: Slots) -> None:
        """Notes that the announced step was taken."""
        assert slots.alike is not None
        slots.alike += 1.0


def adam_step(slots: Slots, gradients: Sequence[Tensor], numbers: Tensor, decoupled: bool, sound: Tensor) -> None:
    """One step of Adam (Kingma and Ba 2015, algorithm 1, as the fused kernel of torch reckons), or of AdamW.

    Args:
        slots: Change in place.
        gradients: Of its parameters.
        numbers: 1 - beta1, beta2, 1 - beta2, epsilon, minus the weight decay or, decoupled, its product with the
            rate; rate / (1 - beta1^t), sqrt(1 - beta2^t): [7].
        decoupled: As in AdamW.
        sound: Whether the step is to be taken at all, [].
    """
    one_less_beta1, beta2, one_less_beta2, epsilon, shrinking, rate, root = numbers.unbind()
    for parameter, gradient, first, second in zip(slots.parameters, gradients, slots.first, slots.second, strict=True):
        # A difference, as inductor would make one product of matrices out of a gradient and what is added to it.
        shrunk = parameter - shrinking * parameter if decoupled else parameter
        along = gradient if decoupled else gradient - shrinking * parameter
        mean = first + one_less_beta1 * (along - first)
        square = beta2 * second + one_less_beta2 * along * along
        moved = shrunk - rate * mean / (square.sqrt() / root + epsilon)
        for tensor, values in ((parameter, moved), (first, mean), (second, square)):
            tensor.copy_(torch.where(sound, values, tensor))


def _counter(states: Sequence[dict[str, Tensor]]) -> Tensor:
    """Returns all numbers of steps in one tensor, of which the slots become views: they are counted up together."""
    base = base_of(states[0]["step"])
    if base is None or base.shape != (len(states),) or any(base_of(state["step"]) is not base for state in states):
        base = torch.stack([state["step"] for state in states])
        for state, step in zip(states, base.unbind(0), strict=True):
            state["step"] = step
    return base


def is_plain_adam(optimizer: torch.optim.Optimizer, parameters: Sequence[Tensor]) -> bool:
    """Whether the optimizer's step is exactly the fused Adam kernel on these parameters, or may be."""
    if type(optimizer) not in (torch.optim.Adam, torch.optim.AdamW) or len(optimizer.param_groups) != 1:
        return False
    group = optimizer.param_groups[0]
    same = len(group["params"]) == len(parameters) and all(map(is_, group["params"], parameters))
    device = parameters[0].device.type
    fusable = group["fused"] or (group["fused"] is None and group["foreach"] is None and device in _FUSED_ON)
    unusual = any(group.get(flag) for flag in ("amsgrad", "maximize", "capturable", "differentiable", "foreach"))
    alike = {(parameter.dtype, parameter.device) for parameter in parameters}
    plain_rate = isinstance(group["lr"], float)  # a tensor may be changed by others that hold it
    single = alike == {(torch.float32, parameters[0].device)}
    return bool(same and fusable and not unusual and single and plain_rate and not _watched(optimizer))


def _watched(optimizer: torch.optim.Optimizer) -> bool:
    """Whether each step has listeners: hooks, or a learning-rate scheduler that wrapped step()."""
    return "step" in vars(optimizer) or has_step_hooks(optimizer)
