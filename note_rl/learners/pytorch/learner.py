"""The PyTorch learner."""

import math
from collections.abc import Iterator, Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import replace
from typing import Any

import numpy as np
import torch
from torch import Tensor

from note_rl.errors import AgentContractError
from note_rl.learners.adjustable import LEARNING_RATE, OptimizerNumbers, minibatch_in_parts
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
from note_rl.learners.losses import Losses, batch_attributes
from note_rl.learners.numpy_policy import Actor
from note_rl.learners.pytorch.adjusted import numbers_of, with_numbers
from note_rl.learners.pytorch.arithmetic import TorchArithmetic
from note_rl.learners.pytorch.evaluated import Evaluated, Reported, WaitingLosses, reported
from note_rl.learners.pytorch.kept import Kept
from note_rl.learners.pytorch.modes import Modes
from note_rl.learners.pytorch.noise import TorchNoiseMeter
from note_rl.learners.pytorch.optimizer_step import Stepper
from note_rl.learners.pytorch.recording.traces import Traces
from note_rl.learners.pytorch.tensors import (
    TensorsOf,
    arrays_of,
    as_array,
    as_vector,
    load_slots,
    named_tensors,
    optimizer_slots,
    random_state,
    set_random_state,
    stacked,
    undisturbed,
)
from note_rl.learners.targets import update_copies
from note_rl.types import Array, FloatArray, Sample, Update


class PyTorchLearner:
    """Trains an agent whose parameters are torch tensors, on the device that they are on."""

    def __init__(self, agent: Any) -> None:
        self.agent = agent
        self.groups: list[list[Tensor]] = parameter_groups(agent.param)
        self.device = self.groups[0][0].device
        self.actor = Actor(agent, self._framework_act, mirrored=self.device.type == "cpu")
        self._optimizers: list[tuple[torch.optim.Optimizer, list[Tensor]]] = []
        self._max_grad_norm: float | None = None
        self._losses = Losses(agent, len(self.groups), TorchArithmetic(self.device))
        self._groups_at_sync: Sequence[int] = getattr(agent, "groups_at_sync", ())
        self._guard = SamplesApart(agent)
        self._modes = Modes(agent, self.groups)
        self._kept = Kept(agent, [])
        self._waiting = WaitingLosses()
        self._steppers: list[Stepper] = []  # of this update block
        self._noise = TorchNoiseMeter(self._to_measure)
        self._traces = Traces(agent, self._evaluate_step, self._nothing_changes, self._groups_at_sync)

    def act(self, obs: Array) -> FloatArray:
        """Scores of the actions for observations [E, *obs]."""
        return self.actor(obs)

    def act_one(self, obs: Array, agent_index: int) -> FloatArray:
        """The same of one agent among several."""
        return self.actor(obs, agent_index)

    def _framework_act(self, obs: Array, index: int | None = None) -> FloatArray:
        return self._evaluate(self.agent.action, [obs], *([] if index is None else [index]))

    def value(self, obs: Array) -> FloatArray:
        """What the agent expects to gain, [N], from observations [N, *obs]."""
        return self._evaluate(self.agent.value, [obs]).reshape(-1)

    def reward(self, obs: Array, action: Array, next_obs: Array) -> FloatArray:
        """What the agent's reward() says, [N], of N transitions."""
        return self._evaluate(self.agent.reward, [obs, action, next_obs]).reshape(-1)

    def _evaluate(self, method: Any, arrays: Sequence[Array], *further: Any) -> FloatArray:
        with torch.inference_mode(), self._modes.evaluating():
            output = method(*map(self._tensor, arrays), *further)
        if not isinstance(output, Tensor):
            raise AgentContractError(f"{method.__name__}() must return a tensor, it returned {type(output).__name__}")
        answers: FloatArray = output.cpu().numpy()
        return answers

    def prepare(self, optimizer: Any, max_grad_norm: float | None, hyperparameters: Sequence[str], jit: Any) -> None:
        """Takes the optimizers; see `Learner.prepare`. What `jit` means is told in `pytorch_traced`."""
        check_held(self.groups, (tensor for _, tensor in named_tensors(self.agent)))
        if optimizer is not None:
            optimizers = optimizers_for(optimizer, self.groups, torch.optim.Optimizer)
            check_holds(optimizers, lambda one: [held for group in one.param_groups for held in group["params"]])
            self._optimizers, self._losses.num_optimizers = optimizers, len(optimizers)
        self._max_grad_norm = max_grad_norm
        self._kept = Kept(self.agent, self._optimizers)
        self._modes.look_again()
        self._traces.prepare(jit, hyperparameters, [max_grad_norm, *(one for one, _ in self._optimizers)])

    def expect(self, num_gradient_steps: float) -> None:
        """So many gradient steps are still to come; see `Learner.expect`."""
        self._traces.expect(num_gradient_steps)

    @property
    def stages(self) -> tuple[int, int]:
        """See `Staged.stages`."""
        return self._traces.stages

    def resume(self, stages: tuple[int, int]) -> None:
        """See `Staged.resume`."""
        self._traces.resume(stages)

    @property
    def num_traces(self) -> int:
        """How often a gradient step was recorded; a change of hyperparameters must not add to it."""
        return self._traces.num_traces

    def update(self, sample: Sample, hyperparameters: Mapping[str, float]) -> Update:
        """One gradient step per minibatch; see `Learner.update`."""
        if self._guard.due:
            self._check_samples_apart(sample)
        if LEARNING_RATE in hyperparameters:
            for optimizer, _ in self._optimizers:
                for group in optimizer.param_groups:
                    group["lr"] = hyperparameters[LEARNING_RATE]
        columns = {name: self._tensor(values).unbind(0) for name, values in sample_columns(sample).items()}
        names = dict.fromkeys(batch_attributes(columns))
        kept = self._kept.begin(sample.num_gradient_steps)
        with (
            with_numbers(self._optimizers, hyperparameters),
            temporary_attributes(self.agent, names),
            self._modes.learning(),
        ):
            self._steppers = [Stepper(optimizer, parameters) for optimizer, parameters in self._optimizers]
            steps = list(self._steps(columns, sample.sync.tolist(), hyperparameters, careful=not kept))
        self._guard.count(sample.num_gradient_steps)
        self.actor.parameters_changed()
        rows = [self._losses.per_optimizer(row) for row in self._waiting.filled([step.losses for step in steps])]
        losses = as_array(torch.stack([loss for row in rows for loss in row])).reshape(len(steps), -1)
        if not np.isfinite(losses).all():
            return self._diverged(losses, sample.num_gradient_steps, kept)
        return Update(losses, stacked([step.td_error for step in steps]), stacked([step.ratio for step in steps]))

    def _diverged(self, losses: FloatArray, num_gradient_steps: int, kept: bool) -> Update:
        """Goes back to before the update block; steps that were not taken have no loss."""
        if kept or not self._kept.is_sound():
            self._kept.go_back()
        missing = num_gradient_steps - len(losses)
        return Update(np.pad(losses, ((0, missing), (0, 0)), constant_values=math.nan), diverged=True)

    def _steps(
        self,
        columns: Mapping[str, Sequence[Tensor]],
        sync: Sequence[bool],
        hyperparameters: Mapping[str, float],
        careful: bool,
    ) -> Iterator[Reported]:
        """Takes the steps of an update block, each when it is asked for, and tells what each minibatch gave.

        If careful, none is taken any more once a loss is not finite.
        """
        due = [one or not self._groups_at_sync for one in sync]
        replays = self._traces.of(columns, due, hyperparameters)
        quick = all(stepper.direct for stepper in self._steppers)
        for k, batch in enumerate(zip(*columns.values(), strict=True)):
            if replays is not None:
                found = replays(batch, due[k], quick)
            else:
                found = self._evaluate_step(dict(zip(columns, batch, strict=True)), due[k])
            told = reported(found)
            if careful and not all(loss is None or math.isfinite(loss) for loss in told.losses):
                yield told
                return
            for stepper, direction in zip(self._steppers, found.directions, strict=True):
                stepper.follow(direction)
            yield told
            if sync[k]:
                self._sync_targets()
                if replays is not None and not self._traces.up_to_date():
                    replays = None  # in this update block; targets were exchanged rather than updated

    def _evaluate_step(self, batch: Mapping[str, Tensor], due: bool) -> Evaluated:
        """Losses and gradients of a minibatch; changes no parameter.

        Args:
            batch: Columns by name.
            due: Whether the groups that wait for a sync learn, too.
        """
        handle = self.agent.prioritized_replay
        vars(self.agent).update(batch_attributes(batch))
        handle.begin(len(batch["reward"]))
        losses = self._losses(batch)
        td_error, ratio = handle.take()
        gradients = self._gradients(losses, due)
        if len(self._optimizers) == 1:
            gradients = [[gradient for group in gradients for gradient in group]]
        directions = [
            stepper.direction(of_optimizer, self._max_grad_norm)
            for stepper, of_optimizer in zip(self._steppers, gradients, strict=True)
        ]
        return Evaluated(list(losses), td_error, ratio, directions)

    def _gradients(self, losses: list[Tensor], due: bool) -> list[list[Tensor | None]]:
        """Per parameter group, along its own loss or the only one; None for groups that wait for a sync."""
        if len(losses) == len(self.groups):
            learns = [due or index not in self._groups_at_sync for index in range(len(losses))]
            last = max((index for index, one in enumerate(learns) if one), default=0)
            return [
                list(torch.autograd.grad(loss, group, retain_graph=index < last, allow_unused=True))
                if learns[index]
                else [None] * len(group)
                for index, (loss, group) in enumerate(zip(losses, self.groups, strict=True))
            ]
        parameters = [parameter for group in self.groups for parameter in group]
        flat = iter(torch.autograd.grad(losses[0], parameters, allow_unused=True))
        return [[next(flat) for _ in group] for group in self.groups]

    def _check_samples_apart(self, sample: Sample) -> None:
        if not self._modes.couple_samples():
            check_samples_apart(self._gradients_of, first_minibatch(sample))
        self._guard.passed()

    def _gradients_of(self, columns: Mapping[str, Array]) -> tuple[FloatArray, list[FloatArray]]:
        """Losses [G] of one minibatch, by name [b, ...], and their gradients along all parameters, [G, P]."""
        parameters = [parameter for group in self.groups for parameter in group]
        with self._nothing_changes(), self._modes.judging():
            losses = self._losses_of(columns)
            found = [torch.autograd.grad(one, parameters, retain_graph=True, allow_unused=True) for one in losses]
        return as_array(torch.stack(losses)), [as_array(as_vector(one, parameters)) for one in found]

    def loss_of(self, sample: Sample) -> FloatArray:
        """Losses [K, G] of minibatches; see `Learner.loss_of`."""
        with self._nothing_changes(), self._modes.learning():
            return np.stack([as_array(torch.stack(self._losses_of(columns))) for columns in minibatches(sample)])

    def _losses_of(self, columns: Mapping[str, Array]) -> list[Tensor]:
        """Losses [G] of one minibatch, by name [b, ...]."""
        return self._losses.per_optimizer(self._to_measure(self._tensors(columns)))

    def _nothing_changes(self, among: Sequence[Tensor] | None = None) -> AbstractContextManager[list[Tensor]]:
        return undisturbed(self.agent, self.device, among)

    def optimizer_numbers(self) -> list[OptimizerNumbers]:
        """What the optimizers were told; see `Learner.optimizer_numbers`."""
        return numbers_of(self._optimizers)

    def gradient_noise(self, sample: Sample, num_envs: int | None) -> tuple[list[NoiseMoments], int]:
        """How much gradients scatter; see `Learner.gradient_noise`."""
        if self._guard.due:
            self._check_samples_apart(sample)
        minibatch = minibatch_in_parts(sample, sample_columns(sample), num_envs)
        minibatch = replace(minibatch, columns=self._tensors(minibatch.columns))
        groups = self.groups if len(self._optimizers) > 1 else [[one for group in self.groups for one in group]]
        with self._nothing_changes(self._noise.touches) as changed, self._modes.judging():
            moments = self._noise(minibatch, groups, vars(self.agent).values())
        self._noise.has_touched(changed)
        return moments, minibatch.size

    def _to_measure(self, batch: Mapping[str, Tensor]) -> list[Tensor]:
        """One per optimizer, or one for all."""
        losses = self._losses.beside_training(batch)
        return losses if len(losses) == 1 else self._losses.per_optimizer(losses)

    def _sync_targets(self) -> None:
        with torch.no_grad():
            self.agent.update_param()

    def copies_targets(self) -> bool:
        """What update_param() does; see `Learner.copies_targets`."""
        with self._nothing_changes():
            return update_copies(TensorsOf(self.agent, self.groups), self._sync_targets)

    def _tensor(self, values: Array) -> Tensor:
        tensor = torch.from_numpy(np.ascontiguousarray(values))
        if tensor.dtype == torch.int32:
            tensor = tensor.long()  # indices in torch
        return tensor.to(self.device)

    def _tensors(self, columns: Mapping[str, Array]) -> dict[str, Tensor]:
        return {name: self._tensor(values) for name, values in columns.items()}

    def get_state(self) -> dict[str, Array]:
        """Every tensor of the agent, every slot of its optimizers, and the state of torch's random numbers."""
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
        self._kept = Kept(self.agent, self._optimizers)
        self.actor.parameters_changed()
