"""The PyTorch learner."""

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

from note_rl.errors import AgentContractError
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


class PyTorchLearner:
    """Trains an agent whose parameters are torch tensors, on the device that they are on."""

    def __init__(self, agent: Any) -> None:
        self.agent = agent
        self.groups: list[list[Tensor]] = parameter_groups(agent.param)
        self.device = self.groups[0][0].device
        self._optimizers: list[tuple[torch.optim.Optimizer, list[Tensor]]] = []
        self._max_grad_norm: float | None = None
        self._weighted = takes_weights(agent)
        self._mirror: Mirror | None = None
        self._mirror_decided = False

    def act(self, obs: Array) -> FloatArray:
        """Scores of the actions for observations [E, *obs]."""
        if not self._mirror_decided:
            self._mirror_decided = True
            if self.device.type == "cpu":
                layers = getattr(self.agent, "acting_layers", None)
                self._mirror = verified_mirror(layers, self._framework_act, obs)
        return self._mirror(obs) if self._mirror is not None else self._framework_act(obs)

    def _framework_act(self, obs: Array) -> FloatArray:
        with torch.inference_mode():
            output: FloatArray = self.agent.action(self._tensor(obs)).cpu().numpy()
        return output

    def value(self, obs: Array) -> FloatArray:
        """What the agent expects to gain, [N], from observations [N, *obs]."""
        with torch.inference_mode():
            output: FloatArray = self.agent.value(self._tensor(obs)).reshape(-1).cpu().numpy()
        return output

    def prepare(self, optimizer: Any, max_grad_norm: float | None, hyperparameters: Sequence[str], jit: Any) -> None:
        """Takes the optimizers; see `Learner.prepare`. Updates run eagerly whatever `jit` says."""
        if optimizer is not None:
            self._optimizers = optimizers_for(optimizer, self.groups)
        self._max_grad_norm = max_grad_norm

    def update(self, sample: Sample, hyperparameters: Mapping[str, float]) -> Update:
        """One gradient step per minibatch; see `Learner.update`."""
        for optimizer, _ in self._optimizers:
            if LEARNING_RATE in hyperparameters:
                for group in optimizer.param_groups:
                    group["lr"] = hyperparameters[LEARNING_RATE]
        columns = {name: self._tensor(values) for name, values in sample_columns(sample).items()}
        losses = []
        for k, sync in enumerate(sample.sync.tolist()):
            batch = {name: values[k] for name, values in columns.items()}
            with temporary_attributes(self.agent, _offered(batch)):
                losses.append(self._gradient_step(batch))
                if sync:
                    self._sync_targets()
        if self._mirror is not None:
            self._mirror.stale = True
        return Update(torch.stack(losses).cpu().numpy())

    def _gradient_step(self, batch: dict[str, Tensor]) -> Tensor:
        """Losses [G], one per parameter group, after having stepped along their gradients."""
        losses = self._losses(batch)
        for index, (loss, (_, parameters)) in enumerate(zip(losses, self._optimizers, strict=True)):
            shared = index + 1 < len(losses)
            gradients = torch.autograd.grad(loss, parameters, retain_graph=shared, allow_unused=True)
            for parameter, gradient in zip(parameters, gradients, strict=True):
                parameter.grad = gradient
            if self._max_grad_norm is not None:
                nn.utils.clip_grad_norm_(parameters, self._max_grad_norm)
        for optimizer, _ in self._optimizers:
            optimizer.step()
        return torch.stack([loss.detach() for loss in losses])

    def _losses(self, batch: dict[str, Tensor]) -> list[Tensor]:
        arguments = [batch[name] for name in CALL_ARGUMENTS]
        weights = batch.get("weights")
        if self._weighted:
            arguments.append(weights if weights is not None else torch.ones_like(batch["reward"]))
        returned = self.agent(*arguments)
        several = isinstance(returned, (list, tuple))
        batch_size = len(batch["reward"])
        losses = [self._reduced(loss, weights, batch_size) for loss in (returned if several else [returned])]
        if len(losses) == 1:
            return losses * len(self._optimizers)
        if len(self._optimizers) == 1:
            return [torch.stack(losses).sum()]
        if len(losses) != len(self._optimizers):
            raise AgentContractError(
                f"__call__ returned {len(losses)} losses for {len(self._optimizers)} parameter groups; "
                "give one each, or one in all"
            )
        return losses

    def _reduced(self, loss: Tensor, weights: Tensor | None, batch_size: int) -> Tensor:
        check_loss_shape(tuple(loss.shape), batch_size)
        if loss.ndim == 0:
            return loss
        return (loss * weights).mean() if weights is not None and not self._weighted else loss.mean()

    def _sync_targets(self) -> None:
        with torch.no_grad():
            self.agent.update_param()

    def _tensor(self, values: Array) -> Tensor:
        tensor = torch.from_numpy(np.ascontiguousarray(values))
        if tensor.dtype == torch.int32:
            tensor = tensor.long()  # indices in torch
        return tensor.to(self.device)

    def get_state(self) -> dict[str, Array]:
        """Every tensor of the agent and every slot of its optimizers."""
        state = {f"agent/{name}": _array(tensor) for name, tensor in named_tensors(self.agent)}
        for index, (optimizer, _) in enumerate(self._optimizers):
            for name, tensor in _slots(optimizer):
                state[f"optimizer/{index}/{name}"] = _array(tensor)
        return state

    def set_state(self, state: Mapping[str, Array]) -> None:
        """Takes over parameters, and slots where optimizers are there already."""
        tensors = dict(named_tensors(self.agent))
        check_state(state, {f"agent/{name}": tensor for name, tensor in tensors.items()})
        with torch.no_grad():
            for name, tensor in tensors.items():
                tensor.copy_(torch.from_numpy(np.array(state[f"agent/{name}"])))
        for index, (optimizer, _) in enumerate(self._optimizers):
            _load_slots(optimizer, state, f"optimizer/{index}/")
        if self._mirror is not None:
            self._mirror.stale = True


def _offered(batch: Mapping[str, Tensor]) -> dict[str, Tensor]:
    """What the agent can read as attributes while its loss is evaluated."""
    return {name: values for name, values in batch.items() if name not in CALL_ARGUMENTS}


def named_tensors(agent: Any) -> Iterator[tuple[str, Tensor]]:
    """Parameters and buffers of everything the agent holds, under the names of its attributes."""
    for name, value in vars(agent).items():
        if name != "param":
            yield from _named_tensors_in(name, value)


def _named_tensors_in(name: str, value: Any) -> Iterator[tuple[str, Tensor]]:
    if isinstance(value, nn.Module):
        for key, tensor in value.state_dict(keep_vars=True).items():
            yield f"{name}/{key}", tensor
    elif isinstance(value, Tensor):
        yield name, value
    elif isinstance(value, Mapping):
        for key, one in value.items():
            yield from _named_tensors_in(f"{name}/{key}", one)
    elif isinstance(value, (list, tuple)):
        for index, one in enumerate(value):
            yield from _named_tensors_in(f"{name}/{index}", one)


def _slots(optimizer: torch.optim.Optimizer) -> Iterator[tuple[str, Tensor]]:
    for index, slots in optimizer.state_dict()["state"].items():
        for name, value in slots.items():
            yield f"{index}/{name}", torch.as_tensor(value)


def _load_slots(optimizer: torch.optim.Optimizer, state: Mapping[str, Array], prefix: str) -> None:
    """Slots from the state; the hyperparameters stay those of the optimizer at hand."""
    slots: dict[int, dict[str, Tensor]] = {}
    for name, values in state.items():
        if name.startswith(prefix):
            index, _, slot = name.removeprefix(prefix).partition("/")
            slots.setdefault(int(index), {})[slot] = torch.from_numpy(np.array(values))
    optimizer.load_state_dict({"state": slots, "param_groups": optimizer.state_dict()["param_groups"]})


def _array(tensor: Tensor) -> Array:
    values: Array = tensor.detach().cpu().numpy().copy()
    return values
