"""Proximal policy optimization in PyTorch (Schulman et al. 2017, https://arxiv.org/abs/1707.06347)."""

from collections.abc import Sequence

import torch
from torch import Tensor

from note_rl.agents.pytorch.networks import MLP, MakeNetwork
from note_rl.agents.spaces import discrete_spaces
from note_rl.environments import EnvLike
from note_rl.learners.mirror import DenseLayer
from note_rl.rl_pytorch import RL_pytorch


class PPO(RL_pytorch):
    """Clipped policy gradient with generalised advantages, for discrete actions.

    Args:
        state_dim: Length of an observation; None: read from the environment, as action_dim.
        hidden_size: Width of the hidden layers, one number or one per layer; a single number means two layers.
        action_dim: Number of actions.
        env: Environment, id, list or factory.
        network: Makes a network from (observation shape, number of outputs); None: a tanh `MLP` of `hidden_size`.
        gamma: Discount of one step.
        gae_lambda: Weight of long against short returns in the advantage.
        clip: How far the probability ratio may leave 1 before the gradient is cut.
        entropy_coef: Weight of the entropy bonus.
        value_coef: Weight of the value loss.
        normalise_advantage: Whether advantages get mean 0 and deviation 1 over the rollout.
        device: Where the networks live.
    """

    def __init__(
        self,
        state_dim: int | None = None,
        hidden_size: int | Sequence[int] = (64, 64),
        action_dim: int | None = None,
        *,
        env: EnvLike = "CartPole-v1",
        network: MakeNetwork | None = None,
        gamma: float = 0.99,
        gae_lambda: float = 0.95,
        clip: float = 0.2,
        entropy_coef: float = 0.0,
        value_coef: float = 0.5,
        normalise_advantage: bool = True,
        device: str = "cpu",
    ) -> None:
        super().__init__()
        spaces = discrete_spaces(env, "PPO", state_dim, action_dim)
        hidden = (hidden_size, hidden_size) if isinstance(hidden_size, int) else hidden_size
        make = network or (lambda shape, outputs: MLP(shape, outputs, hidden, activation="tanh"))
        self.env = env
        self.gamma = gamma
        self.gae_lambda = gae_lambda
        self.clip = clip
        self.entropy_coef = entropy_coef
        self.value_coef = value_coef
        self.normalise_advantage = normalise_advantage
        self.actor = make(spaces.obs_shape, spaces.num_actions).to(device)
        self.critic = make(spaces.obs_shape, 1).to(device)
        for net, output_gain in ((self.actor, 0.01), (self.critic, 1.0)):
            if isinstance(net, MLP):
                net.start_orthogonal(output_gain)
        self.param = [list(self.actor.parameters()), list(self.critic.parameters())]
        self.log_prob_old: Tensor
        self.advantage: Tensor
        self.return_: Tensor

    def action(self, s: Tensor) -> Tensor:
        """Probabilities [B, A]."""
        probabilities: Tensor = self.actor(s).softmax(-1)
        return probabilities

    def value(self, s: Tensor) -> Tensor:
        """V(s) [B]."""
        v: Tensor = self.critic(s)[:, 0]
        return v

    def __call__(self, s: Tensor, a: Tensor, next_s: Tensor, r: Tensor, d: Tensor) -> Tensor:
        """Loss [B]: clipped surrogate (eq. 7), squared value error, minus the entropy bonus (eq. 9)."""
        log_probs = self.actor(s).log_softmax(-1)  # [B, A]
        ratio = (log_probs.gather(1, a[:, None])[:, 0] - self.log_prob_old).exp()
        clipped = ratio.clamp(1.0 - self.clip, 1.0 + self.clip)
        surrogate = torch.minimum(ratio * self.advantage, clipped * self.advantage)
        entropy = -(log_probs.exp() * log_probs).sum(-1)
        value_error = (self.value(s) - self.return_).square()
        loss: Tensor = -surrogate + self.value_coef * value_error - self.entropy_coef * entropy
        return loss

    def acting_layers(self) -> list[DenseLayer] | None:
        """The actor's layers, if it is an `MLP`."""
        return self.actor.dense_layers("softmax") if isinstance(self.actor, MLP) else None
