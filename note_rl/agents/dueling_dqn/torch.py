"""Dueling DQN in PyTorch (Wang et al. 2016, https://arxiv.org/abs/1511.06581)."""

import torch
from torch import Tensor, nn

from note_rl.agents.declaration import Given
from note_rl.agents.dqn.torch import DQN
from note_rl.agents.dueling_dqn import DuelingDQNSettings
from note_rl.agents.shared.torch.networks import MakeNetwork, mlp
from note_rl.learners.numpy_policy import DenseLayer, dense_layers_of


class DuelingNetwork(nn.Module):
    """Q(s, a) = V(s) + A(s, a) - mean_a A(s, a) (eq. 9), from a shared part and two streams.

    Args:
        shared: Gives the hidden layers of both streams side by side, before their activation. [B, 2 * stream_size]
        stream_size: Width of each.
        num_actions: A.
    """

    def __init__(self, shared: nn.Module, stream_size: int, num_actions: int) -> None:
        super().__init__()
        self.shared = shared
        self.value = nn.Linear(stream_size, 1)
        self.advantage = nn.Linear(stream_size, num_actions)

    def forward(self, x: Tensor) -> Tensor:
        """[B, *obs] -> [B, A]."""
        for_value, for_advantage = self.shared(x).relu().chunk(2, dim=1)
        advantage: Tensor = self.advantage(for_advantage)
        q: Tensor = self.value(for_value) + advantage - advantage.mean(1, keepdim=True)
        return q

    def dense_layers(self) -> list[DenseLayer] | None:
        """The same as plain layers: after the streams' activation, all that follows is one linear map."""
        shared = dense_layers_of(self.shared, "relu")
        if shared is None:
            return None
        value, advantage = self.value, self.advantage
        with torch.no_grad():
            centred = advantage.weight - advantage.weight.mean(0)  # [A, stream]
            kernel = torch.cat([value.weight.expand_as(centred), centred], dim=1).T  # [2 * stream, A]
            bias = value.bias + advantage.bias - advantage.bias.mean()
        return [*shared, (kernel.cpu().numpy(), bias.cpu().numpy(), "linear")]


def dueling(make: MakeNetwork, stream_size: int = 64) -> MakeNetwork:
    """A maker of dueling networks whose shared part is made by another maker."""
    return lambda shape, num_actions: DuelingNetwork(make(shape, 2 * stream_size), stream_size, num_actions)


class DuelingDQN(DuelingDQNSettings, DQN):
    traceable = True

    def make_networks(self, given: Given) -> None:
        """As `DQN`, of dueling networks."""
        shared = given.network or mlp(given.hidden_size, num_layers=1)
        super().make_networks(Given(**{**vars(given), "network": dueling(shared, self.stream_size)}))
