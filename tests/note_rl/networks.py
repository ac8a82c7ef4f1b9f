"""Networks with the layers that act otherwise in training: dropout, batch and layer normalisation."""

import math
from typing import Any


def with_layers(package: str, dropout: float = 0.0, batch_norm: bool = False, layer_norm: bool = False) -> Any:
    """A maker of networks (input shape, number of outputs) with one hidden layer and these besides."""
    return (_pytorch if package == "pytorch" else _keras)(dropout, batch_norm, layer_norm)


def _pytorch(dropout: float, batch_norm: bool, layer_norm: bool) -> Any:
    from torch import nn

    def make(shape: tuple[int, ...], num_outputs: int) -> Any:
        further = [nn.BatchNorm1d(16)] * batch_norm + [nn.LayerNorm(16)] * layer_norm + [nn.Dropout(dropout)]
        return nn.Sequential(nn.Linear(math.prod(shape), 16), *further, nn.Tanh(), nn.Linear(16, num_outputs))

    return make


def _keras(dropout: float, batch_norm: bool, layer_norm: bool) -> Any:
    import keras

    def make(shape: tuple[int, ...], num_outputs: int) -> Any:
        layers = keras.layers
        further = [
            *([layers.BatchNormalization()] if batch_norm else []),
            *([layers.LayerNormalization()] if layer_norm else []),
            *([layers.Dropout(dropout)] if dropout else []),
        ]
        hidden, last = layers.Dense(16), layers.Dense(num_outputs)
        return keras.Sequential([keras.Input(shape), hidden, *further, layers.Activation("tanh"), last])

    return make


def running_statistics(network: Any) -> list[Any]:
    """Means and variances of its batch normalisations, as arrays."""
    if hasattr(network, "modules"):
        layers = [layer for layer in network.modules() if hasattr(layer, "running_mean")]
        return [one.numpy().copy() for layer in layers for one in (layer.running_mean, layer.running_var)]
    found, waiting = [], [network]
    while waiting:
        layer = waiting.pop(0)
        waiting += getattr(layer, "layers", [])
        if hasattr(layer, "moving_mean"):
            found += [layer.moving_mean.numpy(), layer.moving_variance.numpy()]
    return found
