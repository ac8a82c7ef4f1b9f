"""A policy without exploration as a function of arrays, to be written down for use elsewhere."""

import importlib.util
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal, Protocol

import numpy as np
from gymnasium import spaces

from note_rl.environments.normalise import ObservationNormaliser
from note_rl.errors import AgentContractError, NoteRLError, SettingsError
from note_rl.learners.declarations import Declared
from note_rl.policy import (
    GaussianPolicy,
    GSDEPolicy,
    NoisyPolicy,
    Policy,
    PolicyPerEnvironment,
    SoftmaxPolicy,
    SquashedGaussianPolicy,
    SquashedGSDEPolicy,
)
from note_rl.types import EPISODE_START, Array, FloatArray

ExportFormat = Literal["onnx", "torch", "saved_model"]
INPUT, ACTION, SCORES = "observation", "action", "scores"
"""Of an exported policy, by name."""
Rows = tuple[tuple[int, ...], str]
"""Shape of a row, and what NumPy calls its type."""

_MOST_WORDS = 300
_RELATIVE, _ABSOLUTE = 1e-4, 1e-5  # tolerance


@dataclass(frozen=True)
class GreedyRule:
    """How answers [B, ...] of an agent become actions without exploration.

    Attributes:
        kind: "argmax", the number of the highest; "argmax_each", that of each part of the answers; "switch", 1 where
            an answer is above a half; "clip", the answers within bounds; "squash", tanh of them, scaled to the bounds.
        action_shape: Of one action; () for one of several.
        first: Number of the first action, of which there is a choice; of each, [D], where there are D.
        sizes: Of the parts of an answer, D of them.
        low, high: Bounds of the numbers of an action, [A].
        with_deviations: Whether an answer says behind the means how noise is spread, which is left aside.
        whole: Whether numbers are brought to the nearest whole ones.
    """

    kind: Literal["argmax", "argmax_each", "switch", "clip", "squash"]
    action_shape: tuple[int, ...] = ()
    first: int | tuple[int, ...] = 0
    sizes: tuple[int, ...] = ()
    low: FloatArray = field(default_factory=lambda: np.zeros(0, np.float32))
    high: FloatArray = field(default_factory=lambda: np.zeros(0, np.float32))
    with_deviations: bool = False
    whole: bool = False

    @property
    def chooses(self) -> bool:
        """Whether actions are whole numbers."""
        return self.whole or self.kind in ("argmax", "argmax_each", "switch")


# By the method that chooses, so that a class with another one is not taken for what it inherits from.
_HIGHEST = (Policy.greedy, SoftmaxPolicy.greedy)  # of one choice
_NUMBERS: Mapping[Any, tuple[Literal["clip", "squash"], bool]] = {
    NoisyPolicy.greedy: ("clip", False),
    GaussianPolicy.greedy: ("clip", True),
    SquashedGaussianPolicy.greedy: ("squash", True),
    GSDEPolicy.greedy: ("clip", True),
    SquashedGSDEPolicy.greedy: ("squash", True),
}


def greedy_rule(policy: Policy, action_space: Any) -> GreedyRule:
    """Returns the rule by which a policy acts without exploration.

    Raises:
        SettingsError: It is known to the policy only.
    """
    if isinstance(policy, PolicyPerEnvironment):  # they act alike without exploration
        policy = policy.policies[0]
    chooses = type(policy).greedy
    if isinstance(action_space, spaces.Discrete) and chooses in _HIGHEST:
        return GreedyRule("argmax", first=int(action_space.start))
    if isinstance(action_space, spaces.MultiDiscrete) and chooses is SoftmaxPolicy.greedy:
        sizes, first = (tuple(map(int, part.reshape(-1))) for part in (action_space.nvec, action_space.start))
        return GreedyRule("argmax_each", action_space.shape, first, sizes)
    if isinstance(action_space, spaces.MultiBinary) and chooses is SoftmaxPolicy.greedy:
        return GreedyRule("switch", action_space.shape)
    if isinstance(action_space, spaces.Box) and chooses in _NUMBERS:
        kind, with_deviations = _NUMBERS[chooses]
        low, high = (bound.reshape(-1).astype(np.float32) for bound in (action_space.low, action_space.high))
        whole = action_space.dtype.kind != "f"
        return GreedyRule(kind, action_space.shape, low=low, high=high, with_deviations=with_deviations, whole=whole)
    raise SettingsError(
        f"{type(policy).__name__} chooses for {action_space} in a way that cannot be written down: known are policies "
        "that take the highest score, NoisyPolicy, and those of normal distributions (GaussianPolicy, GSDEPolicy, ...)"
    )


@dataclass(frozen=True)
class ExportedPolicy:
    """Function of an exported policy: action and scores of observations [B, *obs], which are normalised first.

    That of a recurrent agent (`Declared.initial_state`) also takes the state before these observations, each array in
    rows of single precision [B, S], and `episode_start` [B], true where an episode begins and the state is not read. It
    gives the state behind them, called `next_` and the name, which the next call takes.

    Attributes:
        obs_shape: Of one observation, frames that are shown together included.
        obs_dtype: As NumPy names it.
        scores_shape: Of what the agent's action() answers to one.
        rule: From these answers to actions.
        normaliser: Of observations; one that has seen nothing leaves them as they are.
        about: What is worth knowing of it, in words, by name.
        state: Of a recurrent agent, what its action() reads of its state: by name, how episodes begin, [...] each.
    """

    obs_shape: tuple[int, ...]
    obs_dtype: str
    scores_shape: tuple[int, ...]
    rule: GreedyRule
    normaliser: ObservationNormaliser
    about: Mapping[str, str] = field(default_factory=dict)
    state: Mapping[str, Array] = field(default_factory=dict)

    @property
    def inputs(self) -> dict[str, Rows]:
        """The arrays that it takes, by name and in order."""
        rows: dict[str, Rows] = {INPUT: (self.obs_shape, self.obs_dtype)}
        if self.state:
            rows |= {name: ((first.size,), "float32") for name, first in self.state.items()}
            rows[EPISODE_START] = ((), "bool")
        return rows

    @property
    def outputs(self) -> dict[str, Rows]:
        """The arrays that it gives, by name and in order."""
        rows: dict[str, Rows] = {
            ACTION: (self.rule.action_shape, "int64" if self.rule.chooses else "float32"),
            SCORES: (self.scores_shape, "float32"),
        }
        return rows | {behind(name): ((first.size,), "float32") for name, first in self.state.items()}


def behind(name: str) -> str:
    """Returns how the array of a state is called that an exported policy gives."""
    return f"next_{name}"


def check_names(agent: Any, policy: ExportedPolicy) -> None:
    """Refuses names in the state of an agent that its exported policy has already (AgentContractError)."""
    names = [*policy.inputs, *policy.outputs]
    twice = sorted({name for name in names if names.count(name) > 1})
    if twice:
        raise AgentContractError(
            f"{type(agent).__name__}.initial_state() has an array called {twice[0].removeprefix('next_')}, and an "
            f"exported policy has {twice[0]} already: choose another name for it"
        )


class RunExported(Protocol):
    """An exported policy, read back."""

    def __call__(self, inputs: Mapping[str, Array]) -> Mapping[str, Array]:
        """Returns outputs by name for inputs by name."""


Exporter = Callable[[Any, ExportedPolicy, Path], RunExported]
"""Writes the policy of an agent to a file or folder, and reads it again."""

_FORMATS: Mapping[str, Mapping[str, tuple[str, ...]]] = {
    "torch": {"onnx": ("onnx", "onnxruntime", "onnxscript"), "torch": ()},
    "keras": {"onnx": ("onnx", "onnxruntime"), "saved_model": ()},
}


def check_search(kind: type[Declared]) -> None:
    """Refuses agents that search, in whichever format (SettingsError)."""
    if kind.searches_ahead:
        raise SettingsError(
            f"{kind.__name__} chooses by a search in a simulator, which is no function of tensors and cannot be "
            "written down; predict() searches"
        )


def check_format(file_format: str, framework: str) -> None:
    """Refuses a format in which a framework's agents cannot be written.

    Args:
        file_format: What was asked for.
        framework: "torch" or "keras".

    Raises:
        SettingsError: It is another framework's, or a package for it is missing.
    """
    known = _FORMATS[framework]
    if file_format not in known:
        raise SettingsError(
            f"format={file_format}: the policy of an agent in {framework} is written as {' or '.join(known)}"
        )
    for package in known[file_format]:
        if importlib.util.find_spec(package) is None:
            raise SettingsError(
                f"format={file_format} needs {package}, which is not installed: pip install 'note-rl[export]'"
            )


def cannot_be_exported(agent: Any, file_format: str, error: Exception) -> AgentContractError:
    """The error for a network that a format has no words for."""
    lines = [line.strip() for line in str(error).splitlines() if line.strip()]
    said = lines[0] if lines else type(error).__name__
    return AgentContractError(
        f"action() of {type(agent).__name__} cannot be written as {file_format}: it must consist of tensor operations "
        f"that are the same for every batch ({type(error).__name__}: {said[:_MOST_WORDS]})"
    )


def check_same(exported: Mapping[str, Array], expected: Mapping[str, Array]) -> None:
    """Refuses an exported policy that does not act as the agent does.

    Args:
        exported: What it gives, by name.
        expected: The same of the agent. Whole numbers are not compared: where scores are nearly alike, either may win.

    Raises:
        NoteRLError: They differ by more than single precision explains.
    """
    pairs = [(exported[name], wanted) for name, wanted in expected.items() if wanted.dtype.kind == "f"]
    if not all(found.shape == one.shape and np.allclose(found, one, _RELATIVE, _ABSOLUTE) for found, one in pairs):
        raise NoteRLError(
            "the exported policy does not answer as the agent does, so it was not kept; is there something random in "
            "action(), or something that depends on the whole batch?"
        )
