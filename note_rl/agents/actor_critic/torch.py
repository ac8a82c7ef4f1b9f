"""Common base of agents that learn a policy and its value from rollouts, in PyTorch."""

from typing import Any

from torch import Tensor, nn

from note_rl.agents.actor_critic import ActorCriticSettings, check_has_numbers
from note_rl.agents.declaration import Given
from note_rl.agents.shared.memories import observations_alone
from note_rl.agents.shared.spaces import any_spaces, num_outputs
from note_rl.agents.shared.torch.choices import choice_of, where_allowed
from note_rl.agents.shared.torch.distributions import Distribution
from note_rl.agents.shared.torch.encoded import EncodedNetwork
from note_rl.agents.shared.torch.layered import LayeredNetwork, have_one_trunk, policy_and_value, through_one_trunk
from note_rl.agents.shared.torch.networks import MLP, mlp
from note_rl.agents.shared.torch.numbers import means_of, numbers_of
from note_rl.agents.shared.torch.recurrent import RecurrentNetwork, State, memories_of, outputs_behind
from note_rl.learners.numpy_memory import ActingMemory
from note_rl.learners.numpy_policy import DenseLayer, dense_layers_of
from note_rl.policy import GaussianPolicy, GSDEPolicy, Policy, SoftmaxPolicy
from note_rl.rl_pytorch import RL_pytorch
from note_rl.types import Array


class ActorCritic(ActorCriticSettings, RL_pytorch):
    reads_triplets = False

    def make_networks(self, given: Given) -> None:
        """A policy and its value, each a network or a head on one trunk."""
        spaces = any_spaces(self.env, type(self).__name__, given.state_dim, given.action_dim, self.frame_stack)
        make = given.network or mlp(given.hidden_size, "tanh")
        self.choice = choice_of(spaces)  # None: actions are numbers
        self.numbers = numbers_of(num_outputs(spaces), self.gsde) if self.choice is None else None
        check_has_numbers(type(self).__name__, self.gsde, self.choice)
        networks = policy_and_value(make, given.critic_network, spaces.obs_shape, num_outputs(spaces))
        self.actor, self.critic = (network.to(given.device) for network in networks)
        self.memories = memories_of(self, self.actor, self.critic, given.critic_network)  # None: nothing is remembered
        self.one_trunk = have_one_trunk(self.actor, self.critic)
        for net, output_gain in ((self.actor, 0.01), (self.critic, 1.0)):
            if isinstance(net, MLP | LayeredNetwork | EncodedNetwork | RecurrentNetwork):
                net.start_orthogonal(output_gain)
        self.log_std: Tensor | None = None
        if self.numbers is not None:
            start = self.numbers.start(self.actor, num_outputs(spaces), self.initial_log_std)
            self.log_std = start.to(given.device).requires_grad_()
            self.actor = self.numbers.network(self.actor)
        self.param = [list(self.actor.parameters()), list(self.critic.parameters())]
        if self.one_trunk or (self.memories is not None and self.memories.is_one):  # one group, each parameter once
            self.param = [list(nn.ModuleList((self.actor, self.critic)).parameters())]
        if self.log_std is not None:
            self.param[0].append(self.log_std)
        self.advantage: Tensor
        self.return_: Tensor
        self.log_prob_old: Tensor
        self.value_old: Tensor

    def initial_state(self, num_envs: int) -> dict[str, Array]:
        """Zeros, of networks with a memory; else nothing."""
        return {} if self.memories is None else self.memories.initial_state(num_envs)

    def state_read_by(self, method: str) -> list[str]:
        """The memory of the policy for action(), that of the value for value(), which may be one."""
        return [] if self.memories is None else [self.memories.read_by(method)]

    def action(self, s: Tensor, state: State | None = None) -> Any:
        """Probabilities [B, A], those of several choices in a row, or of numbers what `Numbers.answers` says.

        With a memory it takes the state before s, and returns the one behind it, too.
        """
        if self.memories is None:
            return self._answers(self.actor(s))
        assert state is not None
        features, after = self.memories.step(s, state)
        return self._answers(outputs_behind(self.actor, features[self.memories.read_by("action")])), after

    def _answers(self, outputs: Tensor) -> Tensor:
        if self.numbers is None or self.log_std is None:
            assert self.choice is not None
            return self.choice.answers(outputs)
        return self.numbers.answers(outputs, self.log_std)

    def value(self, s: Tensor, state: State | None = None) -> Any:
        """V(s) [B]; with a memory as action()."""
        if self.memories is None:
            return self.critic(s).squeeze(1)
        assert state is not None
        features, after = self.memories.step(s, state)
        return outputs_behind(self.critic, features[self.memories.read_by("value")]).squeeze(1), after

    def distribution(self, s: Tensor, action_mask: Tensor | None = None) -> Distribution:
        """pi(.|s), for each state of a batch; of the allowed actions, where a mask [B, A] is given."""
        outputs = self._outputs(s, "distribution(s)")
        if self.numbers is None or self.log_std is None:
            assert self.choice is not None
            return self.choice.distribution(where_allowed(outputs, action_mask))
        return self.numbers.distribution(outputs, self.log_std)

    def log_prob_and_entropy(self, s: Tensor, a: Tensor, action_mask: Tensor | None = None) -> tuple[Tensor, Tensor]:
        """Log-probability of a in s and the entropy of pi(.|s), [B] each."""
        mask = self.action_mask if action_mask is None else action_mask  # the first is there in a loss, not in update()
        return self._log_prob_and_entropy(self._outputs(s, "log_prob_and_entropy(s, a)"), a, mask)

    def _outputs(self, s: Tensor, called: str) -> Tensor:
        """The outputs of the actor for observations alone (AgentContractError: it has a memory)."""
        if self.memories is not None:
            raise observations_alone(f"{type(self).__name__}.{called}")
        outputs: Tensor = self.actor(s)
        return outputs

    def log_prob_entropy_and_value(self, s: Tensor, a: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        """Both, and V(s), [B] each; a trunk of policy and value is passed through once.

        With a memory s and a are whole sequences, one after the other; see `Declared.initial_state`.
        """
        if self.memories is not None:
            of_policy, of_value = self.memories.sequences(s, self.state_before, self.episode_start)
            outputs, v = outputs_behind(self.actor, of_policy), outputs_behind(self.critic, of_value)
        elif self.one_trunk:
            outputs, v = through_one_trunk(self.actor, self.critic, s)
        else:
            return (*self.log_prob_and_entropy(s, a), self.value(s))
        return (*self._log_prob_and_entropy(outputs, a, self.action_mask), v.squeeze(1))

    def _log_prob_and_entropy(self, outputs: Tensor, a: Tensor, mask: Tensor | None) -> tuple[Tensor, Tensor]:
        if self.numbers is None or self.log_std is None:
            assert self.choice is not None
            policy = self.choice.distribution(where_allowed(outputs, mask))
            return policy.log_prob(a), policy.entropy()
        return self.numbers.log_prob_and_entropy(outputs, self.log_std, a)

    def default_policy(self) -> Policy:
        """Until set() says otherwise."""
        if self.choice is not None:
            return SoftmaxPolicy()
        return GaussianPolicy() if self.gsde is None else GSDEPolicy()

    def acting_layers(self) -> list[DenseLayer] | None:
        """The actor's layers, if it consists of dense ones."""
        return self._layers_of(self.actor)

    def acting_memory(self) -> ActingMemory | None:
        """The memories, and the layers behind that of the policy, if there are but dense ones around the cells."""
        cells, network = None if self.memories is None else self.memories.acting_cells(), means_of(self.actor)
        if cells is None or not isinstance(network, RecurrentNetwork):
            return None
        layers = self._layers_of(network.head)
        return None if layers is None else ActingMemory(cells, layers)

    def _layers_of(self, network: nn.Module) -> list[DenseLayer] | None:
        if self.numbers is None or self.log_std is None:
            assert self.choice is not None
            return dense_layers_of(network, self.choice.activation)
        return self.numbers.layers(network, self.log_std)
