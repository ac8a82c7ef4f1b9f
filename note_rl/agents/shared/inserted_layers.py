"""Perceptrons with normalisation or dropout between their layers, without a framework; their dense layers for NumPy.

Batch renormalisation (Ioffe 2017, https://arxiv.org/abs/1702.03275) in train mode gives

    (x - m) / s * r + d,   r = s / S between 1/3 and 3,   d = (m - M) / S between -5 and 5,

where m and s are mean and deviation of the batch, and M and S the running ones. r and d have no gradient. In eval mode
it gives (x - M) / S. During the first 100,000 batches r = 1 and d = 0, which is batch normalisation: until then the
running statistics lag too far behind. Scale and offset of each number are learned. The constants are those of CrossQ.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from note_rl.agents.shared.architecture import Architecture
from note_rl.agents.shared.layer_kinds import Activate, Dense, Dropout, Flatten, Layer, Norm, Shape
from note_rl.agents.shared.perceptrons import MLPSettings
from note_rl.errors import EnvironmentMismatchError, SettingsError
from note_rl.errors.wording import SettingName, choice
from note_rl.learners.numpy_policy import DenseLayer
from note_rl.types import FloatArray

BATCH_RENORM = "batch_renorm"
EPSILON = 1e-3
MOMENTUM = 0.01
"""Share of a batch in the running mean and variance after it."""
LARGEST_R, LARGEST_D = 3.0, 5.0
WARM_UP = 100_000
"""Batches."""


def renormalised(settings: MLPSettings, input_shape: Shape) -> Architecture:
    """A perceptron with batch renormalisation in front of each dense layer, as CrossQ has it."""
    layers = [*_flat(input_shape), Norm(BATCH_RENORM)]
    for units in settings.hidden_sizes:
        layers += [Dense(units), Norm(BATCH_RENORM)]
    return Architecture(layers, activation=settings.activation, initializer=settings.initializer)


def regularised(settings: MLPSettings, input_shape: Shape, dropout: float, layer_norm: bool) -> Architecture:
    """A perceptron with dropout and layer normalisation between each dense layer and its activation, as DroQ has it."""
    layers = _flat(input_shape)
    for units in settings.hidden_sizes:
        layers.append(Dense(units, "linear"))
        if dropout > 0.0:
            layers.append(Dropout(dropout))
        if layer_norm:
            layers.append(Norm("layer"))
        layers.append(Activate(settings.activation))
    return Architecture(layers, initializer=settings.initializer)


def refuse_to_regularise(network: Any) -> None:
    """Refuses critics that are no perceptrons, for dropout and layer normalisation (SettingsError)."""
    raise SettingsError(
        "{} and {} put layers into an MLP, and the critics are made by another network ({}): leave them out, and put "
        "dropout and norm into its list of layers",
        *(SettingName("critic_dropout"), SettingName("critic_layer_norm"), type(network).__name__),
    )


def refuse_images(obs_shape: Shape) -> None:
    """Refuses observations that an encoder stands before: layers behind it would have no normalisation.

    Raises:
        EnvironmentMismatchError: Naming the agents that take them.
    """
    if len(obs_shape) != 1:
        raise EnvironmentMismatchError(
            f"CrossQ takes observations of numbers in a row, and these have the shape {list(obs_shape)}: use SAC or TD3"
        )


def refuse_without_renorm(network: Any) -> None:
    """Refuses a network of CrossQ that does not normalise over the batch (SettingsError)."""
    raise SettingsError(
        "CrossQ has no target networks, so its networks must normalise over the batch, or values diverge, and this one "
        "({}) does not: {}, or put norm: batch_renorm in front of the dense layers of its list",
        *(type(network).__name__, choice("hidden_sizes")),
    )


def _flat(input_shape: Shape) -> list[Layer]:
    return [] if len(input_shape) == 1 else [Flatten()]


@dataclass(frozen=True)
class Affine:
    """x -> scale * x + offset, [N] each: a normalisation by running statistics."""

    scale: FloatArray
    offset: FloatArray


def normalising(weight: FloatArray, bias: FloatArray, mean: FloatArray, variance: FloatArray, epsilon: float) -> Affine:
    """Returns what a normalisation with a learned scale and offset is in eval mode; [N] each."""
    scale = weight / np.sqrt(variance + np.float32(epsilon))
    return Affine(scale, bias - mean * scale)


def folded(parts: Sequence[DenseLayer | Affine]) -> list[DenseLayer]:
    """Returns dense layers that compute the same: each is merged with the normalisations in front of it.

    W (k x + c) + b = (W k) x + (W c + b)

    Args:
        parts: Of a network, in order; the last one is a dense layer.
    """
    layers: list[DenseLayer] = []
    before: Affine | None = None
    for part in parts:
        if isinstance(part, Affine):
            scale, offset = part.scale, part.offset
            before = part if before is None else Affine(scale * before.scale, scale * before.offset + offset)
            continue
        kernel, bias, activation = part
        if before is not None:
            kernel, bias, before = before.scale[:, None] * kernel, bias + before.offset @ kernel, None
        layers.append((kernel, bias, activation))
    return layers
