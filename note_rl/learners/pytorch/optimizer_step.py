"""Steps of torch optimizers without the Python around them.

With a few small networks, `torch.optim.Adam.step()` spends 100-300 us on bookkeeping and 10 us on arithmetic. Where
the optimizer is a plain Adam, its slots are looked up once per update block and the fused kernel is called directly.

Units that never fire have gradients of zero, and the first moments of their weights shrink by beta1 at each step, until
they stay at the smallest number there is (1.4e-45, as 0.9 of it is rounded up to it). With ReLU that is a third to a
half of all hidden weights, and a CPU takes some hundred cycles for each operation on such subnormal numbers. While a
step is taken they count as 0, as they do in XLA: no parameter comes out differently.
"""

import sys
from collections.abc import Sequence
from typing import Any, NamedTuple

import torch
from torch import Tensor
from torch.optim import optimizer as torch_optimizer

Direction = tuple[tuple[int, ...], list[Tensor]]
"""Which parameters have a gradient, by their position, and these gradients."""


def present(gradients: Sequence[Tensor | None]) -> Direction:
    """Returns the gradients that there are, with their positions."""
    kept = tuple(index for index, gradient in enumerate(gradients) if gradient is not None)
    return kept, [gradient for gradient in gradients if gradient is not None]


class _Slots(NamedTuple):
    """What the kernel changes: parameters, their moments, and how often each was changed."""

    parameters: list[Tensor]
    first: list[Tensor]
    second: list[Tensor]
    steps: list[Tensor]
    counters: list[Tensor]  # the memory of these steps, in as few tensors as possible


class Stepper:
    """Takes the steps of one optimizer for the time of an update block, during which nobody else touches it.

    The first step of all goes through the optimizer itself, which makes the slots; so does every step of an optimizer
    that is no plain Adam (other classes, hooks, amsgrad, foreach or for-loops asked for explicitly, ...).
    """

    def __init__(self, optimizer: torch.optim.Optimizer, parameters: Sequence[Tensor]) -> None:
        self.optimizer = optimizer
        self.parameters = list(parameters)
        self._strides = [parameter.stride() for parameter in parameters]
        self._direct = is_plain_adam(optimizer, parameters)
        self._slots: dict[tuple[int, ...], _Slots] = {}  # by the parameters that have a gradient
        self._options: dict[str, Any] = {}
        self._kernel: Any = None

    @property
    def direct(self) -> bool:
        """Whether steps go past the optimizer, which then never sees a gradient after its first step."""
        return self._direct

    def step(self, gradients: Sequence[Tensor | None], max_grad_norm: float | None) -> None:
        """Takes one step along the gradients, scaled down to a global norm if one is given."""
        self.follow(self.scaled(present(gradients), max_grad_norm)[0])

    def scaled(self, direction: Direction, max_grad_norm: float | None) -> tuple[Direction, Tensor | None]:
        """Returns what `follow` takes: gradients, clipped, in the memory layout of parameters.

        And their norm before that, [], where they are clipped.
        """
        kept, gradients = direction
        ready = [self._laid_out(gradient, i) for i, gradient in zip(kept, gradients, strict=True)]
        norm = None
        if max_grad_norm is not None and ready:
            norm = global_norm(ready)
            ready = clipped(ready, norm, max_grad_norm)
        return (kept, ready), norm

    def follow(self, direction: Direction) -> None:
        """Takes one step."""
        with FlushedSubnormals():
            self._follow(*direction)

    def _follow(self, kept: tuple[int, ...], gradients: list[Tensor]) -> None:
        if self._direct and self._slots_found(kept):
            self._adam(kept, gradients)
            return
        for index, gradient in zip(kept, gradients, strict=True):
            self.parameters[index].grad = gradient
        self.optimizer.step()
        for parameter in self.parameters:
            parameter.grad = None

    def _laid_out(self, gradient: Tensor, index: int) -> Tensor:
        """Returns the gradient in the memory layout of its parameter, which fused kernels take for granted."""
        if gradient.layout != torch.strided or gradient.stride() == self._strides[index]:
            return gradient
        return torch.empty_like(self.parameters[index]).copy_(gradient)

    def _slots_found(self, kept: tuple[int, ...]) -> bool:
        """Whether the parameters that have a gradient have slots already; they are looked up once."""
        if kept in self._slots:
            return True
        parameters = [self.parameters[index] for index in kept]
        states = [self.optimizer.state[parameter] for parameter in parameters]  # empty before the first step
        if not all(states):
            return False
        first, second = ([state[name] for state in states] for name in ("exp_avg", "exp_avg_sq"))
        counters = [_counter(states)] if len(kept) == len(self.parameters) else [state["step"] for state in states]
        self._slots[kept] = _Slots(parameters, first, second, [state["step"] for state in states], counters)
        self._look_up_options()
        return True

    def _look_up_options(self) -> None:
        """Finds the kernel of this optimizer and the arguments that stay the same during an update block."""
        group = self.optimizer.param_groups[0]
        decoupled = group.get("decoupled_weight_decay", isinstance(self.optimizer, torch.optim.AdamW))
        self._kernel = torch._fused_adamw_ if decoupled else torch._fused_adam_
        beta1, beta2 = group["betas"]
        self._options = {
            "lr": group["lr"],
            "beta1": beta1,
            "beta2": beta2,
            "weight_decay": group["weight_decay"],
            "eps": group["eps"],
            "amsgrad": False,
            "maximize": False,
        }

    def _adam(self, kept: tuple[int, ...], gradients: list[Tensor]) -> None:
        if not kept:
            return
        slots = self._slots[kept]
        with torch.no_grad():
            torch._foreach_add_(slots.counters, 1)
            self._kernel(slots.parameters, gradients, slots.first, slots.second, [], slots.steps, **self._options)


class FlushedSubnormals:
    """A context in which numbers below 1.2e-38 (float32) are 0 to the CPU, in this thread; then it is as it was.

    Where the CPU cannot do so, nothing changes.
    """

    def __enter__(self) -> None:
        self._already = sys.float_info.min / 2 == 0.0  # which torch does not tell
        if not self._already:
            torch.set_flush_denormal(True)

    def __exit__(self, *_: object) -> None:
        if not self._already:
            torch.set_flush_denormal(False)


def _counter(states: Sequence[dict[str, Tensor]]) -> Tensor:
    """Returns all numbers of steps in one tensor, of which the slots become views: they are counted up together."""
    base = states[0]["step"]._base
    if base is None or base.shape != (len(states),) or any(state["step"]._base is not base for state in states):
        base = torch.stack([state["step"] for state in states])
        for state, step in zip(states, base.unbind(0), strict=True):
            state["step"] = step
    return base


def global_norm(gradients: list[Tensor]) -> Tensor:
    """Returns the norm [] of all gradients together."""
    norm: Tensor = torch.linalg.vector_norm(torch.stack(torch._foreach_norm(gradients)))
    return norm


def clipped(gradients: list[Tensor], norm: Tensor, max_norm: float) -> list[Tensor]:
    """Returns gradients of this global norm scaled to at most another, as `clip_grad_norm_` of torch scales them."""
    scale = torch.clamp(max_norm / (norm + 1e-6), max=1.0)
    return list(torch._foreach_mul(gradients, scale))


def is_plain_adam(optimizer: torch.optim.Optimizer, parameters: Sequence[Tensor]) -> bool:
    """Whether the optimizer's step is exactly the fused Adam kernel on these parameters, or may be."""
    if type(optimizer) not in (torch.optim.Adam, torch.optim.AdamW) or len(optimizer.param_groups) != 1:
        return False
    group = optimizer.param_groups[0]
    same = len(group["params"]) == len(parameters) and all(map(_is, group["params"], parameters))
    device = parameters[0].device.type
    fusable = group["fused"] or (group["fused"] is None and group["foreach"] is None and device == "cpu")
    unusual = any(group.get(flag) for flag in ("amsgrad", "maximize", "capturable", "differentiable", "foreach"))
    alike = all(parameter.device.type == device and parameter.dtype == torch.float32 for parameter in parameters)
    plain_rate = isinstance(group["lr"], float)  # a tensor may be changed by whoever holds it
    return bool(same and fusable and not unusual and alike and plain_rate and not _watched(optimizer))


def _is(first: object, second: object) -> bool:
    return first is second


def _watched(optimizer: torch.optim.Optimizer) -> bool:
    """Whether somebody must hear of each step: hooks, or a learning-rate scheduler that wrapped step()."""
    return bool(
        "step" in vars(optimizer)
        or optimizer._optimizer_step_pre_hooks
        or optimizer._optimizer_step_post_hooks
        or torch_optimizer._global_optimizer_pre_hooks
        or torch_optimizer._global_optimizer_post_hooks
    )
