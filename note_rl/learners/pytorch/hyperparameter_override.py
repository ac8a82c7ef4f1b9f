"""Numbers of torch optimizers that hold for one update."""

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any

import torch

from note_rl.learners.adjustable import LEARNING_RATE, OptimizerNumbers, of_optimizers

Optimizers = Sequence[tuple[torch.optim.Optimizer, Any]]
_BETAS = ("beta1", "beta2")


def _groups(optimizers: Optimizers) -> list[tuple[int, torch.optim.Optimizer, dict[str, Any]]]:
    """Returns all parameter groups with the number of their optimizer; names of numbers count these."""
    return [
        (index, optimizer, group) for index, (optimizer, _) in enumerate(optimizers) for group in optimizer.param_groups
    ]


def numbers_of(optimizers: Optimizers) -> list[OptimizerNumbers]:
    """Returns the numbers that optimizers were made with, one entry per parameter group."""
    numbers = []
    for index, optimizer, group in _groups(optimizers):
        values = {LEARNING_RATE: float(group["lr"])}
        if "betas" in group:
            values |= dict(zip(_BETAS, map(float, group["betas"]), strict=True))
        if "weight_decay" in group:
            values["weight_decay"] = float(group["weight_decay"])
        numbers.append(OptimizerNumbers(type(optimizer).__name__, values, index if len(optimizers) > 1 else None))
    return numbers


@contextmanager
def with_numbers(optimizers: Optimizers, hyperparameters: Mapping[str, float]) -> Iterator[None]:
    """Gives optimizers the numbers that hold for the block, and puts back those from before."""
    groups = [group for _, _, group in _groups(optimizers)] if hyperparameters else []
    overrides = of_optimizers(hyperparameters, len(groups))
    before = [(groups[index], dict(groups[index])) for index in overrides]
    try:
        for index, values in overrides.items():
            for name, value in values.items():
                _set_number(groups[index], name, value)
        yield
    finally:
        for group, former in before:
            group.update(former)


def _set_number(group: dict[str, Any], name: str, value: float) -> None:
    """Sets a number where torch has it: both betas are one tuple, and the learning rate is called `lr`."""
    if name in _BETAS:
        betas = list(group["betas"])
        betas[_BETAS.index(name)] = value
        group["betas"] = tuple(betas)
    else:
        group["lr" if name == LEARNING_RATE else name] = value
