"""Common base of agents that learn a policy and its value from rollouts, in Keras."""

from typing import Any

import tensorflow as tf

from note_rl.agents.actor_critic import ActorCriticSettings, check_has_numbers
from note_rl.agents.declaration import Given
from note_rl.agents.shared.keras.choices import choice_of, where_allowed
from note_rl.agents.shared.keras.distributions import Distribution
from note_rl.agents.shared.keras.encoded import EncodedNetwork
from note_rl.agents.shared.keras.layered import LayeredNetwork, have_one_trunk, policy_and_value, through_one_trunk
from note_rl.agents.shared.keras.networks import MLP, mlp
from note_rl.agents.shared.keras.numbers import means_of, numbers_of
from note_rl.agents.shared.keras.recurrent import Memories, RecurrentNetwork, State, check_memories, memories_of
from note_rl.agents.shared.memories import observations_alone
from note_rl.agents.shared.spaces import any_spaces, num_outputs
from note_rl.learners.numpy_memory import ActingMemory
from note_rl.learners.numpy_policy import DenseLayer, dense_layers_of
from note_rl.policy import GaussianPolicy, GSDEPolicy, Policy, SoftmaxPolicy
from note_rl.rl import RL
from note_rl.types import Array


class ActorCritic(ActorCriticSettings, RL):
    reads_triplets = False

    def make_networks(self, given: Given) -> None:
        """A policy and its value, each a network or a head on one trunk."""
        spaces = any_spaces(self.env, type(self).__name__, given.state_dim, given.action_dim, self.frame_stack)
        make = given.network or mlp(given.hidden_size, "tanh")
        self.choice = choice_of(spaces)  # None: actions are numbers
        self.numbers = numbers_of(num_outputs(spaces), self.gsde) if self.choice is None else None
        check_has_numbers(type(self).__name__, self.gsde, self.choice)
        with tf.device(given.device):
            self.actor, self.critic = policy_and_value(
                make, given.critic_network, spaces.obs_shape, num_outputs(spaces)
            )
            self.log_std = None
            if self.numbers is not None:
                self.log_std = tf.Variable(self.numbers.start(self.actor, num_outputs(spaces), self.initial_log_std))
        check_memories(self, self.actor, self.critic, given.critic_network)
        for net, output_gain in ((self.actor, 0.01), (self.critic, 1.0)):
            if isinstance(net, MLP | LayeredNetwork | EncodedNetwork | RecurrentNetwork):
                net.start_orthogonal(output_gain)
        self.one_trunk = have_one_trunk(self.actor, self.critic)
        if self.numbers is not None:
            self.actor = self.numbers.network(self.actor)
        self.param = [list(self.actor.trainable_variables), list(self.critic.trainable_variables)]
        if self.one_trunk or (self.memories is not None and self.memories.is_one):  # one group, each variable once
            self.param = [[*self.actor.trainable_variables, *self.critic.head.trainable_variables]]
        if self.log_std is not None:
            self.param[0].append(self.log_std)
        self.advantage: tf.Tensor
        self.return_: tf.Tensor
        self.log_prob_old: tf.Tensor
        self.value_old: tf.Tensor

    @property
    def memories(self) -> Memories | None:
        """Those of policy and value, which are attributes already; None: nothing is remembered."""
        network = means_of(self.actor)
        return memories_of(network, self.critic) if isinstance(network, RecurrentNetwork) else None

    def initial_state(self, num_envs: int) -> dict[str, Array]:
        """Zeros, of networks with a memory; else nothing."""
        return {} if self.memories is None else self.memories.initial_state(num_envs)

    def state_read_by(self, method: str) -> list[str]:
        """The memory of the policy for action(), that of the value for value(), which may be one."""
        return [] if self.memories is None else [self.memories.read_by(method)]

    def action(self, s: tf.Tensor, state: State | None = None) -> Any:
        """Probabilities [B, A], those of several choices in a row, or of numbers what `Numbers.answers` says.

        With a memory it takes the state before s, and returns the one behind it, too.
        """
        if self.memories is None:
            return self._answers(self.actor(s))
        assert state is not None
        features, after = self.memories.step(s, state)
        return self._answers(self.actor.head(features[self.memories.read_by("action")])), after

    def _answers(self, outputs: tf.Tensor) -> tf.Tensor:
        if self.numbers is None:
            assert self.choice is not None
            return self.choice.answers(outputs)
        return self.numbers.answers(outputs, self.log_std)

    def value(self, s: tf.Tensor, state: State | None = None) -> Any:
        """V(s) [B]; with a memory as action()."""
        if self.memories is None:
            return self.critic(s)[:, 0]
        assert state is not None
        features, after = self.memories.step(s, state)
        return self.critic.head(features[self.memories.read_by("value")])[:, 0], after

    def distribution(self, s: tf.Tensor, action_mask: tf.Tensor | None = None) -> Distribution:
        """pi(.|s), for each state of a batch; of the allowed actions, where a mask [B, A] is given."""
        outputs = self._outputs(s, "distribution(s)")
        if self.numbers is None:
            assert self.choice is not None
            return self.choice.distribution(where_allowed(outputs, action_mask))
        return self.numbers.distribution(outputs, self.log_std)

    def log_prob_and_entropy(
        self, s: tf.Tensor, a: tf.Tensor, action_mask: tf.Tensor | None = None
    ) -> tuple[tf.Tensor, tf.Tensor]:
        """Log-probability of a in s [B], and the entropy of pi(.|s), [B] or the same number for all states."""
        mask = self.action_mask if action_mask is None else action_mask  # the first is there in a loss, not in update()
        return self._log_prob_and_entropy(self._outputs(s, "log_prob_and_entropy(s, a)"), a, mask)

    def _outputs(self, s: tf.Tensor, called: str) -> tf.Tensor:
        """The outputs of the actor for observations alone (AgentContractError: it has a memory)."""
        if self.memories is not None:
            raise observations_alone(f"{type(self).__name__}.{called}")
        outputs: tf.Tensor = self.actor(s)
        return outputs

    def log_prob_entropy_and_value(self, s: tf.Tensor, a: tf.Tensor) -> tuple[tf.Tensor, tf.Tensor, tf.Tensor]:
        """Both, and V(s) [B]; a trunk of policy and value is passed through once.

        With a memory s and a are whole sequences, one after the other; see `Declared.initial_state`.
        """
        if self.memories is not None:
            of_policy, of_value = self.memories.sequences(s, self.state_before, self.episode_start)
            outputs, v = self.actor.head(of_policy), self.critic.head(of_value)
        elif self.one_trunk:
            outputs, v = through_one_trunk(self.actor, self.critic, s)
        else:
            return (*self.log_prob_and_entropy(s, a), self.value(s))
        return (*self._log_prob_and_entropy(outputs, a, self.action_mask), v[:, 0])

    def _log_prob_and_entropy(
        self, outputs: tf.Tensor, a: tf.Tensor, mask: tf.Tensor | None
    ) -> tuple[tf.Tensor, tf.Tensor]:
        if self.numbers is None:
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

    def _layers_of(self, network: Any) -> list[DenseLayer] | None:
        if self.numbers is None:
            assert self.choice is not None
            return dense_layers_of(network, self.choice.activation)
        return self.numbers.layers(network, self.log_std)
