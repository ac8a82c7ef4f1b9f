"""Networks with a memory, in Keras; `note_rl.agents.shared.memories` says what they compute."""

from collections.abc import Mapping, Sequence
from typing import Any
from weakref import WeakKeyDictionary

import keras
import tensorflow as tf

from note_rl.agents.shared.keras.layered import LayeredNetwork
from note_rl.agents.shared.layer_kinds import Shape
from note_rl.agents.shared.memories import (
    MemoryAndHead,
    MemoryPlan,
    MemorySettings,
    PolicyAndValue,
    check_has_place,
    observations_alone,
)
from note_rl.learners.keras.variables import as_array
from note_rl.learners.numpy_memory import ActingCell
from note_rl.learners.recurrence import no_place
from note_rl.settings.field_arguments import taking

State = Mapping[str, tf.Tensor]
"""By name, [B, S] each."""


class Memory(keras.Model):  # type: ignore[misc]  # Keras ships no types
    """An encoder and a cell.

    Args:
        plan: Of the network that it is a part of.
    """

    def __init__(self, plan: MemoryPlan) -> None:
        super().__init__()
        self.kind, self.units, self.state_size = plan.kind, plan.settings.units, plan.state_size
        self.cell = plan.settings.cell
        self.encoder = LayeredNetwork(plan.encoder)
        bound = self.units**-0.5
        self.recurrent = self.add_weight(
            name="recurrent",
            shape=(self.units, self.kind.num_gates * self.units),
            initializer=keras.initializers.RandomUniform(-bound, bound),
        )
        self.follow = _lstm if self.kind.num_parts == 2 else _gru
        self._begin_keeping()
        self.built = True

    def start_orthogonal(self) -> None:
        """Draws weights anew: orthogonal, biases 0, but 1 of the gate that keeps."""
        self.encoder.start_orthogonal(1.0)
        self.recurrent.assign(keras.initializers.Orthogonal()(self.recurrent.shape))
        self._begin_keeping()

    def _begin_keeping(self) -> None:
        first, bias = self.kind.keeps * self.units, self.encoder.output_layer.bias
        place = tf.range(bias.shape[0])
        bias.assign(tf.where((place >= first) & (place < first + self.units), 1.0, tf.convert_to_tensor(bias)))

    def step(self, x: tf.Tensor, state: tf.Tensor) -> tuple[tf.Tensor, tf.Tensor]:
        """Features [B, units] of observations [B, *obs] in states [B, S], and the states behind them."""
        parts = self.follow(self.encoder(x), self.parts(state), tf.convert_to_tensor(self.recurrent))
        return parts[0], tf.concat(parts, axis=1)

    def parts(self, states: tf.Tensor) -> tuple[tf.Tensor, ...]:
        """The parts of states [..., S], [..., units] each; the first is the input of the head."""
        return tuple(tf.split(states, self.kind.num_parts, axis=-1))

    def acting_cell(self) -> ActingCell | None:
        """For acting in NumPy, if the layers of the encoder are dense."""
        layers = self.encoder.dense_layers()
        return None if layers is None else ActingCell(layers, as_array(self.recurrent), self.cell)


def through_sequences(
    memories: Sequence[Memory], x: tf.Tensor, first: Sequence[tf.Tensor], starts: tf.Tensor
) -> list[tf.Tensor]:
    """Features [n * L, units] that memories of one kind have of n sequences of L steps, one after the other.

    They go side by side through the steps: a step costs as much for two as for one.

    Args:
        memories: One or several.
        x: Observations. [n * L, *obs]
        first: The states before the first steps, [n, S] of each memory.
        starts: 1 where an episode begins, and nothing is remembered from before it, else 0. [n * L]
    """
    (seen, *_) = _steps(memories, x, first, starts)  # [L, M, n, units]
    return list(tf.unstack(_by_sequence(seen)))


def states_behind_steps(
    memories: Sequence[Memory], x: tf.Tensor, first: Sequence[tf.Tensor], starts: tf.Tensor
) -> list[tf.Tensor]:
    """The states behind all steps, [n * L, S] of each memory; its features come first. See `through_sequences`."""
    return list(tf.unstack(_by_sequence(tf.concat(_steps(memories, x, first, starts), axis=-1))))


def last_states(
    memories: Sequence[Memory], x: tf.Tensor, first: Sequence[tf.Tensor], starts: tf.Tensor
) -> list[tf.Tensor]:
    """The states behind the last steps, [n, S] of each memory; see `through_sequences`."""
    return list(tf.unstack(tf.concat([part[-1] for part in _steps(memories, x, first, starts)], axis=-1)))


def _by_sequence(values: tf.Tensor) -> tf.Tensor:
    """[L, M, n, F] -> [M, n * L, F]."""
    by_sequence = tf.transpose(values, (1, 2, 0, 3))
    return tf.reshape(by_sequence, (values.shape[1], -1, values.shape[3]))


def _steps(
    memories: Sequence[Memory], x: tf.Tensor, first: Sequence[tf.Tensor], starts: tf.Tensor
) -> Sequence[tf.Tensor]:
    """The parts of the states behind the steps of sequences, [L, M, n, units] each."""
    one, num = memories[0], first[0].shape[0]
    width = one.kind.num_gates * one.units
    gates = tf.stack([tf.reshape(memory.encoder(x), (num, -1, width)) for memory in memories])
    keeps = tf.transpose(tf.reshape(1.0 - starts, (num, -1, 1)), (1, 0, 2))  # [L, n, 1]
    recurrent = tf.stack([tf.convert_to_tensor(memory.recurrent) for memory in memories])

    def follow(parts: Sequence[tf.Tensor], now: tuple[tf.Tensor, tf.Tensor]) -> Sequence[tf.Tensor]:
        gate, keep = now
        return one.follow(gate, [part * keep for part in parts], recurrent)

    by_time = tf.transpose(gates, (2, 0, 1, 3))  # [L, M, n, G]
    parts: Sequence[tf.Tensor] = tf.scan(follow, (by_time, keeps), one.parts(tf.stack(list(first))))
    return parts


def _lstm(x: tf.Tensor, parts: Sequence[tf.Tensor], recurrent: tf.Tensor) -> tuple[tf.Tensor, ...]:
    """The parts [..., units] of the states behind gates [..., 4 * units]; `memories` has the equations."""
    hidden, cell = parts
    gates, units = x + tf.matmul(hidden, recurrent), hidden.shape[-1]
    take, keep, show = tf.split(tf.sigmoid(gates[..., : 3 * units]), 3, axis=-1)
    cell = keep * cell + take * tf.tanh(gates[..., 3 * units :])
    return show * tf.tanh(cell), cell


def _gru(x: tf.Tensor, parts: Sequence[tf.Tensor], recurrent: tf.Tensor) -> tuple[tf.Tensor, ...]:
    (hidden,) = parts
    remembered, units = tf.matmul(hidden, recurrent), hidden.shape[-1]
    reset, keep = tf.split(tf.sigmoid(x[..., : 2 * units] + remembered[..., : 2 * units]), 2, axis=-1)
    new = tf.tanh(x[..., 2 * units :] + reset * remembered[..., 2 * units :])
    return (new + keep * (hidden - new),)


class RecurrentNetwork(MemoryAndHead, keras.Model):  # type: ignore[misc]
    """A memory and a head.

    Args:
        plan: The layers.
        memory: Of another network, which this one shares; None: it has its own.
    """

    def __init__(self, plan: MemoryPlan, memory: Memory | None = None) -> None:
        super().__init__()
        self.plan = plan
        self.memory = Memory(plan) if memory is None else memory
        self.head = LayeredNetwork(plan.head)
        self._borrows = memory is not None
        self.built = True

    def __call__(self, *inputs: Any, **named: Any) -> tf.Tensor:
        """Refuses to answer to observations alone (AgentContractError), in words to which Keras adds none."""
        raise observations_alone("A network with a memory")


@taking(MemorySettings)
def recurrent_network(input_shape: Shape, num_outputs: int, settings: MemorySettings) -> RecurrentNetwork:
    """Makes a network with a memory: an encoder, an LSTM or a GRU, and a head.

    Raises:
        SettingsError: A layer that is unknown or incomplete, a value out of range, sizes that do not fit.
    """
    return RecurrentNetwork(settings.plan(input_shape, num_outputs))


class Memories(PolicyAndValue):
    """Those of a policy and its value, which may be one."""

    def sequences(self, s: tf.Tensor, before: tf.Tensor, starts: tf.Tensor) -> tuple[tf.Tensor, tf.Tensor]:
        """Features for policy and value of whole sequences; see `through_sequences`.

        Args:
            s: Observations. [n * L, *obs]
            before: `state_before` of a minibatch. [n, S]
            starts: `episode_start` of a minibatch. [n * L]
        """
        if self.is_one:
            (seen,) = through_sequences([self.policy], s, [before], starts)
            return seen, seen
        of_policy, of_value = through_sequences([self.policy, self.value], s, tf.split(before, 2, axis=1), starts)
        return of_policy, of_value


_MEMORIES: WeakKeyDictionary[RecurrentNetwork, Memories] = WeakKeyDictionary()
"""By the network of the policy: an object made anew at each look would have the loss traced anew at each step."""


def memories_of(policy: RecurrentNetwork, value: RecurrentNetwork) -> Memories:
    """Returns the memories of a policy and its value; the same object for the same two."""
    known = _MEMORIES.get(policy)
    if known is None or known.policy is not policy.memory or known.value is not value.memory:
        known = _MEMORIES[policy] = Memories(policy.memory, value.memory)
    return known


def check_memories(agent: Any, policy: keras.Model, value: keras.Model, critic_network: Any) -> None:
    """Refuses memories of networks for whose states the agent has no place (SettingsError)."""
    if isinstance(policy, RecurrentNetwork):
        check_has_place(agent, critic_network)
    elif isinstance(value, RecurrentNetwork):
        raise no_place("a value beside a policy without a memory")
