"""The learner for agents written in Keras on TensorFlow."""

from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractContextManager, nullcontext
from pathlib import Path
from typing import Any, TypeVar

import keras
import tensorflow as tf

from note_rl.errors import AgentContractError, SettingsError
from note_rl.learners.adjustable import LEARNING_RATE, OptimizerNumbers, minibatch_in_parts
from note_rl.learners.base import (
    WAITING_STEPS,
    LayerNumbers,
    check_held,
    check_holds,
    check_state,
    first_minibatch,
    optimizers_for,
    parameter_groups,
    sample_columns,
)
from note_rl.learners.batch_noise_scale import NoiseMoments
from note_rl.learners.declarations import is_recurrent, updates_itself
from note_rl.learners.keras.custom_update import OwnUpdateStep
from note_rl.learners.keras.hyperparameter_override import Optimizers, numbers_of, with_learning_rates
from note_rl.learners.keras.keras_internals import identity, rate_of, variables_of
from note_rl.learners.keras.layer_numbers import numbers_of_layers, set_numbers_of_layers
from note_rl.learners.keras.loss_probe import NoiseMeasurements
from note_rl.learners.keras.methods import TracedMethods
from note_rl.learners.keras.modes import Modes
from note_rl.learners.keras.step import GradientStep, TensorFlowArithmetic
from note_rl.learners.keras.update import CompiledUpdate
from note_rl.learners.keras.variables import (
    ReadTogether,
    VariablesOf,
    arrays_of,
    as_array,
    check_made_within,
    named_variables,
    optimizer_slots,
)
from note_rl.learners.loss_checks import NORMALISED_APART, SamplesApart, check_is_a_mean
from note_rl.learners.losses import Losses
from note_rl.learners.numpy_memory import RecurrentActor
from note_rl.learners.numpy_noise import NOISE, NoisyActor
from note_rl.learners.numpy_policy import Actor
from note_rl.learners.peers import Peers
from note_rl.learners.policy_function import ExportedPolicy, RunExported
from note_rl.learners.recurrence import RecurrentState, State, pair_of
from note_rl.learners.step_way import StepWay
from note_rl.learners.target_networks import update_copies
from note_rl.learners.update_contract import OwnUpdate
from note_rl.settings import Settings
from note_rl.settings.switch_names import MATMUL
from note_rl.types import Array, BoolArray, FloatArray, Sample, Update

UpdateT = TypeVar("UpdateT", bound=CompiledUpdate)


class KerasLearner:
    """Trains an agent whose parameters are Keras or TensorFlow variables.

    Its parts: `actor` answers observations, `TracedMethods` calls the agent's methods, `CompiledUpdate` takes the steps
    of an update block, `NoiseMeasurements` evaluates losses beside training, `Modes` says which layers train when.
    """

    def __init__(self, agent: Any) -> None:
        self.agent = agent
        self._is_recurrent = is_recurrent(agent)
        self.groups: list[list[Any]] = parameter_groups(agent.param)
        self.actor = Actor(agent, self._framework_act, mirrored=True, reading=self._reader)
        self._readers: list[ReadTogether[Any]] = []
        self._act_from = RecurrentActor(
            agent, self._framework_act_from, self.actor, self._reader if self._is_recurrent else None
        )
        of_noise = self._reader if getattr(agent, "acting_noise", 0) else None
        self._act_with_noise = NoisyActor(agent, self._framework_act_with, self.actor, of_noise)
        self._learned: tuple[int, dict[int, Array]] = (0, {})  # after how many changes, what variables hold
        self._optimizers: list[tuple[Any, list[Any]]] = []
        self._losses = Losses(agent, len(self.groups), TensorFlowArithmetic())
        self._samples_apart = SamplesApart(agent, self._losses)
        self._modes = Modes(agent, self.groups)
        self._call = TracedMethods(agent, self._modes)
        self._measurements = NoiseMeasurements(agent, self.groups, self._losses, self._modes)
        self._update: CompiledUpdate = self._made(CompiledUpdate)
        self._scope: Callable[[], AbstractContextManager[Any]] = nullcontext  # in which optimizers make their slots

    def _made(self, kind: type[UpdateT]) -> UpdateT:
        make_step = self._own_update if updates_itself(type(self.agent)) else self._gradient_step
        compile_noise = self._measurements.compile_noise
        update = kind(self.agent, self.groups, make_step, self._modes, on_compile=compile_noise)
        update.acting = lambda: list({id(one): one for reader in self._readers for one in reader.variables}.values())
        return update

    def _reader(self, read: Callable[[], Any]) -> ReadTogether[Any]:
        """Makes what reads the layers that are acted by, from what the last update has given if nothing came after."""
        self._readers.append(ReadTogether(read, self._at_hand))
        return self._readers[-1]

    def _at_hand(self) -> dict[int, Array]:
        num_changes, values = self._learned
        return values if num_changes == self.actor.num_changes else {}

    def update_under(self, strategy: Any, kind: type[UpdateT]) -> UpdateT:
        """Takes gradient steps under a strategy of tf.distribute from the next prepare() on.

        Args:
            strategy: Under which agent and optimizers were made.
            kind: Of the update that takes the steps.

        Returns:
            The update, which is the former one under the same strategy.

        Raises:
            AgentContractError: The agent was made outside of the strategy.
        """
        if self._update.strategy is not strategy:
            check_made_within(strategy, [parameter for group in self.groups for parameter in group], "the agent")
            self._update, self._scope = self._made(kind), strategy.scope
            self._update.strategy = strategy
        assert isinstance(self._update, kind)
        return self._update

    def join(self, peers: Peers) -> None:
        """Refuses what cannot be shared; see `Learner.join`. Replicas of Keras agents are those of a strategy."""
        if peers.size > 1 and self._modes.normalise_over_batches():
            raise AgentContractError(NORMALISED_APART)

    def _gradient_step(self, optimizers: Optimizers, max_grad_norm: float | None) -> GradientStep:
        several = [optimizer for optimizer, _ in optimizers]
        with self._scope():  # it may add a count to the optimizer
            return GradientStep(self.agent, self.groups, self._losses, several, max_grad_norm)

    def _own_update(self, optimizers: Optimizers, max_grad_norm: float | None) -> OwnUpdateStep:
        update = OwnUpdate(self.agent, len(self.groups), TensorFlowArithmetic())
        return OwnUpdateStep(update, self._losses, optimizers, max_grad_norm)

    def act(
        self, obs: Array, state: RecurrentState | None = None, episode_start: BoolArray | None = None
    ) -> FloatArray:
        """Returns scores of the actions for observations [E, *obs]; see `Learner.act`."""
        if not self._is_recurrent:
            return self.actor(obs)
        return (state or RecurrentState()).answer(self.agent, obs, episode_start, self._act_from)

    def act_one(self, obs: Array, agent_index: int) -> FloatArray:
        """Returns the scores of one agent among several; see `act`."""
        return self.actor(obs, agent_index)

    def act_with(self, obs: Array, noise: FloatArray) -> FloatArray:
        """Returns answers [E, ...] with noise in the networks; see `Learner.act_with`."""
        return self._act_with_noise(obs, {NOISE: noise})[0]

    def _framework_act(self, obs: Array, index: int | None = None) -> FloatArray:
        return self._call("action", [obs], *([] if index is None else [index]))

    def _framework_act_with(self, obs: Array, before: State) -> tuple[FloatArray, State]:
        return self._call("noisy_action", [obs, before[NOISE]]), {}

    def _framework_act_from(self, obs: Array, before: State) -> tuple[FloatArray, State]:
        try:
            return self._evaluate_from("action", obs, before)
        except tf.errors.InvalidArgumentError as error:
            raise ValueError(str(error)) from error  # as tracing says it

    def _evaluate_from(self, method: str, obs: Array, before: State) -> tuple[FloatArray, State]:
        tensors = {name: tf.convert_to_tensor(values) for name, values in before.items()}
        with self._modes.evaluating():
            output = getattr(self.agent, method)(tf.convert_to_tensor(obs), tensors)
            answers, after = pair_of(output, self.agent, method)
        return as_array(answers), {name: as_array(tensor) for name, tensor in after.items()}

    def value(self, obs: Array) -> FloatArray:
        """Returns what the agent expects to gain, [N], from observations [N, *obs]."""
        return self._call("value", [obs]).reshape(-1)

    def value_from(self, obs: Array, before: State) -> tuple[FloatArray, State]:
        """Returns values [N] of a recurrent agent, and the states behind them; see `Learner.value_from`."""
        values, after = self._evaluate_from("value", obs, before)
        return values.reshape(-1), after

    def reward(self, obs: Array, action: Array, next_obs: Array) -> FloatArray:
        """Returns what the agent's reward() says, [N], of N transitions."""
        return self._call("reward", [obs, action, next_obs]).reshape(-1)

    def prepare(self, optimizer: Any, max_grad_norm: float | None, hyperparameters: Sequence[str], jit: Any) -> None:
        """Takes the optimizers and compiles anew where something changed; see `Learner.prepare`."""
        check_held(self.groups, (variable for _, variable in named_variables(self.agent)), identity)
        _check_matmul(self.agent._settings)
        if optimizer is not None:
            optimizers = optimizers_for(optimizer, self.groups, keras.optimizers.Optimizer)
            check_holds(optimizers, _variables_of)
            self._optimizers, self._losses.num_optimizers = optimizers, len(optimizers)
        for one, parameters in self._optimizers:
            if not one.built:
                with self._scope():
                    one.build(parameters)
            if LEARNING_RATE in hyperparameters and not isinstance(rate_of(one), keras.Variable):
                raise SettingsError(
                    f"{type(one).__name__} was given a learning-rate schedule of its own, so a schedule for "
                    "learning_rate, or a plateau, cannot set it; give the optimizer a number"
                )
        if self._update.strategy is not None:
            for one, _ in self._optimizers:
                check_made_within(self._update.strategy, [one.iterations], f"the optimizer {type(one).__name__}")
        self._update.prepare(self._optimizers, max_grad_norm, hyperparameters, jit)

    def step_way(self) -> StepWay:
        """Returns the way in which steps are taken now; see `Learner.step_way`."""
        return self._update.way

    def expect(self, num_gradient_steps: float) -> None:
        """Changes nothing: the update is compiled before the first gradient step."""

    @property
    def num_traces(self) -> int:
        """How many traced functions came of the update; a change of hyperparameters must not add to it."""
        return self._update.num_traces

    def update(self, sample: Sample, hyperparameters: Mapping[str, float]) -> Update:
        """Takes one gradient step per minibatch; see `Learner.update`."""
        self._check_samples_apart(sample)
        self._update.follow_changes()
        scalars = {
            name: value
            for name, value in hyperparameters.items()
            if name.partition(":")[0] != LEARNING_RATE  # variables of the optimizers, not inputs of what is compiled
        }
        with with_learning_rates(self._optimizers, hyperparameters):
            arrays: dict[str, Any] = self._update(sample_columns(sample), sample.sync, scalars)
        self._samples_apart.count(sample.num_gradient_steps)
        self.actor.parameters_changed()
        self._learned = self.actor.num_changes, self._update.acting_values
        if arrays.pop("diverged"):
            return Update(arrays["loss"], diverged=True)
        arrays["loss"] = self._losses.without_waiting(arrays["loss"], sample.sync)
        arrays["reported"] = dict(zip(self._update.reported_names, arrays["reported"].T, strict=False))
        return Update(**arrays)

    def minimise(self, loss: Callable[[], Any], optimizer: Any) -> Any:
        """Takes one step of an optimizer along the gradient of a loss; see `Learner.minimise`."""
        return self._update.minimise(loss, optimizer)

    def _check_samples_apart(self, sample: Sample) -> None:
        """Refuses losses in which samples influence each other, when it is time to look."""
        if self._samples_apart.due:
            several = self._update.averages_over_replicas
            self._samples_apart.check(self._measurements.gradients_of, first_minibatch(sample), alone=not several)
            if several:
                check_is_a_mean(self._measurements.gradients_of, first_minibatch(sample))
            self._samples_apart.passed()

    def loss_of(self, sample: Sample) -> FloatArray:
        """Returns the losses [K, G] of minibatches; see `Learner.loss_of`."""
        self._check_samples_apart(sample)
        return self._measurements.losses_of(sample)

    def gradient_noise(self, sample: Sample, num_envs: int | None) -> tuple[list[NoiseMoments], int]:
        """Measures how much gradients scatter; see `Learner.gradient_noise`."""
        self._check_samples_apart(sample)
        minibatch = minibatch_in_parts(sample, sample_columns(sample), num_envs)
        return self._measurements.noise_of(minibatch), minibatch.size

    def optimizer_numbers(self) -> list[OptimizerNumbers]:
        """Returns the numbers that optimizers were made with; see `Learner.optimizer_numbers`."""
        return numbers_of(self._optimizers)

    def copies_targets(self) -> bool:
        """Finds out what update_param() does; see `Learner.copies_targets`."""
        with self._measurements.undisturbed():
            return update_copies(VariablesOf(self.agent, self.groups), self.agent.update_param)

    def export(self, policy: ExportedPolicy, path: Path, file_format: str) -> RunExported:
        """Writes the policy alone; see `Learner.export`."""
        from note_rl.learners.keras.policy_export import exporter

        with self._modes.evaluating():
            return exporter(file_format)(self.agent, policy, path)

    def changed_by_hand(self) -> None:
        """Answers by what is set now; see `TakesSteps.changed_by_hand`."""
        self.actor.parameters_changed()

    def layer_numbers(self) -> LayerNumbers:
        """Returns what the agent's layers are, and their numbers."""
        return numbers_of_layers(self.agent)

    def set_layer_numbers(self, numbers: dict[str, dict[str, Any]]) -> None:
        """Sets numbers of layers, by place and name."""
        set_numbers_of_layers(self.agent, numbers)
        self.actor.parameters_changed()

    def get_state(self) -> dict[str, Array]:
        """Returns every variable of the agent and every slot of its optimizers."""
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
            own, waiting = f"optimizer/{index}/0", f"optimizer/{index}/{WAITING_STEPS}"
            if waiting in slots and own in state:  # files of 0.1.0 have one count for all groups
                state = {waiting: state[own], **state}
            if any(name in state for name in slots):
                variables.update(slots)
        check_state(state, variables)
        for name, variable in variables.items():
            variable.assign(state[name])
        self.actor.parameters_changed()


def _variables_of(optimizer: Any) -> list[Any] | None:
    """Returns the variables that an optimizer was made for; None: it takes any, as it is not built yet."""
    return variables_of(optimizer) if optimizer.built else None


def _check_matmul(settings: Settings | None) -> None:
    if settings is not None and settings.matmul != "auto":
        raise SettingsError(
            "{} is about PyTorch, and this agent is written in Keras: leave it out", MATMUL.at(settings.matmul)
        )
