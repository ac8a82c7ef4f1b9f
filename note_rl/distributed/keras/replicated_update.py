"""The update of a Keras agent over the replicas of a strategy of tf.distribute, in one process."""

from collections.abc import Mapping, Sequence
from contextvars import copy_context
from typing import Any

import tensorflow as tf

from note_rl.learners.adjustable import of_the_agent
from note_rl.learners.base import temporary_attributes
from note_rl.learners.keras.hyperparameter_override import Optimizers, in_a_trace
from note_rl.learners.keras.learner import KerasLearner
from note_rl.learners.keras.snapshot import ParameterSnapshot
from note_rl.learners.keras.update import CompiledUpdate
from note_rl.learners.keras.variables import constants
from note_rl.learners.losses import batch_attributes
from note_rl.types import Array, BoolArray

_OF_ALL_ROWS = ("td_error", "ratio")


def replicate(learner: KerasLearner, strategy: Any) -> None:
    """Has a learner take gradient steps on all replicas of a strategy from the next prepare() on.

    Raises:
        AgentContractError: The agent was made outside of it, or what its networks do cannot be shared.
    """
    learner.join(InReplicas(strategy))
    learner.update_under(strategy, ReplicatedUpdate)


class InReplicas:
    """The replicas of a strategy, as each of them sees them while its step is traced; see `Peers`."""

    rank = 0

    def __init__(self, strategy: Any) -> None:
        self.size: int = strategy.num_replicas_in_sync

    def mean(self, tensors: Sequence[Any]) -> list[Any]:
        """Returns the means over all replicas, in one exchange."""
        flat = tf.concat([tf.reshape(tf.cast(tensor, tf.float32), [-1]) for tensor in tensors], 0)
        flat = tf.distribute.get_replica_context().all_reduce(tf.distribute.ReduceOp.MEAN, flat)
        parts = tf.split(flat, [tensor.shape.num_elements() for tensor in tensors])
        return [
            tf.cast(tf.reshape(part, tensor.shape), tensor.dtype) for part, tensor in zip(parts, tensors, strict=True)
        ]


class ReplicatedUpdate(CompiledUpdate):
    """Takes the steps of an update block one after the other, each on all replicas; see `CompiledUpdate`.

    XLA is left out: what replicas exchange cannot be within what it compiles.
    """

    always_traced = True
    averages_over_replicas = True
    _syncing = False  # whether the step that is being traced also moves the targets

    def prepare(
        self, optimizers: Optimizers, max_grad_norm: float | None, hyperparameters: Sequence[str], jit: Any
    ) -> None:
        """Traces anew if anything is not as it was; see `Learner.prepare`."""
        super().prepare(optimizers, max_grad_norm, hyperparameters, False)
        self._step.peers = InReplicas(self.strategy)

    def __call__(self, columns: Mapping[str, Array], sync: BoolArray, scalars: Mapping[str, float]) -> dict[str, Array]:
        """Takes the steps of an update block; see `CompiledUpdate`."""
        given, numbers = constants(columns), {name: tf.constant(value, tf.float32) for name, value in scalars.items()}
        learning = [parameter for _, parameters in self._optimizers for parameter in parameters]
        snapshot = ParameterSnapshot(self._variables(), learning)
        steps = []
        for k, self._syncing in enumerate(sync.tolist()):
            batch = {name: column[k] for name, column in given.items()}
            described = ((name, column.dtype, *column.shape) for name, column in batch.items())
            signature = (self._syncing, tuple(described), *scalars)
            if signature not in self._traced:
                self._traced[signature] = self._trace(self._loop, batch, tf.constant(self._syncing), numbers)
            steps.append(self._traced[signature](batch, tf.constant(self._syncing), numbers))
        rows = {name: tf.stack([step[name] for step in steps]) for name in steps[0]}
        rows["diverged"] = snapshot.unless_sound(rows["loss"])
        return {name: row.numpy() for name, row in rows.items()}

    def _loop(self, columns: dict[str, Any], sync: Any, scalars: dict[str, Any]) -> dict[str, Any]:
        """One step: columns are [B, ...]."""
        read = {**{name: scalars[name] for name in of_the_agent(scalars)}, **dict.fromkeys(batch_attributes(columns))}
        with in_a_trace(self._optimizers, scalars), temporary_attributes(self._agent, read):
            context = copy_context()  # of the mode that layers are in: a replica is traced in a thread of its own
            rows = self.strategy.run(lambda whole: context.copy().run(self._in_replica, whole), args=(columns,))
            if self._syncing:
                self._sync_targets()
        found = {name: self.strategy.experimental_local_results(row) for name, row in rows.items()}
        return {name: tf.concat(several, 0) if name in _OF_ALL_ROWS else several[0] for name, several in found.items()}

    def _in_replica(self, columns: Mapping[str, Any]) -> dict[str, Any]:
        """The step along the rows of one replica."""
        replicas = len(self.strategy.extended.worker_devices)  # of this process
        size = columns["reward"].shape[0] // replicas
        begin = tf.distribute.get_replica_context().replica_id_in_sync_group % replicas * size
        mine = {
            name: tf.ensure_shape(column[begin : begin + size], (size, *column.shape[1:]))
            for name, column in columns.items()
        }
        with temporary_attributes(self._agent, batch_attributes(mine)):
            rows: dict[str, Any] = self._step(mine, self._syncing)
        return rows
