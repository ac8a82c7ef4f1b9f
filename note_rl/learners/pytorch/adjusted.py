"""Numbers of torch optimizers that hold for one update, and how much gradients scatter."""

import math
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor, nn

from note_rl.learners.adjustable import Microbatches, OptimizerNumbers, of_optimizers
from note_rl.learners.gradient_noise import NoiseMoments, of_norms

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
    groups = _groups(optimizers) if hyperparameters else []
    told = of_optimizers(hyperparameters, len(groups))
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

    Where all parameters belong to linear layers that a loss uses once, one backward pass gives the norms of the
    gradients of single samples: gradients are products of what goes into a layer and what comes back (Goodfellow 2015,
    arXiv:1510.01799). Otherwise each part is evaluated by itself; so it is once at first, to see whether both agree.

    Attributes:
        is_harmless: Whether measuring is known to change no tensor, such as a running mean, that must be put back.
    """

    def __init__(self) -> None:
        self._quickly: bool | None = None  # None: not tried yet
        self.is_harmless = False

    def has_touched(self, tensors: list[Tensor]) -> None:
        """What changes nothing once changes nothing again."""
        self.is_harmless = self._quickly is not None and not tensors

    def __call__(
        self,
        losses: Losses,
        given: Microbatches,
        batch: Mapping[str, Tensor],
        groups: Sequence[Sequence[Tensor]],
        layers: Sequence[nn.Linear],
    ) -> list[NoiseMoments]:
        """Measures once.

        Args:
            losses: Of a minibatch, by name [B, ...]: means over it, one per group, or one for all.
            given: The minibatch.
            batch: Its columns as tensors.
            groups: Parameters by loss.
            layers: Of the agent, all that are linear.
        """
        if given.parts < 2:
            return [NoiseMoments(math.nan, math.nan) for _ in groups]
        if self._quickly is False:
            return _one_by_one(losses, batch, groups, given.parts)
        seen = _pass_through_layers(losses, batch, groups, layers)
        if self._quickly and seen is not None:
            return [_of_layers(used, given.finest) for used in seen]
        slowly = _one_by_one(losses, batch, groups, given.parts)
        self._quickly = seen is not None and all(
            one.agrees_with(_of_layers(used, given.parts)) for one, used in zip(slowly, seen, strict=True)
        )
        return slowly


def linear_layers(networks: Iterable[Any]) -> list[nn.Linear]:
    """Those of what is a module."""
    modules = [module for one in networks if isinstance(one, nn.Module) for module in one.modules()]
    return [module for module in modules if type(module) is nn.Linear]


@dataclass(frozen=True)
class _Seen:
    """One layer in one backward pass.

    Attributes:
        inputs: [B, in].
        back: Gradient of the loss with respect to its outputs, [B, out].
        has_bias: Whether that counts as well.
    """

    inputs: Tensor
    back: Tensor
    has_bias: bool


def _pass_through_layers(
    losses: Losses, batch: Mapping[str, Tensor], groups: Sequence[Sequence[Tensor]], layers: Sequence[nn.Linear]
) -> list[list[_Seen]] | None:
    """By group; None where a layer is used more than once, or for something else than samples."""
    noted: list[tuple[nn.Linear, Tensor, Tensor]] = []

    def note(layer: nn.Module, inputs: tuple[Tensor, ...], output: Tensor) -> None:
        if output.requires_grad and isinstance(layer, nn.Linear):
            noted.append((layer, inputs[0].detach(), output))

    hooks = [layer.register_forward_hook(note) for layer in layers]
    try:
        found = losses(batch)
    finally:
        for hook in hooks:
            hook.remove()
    size = len(batch["reward"])
    if not noted or any(x.ndim != 2 or len(x) != size for _, x, _ in noted) or len(found) not in (1, len(groups)):
        return None
    by_group = []
    for index, group in enumerate(groups):
        loss = found[index if len(found) == len(groups) else 0]
        back = torch.autograd.grad(loss, [out for _, _, out in noted], retain_graph=True, allow_unused=True)
        wanted = {id(one) for one in group}
        used = [(layer, x, g) for (layer, x, _), g in zip(noted, back, strict=True) if g is not None]
        used = [one for one in used if id(one[0].weight) in wanted]
        covered = [id(one) for layer, _, _ in used for one in layer.parameters(recurse=False)]
        if len(set(covered)) < len(covered) or not wanted <= set(covered):
            return None
        by_group.append([_Seen(x, g, id(layer.bias) in wanted) for layer, x, g in used])
    return by_group


def _of_layers(seen: Sequence[_Seen], parts: int) -> NoiseMoments:
    """Norms by products of what goes in and what comes back: |sum g x'|^2 = sum_ij (g_i . g_j) (x_i . x_j)."""
    size = len(seen[0].inputs)
    small = big = seen[0].back.new_zeros(())
    for one in seen:
        x, g = (values.reshape(parts, size // parts, -1) for values in (one.inputs, one.back))
        small = small + (_products(g) * (_products(x) + float(one.has_bias))).sum()
        big = big + (one.back.T @ one.inputs).square().sum()
        if one.has_bias:
            big = big + one.back.sum(0).square().sum()
    return of_norms(float(small) * parts, float(big), size // parts, size)


def _products(rows: Tensor) -> Tensor:
    """Of all rows of a part with each other, [parts, b, b] from [parts, b, n]."""
    return rows.square().sum(2, keepdim=True) if rows.shape[1] == 1 else torch.bmm(rows, rows.transpose(1, 2))


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
