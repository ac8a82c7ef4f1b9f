"""Dueling DQN in PyTorch (Wang et al. 2016, https://arxiv.org/abs/1511.06581)."""

from collections.abc import Sequence

import torch
from torch import Tensor, nn

from note_rl.agents.pytorch.dqn import DQN
from note_rl.agents.pytorch.networks import MLP, MakeNetwork
from note_rl.environments import EnvLike
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
        return [*shared, (kernel.numpy(), bias.numpy(), "linear")]


def dueling(make: MakeNetwork, stream_size: int = 64) -> MakeNetwork:
    """A maker of dueling networks whose shared part is made by another maker."""
    return lambda shape, num_actions: DuelingNetwork(make(shape, 2 * stream_size), stream_size, num_actions)


class DuelingDQN(DQN):
    """DQN whose network estimates the value of a state and the advantage of each action apart.

    The value is learned from every transition, whichever action it took. With DoubleDQN:
    `DoubleDQN(network=dueling(MLP))`.

    Args:
        network: Makes what both streams share from (observation shape, number of outputs); None: an `MLP`.
        stream_size: Width of the hidden layer of each stream.
        state_dim, hidden_size, action_dim, env, gamma, tau, frame_stack, device: As for `DQN`.
    """

    num_output_layers = 2
    traceable = True

    def __init__(
        self,
        state_dim: int | None = None,
        hidden_size: int | Sequence[int] = (64,),
        action_dim: int | None = None,
        *,
        env: EnvLike = "CartPole-v1",
        network: MakeNetwork | None = None,
        stream_size: int = 64,
        gamma: float = 0.99,
        tau: float = 1.0,
        frame_stack: int = 1,
        device: str = "cpu",
    ) -> None:
        hidden = (hidden_size,) if isinstance(hidden_size, int) else hidden_size
        shared = network or (lambda shape, outputs: MLP(shape, outputs, hidden))
        super().__init__(
            state_dim,
            hidden,
            action_dim,
            env=env,
            network=dueling(shared, stream_size),
            gamma=gamma,
            tau=tau,
            frame_stack=frame_stack,
            device=device,
        )
        self.stream_size = stream_size
