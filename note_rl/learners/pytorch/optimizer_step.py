"""Steps of torch optimizers: gradients clipped and followed, by `adam` directly where the optimizer is a plain one.

Units that never fire have gradients of zero, and the first moments of their weights shrink by beta1 at each step, until
they stay at the smallest number there is (1.4e-45, as 0.9 of it is rounded up to it). With ReLU that is a third to a
half of all hidden weights, and a CPU takes some hundred cycles for each operation on such subnormal numbers. While a
step is taken they count as 0, as they do in XLA: no parameter comes out differently.
"""

import sys
from collections.abc import Sequence

import torch
from torch import Tensor

from note_rl.learners.pytorch.adam import PlainAdam, is_plain_adam
from note_rl.learners.pytorch.torch_internals import foreach_mul, foreach_norm, take_step

Direction = tuple[tuple[int, ...], list[Tensor]]
"""Which parameters have a gradient, by their position, and these gradients."""


def present(gradients: Sequence[Tensor | None]) -> Direction:
    """Returns the gradients that there are, with their positions."""
    kept = tuple(index for index, gradient in enumerate(gradients) if gradient is not None)
    return kept, [gradient for gradient in gradients if gradient is not None]


class Stepper:
    """Takes the steps of one optimizer, whose every update block is announced by `begin()`.

    The first step of all goes through the optimizer itself, which makes the slots; so does every step of an optimizer
    that is no plain Adam (other classes, hooks, amsgrad, foreach or for-loops asked for explicitly, ...).

    Attributes:
        adam: Takes the steps past the optimizer, which then never sees a gradient after its first step; None: it does
            not.
    """

    def __init__(self, optimizer: torch.optim.Optimizer, parameters: Sequence[Tensor]) -> None:
        self.optimizer = optimizer
        self.parameters = list(parameters)
        self.adam: PlainAdam | None = None
        self.begin()

    def begin(self) -> None:
        """An update block begins, during which nobody else touches the optimizer; before, somebody may have."""
        self._strides = [parameter.stride() for parameter in self.parameters]
        if not is_plain_adam(self.optimizer, self.parameters):
            if self.adam is not None:
                self.adam.forget()
            self.adam = None
        elif self.adam is None:
            self.adam = PlainAdam(self.optimizer, self.parameters)
        else:
            self.adam.begin()

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
        kept, gradients = direction
        with FlushedSubnormals():
            slots = None if self.adam is None else self.adam.slots(kept)
            if self.adam is not None and slots is not None:
                self.adam.follow(slots, gradients)
            else:
                self._follow_by_torch(kept, gradients)

    def _follow_by_torch(self, kept: tuple[int, ...], gradients: list[Tensor]) -> None:
        for index, gradient in zip(kept, gradients, strict=True):
            self.parameters[index].grad = gradient
        take_step(self.optimizer)
        for parameter in self.parameters:
            parameter.grad = None

    def _laid_out(self, gradient: Tensor, index: int) -> Tensor:
        """Returns the gradient in the memory layout of its parameter, which fused kernels take for granted."""
        if gradient.layout != torch.strided or gradient.stride() == self._strides[index]:
            return gradient
        return torch.empty_like(self.parameters[index]).copy_(gradient)


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


def global_norm(gradients: list[Tensor]) -> Tensor:
    """Returns the norm [] of all gradients together."""
    norm: Tensor = torch.linalg.vector_norm(torch.stack(foreach_norm(gradients)))
    return norm


def clipped(gradients: list[Tensor], norm: Tensor, max_norm: float) -> list[Tensor]:
    """Returns gradients of this global norm scaled to at most another, as `clip_grad_norm_` of torch scales them."""
    scale = torch.clamp(max_norm / (norm + 1e-6), max=1.0)
    return list(foreach_mul(gradients, scale))
