"""Networks from lists of layers, in PyTorch; what the lists may hold is said in `note_rl.agents.shared.layer_kinds`."""

from collections.abc import Callable, Mapping, Sequence
from itertools import chain
from typing import Any, Self, cast

from torch import Tensor, nn

from note_rl.agents.shared.architecture import Architecture, NetworkPlan, Placed, begin, weighted
from note_rl.agents.shared.inserted_layers import BATCH_RENORM, Affine, folded, normalising
from note_rl.agents.shared.layer_kinds import Activate, Conv, Dense, Dropout, Flatten, Layer, Norm, Pool, Shape
from note_rl.agents.shared.perceptrons import MLPSettings
from note_rl.agents.shared.torch.networks import (
    ACTIVATIONS,
    MLP,
    MakeNetwork,
    as_dense_layers,
    as_numbers,
    begin_weights,
    on_host,
)
from note_rl.agents.shared.torch.noisy import in_numpy, linear_layer
from note_rl.agents.shared.torch.renorm import BatchRenorm
from note_rl.errors import SettingsError
from note_rl.errors.wording import SettingName
from note_rl.learners.numpy_noise import NoisyStage
from note_rl.learners.numpy_policy import DenseLayer
from note_rl.settings.field_arguments import taking

_EPSILON = 1e-5  # of normalisations; Keras begins with another one

Weighted = nn.Conv2d | nn.Linear


class LayeredNetwork(nn.Module):
    """The trunk and the head of an architecture.

    Images are channels last where they are flattened: weights mean the same in both frameworks.

    Args:
        plan: The layers.
        beside: Another network, whose trunk this one shares; None: it has its own.
    """

    def __init__(self, plan: NetworkPlan, beside: Self | None = None) -> None:
        super().__init__()
        self.plan = plan
        self.trunk: nn.Sequential = _stacked(plan.trunk) if beside is None else beside.trunk
        self.head = _stacked(plan.head)
        self._borrows = beside is not None
        self._draw(output_gain=1.0, orthogonal=False)

    def forward(self, x: Tensor) -> Tensor:
        """[B, *obs_shape] -> [B, num_outputs]."""
        return cast(Tensor, self.head(self.features(x)))

    def features(self, x: Tensor) -> Tensor:
        """The trunk's output for observations, [B, ...]."""
        x = as_numbers(x if x.ndim > len(self.plan.input_shape) else x[..., None])
        return cast(Tensor, self.trunk(x.permute(0, 3, 1, 2) if x.ndim == 4 and not self.plan.turns_images else x))

    def last_hidden(self, features: Tensor) -> Tensor:
        """The output layer's input, [B, F], from the trunk's output."""
        return cast(Tensor, self.head[:-1](features))

    @property
    def output_layer(self) -> nn.Linear:
        """The last layer of the head."""
        return cast(nn.Linear, self.head[-1])

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
            if not (self._borrows and module in self.trunk):
                is_last = layer is self.plan.head[-1].layer
                begin_weights(module, *begin(layer, output_gain if is_last else None, orthogonal))

    def _weighted(self) -> list[tuple[Weighted, Conv | Dense]]:
        modules = [module for module in (*self.trunk, *self.head) if isinstance(module, Weighted)]
        return list(zip(modules, weighted((*self.plan.trunk, *self.plan.head)), strict=True))

    def dense_layers(self) -> list[DenseLayer] | None:
        """The weights for acting in NumPy, views where they are on the CPU, if there is nothing but dense layers.

        Those that are merged with normalisations are copies.
        """
        if not self.plan.is_dense:
            return None
        pairs = self._weighted()
        weights = [(module.weight, cast(Tensor, module.bias)) for module, _ in pairs]
        dense = as_dense_layers(weights, [str(layer.activation) for _, layer in pairs])
        modules = [module for module in (*self.trunk, *self.head) if isinstance(module, nn.BatchNorm1d | nn.Linear)]
        if len(modules) == len(dense):
            return dense
        following = iter(dense)
        return folded([_affine(one) if isinstance(one, nn.BatchNorm1d) else next(following) for one in modules])

    def noisy_stages(self, output_activation: str) -> list[NoisyStage] | None:
        """The layers with their noise for acting in NumPy, if there is nothing but dense layers."""
        if not self.plan.is_plain:
            return None
        pairs = self._weighted()
        names = [*(str(layer.activation) for _, layer in pairs[:-1]), output_activation]
        return [in_numpy(cast(nn.Linear, module), name) for (module, _), name in zip(pairs, names, strict=True)]


@taking(Architecture)
def layered_network(input_shape: Shape, num_outputs: int, architecture: Architecture) -> LayeredNetwork:
    """Makes a network of a list of layers, for observations of a shape: images are [H, W], [H, W, C] or [C, H, W].

    Raises:
        SettingsError: A layer that is unknown or incomplete, a value out of range, sizes that do not fit.
    """
    return LayeredNetwork(architecture.plan(input_shape, num_outputs))


class _FlattenImages(nn.Module):
    """[B, C, H, W] -> [B, H * W * C], and other shapes as they are."""

    def forward(self, x: Tensor) -> Tensor:
        return (x.permute(0, 2, 3, 1) if x.ndim == 4 else x).flatten(1)


def policy_and_value(
    make: MakeNetwork, make_critic: MakeNetwork | None, obs_shape: Shape, num_outputs: int
) -> tuple[nn.Module, nn.Module]:
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
        return policy, cast(Any, policy).value_network() if names_it else make(obs_shape, 1)
    if isinstance(policy, LayeredNetwork) and policy.plan.architecture.shared:
        raise SettingsError(
            "{} gives the value the trunk of the policy, and critic_network another one: leave one of them out",
            SettingName("shared").at(True),
        )
    return policy, make_critic(obs_shape, 1)


def have_one_trunk(policy: nn.Module, value: nn.Module) -> bool:
    """Whether both make their outputs of the same features."""
    return isinstance(policy, LayeredNetwork) and policy.trunk is getattr(value, "trunk", None)


def through_one_trunk(policy: nn.Module, value: nn.Module, s: Tensor) -> tuple[Tensor, Tensor]:
    """The outputs of both networks for observations [B, *obs_shape], in one pass through the trunk that they have."""
    of_policy, of_value = cast(LayeredNetwork, policy), cast(LayeredNetwork, value)  # or what passes theirs on
    seen = of_policy.features(s)
    return cast(Tensor, of_policy.head(seen)), cast(Tensor, of_value.head(seen))


def with_layers(
    make: MakeNetwork, architecture: Callable[[MLPSettings, Shape], Architecture], check: Callable[[Any], None]
) -> MakeNetwork:
    """Returns a maker of lists of layers where the given one makes an `MLP`.

    Args:
        make: The given one.
        architecture: (settings of the MLP, shape of its input) -> what is made in its place.
        check: Refuses another network, or lets it be as it is.
    """

    def made(input_shape: Shape, num_outputs: int) -> nn.Module:
        network = make(input_shape, num_outputs)
        if type(network) is not MLP:  # a class below it may do something else
            check(network)
            return network
        return LayeredNetwork(architecture(network.settings, input_shape).plan(input_shape, num_outputs))

    return made


def _affine(norm: nn.BatchNorm1d) -> Affine:
    """A normalisation as it is in eval mode."""
    tensors = [cast(Tensor, one) for one in (norm.weight, norm.bias, norm.running_mean, norm.running_var)]
    weight, bias, mean, variance = (tensor.numpy() for tensor in on_host(tensors))
    return normalising(weight, bias, mean, variance, norm.eps)


def _stacked(placed: Sequence[Placed]) -> nn.Sequential:
    made = (_MAKERS[type(one.layer)](one.layer, one.input_shape) for one in placed)
    return nn.Sequential(*chain.from_iterable(made))


def _activation(name: str | None) -> list[nn.Module]:
    return [] if name in (None, "linear") else [ACTIVATIONS[str(name)]()]


def _conv(layer: Conv, shape: Shape) -> list[nn.Module]:
    above, below, left, right = layer.zeros_around(shape)
    around = [nn.ZeroPad2d((left, right, above, below))] if any((above, below, left, right)) else []
    return [*around, nn.Conv2d(shape[2], layer.filters, layer.size, layer.stride), *_activation(layer.activation)]


def _pool(layer: Pool, shape: Shape) -> list[nn.Module]:
    kind = nn.MaxPool2d if layer.kind == "max" else nn.AvgPool2d
    return [kind(layer.size, layer.steps)]


def _dense(layer: Dense, shape: Shape) -> list[nn.Module]:
    return [linear_layer(shape[0], layer.units, layer.noisy_std or 0.0), *_activation(layer.activation)]


def _norm(layer: Norm, shape: Shape) -> list[nn.Module]:
    if layer.kind == "layer":
        return [nn.LayerNorm(shape, _EPSILON) if len(shape) == 1 else nn.GroupNorm(1, shape[2], _EPSILON)]
    if layer.kind == BATCH_RENORM:
        return [BatchRenorm(shape[0])]
    return [nn.BatchNorm1d(shape[0], _EPSILON) if len(shape) == 1 else nn.BatchNorm2d(shape[2], _EPSILON)]


_MAKERS: Mapping[type[Layer], Callable[[Any, Shape], list[nn.Module]]] = {
    Conv: _conv,
    Pool: _pool,
    Flatten: lambda layer, shape: [_FlattenImages()],
    Dense: _dense,
    Norm: _norm,
    Dropout: lambda layer, shape: [nn.Dropout(layer.rate)],
    Activate: lambda layer, shape: _activation(layer.function),
}
