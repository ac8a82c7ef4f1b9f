"""Numbers of torch optimizers that hold for one update, and how much gradients scatter."""

import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any

import torch
from torch import Tensor, nn

from note_rl.adaptive.gradient_noise import NoiseMoments, of_norms
from note_rl.learners.adjustable import OptimizerNumbers, of_optimizers

Optimizers = Sequence[tuple[torch.optim.Optimizer, Any]]
Losses = Callable[[Mapping[str, Tensor]], list[Tensor]]
_MOMENTS = ("beta1", "beta2")


def _groups(optimizers: Optimizers) -> list[tuple[int, torch.optim.Optimizer, dict[str, Any]]]:
    """All parameter groups with the number of their optimizer; names of numbers count these."""
    return [(i, optimizer, group) for i, (optimizer, _) in enumerate(optimizers) for group in optimizer.param_groups]


def numbers_of(optimizers: Optimizers) -> list[OptimizerNumbers]:
    """What they were told."""
    found = []
    for index, optimizer, group in _groups(optimizers):
        values = {"learning_rate": float(group["lr"])}
        if "betas" in group:
            values |= dict(zip(_MOMENTS, map(float, group["betas"]), strict=True))
        if "weight_decay" in group:
            values["weight_decay"] = float(group["weight_decay"])
        found.append(OptimizerNumbers(type(optimizer).__name__, values, index if len(optimizers) > 1 else None))
    return found


@contextmanager
def with_numbers(optimizers: Optimizers, hyperparameters: Mapping[str, float]) -> Iterator[None]:
    """Tells optimizers what holds for the block, and puts back what they were told before."""
    told = of_optimizers(hyperparameters)
    groups = _groups(optimizers) if told else []
    before = [(groups[index][2], dict(groups[index][2])) for index in told]
    try:
        for index, values in told.items():
            group = groups[index][2]
            for name, value in values.items():
                if name in _MOMENTS:
                    betas = list(group["betas"])
                    betas[_MOMENTS.index(name)] = value
                    group["betas"] = tuple(betas)
                else:
                    group["lr" if name == "learning_rate" else name] = value
        yield
    finally:
        for group, former in before:
            group.update(former)


class NoiseMeter:
    """Measures how much gradients scatter: the noise of every loss along its group of parameters.

    Where all parameters belong to linear layers that a loss uses once, one backward pass gives the gradients of all
    parts: they are products of what goes into a layer and what comes back (Goodfellow 2015, arXiv:1510.01799).
    Otherwise each part is evaluated by itself, and so it is once at first, to see whether both agree.
    """

    def __init__(self) -> None:
        self._quickly: bool | None = None  # None: not tried yet

    def __call__(
        self,
        losses: Losses,
        batch: Mapping[str, Tensor],
        groups: Sequence[Sequence[Tensor]],
        parts: int,
        networks: Sequence[nn.Module],
    ) -> list[NoiseMoments]:
        """Measures once.

        Args:
            losses: Of a minibatch, by name [B, ...]: means over it, one per group, or one for all.
            batch: The minibatch, its parts one after the other.
            groups: Parameters by loss.
            parts: Equal ones.
            networks: What the agent consists of.
        """
        if parts < 2:
            return [NoiseMoments(math.nan, math.nan) for _ in groups]
        if self._quickly is False:
            return _one_by_one(losses, batch, groups, parts)
        layers = [layer for network in networks for layer in network.modules() if type(layer) is nn.Linear]
        found = _by_layers(losses, batch, groups, parts, layers)
        if self._quickly and found is not None:
            return found
        slowly = _one_by_one(losses, batch, groups, parts)
        self._quickly = found is not None and all(map(_agree, found, slowly))
        return slowly


def _agree(one: NoiseMoments, other: NoiseMoments) -> bool:
    tolerance = 1e-3 * (abs(other.variance) + abs(other.squared_norm)) + 1e-12
    return abs(one.variance - other.variance) <= tolerance and abs(one.squared_norm - other.squared_norm) <= tolerance


def _by_layers(
    losses: Losses,
    batch: Mapping[str, Tensor],
    groups: Sequence[Sequence[Tensor]],
    parts: int,
    layers: Sequence[nn.Linear],
) -> list[NoiseMoments] | None:
    """None where a layer is used more than once, or for something else than samples."""
    seen: list[tuple[nn.Linear, Tensor, Tensor]] = []

    def note(layer: nn.Module, inputs: tuple[Tensor, ...], output: Tensor) -> None:
        if output.requires_grad and isinstance(layer, nn.Linear):
            seen.append((layer, inputs[0].detach(), output))

    hooks = [layer.register_forward_hook(note) for layer in layers]
    try:
        found = losses(batch)
    finally:
        for hook in hooks:
            hook.remove()
    size = len(batch["reward"])
    if not seen or any(entry.shape[:-1] != (size,) for _, entry, _ in seen) or len(found) not in (1, len(groups)):
        return None
    moments = []
    for index, group in enumerate(groups):
        loss = found[index if len(found) == len(groups) else 0]
        back = torch.autograd.grad(loss, [out for _, _, out in seen], retain_graph=True, allow_unused=True)
        wanted = {id(one) for one in group}
        used = [(layer, x, g) for (layer, x, _), g in zip(seen, back, strict=True) if g is not None]
        used = [one for one in used if id(one[0].weight) in wanted]
        if len({id(layer) for layer, _, _ in used}) < len(used) or not _complete(used, wanted):
            return None
        moments.append(_of_layers(used, wanted, parts, size))
    return moments


def _complete(used: Sequence[tuple[nn.Linear, Tensor, Tensor]], wanted: set[int]) -> bool:
    """Whether every parameter of the group gets its gradient through these layers."""
    covered = {id(one) for layer, _, _ in used for one in layer.parameters(recurse=False)}
    return wanted <= covered


def _of_layers(
    used: Sequence[tuple[nn.Linear, Tensor, Tensor]], wanted: set[int], parts: int, size: int
) -> NoiseMoments:
    """From what went into layers and what came back, [B, ...] each."""
    small = big = torch.zeros(())
    for layer, x, g in used:
        x, g = x.reshape(parts, size // parts, -1), g.reshape(parts, size // parts, -1) * parts
        gradients = [torch.bmm(g.transpose(1, 2), x)]  # [parts, out, in]
        if layer.bias is not None and id(layer.bias) in wanted:
            gradients.append(g.sum(1))
        for one in gradients:
            small = small + one.square().sum() / parts
            big = big + one.mean(0).square().sum()
    return of_norms(float(small), float(big), size // parts, size)


def _one_by_one(
    losses: Losses, batch: Mapping[str, Tensor], groups: Sequence[Sequence[Tensor]], parts: int
) -> list[NoiseMoments]:
    """Each part by itself: any model, at the price of as many backward passes."""
    size = len(batch["reward"]) // parts
    small = [0.0] * len(groups)
    mean: list[list[Tensor]] = [[torch.zeros_like(one) for one in group] for group in groups]
    for part in range(parts):
        found = losses({name: values[part * size : (part + 1) * size] for name, values in batch.items()})
        for index, group in enumerate(groups):
            loss = found[index if len(found) == len(groups) else 0]
            gradients = torch.autograd.grad(loss, group, retain_graph=True, allow_unused=True)
            for total, one in zip(mean[index], gradients, strict=True):
                if one is not None:
                    small[index] += float(one.square().sum()) / parts
                    total += one / parts
    return [
        of_norms(small[index], float(sum(one.square().sum() for one in total)), size, size * parts)
        for index, total in enumerate(mean)
    ]
