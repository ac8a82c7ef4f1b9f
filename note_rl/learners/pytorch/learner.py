"""The learner for agents written in PyTorch."""

import logging
import math
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor

from note_rl.errors import AgentContractError
from note_rl.learners.adjustable import OptimizerNumbers, minibatch_in_parts
from note_rl.learners.base import (
    LayerNumbers,
    check_held,
    check_holds,
    check_state,
    first_minibatch,
    optimizers_for,
    parameter_groups,
    sample_columns,
    temporary_attributes,
)
from note_rl.learners.batch_noise_scale import NoiseMoments
from note_rl.learners.declarations import is_recurrent, updates_itself
from note_rl.learners.loss_checks import NORMALISED_APART, SamplesApart, check_is_a_mean
from note_rl.learners.losses import Losses, batch_attributes
from note_rl.learners.numpy_memory import RecurrentActor
from note_rl.learners.numpy_noise import NOISE, NoisyActor
from note_rl.learners.numpy_policy import Actor
from note_rl.learners.peers import Peers
from note_rl.learners.policy_function import ExportedPolicy, RunExported
from note_rl.learners.pytorch.arithmetic import TorchArithmetic
from note_rl.learners.pytorch.custom_update import OwnUpdates
from note_rl.learners.pytorch.hyperparameter_override import numbers_of, with_numbers
from note_rl.learners.pytorch.layer_numbers import numbers_of_layers, set_numbers_of_layers
from note_rl.learners.pytorch.loss_probe import NoiseMeasurements
from note_rl.learners.pytorch.modes import Modes
from note_rl.learners.pytorch.snapshots import Snapshots
from note_rl.learners.pytorch.step_graph.products import library
from note_rl.learners.pytorch.step_graph.replay_failures import StepError
from note_rl.learners.pytorch.step_result import Evaluated, ReportedRows
from note_rl.learners.pytorch.steps import GradientSteps
from note_rl.learners.pytorch.tensors import (
    TensorsOf,
    arrays_of,
    as_array,
    as_own_tensor,
    as_tensor,
    columns_on,
    load_slots,
    named_tensors,
    optimizer_slots,
    random_state,
    set_random_state,
    stacked,
)
from note_rl.learners.recurrence import RecurrentState, State, pair_of
from note_rl.learners.step_way import StepWay
from note_rl.learners.target_networks import update_copies
from note_rl.learners.update_contract import OwnUpdate
from note_rl.settings import Settings
from note_rl.types import Array, BoolArray, FloatArray, Sample, Update

_log = logging.getLogger(__name__)

_SMALL = 300_000
"""Numbers that learn, on a GPU: those of SAC with 256-256 are copied in 0.1 ms, where to act there takes 0.24."""


class PyTorchLearner:
    """Trains an agent whose parameters are torch tensors, on the device that they are on.

    Its parts: `actor` answers observations, `GradientSteps` takes the steps of an update block (`OwnUpdates` where the
    agent does so by itself), `Snapshots` brings back what a block has spoiled, `NoiseMeasurements` evaluates losses
    beside training, and `Modes` says which layers train.
    """

    def __init__(self, agent: Any) -> None:
        self.agent = agent
        self._is_recurrent = is_recurrent(agent)
        self.groups: list[list[Tensor]] = parameter_groups(agent.param)
        self.device = self.groups[0][0].device
        self.actor = Actor(agent, self._framework_act, self._acts_on_host())
        reading = _as_it_is if self.device.type == "cpu" else None
        of_memory, of_noise = (
            reading if self._is_recurrent else None,
            reading if getattr(agent, "acting_noise", 0) else None,
        )
        self._act_from = RecurrentActor(agent, self._framework_act_from, self.actor, of_memory)
        self._act_with_noise = NoisyActor(agent, self._framework_act_with, self.actor, of_noise)
        self._optimizers: list[tuple[torch.optim.Optimizer, list[Tensor]]] = []
        self._losses = Losses(agent, len(self.groups), TorchArithmetic(self.device))
        self._samples_apart = SamplesApart(agent, self._losses)
        self._modes = Modes(agent, self.groups)
        self._measurements = NoiseMeasurements(agent, self.groups, self._losses, self._modes)
        self._steps = self._own_updates() if updates_itself(type(agent)) else self._gradient_steps()
        self._forget_snapshots()

    def _acts_on_host(self) -> bool:
        """Whether NumPy may act: for a few rows a GPU takes longer, unless large networks have to be copied."""
        return self.device.type == "cpu" or sum(one.numel() for group in self.groups for one in group) <= _SMALL

    def _gradient_steps(self) -> GradientSteps | OwnUpdates:
        return GradientSteps(self.agent, self.groups, self._losses, self._measurements.undisturbed)

    def _own_updates(self) -> GradientSteps | OwnUpdates:
        update = OwnUpdate(self.agent, len(self.groups), TorchArithmetic(self.device))
        return OwnUpdates(self.agent, update, [parameter for group in self.groups for parameter in group])

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
        return self._evaluate(self.agent.action, [obs], *([] if index is None else [index]))

    def _framework_act_with(self, obs: Array, before: State) -> tuple[FloatArray, State]:
        return self._evaluate(self.agent.noisy_action, [obs, before[NOISE]]), {}

    def _framework_act_from(self, obs: Array, before: State) -> tuple[FloatArray, State]:
        return self._evaluate_from("action", obs, before)

    def _evaluate_from(self, method: str, obs: Array, before: State) -> tuple[FloatArray, State]:
        tensors = {name: as_tensor(values, self.device) for name, values in before.items()}
        with torch.inference_mode(), self._modes.evaluating():
            output = getattr(self.agent, method)(as_own_tensor(obs, self.device), tensors)
            answers, after = pair_of(output, self.agent, method)
        return answers.cpu().numpy(), {name: tensor.cpu().numpy() for name, tensor in after.items()}

    def value(self, obs: Array) -> FloatArray:
        """Returns what the agent expects to gain, [N], from observations [N, *obs]."""
        return self._evaluate(self.agent.value, [obs]).reshape(-1)

    def value_from(self, obs: Array, before: State) -> tuple[FloatArray, State]:
        """Returns values [N] of a recurrent agent, and the states behind them; see `Learner.value_from`."""
        values, after = self._evaluate_from("value", obs, before)
        return values.reshape(-1), after

    def reward(self, obs: Array, action: Array, next_obs: Array) -> FloatArray:
        """Returns what the agent's reward() says, [N], of N transitions."""
        return self._evaluate(self.agent.reward, [obs, action, next_obs]).reshape(-1)

    def _evaluate(self, method: Any, arrays: Sequence[Array], *further: Any) -> FloatArray:
        with torch.inference_mode(), self._modes.evaluating():
            output = method(*(as_own_tensor(array, self.device) for array in arrays), *further)
        if not isinstance(output, Tensor):
            raise AgentContractError(f"{method.__name__}() must return a tensor, it returned {type(output).__name__}")
        answers: FloatArray = output.cpu().numpy()
        return answers

    def prepare(self, optimizer: Any, max_grad_norm: float | None, hyperparameters: Sequence[str], jit: Any) -> None:
        """Takes the optimizers; see `Learner.prepare`. `step_graph.choice` says what `jit` means."""
        check_held(self.groups, (tensor for _, tensor in named_tensors(self.agent)))
        if optimizer is not None:
            optimizers = optimizers_for(optimizer, self.groups, torch.optim.Optimizer)
            check_holds(optimizers, _parameters_of)
            self._optimizers, self._losses.num_optimizers = optimizers, len(optimizers)
        self._forget_snapshots()
        self._modes.look_again()
        self._steps.prepare(self._optimizers, max_grad_norm, hyperparameters, jit, self.matmul)

    @property
    def matmul(self) -> str:
        """The library that computes large products of matrices in recorded steps; see `step_graph.products`."""
        settings: Settings | None = self.agent._settings
        return library("auto" if settings is None else settings.matmul, self.device)

    def join(self, peers: Peers) -> None:
        """Takes steps together with others from the next prepare() on; see `Learner.join`."""
        if peers.size > 1 and self._modes.normalise_over_batches():
            raise AgentContractError(NORMALISED_APART)
        self._steps.peers = peers

    def expect(self, num_gradient_steps: float) -> None:
        """Takes the expected number of remaining gradient steps; see `Learner.expect`."""
        self._steps.traces.expect(num_gradient_steps)

    def step_way(self) -> StepWay:
        """Returns the way in which steps are taken now; see `Learner.step_way`."""
        return self._steps.traces.way

    def step_graphs(self) -> list[str]:
        """Returns the kernel calls of each kind of recorded gradient step, as code; see `step_graph/README.md`."""
        return self._steps.traces.graphs()

    @property
    def stages(self) -> tuple[int, int]:
        """See `Staged.stages`."""
        return self._steps.traces.stages

    @property
    def refusals(self) -> tuple[str, str]:
        """See `Staged.refusals`."""
        return self._steps.traces.refusals

    def resume(self, stages: tuple[int, int], refusals: tuple[str, str] = ("", "")) -> None:
        """See `Staged.resume`."""
        self._steps.traces.resume(stages, refusals)

    @property
    def num_traces(self) -> int:
        """How often a gradient step was recorded; a change of hyperparameters must not add to it."""
        return self._steps.traces.num_traces

    def update(self, sample: Sample, hyperparameters: Mapping[str, float]) -> Update:
        """Takes one gradient step per minibatch; see `Learner.update`."""
        self._check_samples_apart(sample)
        columns = columns_on(self.device, sample_columns(sample))
        snapshot_taken = self._snapshots.begin(sample.num_gradient_steps)
        with (
            with_numbers(self._optimizers, hyperparameters),
            temporary_attributes(self.agent, dict.fromkeys(batch_attributes(columns))),
            self._modes.learning(),
        ):
            steps = self._taken(columns, sample.sync.tolist(), hyperparameters, not snapshot_taken)
        self._samples_apart.count(sample.num_gradient_steps)
        self.actor.parameters_changed()
        losses = self._told_losses(steps)
        if not np.isfinite(losses).all() or self._steps.spoiled():
            return self._diverged(losses, sample.num_gradient_steps, snapshot_taken)
        return Update(
            self._losses.without_waiting(losses, sample.sync),
            stacked([step.td_error for step in steps]),
            stacked([step.ratio for step in steps]),
            ReportedRows([step.reported for step in steps]),
        )

    def _taken(
        self,
        columns: Mapping[str, Sequence[Tensor]],
        sync: Sequence[bool],
        hyperparameters: Mapping[str, float],
        careful: bool,
    ) -> list[Evaluated]:
        """Takes the steps of an update block; again, from the last copy on, where a program has failed within one."""
        try:
            return list(self._steps.take(columns, sync, hyperparameters, careful))
        except StepError:
            self._snapshots.go_back()
        lost = self._snapshots.num_since - len(sync)
        _log.warning(
            "a compiled gradient step failed halfway: the agent goes on from the copy of itself made %s",
            f"{lost} gradient steps before this update block" if lost else "before this update block",
        )
        return list(self._steps.take(columns, sync, hyperparameters, careful))

    def minimise(self, loss: Callable[[], Tensor], optimizer: torch.optim.Optimizer) -> Tensor:
        """Takes one step of an optimizer along the gradient of a loss; see `Learner.minimise`."""
        return self._steps.minimise(loss, optimizer)

    def _told_losses(self, steps: Sequence[Evaluated]) -> FloatArray:
        """Returns the losses of steps, [K, G], 0 of groups that wait; one copy from another device for all of them."""
        nothing = torch.zeros((), device=self.device)
        rows = [self._losses.columns([nothing if loss is None else loss for loss in step.losses]) for step in steps]
        if self.device.type == "cpu":
            return np.array([[loss.item() for loss in row] for row in rows], np.float32)
        return as_array(torch.stack([loss for row in rows for loss in row])).reshape(len(steps), -1)

    def _diverged(self, losses: FloatArray, num_gradient_steps: int, snapshot_taken: bool) -> Update:
        """Goes back to before the update block; steps that were not taken have no loss."""
        if snapshot_taken or not self._snapshots.is_sound():
            self._snapshots.go_back()
        missing = num_gradient_steps - len(losses)
        return Update(np.pad(losses, ((0, missing), (0, 0)), constant_values=math.nan), diverged=True)

    def _forget_snapshots(self) -> None:
        self._snapshots = Snapshots(self.agent, self._optimizers, self._steps.steps_between_copies)

    def _check_samples_apart(self, sample: Sample) -> None:
        """Refuses losses in which samples influence each other, when it is time to look."""
        if not self._samples_apart.due:
            return
        alone = self._steps.peers.size == 1
        if not self._modes.couple_samples():
            self._samples_apart.check(self._measurements.gradients_of, first_minibatch(sample), alone)
        if not alone:
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
        with self._measurements.undisturbed(), torch.no_grad():
            return update_copies(TensorsOf(self.agent, self.groups), self.agent.update_param)

    def export(self, policy: ExportedPolicy, path: Path, file_format: str) -> RunExported:
        """Writes the policy alone; see `Learner.export`."""
        from note_rl.learners.pytorch.policy_export import exporter

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
        """Returns every tensor of the agent, every slot of its optimizers, and the state of torch's random numbers."""
        state = {f"agent/{name}": values for name, values in arrays_of(self.agent).items()}
        for index, (optimizer, _) in enumerate(self._optimizers):
            for name, tensor in optimizer_slots(optimizer):
                state[f"optimizer/{index}/{name}"] = as_array(tensor)
        return {**state, **random_state(self.device)}

    def set_state(self, state: Mapping[str, Array]) -> None:
        """Takes over parameters and random state, and slots where optimizers are there already."""
        tensors = dict(named_tensors(self.agent))
        check_state(state, {f"agent/{name}": tensor for name, tensor in tensors.items()})
        with torch.no_grad():
            for name, tensor in tensors.items():
                tensor.copy_(torch.from_numpy(np.array(state[f"agent/{name}"])))
        for index, (optimizer, _) in enumerate(self._optimizers):
            load_slots(optimizer, state, f"optimizer/{index}/")
        set_random_state(self.device, state)
        self._forget_snapshots()  # which are of another agent
        self.actor.parameters_changed()


def _as_it_is(read: Callable[[], Any]) -> Callable[[], Any]:
    return read


def _parameters_of(optimizer: torch.optim.Optimizer) -> list[Tensor]:
    return [parameter for group in optimizer.param_groups for parameter in group["params"]]
