"""Networks in PyTorch."""

import math
from collections.abc import Callable, Sequence
from itertools import pairwise
from typing import cast

import torch
from torch import Tensor, nn

from note_rl.errors import SettingsError
from note_rl.learners.mirror import DenseLayer

_ACTIVATIONS: dict[str, type[nn.Module]] = {"relu": nn.ReLU, "tanh": nn.Tanh, "elu": nn.ELU, "silu": nn.SiLU}

MakeNetwork = Callable[[tuple[int, ...], int], nn.Module]


class MLP(nn.Module):
    """A multilayer perceptron over flattened observations, with a linear last layer.

    Weights and biases start uniform in +-1/sqrt(fan in), which keeps first values small, as Q-learning needs.

    Args:
        input_shape: Shape of one observation.
        num_outputs: Width of the last layer.
        hidden_sizes: Widths of the layers between.
        activation: relu, tanh, elu or silu.
    """

    def __init__(
        self,
        input_shape: tuple[int, ...],
        num_outputs: int,
        hidden_sizes: Sequence[int] = (64, 64),
        activation: str = "relu",
    ) -> None:
        super().__init__()
        if activation not in _ACTIVATIONS:
            raise SettingsError(f"unknown activation {activation!r}; known are {', '.join(_ACTIVATIONS)}")
        self.activation = activation
        sizes = [math.prod(input_shape), *hidden_sizes, num_outputs]
        self.linears = [nn.Linear(i, o) for i, o in pairwise(sizes)]
        self.layers = nn.ModuleList(self.linears)  # registers the parameters
        self.act = _ACTIVATIONS[activation]()

    def forward(self, x: Tensor) -> Tensor:
        """[B, *input_shape] -> [B, num_outputs]."""
        x = x.flatten(1)
        for linear in self.linears[:-1]:
            x = self.act(linear(x))
        return cast(Tensor, self.linears[-1](x))

    def start_orthogonal(self, output_gain: float) -> None:
        """Orthogonal weights of gain sqrt(2), the last layer's of `output_gain`, and biases 0, as PPO starts.

        A small gain makes a policy start out nearly uniform (Andrychowicz et al. 2021, section 3.2).
        """
        for linear in self.linears:
            nn.init.orthogonal_(linear.weight, output_gain if linear is self.linears[-1] else math.sqrt(2))
            nn.init.zeros_(linear.bias)

    def dense_layers(self, output_activation: str = "linear") -> list[DenseLayer]:
        """Views of the weights on the CPU, in the form that acting in NumPy takes."""
        last = len(self.linears) - 1
        return [
            (
                linear.weight.detach().numpy().T,
                linear.bias.detach().numpy(),
                output_activation if index == last else self.activation,
            )
            for index, linear in enumerate(self.linears)
        ]


def soft_update(target: nn.Module, online: nn.Module, tau: float) -> None:
    """Target <- target + tau * (online - target); tau = 1 copies (Lillicrap et al. 2016, section 3)."""
    with torch.no_grad():
        torch._foreach_lerp_(list(target.parameters()), list(online.parameters()), tau)
