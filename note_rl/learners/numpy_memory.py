"""Acting without the framework where an agent remembers: cells between dense layers, evaluated in NumPy.

A step of a few environments takes a fifth of the time that calls into a framework take, or less.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar, Protocol

import numpy as np

from note_rl.learners.declarations import is_written_below
from note_rl.learners.numpy_policy import Actor, DenseLayer, NumpyPolicy, agree, scale_of
from note_rl.learners.recurrence import AnswerFrom, State
from note_rl.types import Array, FloatArray

_HALF, _ONE = np.float32(0.5), np.float32(1.0)


@dataclass(frozen=True)
class ActingCell:
    """One memory.

    Attributes:
        encoder: Layers that make of observations what the gates take.
        recurrent: What the gates take of what was remembered, [H, gates * H].
        kind: lstm or gru, as `note_rl.agents.shared.memories` has them.
    """

    encoder: Sequence[DenseLayer]
    recurrent: FloatArray
    kind: str

    def step(self, obs: Array, state: FloatArray) -> FloatArray:
        """Returns the states [E, S] behind observations, which begin with what the head sees."""
        gates, units = NumpyPolicy(lambda: self.encoder)(obs), len(self.recurrent)
        return (_lstm if self.kind == "lstm" else _gru)(gates, state, self.recurrent, units)


def _sigmoid(x: FloatArray) -> FloatArray:
    x *= _HALF
    np.tanh(x, out=x)
    x += _ONE
    x *= _HALF
    return x


def _lstm(gates: FloatArray, state: FloatArray, recurrent: FloatArray, units: int) -> FloatArray:
    gates += state[:, :units] @ recurrent
    shares, new = _sigmoid(gates[:, : 3 * units]), np.tanh(gates[:, 3 * units :])
    after: FloatArray = np.empty_like(state)
    cell = after[:, units:]
    np.multiply(shares[:, units : 2 * units], state[:, units:], out=cell)
    cell += shares[:, :units] * new
    np.multiply(shares[:, 2 * units :], np.tanh(cell), out=after[:, :units])
    return after


def _gru(gates: FloatArray, state: FloatArray, recurrent: FloatArray, units: int) -> FloatArray:
    remembered = state @ recurrent
    shares = gates[:, : 2 * units] + remembered[:, : 2 * units]
    _sigmoid(shares)
    new = np.tanh(gates[:, 2 * units :] + shares[:, :units] * remembered[:, 2 * units :])
    after: FloatArray = new + shares[:, units:] * (state - new)
    return after


@dataclass(frozen=True)
class ActingMemory:
    """The parts of action(s, state) of an agent.

    Attributes:
        cells: By the name of their state. The first one is what the head sees.
        head: Layers that make answers of it.
    """

    cells: Mapping[str, ActingCell]
    head: Sequence[DenseLayer]

    @property
    def is_supported(self) -> bool:
        """Whether NumPy can do all of it."""
        parts = (self.head, *(cell.encoder for cell in self.cells.values()))
        return all(NumpyPolicy.supports(one) for one in parts)

    @property
    def scale(self) -> float:
        """The size of what is summed up to an answer."""
        return scale_of(self.head[-1][2])

    @property
    def first_layers(self) -> Sequence[DenseLayer]:
        """Layers that see the observations."""
        return next(iter(self.cells.values())).encoder

    def __call__(self, obs: Array, before: State) -> tuple[FloatArray, State]:
        """Returns answers [E, ...], and the states behind them."""
        after = {name: cell.step(obs, before[name]) for name, cell in self.cells.items()}
        seen, (first, *_) = next(iter(after.values())), self.cells.values()
        return NumpyPolicy(lambda: self.head)(seen[:, : len(first.recurrent)]), after


class ActingFrom(Protocol):
    """Parts of a method of an agent that answers by more than observations."""

    @property
    def is_supported(self) -> bool:
        """Whether NumPy can do all of it."""

    @property
    def scale(self) -> float:
        """The size of what is summed up to an answer."""

    @property
    def first_layers(self) -> Sequence[DenseLayer]:
        """Layers that see the observations; empty: unknown."""

    def __call__(self, obs: Array, before: State) -> tuple[FloatArray, State]:
        """See `AnswerFrom`."""


class RecurrentActor:
    """Answers of a recurrent agent in NumPy where its layers allow it, else through the framework.

    Args:
        agent: May have `acting_memory()`.
        framework_act: Asks the agent.
        actor: Counts changes of the parameters, and keeps examples of what was answered.
        reading: Makes of what reads the layers something that does so more quickly; None: NumPy may not be used.

    Attributes:
        methods: Of the agent, by which it answers, and by which it shows its layers.
    """

    methods: ClassVar[tuple[str, str]] = ("action", "acting_memory")

    def __init__(
        self,
        agent: Any,
        framework_act: AnswerFrom,
        actor: Actor,
        reading: Callable[[Callable[[], Any]], Callable[[], Any]] | None,
    ) -> None:
        self._framework_act = framework_act
        self._actor = actor
        self._read: Callable[[], ActingFrom | None] | None = None
        shows = self.methods[1]
        if reading is not None and hasattr(agent, shows) and not is_written_below(type(agent), *self.methods):
            self._read = reading(getattr(agent, shows))
        self._layers: ActingFrom | None = None
        self._num_changes = -1
        self._due = 0  # changes after which the layers are compared with the framework next

    def __call__(self, obs: Array, before: State) -> tuple[FloatArray, Mapping[str, Array]]:
        """Returns answers [E, ...] to observations [E, *obs] in these states, and the states behind them.

        Raises:
            EnvironmentMismatchError: The agent's network takes observations of another shape.
        """
        if self._actor.has_answered(obs):
            return self._answers(obs, before)
        with self._actor.first_of_its_shape(obs, None, self._first_layers):
            return self._answers(obs, before)

    def _first_layers(self) -> Sequence[DenseLayer] | None:
        return None if self._layers is None else self._layers.first_layers

    def _answers(self, obs: Array, before: State) -> tuple[FloatArray, Mapping[str, Array]]:
        changes = self._actor.num_changes
        if self._read is not None and changes != self._num_changes:
            self._layers, self._num_changes = self._read(), changes
            looks = changes >= self._due  # one update block may count several: its number is no certain power of two
            if self._layers is None or (looks and not self._agrees(obs, before)):
                self._read = self._layers = None
            if looks:
                self._due = 1 << changes.bit_length()
        if self._layers is None:
            return self._framework_act(obs, before)
        return self._layers(obs, before)

    def _agrees(self, obs: Array, before: State) -> bool:
        """Whether NumPy gives what the framework does; looked at first, and after 1, 2, 4, ... changes or more."""
        if obs.dtype != np.float32 or self._layers is None or not self._layers.is_supported:
            return False
        (mine, after), (answers, behind) = self._layers(obs, before), self._framework_act(obs, before)
        scale = self._layers.scale
        return agree(mine, answers, scale) and all(agree(after[name], behind[name]) for name in behind)
