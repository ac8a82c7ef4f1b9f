"""Networks with an encoder for each key of observations that are dictionaries, in Keras."""

from collections.abc import Mapping, Sequence
from typing import Any

import keras
import tensorflow as tf

from note_rl.agents.shared.architecture import Architecture
from note_rl.agents.shared.encoders import EncodedPlan, EncoderPlan, encoded_plan
from note_rl.agents.shared.keras.layered import LayeredNetwork
from note_rl.agents.shared.keras.networks import as_numbers
from note_rl.agents.shared.layers import Shape


class EncodedNetwork(keras.Model):  # type: ignore[misc]  # Keras ships no types
    """Encoders, whose features go in a row through the layers behind them.

    Args:
        plan: Of all of them.
    """

    def __init__(self, plan: EncodedPlan) -> None:
        super().__init__()
        self.plan = plan
        made = [
            keras.layers.Identity() if one.network is None else LayeredNetwork(one.network) for one in plan.encoders
        ]
        self.encoders = made
        self.joined = LayeredNetwork(plan.joined)
        self.built = True

    def call(self, x: tf.Tensor) -> tf.Tensor:
        """[B, n] -> [B, num_outputs]."""
        pairs = zip(self.encoders, self.plan.encoders, strict=True)
        features = [tf.reshape(encoder(_numbers(plan, x)), (-1, plan.num_features)) for encoder, plan in pairs]
        return self.joined(tf.concat(features, axis=1))

    def start_orthogonal(self, output_gain: float) -> None:
        """Draws weights anew; see `LayeredNetwork`."""
        for network in (*self.encoders, self.joined):
            if isinstance(network, LayeredNetwork):
                network.start_orthogonal(output_gain)


def _numbers(plan: EncoderPlan, x: tf.Tensor) -> tf.Tensor:
    """What was under one key, [B, *shape]; bytes as 0 to 1."""
    part = plan.part
    numbers = tf.reshape(as_numbers(x[:, part.first : part.end]), (-1, *part.shape))
    return numbers / 255.0 if part.is_image and x.dtype != tf.uint8 else numbers


def encoded_network(
    input_shape: Shape,
    num_outputs: int,
    encoders: Mapping[str, Any] | None = None,
    *,
    hidden_sizes: Sequence[int] = (64,),
    activation: str = "relu",
    initializer: str | None = None,
    gain: float | None = None,
    head: Mapping[str, Any] | None = None,
) -> EncodedNetwork:
    """Makes a network for observations that are dictionaries.

    Args:
        input_shape: Shape of one observation in a row, which knows its keys; see `note_rl.environments.packing`.
        num_outputs: Width of the last layer.
        encoders: By key, {layers: [...]} as for `layered_network`, with hidden_sizes, activation, initializer and gain
            of its own if wished; None for numbers that are taken as they are. None in place of all: one for each key by
            what it shows, see `encoders_by_kind`.
        hidden_sizes: Widths of dense layers behind all encoders.
        activation: Of those.
        initializer: Of those; None: orthogonal where the agent begins so (PPO, A2C), else uniform.
        gain: Factor of their weights; None: sqrt(2) where they are orthogonal, else 1.
        head: What follows them, {layers: [...], initializer: ..., gain: ...}; the last two: of the output layer.

    Raises:
        SettingsError: An unknown key, one without an encoder, layers that do not fit, other observations.
    """
    joined = Architecture((), hidden_sizes, activation, initializer, gain, head)
    return EncodedNetwork(encoded_plan(input_shape, num_outputs, encoders, joined))
