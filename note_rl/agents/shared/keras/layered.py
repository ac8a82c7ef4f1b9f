"""Networks from lists of layers, in Keras; what the lists may hold is said in `note_rl.agents.shared.layer_kinds`."""

from collections.abc import Callable, Mapping, Sequence
from typing import Any, Self

import keras
import tensorflow as tf

from note_rl.agents.shared.architecture import Architecture, NetworkPlan, Placed, begin, weighted
from note_rl.agents.shared.inserted_layers import BATCH_RENORM, Affine, folded, normalising
from note_rl.agents.shared.keras.networks import MLP, MakeNetwork, as_numbers, begin_weights
from note_rl.agents.shared.keras.noisy import NoisyDense, in_numpy
from note_rl.agents.shared.keras.renorm import BatchRenorm
from note_rl.agents.shared.layer_kinds import Activate, Conv, Dense, Dropout, Flatten, Layer, Norm, Pool, Shape
from note_rl.agents.shared.perceptrons import MLPSettings
from note_rl.errors import SettingsError
from note_rl.errors.wording import SettingName
from note_rl.learners.keras.variables import as_array
from note_rl.learners.numpy_noise import NoisyStage
from note_rl.learners.numpy_policy import DenseLayer
from note_rl.settings.field_arguments import taking

_EPSILON = 1e-5  # of normalisations, and how much of the running statistics each batch leaves: PyTorch's
_MOMENTUM = 0.9
_WITH_WEIGHTS = (keras.layers.Conv2D, keras.layers.Dense)


class LayeredNetwork(keras.Model):  # type: ignore[misc]  # Keras ships no types
    """The trunk and the head of an architecture.

    Args:
        plan: The layers.
        beside: Another network, whose trunk this one shares; None: it has its own.
    """

    def __init__(self, plan: NetworkPlan, beside: Self | None = None) -> None:
        super().__init__()
        self.plan = plan
        self.trunk: keras.Sequential = _stacked(plan.trunk) if beside is None else beside.trunk
        self.head = _stacked(plan.head)
        self._borrows = beside is not None
        self._draw(output_gain=1.0, orthogonal=False)
        self.built = True

    def call(self, x: tf.Tensor) -> tf.Tensor:
        """[B, *obs_shape] -> [B, num_outputs]."""
        return self.head(self.features(x))

    def features(self, x: tf.Tensor) -> tf.Tensor:
        """The trunk's output for observations, [B, ...]."""
        x = as_numbers(x if len(x.shape) > len(self.plan.input_shape) else x[..., None])
        return self.trunk(tf.transpose(x, (0, 2, 3, 1)) if self.plan.turns_images else x)

    def last_hidden(self, features: tf.Tensor) -> tf.Tensor:
        """The output layer's input, [B, F], from the trunk's output."""
        for layer in self.head.layers[:-1]:
            features = layer(features)
        return features

    @property
    def output_layer(self) -> keras.layers.Dense:
        """The last layer of the head."""
        return self.head.layers[-1]

    def value_network(self) -> "LayeredNetwork":
        """A network with one output for the value of what this one chooses, on its trunk if that is shared."""
        return LayeredNetwork(self.plan.of_value(), self if self.plan.architecture.shared else None)

    def start_orthogonal(self, output_gain: float) -> None:
        """Draws weights anew: orthogonal where no initializer is named.

        Args:
            output_gain: Of the last layer, where that is orthogonal and names no gain itself.
        """
        self._draw(output_gain, orthogonal=True)

    def _draw(self, output_gain: float, orthogonal: bool) -> None:
        """A trunk that is another network's is left as it is."""
        for module, layer in self._weighted():
            if not (self._borrows and module in self.trunk.layers):
                is_last = layer is self.plan.head[-1].layer
                begin_weights(module, *begin(layer, output_gain if is_last else None, orthogonal))

    def _weighted(self) -> list[tuple[Any, Conv | Dense]]:
        modules = [module for module in (*self.trunk.layers, *self.head.layers) if isinstance(module, _WITH_WEIGHTS)]
        return list(zip(modules, weighted((*self.plan.trunk, *self.plan.head)), strict=True))

    def dense_layers(self) -> list[DenseLayer] | None:
        """Copies of the weights, for acting in NumPy, if there is nothing but dense layers."""
        if not self.plan.is_dense:
            return None
        parts: list[DenseLayer | Affine] = []
        activations = iter([str(layer.activation) for _, layer in self._weighted()])
        for module in (*self.trunk.layers, *self.head.layers):
            if isinstance(module, keras.layers.Dense):
                parts.append((as_array(module.kernel), as_array(module.bias), next(activations)))
            elif isinstance(module, keras.layers.BatchNormalization):
                parts.append(_affine(module))
        return folded(parts)

    def noisy_stages(self, output_activation: str) -> list[NoisyStage] | None:
        """The layers with their noise for acting in NumPy, if there is nothing but dense layers."""
        if not self.plan.is_plain:
            return None
        pairs = self._weighted()
        names = [*(str(layer.activation) for _, layer in pairs[:-1]), output_activation]
        return [in_numpy(module, name) for (module, _), name in zip(pairs, names, strict=True)]


@taking(Architecture)
def layered_network(input_shape: Shape, num_outputs: int, architecture: Architecture) -> LayeredNetwork:
    """Makes a network of a list of layers, for observations of a shape: images are [H, W], [H, W, C] or [C, H, W].

    Raises:
        SettingsError: A layer that is unknown or incomplete, a value out of range, sizes that do not fit.
    """
    return LayeredNetwork(architecture.plan(input_shape, num_outputs))


def policy_and_value(
    make: MakeNetwork, make_critic: MakeNetwork | None, obs_shape: Shape, num_outputs: int
) -> tuple[keras.Model, keras.Model]:
    """Makes the networks of a policy and of its value, which may have one trunk.

    Args:
        make: Makes that of the policy.
        make_critic: Makes that of the value; None: it is as the policy's.
        obs_shape: Of one observation.
        num_outputs: Of the policy.

    Raises:
        SettingsError: The value is to have a network of its own, and the policy's trunk as well.
    """
    policy = make(obs_shape, num_outputs)
    if make_critic is None:
        names_it = callable(getattr(type(policy), "value_network", None))
        return policy, policy.value_network() if names_it else make(obs_shape, 1)
    if isinstance(policy, LayeredNetwork) and policy.plan.architecture.shared:
        raise SettingsError(
            "{} gives the value the trunk of the policy, and critic_network another one: leave one of them out",
            SettingName("shared").at(True),
        )
    return policy, make_critic(obs_shape, 1)


def have_one_trunk(policy: keras.Model, value: keras.Model) -> bool:
    """Whether both make their outputs of the same features."""
    return isinstance(policy, LayeredNetwork) and policy.trunk is getattr(value, "trunk", None)


def through_one_trunk(policy: keras.Model, value: keras.Model, s: tf.Tensor) -> tuple[tf.Tensor, tf.Tensor]:
    """The outputs of both networks for observations [B, *obs_shape], in one pass through the trunk that they have."""
    seen = policy.features(s)
    return policy.head(seen), value.head(seen)


def with_layers(
    make: MakeNetwork, architecture: Callable[[MLPSettings, Shape], Architecture], check: Callable[[Any], None]
) -> MakeNetwork:
    """Returns a maker of lists of layers where the given one makes an `MLP`.

    Args:
        make: The given one.
        architecture: (settings of the MLP, shape of its input) -> what is made in its place.
        check: Refuses another network, or lets it be as it is.
    """

    def made(input_shape: Shape, num_outputs: int) -> keras.Model:
        network = make(input_shape, num_outputs)
        if type(network) is not MLP:  # a class below it may do something else
            check(network)
            return network
        return LayeredNetwork(architecture(network.settings, input_shape).plan(input_shape, num_outputs))

    return made


def _affine(norm: Any) -> Affine:
    """A normalisation as it is in eval mode."""
    weight, bias = as_array(norm.gamma), as_array(norm.beta)
    return normalising(weight, bias, as_array(norm.moving_mean), as_array(norm.moving_variance), norm.epsilon)


def _stacked(placed: Sequence[Placed]) -> keras.Sequential:
    made = [_MAKERS[type(one.layer)](one.layer, one.input_shape) for one in placed]
    return keras.Sequential([keras.Input(placed[0].input_shape), *made])


def _conv(layer: Conv, shape: Shape) -> Any:
    return keras.layers.Conv2D(
        layer.filters,
        layer.size,
        layer.stride,
        layer.padding,
        activation=layer.activation,
        kernel_initializer="zeros",  # they are drawn by `begin_weights`
    )


def _pool(layer: Pool, shape: Shape) -> Any:
    kind = keras.layers.MaxPooling2D if layer.kind == "max" else keras.layers.AveragePooling2D
    return kind(layer.size, layer.steps)


def _dense(layer: Dense, shape: Shape) -> Any:
    if layer.noisy_std:
        return NoisyDense(layer.units, layer.activation, std=layer.noisy_std, kernel_initializer="zeros")
    return keras.layers.Dense(layer.units, layer.activation, kernel_initializer="zeros")


def _norm(layer: Norm, shape: Shape) -> Any:
    if layer.kind == "batch":
        return keras.layers.BatchNormalization(momentum=_MOMENTUM, epsilon=_EPSILON)
    if layer.kind == BATCH_RENORM:
        return BatchRenorm()
    if len(shape) == 1:
        return keras.layers.LayerNormalization(epsilon=_EPSILON)
    return keras.layers.GroupNormalization(1, epsilon=_EPSILON)


_MAKERS: Mapping[type[Layer], Callable[[Any, Shape], Any]] = {
    Conv: _conv,
    Pool: _pool,
    Flatten: lambda layer, shape: keras.layers.Flatten(),
    Dense: _dense,
    Norm: _norm,
    Dropout: lambda layer, shape: keras.layers.Dropout(layer.rate),
    Activate: lambda layer, shape: keras.layers.Activation(layer.function),
}
