"""Operations on torch tensors that losses need; see `note_rl.learners.losses`."""

from collections.abc import Callable, Sequence
from typing import Any

import torch
from torch import Tensor


class TorchArithmetic:
    """Operations on tensors that losses need; see `Arithmetic`."""

    def __init__(self, device: torch.device) -> None:
        self._device = device

    def is_tensor(self, value: object) -> bool:
        """Whether this is a tensor."""
        return isinstance(value, Tensor)

    def can_be_learned(self, loss: Tensor) -> bool:
        """Whether it has a history that leads to parameters."""
        return loss.requires_grad

    def answer(self, function: Callable[..., Any], *arguments: Any) -> Any:
        """Returns what a function of the agent answers."""
        return function(*arguments)

    def ones(self, num: int) -> Tensor:
        """Returns a tensor [num]."""
        return torch.ones(num, device=self._device)

    def mean(self, values: Tensor) -> Tensor:
        """Returns the mean [] of values [B]."""
        return values.mean()

    def total(self, losses: Sequence[Tensor]) -> Tensor:
        """Returns the sum [] of losses []."""
        return torch.stack(list(losses)).sum()
