"""Networks in PyTorch."""

import math
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from itertools import pairwise
from typing import Any, cast

import torch
from torch import Tensor, nn

from note_rl.agents.shared.architecture import uniform_bound
from note_rl.agents.shared.perceptrons import CNNSettings, MLPSettings
from note_rl.agents.shared.spaces import ContinuousSpaces, image_shape, say_if_pixels
from note_rl.agents.shared.torch.noisy import in_numpy, linear_layer
from note_rl.environments.frames import channels_first
from note_rl.environments.observation_packing import shape_with_action
from note_rl.learners.numpy_noise import NoisyStage
from note_rl.learners.numpy_policy import DenseLayer, dense_layers_of, scaled_tanh
from note_rl.learners.pytorch.torch_internals import foreach_copy_, foreach_lerp_, own_buffers, own_parameters
from note_rl.settings.field_arguments import taking
from note_rl.types import Activation

ACTIVATIONS: dict[str, type[nn.Module]] = {"relu": nn.ReLU, "tanh": nn.Tanh, "elu": nn.ELU, "silu": nn.SiLU}

MakeNetwork = Callable[[tuple[int, ...], int], nn.Module]


def are_on_host(tensors: Iterable[Tensor]) -> bool:
    """Whether tensors are in the memory of the CPU."""
    return all(tensor.device.type == "cpu" for tensor in tensors)


def on_host(tensors: Sequence[Tensor]) -> list[Tensor]:
    """Returns tensors of one type in the memory of the CPU: views where they are there, else copies by one transfer."""
    if are_on_host(tensors):
        return [tensor.detach() for tensor in tensors]
    vectors = torch.cat([tensor.detach().reshape(-1) for tensor in tensors]).cpu()
    sizes = [tensor.numel() for tensor in tensors]
    return [vector.view(tensor.shape) for vector, tensor in zip(torch.split(vectors, sizes), tensors, strict=True)]


def as_dense_layers(weights: Sequence[tuple[Tensor, Tensor]], activations: Sequence[str]) -> list[DenseLayer]:
    """Returns pairs of weight [out, in] and bias [out], with what follows them, in the form that NumPy acts by."""
    arrays = [tensor.numpy() for tensor in on_host([tensor for pair in weights for tensor in pair])]
    pairs = zip(arrays[::2], arrays[1::2], activations, strict=True)
    return [(weight.T, bias, activation) for weight, bias, activation in pairs]


def as_numbers(x: Tensor) -> Tensor:
    """The input of a network in single precision: bytes of images as 0 to 1, whole numbers as they are."""
    return x.float() / 255.0 if x.dtype == torch.uint8 else x.float()


def begin_weights(module: nn.Conv2d | nn.Linear, initializer: str, gain: float) -> None:
    """Draws the weights; biases start at 0, or with `uniform` weights within their bounds."""
    fan_in = module.weight[0].numel()
    fan_out = module.weight[:, 0].numel()
    bias = cast(Tensor, module.bias)
    nn.init.zeros_(bias)
    if initializer == "orthogonal":
        nn.init.orthogonal_(module.weight, gain)
        return
    bound = uniform_bound(initializer, gain, fan_in, fan_out)
    nn.init.uniform_(module.weight, -bound, bound)
    if initializer == "uniform":
        nn.init.uniform_(bias, -bound, bound)


class MLP(nn.Module):
    """A multilayer perceptron over flattened observations, with a linear last layer.

    Weights and biases start uniform in +-1/sqrt(fan in), which keeps first values small, as Q-learning needs.

    Args:
        input_shape: Shape of one observation.
        num_outputs: Width of the last layer.
        hidden_sizes, activation, initializer, noisy_std: See `MLPSettings`.
    """

    @taking(MLPSettings)
    def __init__(self, input_shape: tuple[int, ...], num_outputs: int, settings: MLPSettings) -> None:
        super().__init__()
        say_if_pixels(input_shape)
        self._initializer = settings.initializer
        self._noisy_std = settings.noisy_std
        self.activation = settings.activation
        sizes = [math.prod(input_shape), *settings.hidden_sizes, num_outputs]
        self.linears = [linear_layer(i, o, settings.noisy_std) for i, o in pairwise(sizes)]
        self.layers = nn.ModuleList(self.linears)  # registers the parameters
        self.act = ACTIVATIONS[settings.activation]()
        self._viewed: tuple[list[Any], list[DenseLayer]] = ([], [])  # where weights lie, and what was read there
        if self._initializer is not None:
            self._draw(self._initializer, 1.0)

    @property
    def settings(self) -> MLPSettings:
        """The settings that it was made with."""
        sizes = tuple(linear.out_features for linear in self.linears[:-1])
        return MLPSettings(sizes, self.activation, self._initializer, self._noisy_std)

    def forward(self, x: Tensor) -> Tensor:
        """[B, *input_shape] -> [B, num_outputs]."""
        return cast(Tensor, self.linears[-1](self.features(x)))

    def features(self, x: Tensor) -> Tensor:
        """Activations of the last hidden layer for observations, [B, F]."""
        x = as_numbers(x).flatten(1)
        for linear in self.linears[:-1]:
            x = self.act(linear(x))
        return x

    def last_hidden(self, features: Tensor) -> Tensor:
        """The output layer's input, [B, F]."""
        return features

    @property
    def output_layer(self) -> nn.Linear:
        """The last one."""
        return self.linears[-1]

    def start_orthogonal(self, output_gain: float) -> None:
        """Orthogonal weights of gain sqrt(2), the last layer's of `output_gain`, and biases 0, as PPO starts.

        A small gain makes a policy start out nearly uniform (Andrychowicz et al. 2021, section 3.2). Weights of another
        initializer that was asked for stay as they are.
        """
        if self._initializer in (None, "orthogonal"):
            self._draw("orthogonal", output_gain)

    def _draw(self, initializer: str, output_gain: float) -> None:
        hidden = math.sqrt(2) if initializer == "orthogonal" else 1.0
        for linear in self.linears:
            begin_weights(linear, initializer, output_gain if linear is self.linears[-1] else hidden)

    def dense_layers(self) -> list[DenseLayer]:
        """Views of the weights for acting in NumPy, which follow what is learned; copies of those on a GPU."""
        weights = [(linear.weight, linear.bias) for linear in self.linears]  # a parametrized one is made anew each time
        read = [self.activation, *((weight.data_ptr(), bias.data_ptr()) for weight, bias in weights)]
        activations = [self.activation] * (len(weights) - 1) + ["linear"]
        if not are_on_host(parameter for pair in weights for parameter in pair):
            return as_dense_layers(weights, activations)  # not kept: a layer that changes is recorded anew
        if self._viewed[0] != read:
            self._viewed = read, as_dense_layers(weights, activations)
        return self._viewed[1]

    def noisy_stages(self, output_activation: str) -> list[NoisyStage]:
        """The layers with their noise for acting in NumPy."""
        last = self.linears[-1]
        hidden: list[NoisyStage] = [in_numpy(linear, self.activation) for linear in self.linears[:-1]]
        return [*hidden, in_numpy(last, output_activation)]

    def __getstate__(self) -> dict[str, Any]:
        """For copies, which may come to lie where the original did in another process, and share no memory with it."""
        return {**vars(self), "_viewed": ([], [])}


def mlp(hidden_size: int | Sequence[int], activation: Activation = "relu", num_layers: int = 2) -> MakeNetwork:
    """A maker of perceptrons.

    Args:
        hidden_size: Widths of the hidden layers; a single number: that of each.
        activation: See `MLP`.
        num_layers: How many a single number means.
    """
    widths = (hidden_size,) * num_layers if isinstance(hidden_size, int) else hidden_size
    return lambda input_shape, num_outputs: MLP(input_shape, num_outputs, widths, activation)


class CNN(nn.Module):
    """The convolutional network of Mnih et al. 2015 for images of 36 pixels or more a side.

    Args:
        input_shape: Shape of one observation, [H, W], [H, W, C] or [C, H, W].
        num_outputs: Width of the last layer.
        hidden_sizes, noisy_std: See `CNNSettings`.
    """

    @taking(CNNSettings)
    def __init__(self, input_shape: tuple[int, ...], num_outputs: int, settings: CNNSettings) -> None:
        super().__init__()
        height, width, channels = image_shape(input_shape)
        self.channels_first = channels_first(input_shape)
        self.convolutions = nn.Sequential(
            *(nn.Conv2d(channels, 32, 8, 4), nn.ReLU()),
            *(nn.Conv2d(32, 64, 4, 2), nn.ReLU()),
            *(nn.Conv2d(64, 64, 3, 1), nn.ReLU(), nn.Flatten()),
        )
        with torch.no_grad():
            num_features = self.convolutions(torch.zeros(1, channels, height, width)).shape[1]
        self.head = MLP((num_features,), num_outputs, settings.hidden_sizes, noisy_std=settings.noisy_std)

    def forward(self, x: Tensor) -> Tensor:
        """[B, *input_shape] -> [B, num_outputs]."""
        return cast(Tensor, self.head(self._seen(x)))

    def _seen(self, x: Tensor) -> Tensor:
        x = as_numbers(x if x.ndim == 4 else x[..., None])
        image = x if self.channels_first else x.permute(0, 3, 1, 2)
        return cast(Tensor, self.convolutions(image).relu())

    def features(self, x: Tensor) -> Tensor:
        """See `MLP`."""
        return self.head.features(self._seen(x))

    def last_hidden(self, features: Tensor) -> Tensor:
        """See `MLP`."""
        return features

    @property
    def output_layer(self) -> nn.Linear:
        """See `MLP`."""
        return self.head.output_layer


class TanhActor(nn.Module):
    """A network whose outputs are brought between the bounds of the action by tanh: [B, *obs] -> [B, A]."""

    def __init__(self, make: MakeNetwork, spaces: ContinuousSpaces) -> None:
        super().__init__()
        self.net = make(spaces.obs_shape, spaces.action_size)
        self.centre: Tensor
        self.scale: Tensor
        self.register_buffer("centre", torch.from_numpy(spaces.centre))
        self.register_buffer("scale", torch.from_numpy(spaces.scale))

    def forward(self, s: Tensor) -> Tensor:
        """Actions [B, A]."""
        return cast(Tensor, self.centre + self.scale * self.net(s).tanh())

    def dense_layers(self) -> list[DenseLayer] | None:
        """For acting in NumPy, if the network consists of dense layers."""
        centre, scale = on_host([self.centre, self.scale])
        return dense_layers_of(self.net, scaled_tanh(centre.numpy(), scale.numpy()))


class QNetwork(nn.Module):
    """Q(s, a) [B]: the action, brought to [-1, 1], joins a flat observation, or what is seen in an image.

    Encoders of an observation that was a dictionary leave the action as it is; see `shape_with_action`.

    Args:
        make: Makes the network from (input shape, number of outputs). Of images, it makes one with
            `num_features` outputs and an `MLP` goes on from there.
        spaces: Of observations and actions.
        num_features: Numbers that an image is summed up in.
        num_outputs: Of the network; `forward` takes the only one.
    """

    def __init__(
        self, make: MakeNetwork, spaces: ContinuousSpaces, num_features: int = 64, num_outputs: int = 1
    ) -> None:
        super().__init__()
        self.centre: Tensor
        self.scale: Tensor
        self.register_buffer("centre", torch.from_numpy(spaces.centre))
        self.register_buffer("scale", torch.from_numpy(spaces.unit))
        flat = len(spaces.obs_shape) == 1
        self.encoder: nn.Module = nn.Identity() if flat else make(spaces.obs_shape, num_features)
        inputs = shape_with_action(spaces.obs_shape if flat else (num_features,), spaces.action_size)
        self.net = make(inputs, num_outputs) if flat else MLP(inputs, num_outputs)

    def forward(self, s: Tensor, a: Tensor) -> Tensor:
        """Values [B] of actions [B, A] in states [B, *obs]."""
        return self._values(s, a).squeeze(1)

    def _values(self, s: Tensor, a: Tensor) -> Tensor:
        """All outputs, [B, num_outputs]."""
        both = torch.cat([self.encoder(s), (a - self.centre) / self.scale], dim=1)
        return cast(Tensor, self.net(both))


def indicators(chosen: Tensor, size: int) -> Tensor:
    """1 where the index points, else 0: [...] -> [..., size]. Unlike `one_hot` it asks no tensor for its numbers."""
    return torch.eye(size, device=chosen.device)[chosen.long()]


def soft_update(target: nn.Module, online: nn.Module, tau: float) -> None:
    """Moves target <- target + tau * (online - target); tau = 1 copies (Lillicrap et al. 2016, section 3).

    Running statistics, as those of batch normalisation, are copied: they follow the data, not the gradient.
    """
    (mine, my_buffers), (theirs, their_buffers) = _parameters_and_buffers(target), _parameters_and_buffers(online)
    with torch.no_grad():
        foreach_lerp_(mine, theirs, tau)
        if my_buffers:
            foreach_copy_(my_buffers, their_buffers)


def _parameters_and_buffers(network: nn.Module) -> tuple[list[Tensor], list[Tensor]]:
    """Each once, in one walk, as this is done after every gradient step."""
    parameters: dict[int, Tensor] = {}
    buffers: dict[int, Tensor] = {}
    for layer in network.modules():
        parameters.update((id(one), one) for one in own_parameters(layer) if one is not None)
        buffers.update((id(one), one) for one in own_buffers(layer) if one is not None)
    return list(parameters.values()), list(buffers.values())


@contextmanager
def evaluating(*networks: nn.Module) -> Iterator[None]:
    """Networks in eval mode while they say what to aim at, within a loss that trains them."""
    with _in_mode([layer for network in networks for layer in network.modules()], training=False):
        yield


@contextmanager
def dropping(*networks: nn.Module) -> Iterator[None]:
    """Dropout layers in train mode within the computation of targets, as DroQ has it."""
    layers = [layer for network in networks for layer in network.modules() if isinstance(layer, nn.Dropout)]
    with _in_mode(layers, training=True):
        yield


@contextmanager
def _in_mode(layers: Sequence[nn.Module], training: bool) -> Iterator[None]:
    before = [layer.training for layer in layers]
    for layer in layers:
        layer.training = training
    try:
        yield
    finally:
        for layer, former in zip(layers, before, strict=True):
            layer.training = former
