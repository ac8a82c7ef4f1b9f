"""What agents have in common that learn a policy and its value from rollouts, in PyTorch."""

import math
from collections.abc import Sequence

import torch
from torch import Tensor, nn

from note_rl.agents.pytorch.choices import choice_of, where_allowed
from note_rl.agents.pytorch.distributions import DiagonalGaussian, Distribution
from note_rl.agents.pytorch.encoded import EncodedNetwork
from note_rl.agents.pytorch.layered import LayeredNetwork, have_one_trunk, policy_and_value, through_one_trunk
from note_rl.agents.pytorch.networks import MLP, MakeNetwork
from note_rl.agents.spaces import any_spaces, num_outputs
from note_rl.environments import EnvLike
from note_rl.learners.numpy_policy import DenseLayer, dense_layers_of, with_constant_outputs
from note_rl.policy import GaussianPolicy, Policy, SoftmaxPolicy
from note_rl.rl_pytorch import RL_pytorch

_LOG_ROOT_2PI = 0.5 * math.log(2.0 * math.pi)


class ActorCritic(RL_pytorch):
    """A policy and its value, for actions of all kinds. A subclass gives the loss.

    They are two networks, or the two heads of one (`layered_network` with shared=True).

    Acts with `SoftmaxPolicy` where it chooses, with `GaussianPolicy` where actions are numbers.

    Args:
        state_dim: Length of an observation; None: read from the environment, as action_dim.
        hidden_size: Width of the hidden layers, one number or one per layer; a single number means two layers.
        action_dim: Number of actions to choose one of.
        env: Environment, id, list or factory.
        network: Makes a network from (observation shape, number of outputs); None: a tanh `MLP` of `hidden_size`.
        critic_network: The same for the value; None: as `network`.
        gamma: Discount of one step.
        gae_lambda: Weight of long against short returns in the advantage.
        entropy_coef: Weight of the entropy bonus.
        value_coef: Weight of the value loss.
        normalise_advantage: Whether advantages get mean 0 and deviation 1 over the rollout.
        initial_log_std: Log deviation of continuous actions at the start; it is learned, the same for all states.
        frame_stack: Frames that are shown together; the same as in set().
        device: Where the networks live.
    """

    on_policy = True
    action_kinds = ("discrete", "multi_discrete", "multi_binary", "continuous")
    reads_triplets = False
    has_value_network = True

    def __init__(
        self,
        state_dim: int | None = None,
        hidden_size: int | Sequence[int] = (64, 64),
        action_dim: int | None = None,
        *,
        env: EnvLike = "CartPole-v1",
        network: MakeNetwork | None = None,
        critic_network: MakeNetwork | None = None,
        gamma: float = 0.99,
        gae_lambda: float = 0.95,
        entropy_coef: float = 0.0,
        value_coef: float = 0.5,
        normalise_advantage: bool = True,
        initial_log_std: float = 0.0,
        frame_stack: int = 1,
        device: str = "cpu",
    ) -> None:
        super().__init__()
        spaces = any_spaces(env, type(self).__name__, state_dim, action_dim, frame_stack)
        hidden = (hidden_size, hidden_size) if isinstance(hidden_size, int) else hidden_size
        make = network or (lambda shape, outputs: MLP(shape, outputs, hidden, activation="tanh"))
        self.env = env
        self.gamma = gamma
        self.gae_lambda = gae_lambda
        self.entropy_coef = entropy_coef
        self.value_coef = value_coef
        self.normalise_advantage = normalise_advantage
        self.initial_log_std = initial_log_std
        self.frame_stack = frame_stack
        self.choice = choice_of(spaces)  # None: actions are numbers
        networks = policy_and_value(make, critic_network, spaces.obs_shape, num_outputs(spaces))
        self.actor, self.critic = (network.to(device) for network in networks)
        self.one_trunk = have_one_trunk(self.actor, self.critic)
        for net, output_gain in ((self.actor, 0.01), (self.critic, 1.0)):
            if isinstance(net, MLP | LayeredNetwork | EncodedNetwork):
                net.start_orthogonal(output_gain)
        start = torch.full((num_outputs(spaces),), float(initial_log_std), device=device)
        self.log_std = start.requires_grad_() if self.choice is None else None
        self.param = [list(self.actor.parameters()), list(self.critic.parameters())]
        if self.one_trunk:  # one group, with each parameter once
            self.param = [list(nn.ModuleList((self.actor, self.critic)).parameters())]
        if self.log_std is not None:
            self.param[0].append(self.log_std)
        self.advantage: Tensor
        self.return_: Tensor

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
        return with_constant_outputs(layers, self.log_std.detach().numpy())
