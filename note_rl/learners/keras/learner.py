"""The learner for agents written in Keras on TensorFlow."""

import logging
from collections.abc import Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import replace
from typing import Any

import keras
import numpy as np
import tensorflow as tf

from note_rl.errors import AgentContractError, SettingsError
from note_rl.learners.adjustable import LEARNING_RATE, OptimizerNumbers, minibatch_in_parts, of_the_agent
from note_rl.learners.base import (
    check_held,
    check_holds,
    check_state,
    first_minibatch,
    minibatches,
    optimizers_for,
    parameter_groups,
    sample_columns,
    temporary_attributes,
)
from note_rl.learners.checks import SamplesApart, check_samples_apart
from note_rl.learners.gradient_noise import NoiseMoments
from note_rl.learners.keras.adjusted import numbers_of, with_learning_rates, with_numbers
from note_rl.learners.keras.kept import Kept
from note_rl.learners.keras.methods import TracedMethods
from note_rl.learners.keras.modes import Modes
from note_rl.learners.keras.noise import NOT_COMPILABLE, KerasNoiseMeter
from note_rl.learners.keras.step import GradientStep, TensorFlowArithmetic
from note_rl.learners.keras.tracing import Constants
from note_rl.learners.keras.variables import (
    VariablesOf,
    arrays_of,
    as_array,
    as_vector,
    identity,
    named_variables,
    optimizer_slots,
    undisturbed,
)
from note_rl.learners.keras.xla import Compilation, is_on_cpu
from note_rl.learners.losses import Losses, batch_attributes
from note_rl.learners.numpy_policy import Actor
from note_rl.learners.targets import update_copies
from note_rl.types import Array, FloatArray, Sample, Update

_log = logging.getLogger(__name__)
_MOST_RECOMPILED = 5  # in one training run; XLA takes seconds each time


class KerasLearner:
    """Trains an agent whose parameters are Keras or TensorFlow variables.

    An update block is one traced function: a loop over the minibatches that holds forward pass, gradients, clipping,
    optimizer step and target update. Hyperparameters enter as tensors, so changing them never traces again.
    """

    def __init__(self, agent: Any) -> None:
        self.agent = agent
        self.groups: list[list[Any]] = parameter_groups(agent.param)
        self._optimizers: list[tuple[Any, list[Any]]] = []
        self._losses = Losses(agent, len(self.groups), TensorFlowArithmetic())
        self._guard = SamplesApart(agent)
        self._modes = Modes(agent, self.groups)
        self.actor = Actor(agent, self._framework_act, mirrored=True)
        self._call = TracedMethods(agent, self._modes)
        self._step: Any = None
        self._noise: Any = None
        self._traced: dict[tuple[Any, ...], Any] = {}  # concrete functions: choosing one ourselves is quicker
        self._compilation = Compilation(False, True, "")
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
        check_held(self.groups, (variable for _, variable in named_variables(self.agent)), identity)
        if optimizer is not None:
            optimizers = optimizers_for(optimizer, self.groups, keras.optimizers.Optimizer)
            check_holds(optimizers, lambda one: one._trainable_variables if one.built else None)
            self._optimizers, self._losses.num_optimizers = optimizers, len(optimizers)
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
            self._prepared = prepared
            self._compilation = Compilation(jit, is_on_cpu(self.groups[0][0]), type(self.agent).__name__)
            optimizers = [one for one, _ in self._optimizers]
            self._step = GradientStep(self.agent, self.groups, self._losses, optimizers, max_grad_norm)
            self._compile()
        self._num_recompiled = 0

    def expect(self, num_gradient_steps: float) -> None:
        """Changes nothing: the update is compiled before the first gradient step."""

    def _compile(self) -> None:
        self._noise = KerasNoiseMeter(self._to_measure, self._compilation)
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
        if self._guard.due:
            self._check_samples_apart(sample)
        self._follow_changes()
        if LEARNING_RATE in hyperparameters:
            for optimizer, _ in self._optimizers:
                optimizer.learning_rate.assign(hyperparameters[LEARNING_RATE])
        columns = _constants(sample_columns(sample))
        scalars = {
            name: tf.constant(value, tf.float32) for name, value in hyperparameters.items() if name != LEARNING_RATE
        }
        with with_learning_rates(self._optimizers, scalars):
            result = self._call_compiled(columns, tf.constant(sample.sync), scalars)
        self._guard.count(sample.num_gradient_steps)
        self.actor.parameters_changed()
        found = {name: tensor.numpy() for name, tensor in result.items()}
        if found.pop("diverged"):
            return Update(found["loss"], diverged=True)
        return Update(**found)

    def _call_compiled(self, columns: dict[str, Any], sync: Any, scalars: dict[str, Any]) -> Any:
        signature = (tuple((name, column.dtype, *column.shape) for name, column in columns.items()), *scalars)
        if signature not in self._traced:  # traced apart from the first run, so that a refused agent is not trained
            try:
                with self._constants.guarded(), self._modes.learning():
                    self._traced[signature] = self._compilation.traced(self._update_block, columns, sync, scalars)
            finally:
                refusal, self._step.refusal = self._step.refusal, None
                if refusal is not None:  # instead of what TensorFlow wrapped it into
                    raise refusal from None
        try:
            return self._traced[signature](columns, sync, scalars)
        except NOT_COMPILABLE as error:
            if not self._compilation.uses_xla:
                raise
            _log.warning("XLA cannot compile this agent's update, going on without: %s", str(error).splitlines()[0])
            self._compilation.give_up()
            self._compile()
            return self._call_compiled(columns, sync, scalars)

    def _update_block(self, columns: dict[str, Any], sync: Any, scalars: dict[str, Any]) -> dict[str, Any]:
        """The traced loop over K minibatches. Returns losses [K, G] and what was handed to the replay, [K, B] each."""
        self.num_traces += 1
        num_gradient_steps, batch_size = columns["reward"].shape[:2]
        handed_over: set[str] = set()  # known once the body is traced; XLA drops the columns that nobody fills
        kept = Kept(self._all_variables(), [one for _, parameters in self._optimizers for one in parameters])

        def body(k: Any, rows: dict[str, Any]) -> tuple[Any, dict[str, Any]]:
            batch = {name: column[k] for name, column in columns.items()}
            read = {**{name: scalars[name] for name in of_the_agent(scalars)}, **batch_attributes(batch)}
            with with_numbers(self._optimizers, scalars), temporary_attributes(self.agent, read):
                step_rows = self._step(batch, sync[k])
                tf.cond(sync[k], self._sync_targets, lambda: 0)
            handed_over.update(step_rows)
            filled = {name: tf.tensor_scatter_nd_update(rows[name], [[k]], [row]) for name, row in step_rows.items()}
            return k + 1, {**rows, **filled}

        empty = {name: tf.zeros((num_gradient_steps, batch_size)) for name in ("td_error", "ratio")}
        empty["loss"] = tf.zeros((num_gradient_steps, len(self._optimizers)))
        rows = tf.while_loop(lambda k, _: k < num_gradient_steps, body, (0, empty))[1]
        return {"diverged": kept.unless_sound(rows["loss"]), **{name: rows[name] for name in handed_over}}

    def _all_variables(self) -> list[Any]:
        """That an update block may change, each once."""
        slots = [variable for optimizer, _ in self._optimizers for _, variable in optimizer_slots(optimizer)]
        found = [*(variable for _, variable in named_variables(self.agent)), *slots]
        return list({identity(variable): variable for variable in found}.values())

    def _check_samples_apart(self, sample: Sample) -> None:
        check_samples_apart(self._gradients_of, first_minibatch(sample))
        self._guard.passed()

    def _gradients_of(self, columns: Mapping[str, Array]) -> tuple[FloatArray, list[FloatArray]]:
        """Losses [G] of one minibatch, by name [b, ...], and their gradients along all parameters, [G, P]."""
        parameters = [parameter for group in self.groups for parameter in group]
        with self._nothing_changes(), self._modes.judging(), tf.GradientTape(persistent=True) as tape:
            losses = self._losses_of(columns)
        found = [tape.gradient(loss, parameters) for loss in losses]
        return as_array(tf.stack(losses)), [as_array(as_vector(one, parameters)) for one in found]

    def loss_of(self, sample: Sample) -> FloatArray:
        """Losses [K, G] of minibatches; see `Learner.loss_of`."""
        with self._nothing_changes(), self._modes.learning():
            return np.stack([as_array(tf.stack(self._losses_of(columns))) for columns in minibatches(sample)])

    def _losses_of(self, columns: Mapping[str, Array]) -> list[Any]:
        """Losses [G] of one minibatch, by name [b, ...]; evaluated eagerly, so that errors are plain ones."""
        return self._losses.per_optimizer(self._losses.beside_training(_constants(columns)))

    def _nothing_changes(self, among: Sequence[Any] | None = None) -> AbstractContextManager[list[Any]]:
        return undisturbed(self.agent, among)

    def optimizer_numbers(self) -> list[OptimizerNumbers]:
        """What the optimizers were told; see `Learner.optimizer_numbers`."""
        return numbers_of(self._optimizers)

    def gradient_noise(self, sample: Sample, num_envs: int | None) -> tuple[list[NoiseMoments], int]:
        """How much gradients scatter; see `Learner.gradient_noise`."""
        if self._guard.due:
            self._check_samples_apart(sample)
        minibatch = minibatch_in_parts(sample, sample_columns(sample), num_envs)
        minibatch = replace(minibatch, columns=_constants(minibatch.columns))
        groups = self.groups if len(self._optimizers) > 1 else [[one for group in self.groups for one in group]]
        with self._nothing_changes(self._noise.touches) as changed, self._modes.judging():
            moments = self._noise(minibatch, groups, list(vars(self.agent).values()))
        self._noise.has_touched(changed)
        return moments, minibatch.size

    def _to_measure(self, batch: dict[str, Any]) -> list[Any]:
        """One per optimizer, or one for all."""
        losses = self._losses.beside_training(batch)
        return losses if len(losses) == 1 else self._losses.per_optimizer(losses)

    def _sync_targets(self) -> int:
        try:
            self.agent.update_param()
        except NotImplementedError as error:  # TensorFlow's word for numbers that are asked for while tracing
            name = type(self.agent).__name__
            self._step.refusal = AgentContractError(
                f"{name}.update_param() is part of the compiled update and cannot read numbers, as get_weights() and "
                "numpy() do: write `for target, weight in zip(self.target.weights, self.network.weights): "
                f"target.assign(weight)` with your networks' names ({error})"
            )
            raise
        return 0

    def copies_targets(self) -> bool:
        """What update_param() does; see `Learner.copies_targets`."""
        with self._nothing_changes():
            return update_copies(VariablesOf(self.agent, self.groups), self.agent.update_param)

    def get_state(self) -> dict[str, Array]:
        """Every variable of the agent and every slot of its optimizers."""
        state = {f"agent/{name}": values for name, values in arrays_of(self.agent).items()}
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


def _constants(columns: Mapping[str, Array]) -> dict[str, Any]:
    return {name: tf.constant(values) for name, values in columns.items()}
