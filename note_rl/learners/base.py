"""Interface between the training core and a framework, and the parts that both frameworks' learners share."""

import math
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Protocol, runtime_checkable

import numpy as np

from note_rl.errors import AgentContractError, CheckpointError, SettingsError
from note_rl.learners.adjustable import OptimizerNumbers
from note_rl.learners.batch_noise_scale import NoiseMoments
from note_rl.learners.numpy_policy import Actor
from note_rl.learners.peers import Peers
from note_rl.learners.policy_function import ExportedPolicy, RunExported
from note_rl.learners.recurrence import RecurrentState, State
from note_rl.learners.step_way import StepWay
from note_rl.types import TRANSITION_COLUMNS, Array, BoolArray, FloatArray, Sample, Update


class TakesSteps(Protocol):
    """A part that takes the gradient steps of training: a learner, or several of them together."""

    def prepare(self, optimizer: Any, max_grad_norm: float | None, hyperparameters: Sequence[str], jit: Any) -> None:
        """See `Learner.prepare`."""

    def expect(self, num_gradient_steps: float) -> None:
        """See `Learner.expect`."""

    def update(self, sample: Sample, hyperparameters: Mapping[str, float]) -> Update:
        """See `Learner.update`."""

    def changed_by_hand(self) -> None:
        """Notes that a callback, or adjust_func(), may have set parameters, slots or numbers of layers."""


@dataclass(frozen=True)
class LayerNumbers:
    """The layers of an agent.

    Attributes:
        kinds: By place, what a layer is.
        numbers: By place and name, its numbers and words, and what of it learns.
    """

    kinds: dict[str, str]
    numbers: dict[str, dict[str, Any]]


def plain_numbers(attributes: Mapping[str, Any]) -> dict[str, Any]:
    """Returns the numbers and words among the attributes of a layer that are its owner's to set."""
    named = ((name, value) for name, value in attributes.items() if not name.startswith("_"))
    return {name: value for name, value in named if type(value) in (bool, int, float, str)}


class Learner(Protocol):
    """Owns the parameters: evaluates them, improves them, copies them in and out. Arrays cross as NumPy.

    Attributes:
        actor: Answers observations, in NumPy where it can.
    """

    actor: Actor

    def act(
        self, obs: Array, state: RecurrentState | None = None, episode_start: BoolArray | None = None
    ) -> FloatArray:
        """Returns answers [E, ...] of the agent to observations [E, *obs], without gradients.

        Args:
            obs: Observations. [E, *obs]
            state: Of a recurrent agent (`Declared.initial_state`): where its state is found, and kept behind this step.
                None: all episodes begin, and the state is forgotten. Other agents leave it as it is.
            episode_start: Which observations are the first of their episode; None: none, but where `state` is new. [E]
        """

    def act_one(self, obs: Array, agent_index: int) -> FloatArray:
        """Returns answers [E, ...] of one agent among several, action(s, i), to its observations [E, *obs]."""

    def act_with(self, obs: Array, noise: FloatArray) -> FloatArray:
        """Returns answers [E, ...] of an agent that explores by noise in its networks, noisy_action(s, noise).

        Args:
            obs: Observations. [E, *obs]
            noise: Standard normal numbers, see `note_rl.learners.declarations.Declared.acting_noise`. [E, F]
        """

    def reward(self, obs: Array, action: Array, next_obs: Array) -> FloatArray:
        """Returns the agent's reward() [N] for N transitions, without gradients."""

    def value(self, obs: Array) -> FloatArray:
        """Returns the agent's value() [N] for observations [N, *obs], without gradients."""

    def value_from(self, obs: Array, before: State) -> tuple[FloatArray, State]:
        """Returns the same of a recurrent agent, given its states before N observations, and those behind them."""

    def prepare(self, optimizer: Any, max_grad_norm: float | None, hyperparameters: Sequence[str], jit: Any) -> None:
        """Makes ready for updates.

        Args:
            optimizer: One for all parameters, or a list with one per parameter group; None keeps the former.
            max_grad_norm: Global norm that the gradients of each group are scaled down to; None: never.
            hyperparameters: Names of agent attributes whose values come with each update.
            jit: True, False or "auto": whether to compile the update; see `TrainOptions.jit_compile`.
        """

    def step_way(self) -> StepWay:
        """Returns the way in which gradient steps are taken now, and why not in a quicker one."""

    def join(self, peers: Peers) -> None:
        """Takes gradient steps together with these peers from the next prepare() on: samples are its share of them.

        Raises:
            AgentContractError: What the agent's networks do cannot be shared.
        """

    def expect(self, num_gradient_steps: float) -> None:
        """Takes the expected number of remaining gradient steps, by which preparations pay or not; 0: unknown."""

    def update(self, sample: Sample, hyperparameters: Mapping[str, float]) -> Update:
        """Takes one gradient step per minibatch [K, B, ...], all in one call into the framework.

        Args:
            sample: The minibatches.
            hyperparameters: `learning_rate`, if it is scheduled, and the attributes named in prepare(). The latter
                are set on the agent already; compiled code takes them from here, as inputs. `learning_rate:0`,
                `beta1:0`, ... are those of the optimizer of that number. Optimizers are given all of theirs for this
                update alone: afterwards they are as their owner made them.
        """

    def minimise(self, loss: Callable[[], Any], optimizer: Any) -> Any:
        """Takes one step of an optimizer along the gradient of a loss, for an agent's update().

        Args:
            loss: Called once, returns a tensor [].
            optimizer: One of those that train() was given. Those of its parameters change on which the loss depends;
                their gradients are scaled down to `max_grad_norm`, if there is one.

        Returns:
            The loss, [].
        """

    def optimizer_numbers(self) -> list[OptimizerNumbers]:
        """Returns the numbers that optimizers were made with, one entry per optimizer and parameter group."""

    def gradient_noise(self, sample: Sample, num_envs: int | None) -> tuple[list[NoiseMoments], int]:
        """Measures how much the gradients of samples of this update block scatter; nothing is changed.

        Args:
            sample: The minibatches of an update block.
            num_envs: For a rollout of this many environments, whose transitions are not independent; None: replay.

        Returns:
            One measurement per loss, and the samples that it was made with.
        """

    def loss_of(self, sample: Sample) -> FloatArray:
        """Returns the mean losses [K, G] of the minibatches as the parameters are; changes nothing."""

    def copies_targets(self) -> bool:
        """Whether the agent's update_param() makes targets equal to what learns; changes nothing."""

    def export(self, policy: ExportedPolicy, path: Path, file_format: str) -> RunExported:
        """Writes the agent's policy alone, in a format that `check_format` has let pass.

        Args:
            policy: What it computes.
            path: A file or folder that is not there yet.
            file_format: Of those in `policy_function.ExportFormat`.

        Returns:
            What was written, read again.

        Raises:
            AgentContractError: The format has no words for what action() does.
        """

    def changed_by_hand(self) -> None:
        """See `TakesSteps.changed_by_hand`."""

    def layer_numbers(self) -> LayerNumbers:
        """Returns what the agent's layers are, and their numbers."""

    def set_layer_numbers(self, numbers: dict[str, dict[str, Any]]) -> None:
        """Sets numbers of layers, by place and name."""

    def get_state(self) -> dict[str, Array]:
        """Returns parameters, targets and optimizer slots under stable names."""

    def set_state(self, state: Mapping[str, Array]) -> None:
        """Takes over a stored state, all or nothing (CheckpointError)."""


@runtime_checkable
class Staged(Protocol):
    """A learner that changes the way in which it takes gradient steps as it pays.

    Each way may round differently, and what pays depends on the steps still to come. So a run that is resumed begins
    where it had got to, or it would not be the same run.
    """

    @property
    def stages(self) -> tuple[int, int]:
        """The ways of steps in which not all parameter groups learn, and of those in which all do; 0 the ordinary."""

    @property
    def refusals(self) -> tuple[str, str]:
        """Why optimizers' steps cannot be a part of compiled code, and why nothing can; empty: they can, or not tried.

        A comparison may fail by rounding in one process and not in another.
        """

    def resume(self, stages: tuple[int, int], refusals: tuple[str, str] = ("", "")) -> None:
        """Takes steps in these ways from the beginning, and tries no other; called after prepare()."""

    @property
    def matmul(self) -> str:
        """The library that computes large products of matrices, which rounds in its own way."""


@contextmanager
def temporary_attributes(target: object, values: Mapping[str, Any]) -> Iterator[None]:
    """Sets attributes for the time of a block and puts back what was there before.

    Within the block, `target.__dict__.update(...)` may give the same names further values.
    """
    missing = object()
    before = {name: target.__dict__.get(name, missing) for name in values}
    target.__dict__.update(values)
    try:
        yield
    finally:
        for name, value in before.items():
            if value is missing:
                target.__dict__.pop(name, None)
            else:
                target.__dict__[name] = value


def num_parameters(param: Any) -> int:
    """How many numbers `agent.param` holds: the trainable weights of all networks, targets not among them."""
    return sum(math.prod(parameter.shape) for group in parameter_groups(param) for parameter in group)


def parameter_groups(param: Any) -> list[list[Any]]:
    """Returns `agent.param` as a list of groups: a flat list of parameters is one group, a list of lists several.

    Raises:
        AgentContractError: It is empty, or holds something else than weights.
    """
    entries = list(param) if isinstance(param, Iterable) else [param]
    if not entries:
        raise AgentContractError(
            "agent.param is empty: it must hold the trainable parameters. In PyTorch net.parameters() gives them only "
            "once, so make it a list; a network of Keras has none until it is called, as in self.net(tf.zeros((1, 4)))"
        )
    several = isinstance(entries[0], (list, tuple))
    groups = [list(group) for group in entries] if several else [entries]
    if not all(_is_weight(parameter) for group in groups for parameter in group):
        raise AgentContractError(
            "agent.param must be a list of weights, or a list of such lists with one per optimizer: "
            f"list(net.parameters()), or net.trainable_variables in Keras; got {type(param).__name__}"
            + (f" of {type(entries[0]).__name__}" if isinstance(param, Iterable) else "")
        )
    return groups


def _is_weight(value: Any) -> bool:
    """Whether it is a variable of either framework, neither of which is imported here."""
    return hasattr(value, "shape") and (hasattr(value, "assign") or hasattr(value, "requires_grad"))


def optimizers_for(optimizer: Any, groups: list[list[Any]], kind: type[Any]) -> list[tuple[Any, list[Any]]]:
    """Returns pairs of optimizer and parameters: one per group, or a single optimizer for all of them.

    Args:
        optimizer: What train() was given.
        groups: The agent's parameters.
        kind: Of optimizers in this framework.

    Raises:
        SettingsError: Something else than optimizers of this framework, or one of them for several groups.
        AgentContractError: As many optimizers as groups are needed, or one.
    """
    several = isinstance(optimizer, (list, tuple))
    for given in optimizer if several else [optimizer]:
        if not isinstance(given, kind):
            package = kind.__module__.partition(".")[0]
            raise SettingsError(f"optimizer must be one of {package}'s, such as Adam, or a list of them, got {given!r}")
    if not several:
        return [(optimizer, [parameter for group in groups for parameter in group])]
    if len(optimizer) != len(groups):
        raise AgentContractError(
            f"{len(optimizer)} optimizers for {len(groups)} parameter groups; give one per group, or one for all"
        )
    if len(set(map(id, optimizer))) < len(optimizer):
        raise SettingsError("the list of optimizers holds the same one twice: make one per group, or give one for all")
    return list(zip(optimizer, groups, strict=True))


def check_held(groups: Sequence[Sequence[Any]], held: Iterable[Any], identity: Callable[[Any], int] = id) -> None:
    """Refuses parameters that the agent holds where nobody looks: inside of objects of other kinds.

    They would learn, but neither be saved nor be in eval mode while the agent acts.

    Args:
        groups: `agent.param`.
        held: What the attributes of the agent hold.
        identity: Tells parameters apart.

    Raises:
        AgentContractError: Saying how many, and how to hold them.
    """
    known = {identity(parameter) for parameter in held}
    lost = [parameter for group in groups for parameter in group if identity(parameter) not in known]
    if lost:
        raise AgentContractError(
            f"agent.param holds {len(lost)} parameter{'s' if len(lost) > 1 else ''} (the first of shape "
            f"{list(lost[0].shape)}) that no attribute of the agent holds, so that they would not be saved: make their "
            "network an attribute of the agent, or an entry of a list, tuple or dict that is one"
        )


def check_holds(pairs: Sequence[tuple[Any, list[Any]]], held: Callable[[Any], Iterable[Any] | None]) -> None:
    """Refuses optimizers that were made for other parameters than those they are given for.

    Args:
        pairs: Optimizers with their parameters.
        held: The parameters that an optimizer was made for; None: it takes any.

    Raises:
        AgentContractError: Naming the first such optimizer, and whose parameters it holds.
    """
    wanted = [{id(parameter) for parameter in parameters} for _, parameters in pairs]
    for index, (optimizer, _) in enumerate(pairs):
        made_for = held(optimizer)
        if made_for is None:
            continue
        known = {id(parameter) for parameter in made_for}
        missing = len(wanted[index] - known)
        if missing:
            kind, num_wanted = type(optimizer).__name__, len(wanted[index])
            which, group = f"the {kind}", "agent.param"
            if len(pairs) > 1:
                which, group = f"optimizer {index} ({kind})", f"group {index} of agent.param"
            raise AgentContractError(
                f"{which} does not hold {missing} of the {num_wanted} parameters in {group}: "
                f"{_remedy(index, known, wanted)}"
            )


def _remedy(index: int, known: set[int], wanted: Sequence[set[int]]) -> str:
    """Returns what to do about an optimizer that holds other parameters than those of its group."""
    others = [other for other, group in enumerate(wanted) if other != index and group <= known]
    if others:
        return f"it holds those of group {others[0]}: give the optimizers in the order of agent.param"
    if not wanted[index] & known:
        return "it was made for another agent, or before agent.param was set: make it from this agent's param"
    return "make it from all of them, and leave out of agent.param what is not to be trained"


def check_state(state: Mapping[str, Array], expected: Mapping[str, Array | Any]) -> None:
    """Refuses a state whose names or shapes are not those of this agent.

    Raises:
        CheckpointError: The first difference is named.
    """
    for name, value in expected.items():
        if name not in state:
            raise CheckpointError(f"the checkpoint is of another agent: it has no {name!r}")
        if tuple(state[name].shape) != tuple(value.shape):
            raise CheckpointError(
                f"the checkpoint is of another agent: {name!r} has the shape {list(state[name].shape)} there and "
                f"{list(value.shape)} here"
            )


def sample_columns(sample: Sample) -> dict[str, Array]:
    """Returns the arrays of a sample that go into an update, by the name they have there; [K, B, ...] each."""
    columns: dict[str, Array] = {name: getattr(sample, name) for name in TRANSITION_COLUMNS}
    columns["reward"] = np.asarray(sample.reward, np.float32)
    for name, values in sample.extras.items():
        columns[name] = _in_single_precision(values)
    if sample.weights is not None:
        columns["weights"] = np.asarray(sample.weights, np.float32)
    return columns


def _in_single_precision(values: Array) -> Array:
    """Returns floating-point numbers and truth values as float32, 64-bit integers as int32, others as they are."""
    if np.issubdtype(values.dtype, np.floating) or values.dtype == np.bool_:
        return values.astype(np.float32, copy=False)
    return values.astype(np.int32) if values.dtype == np.int64 else values


def minibatches(sample: Sample) -> Iterator[dict[str, Array]]:
    """Yields the arrays of each minibatch, by name; [B, ...] each."""
    columns = sample_columns(sample)
    for k in range(sample.num_gradient_steps):
        yield {name: values[k] for name, values in columns.items()}


def first_minibatch(sample: Sample) -> dict[str, Array]:
    """Returns the arrays of the first minibatch, by name; [B, ...] each."""
    return next(minibatches(sample))


WAITING_STEPS = "steps_of_waiting_groups"
"""The slot of an optimizer in Keras that files of 0.1.0 lack, see `note_rl.learners.keras.waiting_groups`."""

CALL_ARGUMENTS = ("obs", "action", "next_obs", "reward", "terminated")
