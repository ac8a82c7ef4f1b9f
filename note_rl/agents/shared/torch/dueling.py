"""Dueling networks in PyTorch (Wang et al. 2016, https://arxiv.org/abs/1511.06581)."""

import torch
from torch import Tensor, nn

from note_rl.agents.shared.torch.networks import MakeNetwork
from note_rl.agents.shared.torch.noisy import in_numpy, linear_layer, noisy_std_of
from note_rl.learners.numpy_noise import NoisyStage, NoisyStreams, noisy_stages_of
from note_rl.learners.numpy_policy import DenseLayer, dense_layers_of


class DuelingNetwork(nn.Module):
    """Q(s, a) = V(s) + A(s, a) - mean_a A(s, a) (eq. 9), from a shared part and two streams.

    Where N numbers stand for the return of an action, each of them is made so (Hessel et al. 2018, section 3).

    Args:
        shared: Gives the hidden layers of both streams side by side, before their activation. [B, 2 * stream_size]
        stream_size: Width of each.
        num_actions: A.
        num_each: N.
    """

    def __init__(self, shared: nn.Module, stream_size: int, num_actions: int, num_each: int = 1) -> None:
        super().__init__()
        self.shared = shared
        std = noisy_std_of(shared)
        self.value = linear_layer(stream_size, num_each, std)
        self.advantage = linear_layer(stream_size, num_actions * num_each, std)
        self.num_each = num_each

    def forward(self, x: Tensor) -> Tensor:
        """[B, *obs] -> [B, A * N]."""
        for_value, for_advantage = self.shared(x).relu().chunk(2, dim=1)
        value: Tensor = self.value(for_value)
        advantage: Tensor = self.advantage(for_advantage)
        if self.num_each == 1:
            return value + advantage - advantage.mean(1, keepdim=True)
        advantage = advantage.reshape(-1, advantage.shape[1] // self.num_each, self.num_each)  # [B, A, N]
        return (value[:, None] + advantage - advantage.mean(1, keepdim=True)).flatten(1)

    def dense_layers(self) -> list[DenseLayer] | None:
        """The same as plain layers: after the streams' activation, all that follows is one linear map."""
        shared = dense_layers_of(self.shared, "relu")
        if shared is None:
            return None
        value, advantage = self.value, self.advantage
        with torch.no_grad():
            by_action = advantage.weight.reshape(-1, self.num_each, advantage.in_features)  # [A, N, stream]
            centred = by_action - by_action.mean(0)
            streams = [value.weight.expand_as(centred), centred]
            kernel = torch.cat(streams, dim=2).flatten(0, 1).T  # [2 * stream, A * N]
            biases = advantage.bias.reshape(-1, self.num_each)
            bias = (value.bias + biases - biases.mean(0)).flatten()
        return [*shared, (kernel.cpu().numpy(), bias.cpu().numpy(), "linear")]

    def noisy_stages(self, output_activation: str) -> list[NoisyStage] | None:
        """The layers with their noise for acting in NumPy; nothing stands behind both streams."""
        shared = noisy_stages_of(self.shared, "relu")
        if shared is None:
            return None
        streams = NoisyStreams(in_numpy(self.value, "linear"), in_numpy(self.advantage, "linear"), self.num_each)
        return [*shared, streams]


def dueling(make: MakeNetwork, stream_size: int = 64, num_each: int = 1) -> MakeNetwork:
    """A maker of dueling networks whose shared part is made by another maker.

    Args:
        make: That one.
        stream_size: Width of the hidden layer of each stream.
        num_each: Numbers that stand for the return of one action.
    """

    def made(shape: tuple[int, ...], num_outputs: int) -> nn.Module:
        return DuelingNetwork(make(shape, 2 * stream_size), stream_size, num_outputs // num_each, num_each)

    return made
