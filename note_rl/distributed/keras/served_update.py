"""The update of a Keras agent by the workers of a ParameterServerStrategy, which do not wait for each other."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from contextvars import copy_context
from functools import cached_property, partial
from typing import Any

import numpy as np
import tensorflow as tf

from note_rl.distributed.keras.coordinator import Coordinator
from note_rl.errors import SettingsError
from note_rl.learners.adjustable import of_the_agent
from note_rl.learners.base import temporary_attributes
from note_rl.learners.keras.hyperparameter_override import Optimizers, in_a_trace
from note_rl.learners.keras.keras_internals import count_of, held_by
from note_rl.learners.keras.learner import KerasLearner
from note_rl.learners.keras.snapshot import value_of
from note_rl.learners.keras.update import CompiledUpdate
from note_rl.learners.keras.variables import constants
from note_rl.learners.keras.waiting_groups import counts_of
from note_rl.learners.losses import batch_attributes
from note_rl.types import Array, BoolArray


def be_served(learner: KerasLearner, strategy: Any) -> Coordinator:
    """Has the workers of a ParameterServerStrategy take a learner's gradient steps from the next prepare() on.

    Returns:
        The coordinator of its cluster.

    Raises:
        AgentContractError: The agent was made outside of it.
        SettingsError: Its cluster has no chief, or a worker several GPUs.
    """
    if strategy.num_replicas_in_sync > 1:
        raise SettingsError(
            f"each worker of a ParameterServerStrategy takes its steps on one device, and this one's see "
            f"{strategy.num_replicas_in_sync} GPUs: start each with a GPU of its own, as CUDA_VISIBLE_DEVICES=0"
        )
    return learner.update_under(strategy, ServedUpdate).coordinator


class ServedUpdate(CompiledUpdate):
    """Has workers take the steps of an update block, each along a minibatch of its own; see `CompiledUpdate`.

    Steps are taken from whatever the parameters are when a worker reads them (Dean et al. 2012, Large scale distributed
    deep networks). Targets are moved when all steps before are done; where every step of the block moves them, by the
    worker that has taken it. A block begins when the one before is done.
    """

    always_traced = True

    @cached_property
    def coordinator(self) -> Coordinator:
        """Of the strategy's cluster."""
        return Coordinator(self.strategy)

    def prepare(
        self, optimizers: Optimizers, max_grad_norm: float | None, hyperparameters: Sequence[str], jit: Any
    ) -> None:
        """Traces anew if anything is not as it was, without XLA, which a cluster is beyond; see `Learner.prepare`."""
        super().prepare(optimizers, max_grad_norm, hyperparameters, False)

    def _compile(self) -> None:
        super()._compile()
        self._copies = tf.function(partial(_copies, self._variables()), autograph=False)
        learning = [parameter for _, parameters in self._optimizers for parameter in parameters]
        self._are_sound = tf.function(partial(_are_finite, learning), autograph=False)
        self._num_steps: dict[tuple[Any, ...], list[int]] = {}  # that a traced step adds to each count

    def __call__(self, columns: Mapping[str, Array], sync: BoolArray, scalars: Mapping[str, float]) -> dict[str, Array]:
        """Has the steps of an update block taken; see `CompiledUpdate`."""
        with self.coordinator.naming_the_lost():
            return self._taken(columns, sync, scalars)

    def _taken(self, columns: Mapping[str, Array], sync: BoolArray, scalars: Mapping[str, float]) -> dict[str, Array]:
        before, counts = self._copies(), [int(one.numpy()) for one in self._counts()]
        numbers = {name: tf.constant(value, tf.float32) for name, value in scalars.items()}
        each_moves_targets = bool(sync.all())
        promised = []
        try:
            for k, syncing in enumerate(sync.tolist()):
                batch = constants({name: column[k] for name, column in columns.items()})
                signature = self._ready_step(batch, numbers, (syncing, each_moves_targets))
                promised.append(self.coordinator.schedule(self._traced[signature], (batch, numbers)))
                counts = [count + num for count, num in zip(counts, self._num_steps[signature], strict=True)]
                if syncing and not each_moves_targets:
                    self.coordinator.join()
                    self.coordinator.schedule(self._ready_move(numbers), (numbers,))
                    self.coordinator.join()
            self.coordinator.join()
        except KeyboardInterrupt:  # nobody goes on to move what may be saved next
            self.coordinator.join()
            self._set_counts(counts)
            raise
        self._set_counts(counts)
        steps = [one.fetch() for one in promised]
        rows = {name: np.stack([step[name] for step in steps]) for name in steps[0]}
        sound = bool(np.isfinite(rows["loss"]).all()) and bool(self._are_sound())
        if not sound:
            for variable, values in zip(self._variables(), before, strict=True):
                variable.assign(values)
        return {**rows, "diverged": np.asarray(not sound)}

    def _counts(self) -> list[Any]:
        """The variables in which optimizers count their steps."""
        return [count for optimizer, _ in self._optimizers for count in counts_of(optimizer)]

    def _set_counts(self, counts: Sequence[int]) -> None:
        """Tells optimizers their numbers of steps: workers that count at the same time lose some."""
        for variable, count in zip(self._counts(), counts, strict=True):
            variable.assign(count)

    def _ready_step(self, batch: Mapping[str, Any], numbers: Mapping[str, Any], moves: tuple[bool, bool]) -> Any:
        """Returns the signature of a step, which is traced if it is the first like it."""
        described = ((name, column.dtype, *column.shape) for name, column in batch.items())
        signature = (*moves, tuple(described), *numbers)
        if signature not in self._traced:
            self._num_steps[signature] = [0] * len(self._counts())
            step = partial(self._one_step, self._num_steps[signature], *moves)
            self._traced[signature] = self._traced_here(step, batch, numbers)
        return signature

    def _ready_move(self, numbers: Mapping[str, Any]) -> Any:
        """Returns what moves the targets by itself."""
        signature = ("targets", *numbers)
        if signature not in self._traced:
            self._traced[signature] = self._traced_here(self._one_move, numbers)
        return self._traced[signature]

    def _traced_here(self, function: Callable[..., Any], *arguments: Any) -> Any:
        """Traces a function that is scheduled as it was traced."""
        traced_here = {"_allow_run_without_coordinator": True}
        with self.strategy.scope(), temporary_attributes(self.strategy.extended, traced_here):
            return self._trace(function, *arguments)

    def _one_move(self, scalars: dict[str, Any]) -> Any:
        """Moves the targets."""
        read = {name: scalars[name] for name in of_the_agent(scalars)}
        with temporary_attributes(self._agent, read):
            return tf.constant(self._sync_targets())

    def _one_step(
        self, num_steps: list[int], syncing: bool, moves_targets: bool, batch: dict[str, Any], scalars: dict[str, Any]
    ) -> dict[str, Any]:
        """One step of a worker along a minibatch, [B, ...] by name."""
        read = {**{name: scalars[name] for name in of_the_agent(scalars)}, **batch_attributes(batch)}
        with in_a_trace(self._optimizers, scalars), temporary_attributes(self._agent, read), self._counted(num_steps):
            context = copy_context()  # of the mode that layers are in: a replica is traced in a thread of its own
            rows: dict[str, Any] = self.strategy.run(lambda: context.copy().run(self._step, batch, syncing))
            if moves_targets:
                self._sync_targets()
        return rows

    @contextmanager
    def _counted(self, num_steps: list[int]) -> Iterator[None]:
        """Notes while a step is traced how often it raises each count."""
        places = {id(count): place for place, count in enumerate(self._counts())}

        def applied(optimizer: Any, apply: Any, *arguments: Any) -> None:
            num_steps[places[id(count_of(optimizer))]] += 1
            apply(*arguments)

        with ExitStack() as stack:
            for optimizer, _ in self._optimizers:
                apply = partial(applied, optimizer, optimizer.apply)
                stack.enter_context(temporary_attributes(optimizer, {"apply": apply}))
            yield


def _copies(variables: Sequence[Any]) -> list[Any]:
    """Returns copies of variables, which stay where these are."""
    copies = []
    for variable in variables:
        values = value_of(variable)
        with tf.device(held_by(variable).device):
            copies.append(tf.identity(values))
    return copies


def _are_finite(variables: Sequence[Any]) -> Any:
    return tf.reduce_all([tf.reduce_all(tf.math.is_finite(value_of(variable))) for variable in variables])
