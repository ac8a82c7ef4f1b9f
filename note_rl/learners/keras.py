"""The learner for agents written in Keras on TensorFlow."""

import logging
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any

import keras
import numpy as np
import tensorflow as tf

from note_rl.adaptive.gradient_noise import NoiseMoments
from note_rl.errors import AgentContractError, SettingsError
from note_rl.learners.adjustable import LEARNING_RATE, OptimizerNumbers, minibatch_in_parts, of_the_agent
from note_rl.learners.base import (
    CALL_ARGUMENTS,
    check_holds,
    check_loss_shape,
    check_state,
    first_minibatch,
    losses_of,
    minibatches,
    optimizers_for,
    parameter_groups,
    sample_columns,
    takes_weights,
    temporary_attributes,
    without_gradient,
)
from note_rl.learners.checks import check_samples_apart, explaining_what_is_not_offered
from note_rl.learners.keras_adjusted import numbers_of, with_learning_rates, with_numbers
from note_rl.learners.keras_constants import Constants
from note_rl.learners.keras_methods import TracedMethods
from note_rl.learners.keras_noise import NOT_COMPILABLE, NoiseMeter
from note_rl.learners.keras_variables import as_array, named_variables, optimizer_slots
from note_rl.learners.mirror import Actor
from note_rl.types import Array, FloatArray, Sample, Update

_log = logging.getLogger(__name__)
_MOST_RECOMPILED = 5  # in one training run; XLA takes seconds each time


class KerasLearner:
    """Trains an agent whose parameters are Keras or TensorFlow variables.

    A burst is one traced function: a loop over the minibatches that holds forward pass, gradients, clipping,
    optimizer step and target update. Hyperparameters enter as tensors, so changing them never traces again.
    """

    def __init__(self, agent: Any) -> None:
        self.agent = agent
        self.groups: list[list[Any]] = parameter_groups(agent.param)
        self._optimizers: list[tuple[Any, list[Any]]] = []
        self._max_grad_norm: float | None = None
        self._weighted = takes_weights(agent)
        self._groups_at_sync: Sequence[int] = getattr(agent, "groups_at_sync", ())
        self._checked = bool(getattr(agent, "couples_samples", False))
        self.actor = Actor(agent, self._framework_act, mirrored=True)
        self._call = TracedMethods(agent)
        self._update_function: Any = None
        self._noise: Any = None
        self._traced: dict[tuple[Any, ...], Any] = {}  # concrete functions: choosing one ourselves is quicker
        self._refusal: AgentContractError | None = None
        self._jit = False
        self._prepared: list[Any] = []  # what the update was compiled for
        self._constants = Constants(agent)  # and what it has taken for constant
        self._num_recompiled = 0  # in this training run
        self.num_traces = 0  # of the update; a change of hyperparameters must not add to it

    def act(self, obs: Array) -> FloatArray:
        """Scores of the actions for observations [E, *obs]."""
        return self.actor(obs)

    def act_one(self, obs: Array, agent_index: int) -> FloatArray:
        """The same of one agent among several."""
        return self.actor(obs, agent_index)

    def _framework_act(self, obs: Array, index: int | None = None) -> FloatArray:
        return self._call("action", [obs], *([] if index is None else [index]))

    def value(self, obs: Array) -> FloatArray:
        """What the agent expects to gain, [N], from observations [N, *obs]."""
        return self._call("value", [obs]).reshape(-1)

    def reward(self, obs: Array, action: Array, next_obs: Array) -> FloatArray:
        """What the agent's reward() says, [N], of N transitions."""
        return self._call("reward", [obs, action, next_obs]).reshape(-1)

    def prepare(self, optimizer: Any, max_grad_norm: float | None, hyperparameters: Sequence[str], jit: Any) -> None:
        """Takes the optimizers and compiles anew where something changed; see `Learner.prepare`."""
        jit = jit in (True, "auto")
        if optimizer is not None:
            optimizers = optimizers_for(optimizer, self.groups, keras.optimizers.Optimizer)
            check_holds(optimizers, lambda one: one._trainable_variables if one.built else None)
            self._optimizers = optimizers
        for one, parameters in self._optimizers:
            if not one.built:
                one.build(parameters)
            if LEARNING_RATE in hyperparameters and not isinstance(one._learning_rate, keras.Variable):
                raise SettingsError(
                    f"{type(one).__name__} was given a learning-rate schedule of its own, so a schedule for "
                    "learning_rate cannot set it; give the optimizer a number"
                )
        prepared = [jit, max_grad_norm, *(one for one, _ in self._optimizers), *hyperparameters]
        if prepared != self._prepared or self._constants.changed():
            self._prepared, self._jit, self._max_grad_norm = prepared, jit, max_grad_norm
            self._compile()
        self._num_recompiled = 0

    def expect(self, num_gradient_steps: float) -> None:
        """Changes nothing: the update is compiled before the first gradient step."""

    def _compile(self) -> None:
        self._update_function = tf.function(self._burst, jit_compile=self._jit)
        self._noise = NoiseMeter(self._losses_to_measure, self._jit)
        self._traced.clear()
        optimizers = [one for one, _ in self._optimizers]
        self._constants = Constants(self.agent, optimizers, inputs=self._prepared[2 + len(optimizers) :])

    def _follow_changes(self) -> None:
        """Compiles anew where a number has changed that was taken for constant, a few times in a training run."""
        changed = self._constants.changed() if self._num_recompiled <= _MOST_RECOMPILED else []
        if not changed:
            return
        self._num_recompiled += 1
        if self._num_recompiled <= _MOST_RECOMPILED:
            self._compile()
        else:
            _log.warning(
                "%s of %s keeps changing, and each time the update must be compiled anew: from now on it stays what it "
                "is until train() is called again; give it to set(schedules={...}), then changes cost nothing",
                " and ".join(changed),
                type(self.agent).__name__,
            )

    def update(self, sample: Sample, hyperparameters: Mapping[str, float]) -> Update:
        """One gradient step per minibatch; see `Learner.update`."""
        if not self._checked:
            self._check_samples_apart(sample)
        self._follow_changes()
        if LEARNING_RATE in hyperparameters:
            for optimizer, _ in self._optimizers:
                optimizer.learning_rate.assign(hyperparameters[LEARNING_RATE])
        columns = {name: tf.constant(column) for name, column in sample_columns(sample).items()}
        scalars = {
            name: tf.constant(value, tf.float32) for name, value in hyperparameters.items() if name != LEARNING_RATE
        }
        with with_learning_rates(self._optimizers, scalars):
            result = self._call_compiled(columns, tf.constant(sample.sync), scalars)
        self.actor.parameters_changed()
        return Update(**{name: tensor.numpy() for name, tensor in result.items()})

    def _call_compiled(self, columns: dict[str, Any], sync: Any, scalars: dict[str, Any]) -> Any:
        signature = (tuple((name, column.dtype, *column.shape) for name, column in columns.items()), *scalars)
        if signature not in self._traced:  # traced apart from the first run, so that a refused agent is not trained
            try:
                with self._constants.noted():
                    self._traced[signature] = self._update_function.get_concrete_function(columns, sync, scalars)
            finally:
                refusal, self._refusal = self._refusal, None
                if refusal is not None:  # instead of what TensorFlow wrapped it into
                    raise refusal from None
        try:
            return self._traced[signature](columns, sync, scalars)
        except NOT_COMPILABLE as error:
            if not self._jit:
                raise
            _log.warning("XLA cannot compile this agent's update, going on without: %s", str(error).splitlines()[0])
            self._jit = False
            self._compile()
            return self._call_compiled(columns, sync, scalars)

    def _burst(self, columns: dict[str, Any], sync: Any, scalars: dict[str, Any]) -> dict[str, Any]:
        """The traced loop over K minibatches. Returns losses [K, G] and what was handed to the replay, [K, B] each."""
        self.num_traces += 1
        num_gradient_steps, batch_size = columns["reward"].shape[:2]
        handed_over: set[str] = set()  # known once the body is traced; XLA drops the columns that nobody fills

        def body(k: Any, rows: dict[str, Any]) -> tuple[Any, dict[str, Any]]:
            batch = {name: column[k] for name, column in columns.items()}
            offered = {name: values for name, values in batch.items() if name not in CALL_ARGUMENTS}
            of_agent = {name: scalars[name] for name in of_the_agent(scalars)}
            with with_numbers(self._optimizers, scalars), temporary_attributes(self.agent, {**of_agent, **offered}):
                step_rows = self._gradient_step(batch, sync[k])
                tf.cond(sync[k], self._sync_targets, lambda: 0)
            handed_over.update(step_rows)
            filled = {name: tf.tensor_scatter_nd_update(rows[name], [[k]], [row]) for name, row in step_rows.items()}
            return k + 1, {**rows, **filled}

        empty = {name: tf.zeros((num_gradient_steps, batch_size)) for name in ("td_error", "ratio")}
        empty["loss"] = tf.zeros((num_gradient_steps, len(self._optimizers)))
        rows = tf.while_loop(lambda k, _: k < num_gradient_steps, body, (0, empty))[1]
        return {name: rows[name] for name in handed_over}

    def _gradient_step(self, batch: dict[str, Any], sync: Any) -> dict[str, Any]:
        """The rows of this step: losses [G], and td_error and ratio [B] if the agent handed them over."""
        everybody = range(len(self.groups))
        at_once = [index for index in everybody if index not in self._groups_at_sync]
        if len(at_once) == len(self.groups):
            return self._step_of(everybody, batch)
        rows: dict[str, Any] = tf.cond(  # each way for itself, so that no gradient is worked out in vain
            sync, lambda: self._step_of(everybody, batch), lambda: self._step_of(at_once, batch)
        )
        return rows

    def _step_of(self, learning: Sequence[int], batch: dict[str, Any]) -> dict[str, Any]:
        """Lets some parameter groups learn, or all if there is one loss for all."""
        handle = self.agent.prioritized_replay
        handle.begin(batch["reward"].shape[0])
        with tf.GradientTape(persistent=len(self.groups) > 1) as tape:
            try:
                losses = self._losses(batch)
            except AgentContractError as error:
                self._refusal = error
                raise
        td_error, ratio = handle.take()
        if len(losses) == 1:
            learning = range(len(self.groups))
        self._step(self._gradients(tape, losses, learning), learning)
        rows = {"loss": tf.stack(self._per_optimizer(losses)), "td_error": td_error, "ratio": ratio}
        return {name: tf.cast(row, tf.float32) for name, row in rows.items() if row is not None}

    def _gradients(self, tape: Any, losses: list[Any], learning: Sequence[int]) -> dict[int, list[Any]]:
        """Of those parameter groups, by their numbers, along their own losses or the only one."""
        if len(losses) == len(self.groups):
            found = {index: tape.gradient(losses[index], self.groups[index]) for index in learning}
            of_losses = list(found.values())
        else:
            found = dict(enumerate(tape.gradient(losses[0], self.groups)))
            of_losses = [[one for group in found.values() for one in group]]
        if any(all(gradient is None for gradient in group) for group in of_losses):
            self._refusal = without_gradient()
            raise self._refusal
        return {
            index: [
                tf.zeros_like(parameter) if gradient is None else gradient
                for gradient, parameter in zip(group, self.groups[index], strict=True)
            ]
            for index, group in found.items()
        }

    def _step(self, gradients: Mapping[int, list[Any]], indices: Sequence[int]) -> None:
        """Steps along the gradients of these groups, each with its own optimizer or all with the only one."""
        single = len(self._optimizers) == 1
        for several in [list(indices)] if single else [[index] for index in indices]:
            optimizer = self._optimizers[0 if single else several[0]][0]
            dense = [gradient for index in several for gradient in gradients[index]]
            if self._max_grad_norm is not None:
                dense, _ = tf.clip_by_global_norm(dense, self._max_grad_norm)
            optimizer.apply(dense, [parameter for index in several for parameter in self.groups[index]])

    def _per_optimizer(self, losses: list[Any]) -> list[Any]:
        """What is reported: a loss for all groups counts for every optimizer, one optimizer for all has their sum."""
        if len(self._optimizers) == 1:
            return [tf.add_n(losses)]
        return losses * len(self._optimizers) if len(losses) == 1 else losses

    def _losses(self, batch: dict[str, Any]) -> list[Any]:
        """The means over the batch of what __call__ returns: one loss per parameter group, or one for all."""
        arguments = [batch[name] for name in CALL_ARGUMENTS]
        weights = batch.get("weights")
        if self._weighted:
            arguments.append(weights if weights is not None else tf.ones(batch["reward"].shape[0]))
        with explaining_what_is_not_offered(self.agent):
            returned = self.agent(*arguments)
        batch_size = batch["reward"].shape[0]
        losses = [self._reduced(loss, weights, batch_size) for loss in losses_of(returned, tf.is_tensor)]
        if len(losses) in (1, len(self.groups)):
            return losses
        if len(self._optimizers) == 1:
            return [tf.add_n(losses)]
        raise AgentContractError(
            f"__call__ returned {len(losses)} losses for {len(self.groups)} parameter groups; "
            "give one each, or one in all"
        )

    def _reduced(self, loss: Any, weights: Any, batch_size: int) -> Any:
        check_loss_shape(tuple(loss.shape), batch_size)
        if loss.shape.rank == 0:
            return loss
        return tf.reduce_mean(loss * weights if weights is not None and not self._weighted else loss)

    def _check_samples_apart(self, sample: Sample) -> None:
        with self._nothing_changes():
            check_samples_apart(self._losses_of, first_minibatch(sample))
        self._checked = True

    def loss_of(self, sample: Sample) -> FloatArray:
        """Losses [K, G] of minibatches; see `Learner.loss_of`."""
        with self._nothing_changes():
            return np.stack([self._losses_of(columns) for columns in minibatches(sample)])

    def _losses_of(self, columns: Mapping[str, Array]) -> FloatArray:
        """Losses [G] of one minibatch, by name [b, ...]; evaluated eagerly, so that errors are plain ones."""
        batch = {name: tf.constant(values) for name, values in columns.items()}
        offered = {name: values for name, values in batch.items() if name not in CALL_ARGUMENTS}
        with temporary_attributes(self.agent, offered):
            self.agent.prioritized_replay.begin(len(columns["reward"]))
            losses = self._per_optimizer(self._losses(batch))
            self.agent.prioritized_replay.take()
        return as_array(tf.stack(losses))

    @contextmanager
    def _nothing_changes(self, among: Sequence[Any] | None = None) -> Iterator[list[Any]]:
        """Puts back attributes and variables, random states among them, as they were before the block.

        Args:
            among: The only variables that may change; None: all may.

        Yields:
            A list that holds, after the block, the variables that had changed.
        """
        attributes = dict(vars(self.agent))
        among = [variable for _, variable in named_variables(self.agent)] if among is None else among
        before = [(variable, as_array(variable)) for variable in among]
        changed: list[Any] = []
        try:
            yield changed
        finally:
            vars(self.agent).clear()
            vars(self.agent).update(attributes)
            for variable, values in before:
                if not np.array_equal(as_array(variable), values):
                    variable.assign(values)
                    changed.append(variable)

    def optimizer_numbers(self) -> list[OptimizerNumbers]:
        """What the optimizers were told; see `Learner.optimizer_numbers`."""
        return numbers_of(self._optimizers)

    def gradient_noise(self, sample: Sample, num_envs: int | None) -> tuple[list[NoiseMoments], int]:
        """How much gradients scatter; see `Learner.gradient_noise`."""
        if not self._checked:
            self._check_samples_apart(sample)
        given = minibatch_in_parts(sample, sample_columns(sample), num_envs)
        groups = self.groups if len(self._optimizers) > 1 else [[one for group in self.groups for one in group]]
        networks = list(vars(self.agent).values())
        with self._nothing_changes(self._noise.touches) as changed:
            found = self._noise(given, groups, networks)
        self._noise.has_touched(changed)
        return found, given.size

    def _losses_to_measure(self, batch: dict[str, Any]) -> list[Any]:
        """One per optimizer, or one for all."""
        offered = {name: values for name, values in batch.items() if name not in CALL_ARGUMENTS}
        with temporary_attributes(self.agent, offered):
            self.agent.prioritized_replay.begin(batch["reward"].shape[0])
            losses = self._losses(batch)
            self.agent.prioritized_replay.take()
        return [tf.add_n(losses)] if len(self._optimizers) == 1 else losses

    def _sync_targets(self) -> int:
        self.agent.update_param()
        return 0

    def get_state(self) -> dict[str, Array]:
        """Every variable of the agent and every slot of its optimizers."""
        state = {f"agent/{name}": as_array(variable) for name, variable in named_variables(self.agent)}
        for index, (optimizer, _) in enumerate(self._optimizers):
            for name, variable in optimizer_slots(optimizer):
                state[f"optimizer/{index}/{name}"] = as_array(variable)
        return state

    def set_state(self, state: Mapping[str, Array]) -> None:
        """Takes over parameters, and slots where optimizers are there already."""
        variables = {f"agent/{name}": variable for name, variable in named_variables(self.agent)}
        for index, (optimizer, _) in enumerate(self._optimizers):
            slots = {f"optimizer/{index}/{name}": variable for name, variable in optimizer_slots(optimizer)}
            if any(name in state for name in slots):
                variables.update(slots)
        check_state(state, variables)
        for name, variable in variables.items():
            variable.assign(state[name])
        self.actor.parameters_changed()
