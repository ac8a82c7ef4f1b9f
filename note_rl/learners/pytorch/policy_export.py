"""Policies of PyTorch agents as ONNX models, and as programs of torch.export, which has taken TorchScript's place."""

import json
import logging
import warnings
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

from note_rl.errors import SettingsError
from note_rl.learners.onnx_files import OPSET, write_model
from note_rl.learners.policy_function import ExportedPolicy, Exporter, GreedyRule, RunExported, cannot_be_exported
from note_rl.learners.recurrence import pair_of
from note_rl.types import Array

_ABOUT = "about.json"


def exporter(file_format: str) -> Exporter:
    """Returns what writes a format that `check_format` has let pass."""
    return _write_onnx if file_format == "onnx" else _write_program


def _write_onnx(agent: Any, policy: ExportedPolicy, path: Path) -> RunExported:
    with _quietly():
        program = torch.onnx.export(
            _program(agent, policy, "onnx"),
            (),
            dynamo=True,
            opset_version=OPSET,
            input_names=list(policy.inputs),
            output_names=list(policy.outputs),
            verbose=False,
        )
    assert program is not None
    return write_model(program.model_proto, policy, path)


def _write_program(agent: Any, policy: ExportedPolicy, path: Path) -> RunExported:
    with _quietly(), path.open("wb") as file:
        torch.export.save(_program(agent, policy, "torch"), file, extra_files={_ABOUT: json.dumps(dict(policy.about))})
    with _quietly(), path.open("rb") as written:
        read = torch.export.load(written).module()

    def run(inputs: Mapping[str, Array]) -> Mapping[str, Array]:
        given = read(*(torch.from_numpy(inputs[name]) for name in policy.inputs))
        return {name: tensor.detach().numpy() for name, tensor in zip(policy.outputs, given, strict=True)}

    return run


def _program(agent: Any, policy: ExportedPolicy, file_format: str) -> torch.export.ExportedProgram:
    device = next(iter(_tensors(agent.param))).device
    if device.type != "cpu":
        raise SettingsError(
            f"the agent is on {device}: make one on the CPU, and restore_param() its weights to export it"
        )
    example = tuple(torch.from_numpy(np.zeros((3, *shape), dtype)) for shape, dtype in policy.inputs.values())
    dynamic = ({0: torch.export.Dim("batch")},) * len(example)
    try:
        with _quietly(), torch.no_grad():
            return torch.export.export(_PolicyModule(agent, policy), example, dynamic_shapes=(dynamic,))
    except Exception as error:  # torch refuses in many ways, none of them ours
        raise cannot_be_exported(agent, file_format, error) from error


def _tensors(param: Any) -> Iterator[Tensor]:
    for one in param:
        if isinstance(one, Tensor):
            yield one
        else:
            yield from _tensors(one)


@contextmanager
def _quietly() -> Iterator[None]:
    """Without what exporting says to its own developers."""
    logger = logging.getLogger("torch.onnx")
    level = logger.level
    logger.setLevel(logging.ERROR)
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            yield
    finally:
        logger.setLevel(level)


class _PolicyModule(nn.Module):
    """Normalisation, the agent's action(), and the choice among its answers."""

    def __init__(self, agent: Any, policy: ExportedPolicy) -> None:
        super().__init__()
        self._answer, self._pair = agent.action, partial(pair_of, agent=agent)
        self._first = {name: torch.from_numpy(first.copy()) for name, first in policy.state.items()}
        self._choose = _Choice(policy.rule)
        self._normalise = _Normalisation(policy) if policy.normaliser.moments is not None else nn.Identity()

    def forward(self, *inputs: Tensor) -> tuple[Tensor, ...]:
        """Actions [B, ...] and answers [B, ...]; see `ExportedPolicy`."""
        obs, *rest = inputs
        if not self._first:
            scores = self._answer(self._normalise(obs))
            return self._choose(scores), scores
        *rows, starts = rest
        state = {}
        for (name, first), before in zip(self._first.items(), rows, strict=True):
            begun = torch.where(starts[:, None], first.float().reshape(1, -1), before)
            state[name] = begun.reshape(-1, *first.shape).to(first.dtype)
        scores, after = self._pair(self._answer(self._normalise(obs), state))
        rows_after = (after[name].float().reshape(-1, first.numel()) for name, first in self._first.items())
        return self._choose(scores), scores, *rows_after


class _Normalisation(nn.Module):
    """See `ObservationNormaliser`; in double precision, as there."""

    def __init__(self, policy: ExportedPolicy) -> None:
        super().__init__()
        self.mean, self.std, self.limit = (torch.from_numpy(one.copy()) for one in policy.normaliser.scaling())

    def forward(self, obs: Tensor) -> Tensor:
        """Single precision."""
        scaled = (obs.double() - self.mean) / self.std
        return torch.minimum(torch.maximum(scaled, -self.limit), self.limit).float()


class _Choice(nn.Module):
    """See `GreedyRule`."""

    def __init__(self, rule: GreedyRule) -> None:
        super().__init__()
        self.rule = rule
        self.low, self.high = torch.from_numpy(rule.low.copy()), torch.from_numpy(rule.high.copy())

    def forward(self, scores: Tensor) -> Tensor:
        """Actions [B, *action_shape]."""
        rule = self.rule
        if rule.kind == "argmax":
            return scores.argmax(-1) + torch.tensor(rule.first)
        if rule.kind == "argmax_each":
            parts = torch.split(scores, list(rule.sizes), dim=-1)
            highest = torch.stack([part.argmax(-1) for part in parts], dim=-1)
            return (highest + torch.tensor(rule.first)).reshape(-1, *rule.action_shape)
        if rule.kind == "switch":
            return (scores > 0.5).long().reshape(-1, *rule.action_shape)
        numbers = scores[..., : len(rule.low)] if rule.with_deviations else scores
        if rule.kind == "squash":
            numbers = self.low + 0.5 * (numbers.tanh() + 1.0) * (self.high - self.low)
        if rule.whole:
            numbers = numbers.round()
        action = torch.minimum(torch.maximum(numbers, self.low), self.high).reshape(-1, *rule.action_shape)
        return action.long() if rule.whole else action
