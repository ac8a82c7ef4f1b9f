"""The learner for agents written in Keras on TensorFlow."""

import logging
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import keras
import numpy as np
import tensorflow as tf

from note_rl.errors import AgentContractError, SettingsError
from note_rl.learners.base import (
    CALL_ARGUMENTS,
    LEARNING_RATE,
    check_loss_shape,
    check_state,
    optimizers_for,
    parameter_groups,
    sample_columns,
    takes_weights,
    temporary_attributes,
)
from note_rl.learners.mirror import Mirror, verified_mirror
from note_rl.types import Array, FloatArray, Sample, Update

_log = logging.getLogger(__name__)
_NOT_COMPILABLE = (tf.errors.InvalidArgumentError, tf.errors.UnimplementedError, tf.errors.NotFoundError)


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
        self._mirror: Mirror | None = None
        self._mirror_decided = False
        self._functions: dict[str, Any] = {}
        self._update_function: Any = None
        self._traced: set[tuple[int, ...]] = set()
        self._refusal: AgentContractError | None = None
        self._jit = False
        self.num_traces = 0  # of the update; a change of hyperparameters must not add to it

    def act(self, obs: Array) -> FloatArray:
        """Scores of the actions for observations [E, *obs]."""
        if not self._mirror_decided:
            self._mirror_decided = True
            layers = getattr(self.agent, "acting_layers", None)
            self._mirror = verified_mirror(layers, self._framework_act, obs)
        return self._mirror(obs) if self._mirror is not None else self._framework_act(obs)

    def _framework_act(self, obs: Array) -> FloatArray:
        output: FloatArray = self._evaluate("action", obs).numpy()
        return output

    def value(self, obs: Array) -> FloatArray:
        """What the agent expects to gain, [N], from observations [N, *obs]."""
        output: FloatArray = self._evaluate("value", obs).numpy().reshape(-1)
        return output

    def _evaluate(self, method: str, obs: Array) -> Any:
        if method not in self._functions:
            signature = [tf.TensorSpec((None, *obs.shape[1:]), obs.dtype)]
            traced = tf.function(getattr(self.agent, method), input_signature=signature)
            self._functions[method] = traced.get_concrete_function()
        return self._functions[method](tf.constant(obs))

    def prepare(self, optimizer: Any, max_grad_norm: float | None, hyperparameters: Sequence[str], jit: Any) -> None:
        """Takes the optimizers and compiles anew where something changed; see `Learner.prepare`."""
        jit = jit in (True, "auto")
        if optimizer is None and max_grad_norm == self._max_grad_norm and jit == self._jit and self._update_function:
            return
        if optimizer is not None:
            self._optimizers = optimizers_for(optimizer, self.groups)
        for one, parameters in self._optimizers:
            if not one.built:
                one.build(parameters)
            if LEARNING_RATE in hyperparameters and not isinstance(one._learning_rate, keras.Variable):
                raise SettingsError(
                    f"{type(one).__name__} was given a learning-rate schedule of its own, so a schedule for "
                    "learning_rate cannot set it; give the optimizer a number"
                )
        self._max_grad_norm = max_grad_norm
        self._jit = jit
        self._compile()

    def _compile(self) -> None:
        self._update_function = tf.function(self._burst, jit_compile=self._jit)
        self._traced.clear()

    def update(self, sample: Sample, hyperparameters: Mapping[str, float]) -> Update:
        """One gradient step per minibatch; see `Learner.update`."""
        if LEARNING_RATE in hyperparameters:
            for optimizer, _ in self._optimizers:
                optimizer.learning_rate.assign(hyperparameters[LEARNING_RATE])
        columns = {name: tf.constant(column) for name, column in sample_columns(sample).items()}
        scalars = {
            name: tf.constant(value, tf.float32) for name, value in hyperparameters.items() if name != LEARNING_RATE
        }
        loss = self._call_compiled(columns, tf.constant(sample.sync), scalars)
        if self._mirror is not None:
            self._mirror.stale = True
        return Update(loss.numpy())

    def _call_compiled(self, columns: dict[str, Any], sync: Any, scalars: dict[str, Any]) -> Any:
        shape = tuple(columns["obs"].shape)
        if shape not in self._traced:  # traced apart from the first run, so that a refused agent is not trained
            self._update_function.get_concrete_function(columns, sync, scalars)
            if self._refusal is not None:
                raise self._refusal
            self._traced.add(shape)
        try:
            return self._update_function(columns, sync, scalars)
        except _NOT_COMPILABLE as error:
            if not self._jit:
                raise
            _log.warning("XLA cannot compile this agent's update, going on without: %s", str(error).splitlines()[0])
            self._jit = False
            self._compile()
            return self._update_function(columns, sync, scalars)

    def _burst(self, columns: dict[str, Any], sync: Any, scalars: dict[str, Any]) -> Any:
        """The traced loop over K minibatches. Returns losses [K, G]."""
        self.num_traces += 1
        num_gradient_steps = sync.shape[0]
        num_losses = len(self._optimizers)

        def body(k: Any, losses: Any) -> tuple[Any, Any]:
            batch = {name: column[k] for name, column in columns.items()}
            offered = {name: values for name, values in batch.items() if name not in CALL_ARGUMENTS}
            with temporary_attributes(self.agent, {**scalars, **offered}):
                step_losses = self._gradient_step(batch)
                tf.cond(sync[k], self._sync_targets, lambda: 0)
            return k + 1, tf.tensor_scatter_nd_update(losses, [[k]], [step_losses])

        start = (0, tf.zeros((num_gradient_steps, num_losses)))
        return tf.while_loop(lambda k, _: k < num_gradient_steps, body, start)[1]

    def _gradient_step(self, batch: dict[str, Any]) -> Any:
        with tf.GradientTape(persistent=len(self._optimizers) > 1) as tape:
            losses = self._losses(batch)
        gradients = [tape.gradient(loss, group) for loss, (_, group) in zip(losses, self._optimizers, strict=True)]
        for (optimizer, parameters), group_gradients in zip(self._optimizers, gradients, strict=True):
            dense = [
                tf.zeros_like(parameter) if gradient is None else gradient
                for gradient, parameter in zip(group_gradients, parameters, strict=True)
            ]
            if self._max_grad_norm is not None:
                dense, _ = tf.clip_by_global_norm(dense, self._max_grad_norm)
            optimizer.apply(dense, parameters)
        return tf.stack(losses)

    def _losses(self, batch: dict[str, Any]) -> list[Any]:
        arguments = [batch[name] for name in CALL_ARGUMENTS]
        weights = batch.get("weights")
        if self._weighted:
            arguments.append(weights if weights is not None else tf.ones_like(batch["reward"]))
        returned = self.agent(*arguments)
        several = isinstance(returned, (list, tuple))
        batch_size = batch["reward"].shape[0]
        losses = [self._reduced(loss, weights, batch_size) for loss in (returned if several else [returned])]
        if len(losses) == 1:
            return losses * len(self._optimizers)
        if len(self._optimizers) == 1:
            return [tf.add_n(losses)]
        if len(losses) != len(self._optimizers):
            raise AgentContractError(
                f"__call__ returned {len(losses)} losses for {len(self._optimizers)} parameter groups; "
                "give one each, or one in all"
            )
        return losses

    def _reduced(self, loss: Any, weights: Any, batch_size: int) -> Any:
        try:
            check_loss_shape(tuple(loss.shape), batch_size)
        except AgentContractError as error:
            self._refusal = error  # raised after tracing: TensorFlow would wrap it into an error of its own
            return tf.reduce_mean(loss)
        if loss.shape.rank == 0:
            return loss
        return tf.reduce_mean(loss * weights if weights is not None and not self._weighted else loss)

    def _sync_targets(self) -> int:
        self.agent.update_param()
        return 0

    def get_state(self) -> dict[str, Array]:
        """Every variable of the agent and every slot of its optimizers."""
        state = {f"agent/{name}": _array(variable) for name, variable in named_variables(self.agent)}
        for index, (optimizer, _) in enumerate(self._optimizers):
            for name, variable in _slots(optimizer):
                state[f"optimizer/{index}/{name}"] = _array(variable)
        return state

    def set_state(self, state: Mapping[str, Array]) -> None:
        """Takes over parameters, and slots where optimizers are there already."""
        variables = {f"agent/{name}": variable for name, variable in named_variables(self.agent)}
        for index, (optimizer, _) in enumerate(self._optimizers):
            slots = {f"optimizer/{index}/{name}": variable for name, variable in _slots(optimizer)}
            if any(name in state for name in slots):
                variables.update(slots)
        check_state(state, variables)
        for name, variable in variables.items():
            variable.assign(state[name])
        if self._mirror is not None:
            self._mirror.stale = True


def named_variables(agent: Any) -> Iterator[tuple[str, Any]]:
    """Variables of everything the agent holds, under the names of its attributes."""
    for name, value in vars(agent).items():
        if name != "param":
            yield from _named_variables_in(name, value)


def _named_variables_in(name: str, value: Any) -> Iterator[tuple[str, Any]]:
    if isinstance(value, keras.Layer):
        for index, variable in enumerate(value.variables):
            yield f"{name}/{index}", variable
    elif isinstance(value, (tf.Variable, keras.Variable)):
        yield name, value
    elif isinstance(value, Mapping):
        for key, one in value.items():
            yield from _named_variables_in(f"{name}/{key}", one)
    elif isinstance(value, (list, tuple)):
        for index, one in enumerate(value):
            yield from _named_variables_in(f"{name}/{index}", one)


def _slots(optimizer: Any) -> Iterator[tuple[str, Any]]:
    """The optimizer's variables but for the learning rate, which stays that of the optimizer at hand."""
    for index, variable in enumerate(optimizer.variables):
        if variable is not optimizer._learning_rate:
            yield str(index), variable


def _array(variable: Any) -> Array:
    return np.asarray(variable.numpy())
