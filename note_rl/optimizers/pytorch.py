"""PyTorch optimizers. Each takes parameters, or a list of groups, and returns one optimizer for all of them."""

from collections.abc import Sequence
from typing import Any

import torch

from note_rl.learners.base import parameter_groups
from note_rl.learners.pytorch.torch_internals import compiler_left_out
from note_rl.optimizers import AdamSettings, AdamWSettings, RMSpropSettings, SGDSettings
from note_rl.settings.field_arguments import taking


def _flat(parameters: Sequence[Any]) -> list[Any]:
    return [parameter for group in parameter_groups(parameters) for parameter in group]


def _betas(beta1: float, beta2: float) -> tuple[float, float]:
    """Returns both as floats: PyTorch wants them to be of the same kind, and 0 is no float to it."""
    return float(beta1), float(beta2)


@taking(AdamSettings)
@compiler_left_out()
def adam(parameters: Sequence[Any], settings: AdamSettings) -> torch.optim.Optimizer:
    """Adam (Kingma & Ba 2015); weight decay is added to the gradient. The fused kernel: one call for all tensors."""
    return torch.optim.Adam(
        _flat(parameters),
        settings.learning_rate,
        _betas(settings.beta1, settings.beta2),
        settings.epsilon,
        weight_decay=settings.weight_decay,
        fused=True,
    )


@taking(AdamWSettings)
@compiler_left_out()
def adamw(parameters: Sequence[Any], settings: AdamWSettings) -> torch.optim.Optimizer:
    """Adam with decoupled weight decay (Loshchilov & Hutter 2019)."""
    return torch.optim.AdamW(
        _flat(parameters),
        settings.learning_rate,
        _betas(settings.beta1, settings.beta2),
        settings.epsilon,
        weight_decay=settings.weight_decay,
        fused=True,
    )


@taking(RMSpropSettings)
@compiler_left_out()
def rmsprop(parameters: Sequence[Any], settings: RMSpropSettings) -> torch.optim.Optimizer:
    """RMSprop (Tieleman & Hinton 2012), all tensors in a few calls: the same numbers in two thirds of the time."""
    return torch.optim.RMSprop(
        _flat(parameters),
        settings.learning_rate,
        alpha=settings.rho,
        eps=settings.epsilon,
        momentum=settings.momentum,
        weight_decay=settings.weight_decay,
        foreach=True,
    )


@taking(SGDSettings)
@compiler_left_out()
def sgd(parameters: Sequence[Any], settings: SGDSettings) -> torch.optim.Optimizer:
    """Stochastic gradient descent, with momentum if asked."""
    return torch.optim.SGD(
        _flat(parameters), settings.learning_rate, momentum=settings.momentum, weight_decay=settings.weight_decay
    )
