"""How much the gradients of agents written in PyTorch scatter."""

from collections.abc import Iterable, Sequence
from typing import Any

import torch
from torch import Tensor, nn

from note_rl.learners.adjustable import Microbatches
from note_rl.learners.batch_noise_scale import NoiseMoments, of_norms
from note_rl.learners.noise_meter import (
    Groups,
    LayerPass,
    MeasuredLosses,
    NoiseMeter,
    PassGradient,
    gradients_of_group,
    one_per_group,
)
from note_rl.learners.pytorch.tensors import gradients_of


class TorchNoiseMeter(NoiseMeter):
    """Measures eagerly; hooks see what goes through layers.

    Args:
        losses: Of the agent.
    """

    def __init__(self, losses: MeasuredLosses) -> None:
        super().__init__()
        self._losses = losses

    def _layers_of(self, networks: Iterable[Any]) -> Sequence[nn.Linear]:
        modules = [module for held in networks if isinstance(held, nn.Module) for module in held.modules()]
        return [module for module in modules if type(module) is nn.Linear]

    def _by_layers(
        self, minibatch: Microbatches, num_parts: int, groups: Groups, layers: Sequence[nn.Linear]
    ) -> list[NoiseMoments] | None:
        passes, losses = self._pass_through(minibatch, layers)
        if not passes or any(seen.inputs.ndim != 2 or len(seen.inputs) != minibatch.size for seen in passes):
            return None
        outputs = [seen.outputs for seen in passes]
        moments = []
        for group, loss in zip(groups, one_per_group(losses, len(groups)), strict=True):
            back = torch.autograd.grad(loss, outputs, retain_graph=True, allow_unused=True)
            gradients = gradients_of_group(passes, back, {id(one) for one in group if one.requires_grad})
            if gradients is None:
                return None
            moments.append(_of_layers(gradients, num_parts))
        return moments

    def _pass_through(
        self, minibatch: Microbatches, layers: Sequence[nn.Linear]
    ) -> tuple[list[LayerPass], list[Tensor]]:
        """Evaluates the losses, and writes down every pass through a layer that learns on the way."""
        passes: list[LayerPass] = []

        def note(layer: Any, inputs: tuple[Tensor, ...], output: Tensor) -> None:
            if output.requires_grad:
                bias = None if layer.bias is None else id(layer.bias)
                passes.append(LayerPass(inputs[0].detach(), output, id(layer.weight), bias))

        hooks = [layer.register_forward_hook(note) for layer in layers]
        try:
            losses = self._losses(minibatch.columns)
        finally:
            for hook in hooks:
                hook.remove()
        return passes, losses

    def _by_parts(self, minibatch: Microbatches, groups: Groups) -> list[NoiseMoments]:
        parts = minibatch.parts
        part_size = minibatch.size // parts
        small = [0.0] * len(groups)  # mean squared norm of the gradients of parts
        mean = [[torch.zeros_like(parameter) for parameter in group] for group in groups]
        for part in range(parts):
            rows = slice(part * part_size, (part + 1) * part_size)
            losses = self._losses({name: column[rows] for name, column in minibatch.columns.items()})
            for index, loss in enumerate(one_per_group(losses, len(groups))):
                gradients = gradients_of(loss, groups[index], keep=True)
                for total, gradient in zip(mean[index], gradients, strict=True):
                    if gradient is not None:
                        small[index] += float(gradient.square().sum()) / parts
                        total += gradient / parts
        big = [float(sum(total.square().sum() for total in totals)) for totals in mean]
        return [of_norms(*norms, part_size, part_size * parts) for norms in zip(small, big, strict=True)]


def _of_layers(gradients: Sequence[PassGradient], parts: int) -> NoiseMoments:
    """Norms by products of what goes in and what comes back: |sum g x'|^2 = sum_ij (g_i . g_j) (x_i . x_j)."""
    size = len(gradients[0].inputs)
    small = big = gradients[0].back.new_zeros(())
    for gradient in gradients:
        inputs, back = (values.reshape(parts, size // parts, -1) for values in (gradient.inputs, gradient.back))
        small = small + (_products(back) * (_products(inputs) + float(gradient.has_bias))).sum()
        big = big + (gradient.back.T @ gradient.inputs).square().sum()
        if gradient.has_bias:
            big = big + gradient.back.sum(0).square().sum()
    return of_norms(float(small) * parts, float(big), size // parts, size)


def _products(rows: Tensor) -> Tensor:
    """Returns products of all rows of a part with each other, [parts, b, b] from [parts, b, n]."""
    return rows.square().sum(2, keepdim=True) if rows.shape[1] == 1 else torch.bmm(rows, rows.transpose(1, 2))
