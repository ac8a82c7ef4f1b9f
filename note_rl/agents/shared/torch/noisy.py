"""Noisy layers in PyTorch (Fortunato et al. 2018, https://arxiv.org/abs/1706.10295)."""

import math
from collections.abc import Iterator
from contextlib import contextmanager

import torch
from torch import Tensor, nn

from note_rl.agents.resampled_noise import refuse_without_noise
from note_rl.learners.numpy_noise import NoisyDenseLayer


class NoisyLinear(nn.Linear):
    """A linear layer with learned, factorised Gaussian noise on its weights (eq. 9 to 11).

    y = W x + b + f(n_out) * (S (f(n_in) * x) + s), for normal numbers n and f(n) = sign(n) sqrt|n|, where S and s are
    learned and begin at std / sqrt(fan in) (section 3.2). Without numbers, in eval mode, there is no noise.

    Args:
        in_features: Numbers that it takes.
        out_features: Numbers that it gives.
        std: sigma_0 of the paper.

    Attributes:
        noise: f(n_in) [B, in] and f(n_out) [B, out]; None: there is none.
    """

    noise: tuple[Tensor, Tensor] | None

    def __init__(self, in_features: int, out_features: int, std: float) -> None:
        super().__init__(in_features, out_features)
        self.std = std
        start = std / math.sqrt(in_features)
        self.weight_std = nn.Parameter(torch.full((out_features, in_features), start))
        self.bias_std = nn.Parameter(torch.full((out_features,), start))
        self.noise = None

    def forward(self, x: Tensor) -> Tensor:
        """[B, in] -> [B, out]."""
        y = super().forward(x)
        if self.noise is None:
            refuse_without_noise(self.training)
            return y
        of_inputs, of_outputs = self.noise
        return y + of_outputs * nn.functional.linear(of_inputs * x, self.weight_std, self.bias_std)


def linear_layer(in_features: int, out_features: int, std: float) -> nn.Linear:
    """Makes a layer: a noisy one, or where `std` is 0 a plain one."""
    return NoisyLinear(in_features, out_features, std) if std else nn.Linear(in_features, out_features)


def in_numpy(layer: nn.Linear, activation: str) -> NoisyDenseLayer:
    """Returns a layer, noisy or not, for acting in NumPy: views of its weights where they are on the CPU."""
    weights = [layer.weight.T, layer.bias]
    if isinstance(layer, NoisyLinear):
        weights += [layer.weight_std.T, layer.bias_std]
    kernel, bias, *stds = (weight.detach().cpu().numpy() for weight in weights)
    return NoisyDenseLayer(kernel, bias, activation, *stds)


def noisy_layers(network: nn.Module) -> list[NoisyLinear]:
    """Returns the noisy layers of a network."""
    return [layer for layer in network.modules() if isinstance(layer, NoisyLinear)]


def noisy_std_of(network: nn.Module) -> float:
    """Returns sigma_0 of the last noisy layer of a network; 0 where there is none."""
    return next((layer.std for layer in reversed(noisy_layers(network))), 0.0)


def num_noise(network: nn.Module) -> int:
    """Returns how many normal numbers the noise of a network is made of; 0: it has no noisy layers."""
    return sum(layer.in_features + layer.out_features for layer in noisy_layers(network))


def noisy_outputs(network: nn.Module, x: Tensor, noise: Tensor | None) -> Tensor:
    """Returns the outputs of a network for inputs [B, ...] with noise of normal numbers [B, F]; None: without noise."""
    if noise is None:
        plain: Tensor = network(x)
        return plain
    with _noise_in(network, noise):
        outputs: Tensor = network(x)
        return outputs


@contextmanager
def _noise_in(network: nn.Module, normal: Tensor) -> Iterator[None]:
    layers = noisy_layers(network)
    sizes = [size for layer in layers for size in (layer.in_features, layer.out_features)]
    parts = torch.split(normal.sign() * normal.abs().sqrt(), sizes, dim=1)
    for index, layer in enumerate(layers):
        layer.noise = parts[2 * index], parts[2 * index + 1]
    try:
        yield
    finally:
        for layer in layers:
            layer.noise = None
