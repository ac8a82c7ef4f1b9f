"""The PyTorch learner."""

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any

import numpy as np
import torch
from torch import Tensor

from note_rl.adaptive.gradient_noise import NoiseMoments
from note_rl.errors import AgentContractError
from note_rl.learners.adjustable import LEARNING_RATE, OptimizerNumbers, minibatch_in_parts
from note_rl.learners.base import (
    check_holds,
    check_state,
    first_minibatch,
    minibatches,
    optimizers_for,
    parameter_groups,
    sample_columns,
    temporary_attributes,
)
from note_rl.learners.checks import check_samples_apart
from note_rl.learners.losses import Losses, offered
from note_rl.learners.mirror import Actor
from note_rl.learners.pytorch_adjusted import NoiseMeter, linear_layers, numbers_of, with_numbers
from note_rl.learners.pytorch_evaluated import Evaluated, Reported
from note_rl.learners.pytorch_steps import Stepper
from note_rl.learners.pytorch_tensors import as_array, load_slots, named_tensors, optimizer_slots
from note_rl.learners.pytorch_traced import Traces
from note_rl.types import Array, FloatArray, Sample, Update

_RANDOM = "random/torch"  # torch draws from one global generator per device


class TorchArithmetic:
    """Of tensors; see `Arithmetic`."""

    def __init__(self, device: torch.device) -> None:
        self._device = device

    def is_tensor(self, value: object) -> bool:
        """Of any kind."""
        return isinstance(value, Tensor)

    def can_be_learned(self, loss: Tensor) -> bool:
        """Whether it has a history."""
        return loss.requires_grad

    def ones(self, num: int) -> Tensor:
        """[num]."""
        return torch.ones(num, device=self._device)

    def mean(self, values: Tensor) -> Tensor:
        """[]."""
        return values.mean()

    def total(self, losses: Sequence[Tensor]) -> Tensor:
        """[]."""
        return torch.stack(list(losses)).sum()


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
        self._checked = bool(getattr(agent, "couples_samples", False))
        self._steppers: list[Stepper] = []  # of this burst
        self._noise = NoiseMeter()
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
        with torch.inference_mode():
            output = method(*map(self._tensor, arrays), *further)
        if not isinstance(output, Tensor):
            raise AgentContractError(f"{method.__name__}() must return a tensor, it returned {type(output).__name__}")
        answers: FloatArray = output.cpu().numpy()
        return answers

    def prepare(self, optimizer: Any, max_grad_norm: float | None, hyperparameters: Sequence[str], jit: Any) -> None:
        """Takes the optimizers; see `Learner.prepare`. What `jit` means is told in `pytorch_traced`."""
        if optimizer is not None:
            optimizers = optimizers_for(optimizer, self.groups, torch.optim.Optimizer)
            check_holds(optimizers, lambda one: [held for group in one.param_groups for held in group["params"]])
            self._optimizers, self._losses.num_optimizers = optimizers, len(optimizers)
        self._max_grad_norm = max_grad_norm
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
        if not self._checked:
            self._check_samples_apart(sample)
        if LEARNING_RATE in hyperparameters:
            for optimizer, _ in self._optimizers:
                for group in optimizer.param_groups:
                    group["lr"] = hyperparameters[LEARNING_RATE]
        columns = {name: self._tensor(values).unbind(0) for name, values in sample_columns(sample).items()}
        names = dict.fromkeys(offered(columns))
        with with_numbers(self._optimizers, hyperparameters), temporary_attributes(self.agent, names):
            self._steppers = [Stepper(optimizer, parameters) for optimizer, parameters in self._optimizers]
            steps = list(self._steps(columns, sample.sync.tolist(), hyperparameters))
        self.actor.parameters_changed()
        losses = torch.stack([loss for step in steps for loss in self._losses.per_optimizer(step.losses)])
        return Update(
            as_array(losses.reshape(len(steps), -1)),
            _stacked([step.td_error for step in steps]),
            _stacked([step.ratio for step in steps]),
        )

    def _steps(
        self, columns: Mapping[str, Sequence[Tensor]], sync: Sequence[bool], hyperparameters: Mapping[str, float]
    ) -> Iterator[Reported]:
        """Takes the steps of a burst, each when it is asked for, and tells what each minibatch gave."""
        due = [one or not self._groups_at_sync for one in sync]
        replays = self._traces.of(columns, due, hyperparameters)
        quick = all(stepper.direct for stepper in self._steppers)
        for k, batch in enumerate(zip(*columns.values(), strict=True)):
            if replays is not None:
                found = replays(batch, due[k], quick)
            else:
                found = self._evaluate_step(dict(zip(columns, batch, strict=True)), due[k])
            for stepper, direction in zip(self._steppers, found.directions, strict=True):
                stepper.follow(direction)
            yield self._traces.reported(found)
            if sync[k]:
                self._sync_targets()
                if replays is not None and not self._traces.up_to_date():
                    replays = None  # in this burst; targets were exchanged rather than updated

    def _evaluate_step(self, batch: Mapping[str, Tensor], due: bool) -> Evaluated:
        """Losses and gradients of a minibatch; changes no parameter.

        Args:
            batch: Columns by name.
            due: Whether the groups that wait for a sync learn, too.
        """
        handle = self.agent.prioritized_replay
        vars(self.agent).update(offered(batch))
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
        with self._nothing_changes():
            check_samples_apart(self._losses_of, first_minibatch(sample))
        self._checked = True

    def loss_of(self, sample: Sample) -> FloatArray:
        """Losses [K, G] of minibatches; see `Learner.loss_of`."""
        with self._nothing_changes():
            return np.stack([self._losses_of(columns) for columns in minibatches(sample)])

    def _losses_of(self, columns: Mapping[str, Array]) -> FloatArray:
        """Losses [G] of one minibatch, by name [b, ...]."""
        batch = {name: self._tensor(values) for name, values in columns.items()}
        losses = self._losses.per_optimizer(self._losses.beside_training(batch))
        return as_array(torch.stack([loss.detach() for loss in losses]))

    @contextmanager
    def _nothing_changes(self, among: Sequence[Tensor] | None = None) -> Iterator[list[Tensor]]:
        """Puts back attributes, tensors and the random state as they were before the block.

        Args:
            among: The only tensors that may change; None: all may.

        Yields:
            A list that holds, after the block, the tensors that had changed.
        """
        attributes = dict(vars(self.agent))
        among = [tensor for _, tensor in named_tensors(self.agent)] if among is None else among
        before = [(tensor, tensor.detach().clone()) for tensor in among]
        changed: list[Tensor] = []
        try:
            with torch.random.fork_rng(devices=[self.device] if self.device.type == "cuda" else []):
                yield changed
        finally:
            vars(self.agent).clear()
            vars(self.agent).update(attributes)
            with torch.no_grad():
                for tensor, values in before:
                    if not torch.equal(tensor, values):
                        tensor.copy_(values)
                        changed.append(tensor)

    def optimizer_numbers(self) -> list[OptimizerNumbers]:
        """What the optimizers were told; see `Learner.optimizer_numbers`."""
        return numbers_of(self._optimizers)

    def gradient_noise(self, sample: Sample, num_envs: int | None) -> tuple[list[NoiseMoments], int]:
        """How much gradients scatter; see `Learner.gradient_noise`."""
        if not self._checked:
            self._check_samples_apart(sample)
        given = minibatch_in_parts(sample, sample_columns(sample), num_envs)
        batch = {name: self._tensor(values) for name, values in given.columns.items()}
        groups = self.groups if len(self._optimizers) > 1 else [[one for group in self.groups for one in group]]
        layers = linear_layers(vars(self.agent).values())
        with self._nothing_changes([] if self._noise.is_harmless else None) as changed:
            found = self._noise(self._to_measure, given, batch, groups, layers)
        self._noise.has_touched(changed)
        return found, given.size

    def _to_measure(self, batch: Mapping[str, Tensor]) -> list[Tensor]:
        """One per optimizer, or one for all."""
        losses = self._losses.beside_training(batch)
        return losses if len(losses) == 1 else self._losses.per_optimizer(losses)

    def _sync_targets(self) -> None:
        with torch.no_grad():
            self.agent.update_param()

    def _tensor(self, values: Array) -> Tensor:
        tensor = torch.from_numpy(np.ascontiguousarray(values))
        if tensor.dtype == torch.int32:
            tensor = tensor.long()  # indices in torch
        return tensor.to(self.device)

    def get_state(self) -> dict[str, Array]:
        """Every tensor of the agent, every slot of its optimizers, and the state of torch's random numbers."""
        state = {f"agent/{name}": as_array(tensor) for name, tensor in named_tensors(self.agent)}
        for index, (optimizer, _) in enumerate(self._optimizers):
            for name, tensor in optimizer_slots(optimizer):
                state[f"optimizer/{index}/{name}"] = as_array(tensor)
        state[f"{_RANDOM}/cpu"] = as_array(torch.get_rng_state())
        if self.device.type == "cuda":
            state[f"{_RANDOM}/cuda"] = as_array(torch.cuda.get_rng_state(self.device))
        return state

    def set_state(self, state: Mapping[str, Array]) -> None:
        """Takes over parameters and random state, and slots where optimizers are there already."""
        tensors = dict(named_tensors(self.agent))
        check_state(state, {f"agent/{name}": tensor for name, tensor in tensors.items()})
        with torch.no_grad():
            for name, tensor in tensors.items():
                tensor.copy_(torch.from_numpy(np.array(state[f"agent/{name}"])))
        for index, (optimizer, _) in enumerate(self._optimizers):
            load_slots(optimizer, state, f"optimizer/{index}/")
        if f"{_RANDOM}/cpu" in state:
            torch.set_rng_state(torch.from_numpy(np.array(state[f"{_RANDOM}/cpu"])))
        if f"{_RANDOM}/cuda" in state and self.device.type == "cuda":
            torch.cuda.set_rng_state(torch.from_numpy(np.array(state[f"{_RANDOM}/cuda"])), self.device)
        self.actor.parameters_changed()


def _stacked(rows: Sequence[Tensor | None]) -> FloatArray | None:
    """[K, B] of rows [B] as float32; None where some are missing."""
    present = [row.detach() for row in rows if row is not None]
    return as_array(torch.stack(present).float()) if len(present) == len(rows) else None
