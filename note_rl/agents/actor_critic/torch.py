"""What agents have in common that learn a policy and its value from rollouts, in PyTorch."""

import math

import torch
from torch import Tensor, nn

from note_rl.agents.actor_critic import ActorCriticSettings
from note_rl.agents.declaration import Given
from note_rl.agents.shared.spaces import any_spaces, num_outputs
from note_rl.agents.shared.torch.choices import choice_of, where_allowed
from note_rl.agents.shared.torch.distributions import DiagonalGaussian, Distribution
from note_rl.agents.shared.torch.encoded import EncodedNetwork
from note_rl.agents.shared.torch.layered import LayeredNetwork, have_one_trunk, policy_and_value, through_one_trunk
from note_rl.agents.shared.torch.networks import MLP, mlp
from note_rl.learners.numpy_policy import DenseLayer, dense_layers_of, with_constant_outputs
from note_rl.policy import GaussianPolicy, Policy, SoftmaxPolicy
from note_rl.rl_pytorch import RL_pytorch

_LOG_ROOT_2PI = 0.5 * math.log(2.0 * math.pi)


class ActorCritic(ActorCriticSettings, RL_pytorch):
    reads_triplets = False

    def make_networks(self, given: Given) -> None:
        """A policy and its value, each a network or a head on one trunk."""
        spaces = any_spaces(self.env, type(self).__name__, given.state_dim, given.action_dim, self.frame_stack)
        make = given.network or mlp(given.hidden_size, "tanh")
        self.choice = choice_of(spaces)  # None: actions are numbers
        networks = policy_and_value(make, given.critic_network, spaces.obs_shape, num_outputs(spaces))
        self.actor, self.critic = (network.to(given.device) for network in networks)
        self.one_trunk = have_one_trunk(self.actor, self.critic)
        for net, output_gain in ((self.actor, 0.01), (self.critic, 1.0)):
            if isinstance(net, MLP | LayeredNetwork | EncodedNetwork):
                net.start_orthogonal(output_gain)
        start = torch.full((num_outputs(spaces),), float(self.initial_log_std), device=given.device)
        self.log_std = start.requires_grad_() if self.choice is None else None
        self.param = [list(self.actor.parameters()), list(self.critic.parameters())]
        if self.one_trunk:  # one group, with each parameter once
            self.param = [list(nn.ModuleList((self.actor, self.critic)).parameters())]
        if self.log_std is not None:
            self.param[0].append(self.log_std)
        self.advantage: Tensor
        self.return_: Tensor
        self.log_prob_old: Tensor
        self.value_old: Tensor

    def action(self, s: Tensor) -> Tensor:
        """Probabilities [B, A], those of several choices in a row, or of numbers means and log deviations [B, 2A]."""
        outputs: Tensor = self.actor(s)
        if self.choice is not None:
            return self.choice.answers(outputs)
        assert self.log_std is not None
        return torch.cat([outputs, self.log_std.expand_as(outputs)], dim=-1)

    def value(self, s: Tensor) -> Tensor:
        """V(s) [B]."""
        v: Tensor = self.critic(s).squeeze(1)
        return v

    def distribution(self, s: Tensor, action_mask: Tensor | None = None) -> Distribution:
        """pi(.|s), for each state of a batch; of the allowed actions, where a mask [B, A] is given."""
        outputs: Tensor = self.actor(s)
        if self.choice is not None:
            return self.choice.distribution(where_allowed(outputs, action_mask))
        assert self.log_std is not None
        return DiagonalGaussian(outputs, self.log_std)

    def log_prob_and_entropy(self, s: Tensor, a: Tensor, action_mask: Tensor | None = None) -> tuple[Tensor, Tensor]:
        """Log-probability of a in s and the entropy of pi(.|s), [B] each."""
        mask = self.action_mask if action_mask is None else action_mask  # the first is there in a loss, not in update()
        return self._log_prob_and_entropy(self.actor(s), a, mask)

    def log_prob_entropy_and_value(self, s: Tensor, a: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        """Both, and V(s), [B] each; a trunk of policy and value is passed through once."""
        if not self.one_trunk:
            return (*self.log_prob_and_entropy(s, a), self.value(s))
        outputs, v = through_one_trunk(self.actor, self.critic, s)
        return (*self._log_prob_and_entropy(outputs, a, self.action_mask), v.squeeze(1))

    def _log_prob_and_entropy(self, outputs: Tensor, a: Tensor, mask: Tensor | None) -> tuple[Tensor, Tensor]:
        if self.choice is not None:
            policy = self.choice.distribution(where_allowed(outputs, mask))
            return policy.log_prob(a), policy.entropy()
        assert self.log_std is not None
        log_normal = -0.5 * ((a - outputs) * (-self.log_std).exp()).square() - self.log_std - _LOG_ROOT_2PI  # [B, A]
        entropy = (self.log_std + _LOG_ROOT_2PI + 0.5).sum()
        return log_normal.sum(-1), entropy.expand(len(a))

    def default_policy(self) -> Policy:
        """Until set() says otherwise."""
        return GaussianPolicy() if self.choice is None else SoftmaxPolicy()

    def acting_layers(self) -> list[DenseLayer] | None:
        """The actor's layers, if it consists of dense ones."""
        layers = dense_layers_of(self.actor, None if self.choice is None else self.choice.activation)
        if layers is None or self.log_std is None:
            return layers
        return with_constant_outputs(layers, self.log_std.detach().cpu().numpy())
