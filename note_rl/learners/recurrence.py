"""Recurrent state that an agent carries from step to step while it acts; `Declared.initial_state` is the contract."""

from collections.abc import Callable, Mapping
from typing import Any, TypeAlias

import numpy as np

from note_rl.errors import AgentContractError, SettingsError
from note_rl.errors.wording import choice
from note_rl.types import Array, BoolArray, FloatArray

State: TypeAlias = dict[str, Array]
"""By name, arrays [E, ...] with one row for each environment, after the answers to E observations."""
AnswerFrom = Callable[[Array, State], tuple[FloatArray, Mapping[str, Array]]]
"""(observations [E, *obs], the state before them) -> answers [E, ...], the state behind them."""


class RecurrentState:
    """The state of the episodes that are played side by side; kept where the environments are stepped.

    Args:
        arrays: [E, ...] by name; None: all episodes begin.
        keeps_before: Whether the state before the last answers is kept, too.

    Attributes:
        arrays: After the last answers, [E, ...] by name; None before the first, and of an agent without a state.
        before: That before the last answers, `packed`; None where it is not kept. [E, S]
    """

    def __init__(self, arrays: Mapping[str, Array] | None = None, keeps_before: bool = False) -> None:
        self.arrays: State | None = None if arrays is None else dict(arrays)
        self.before: FloatArray | None = None
        self._keeps_before = keeps_before

    def answer(self, agent: Any, obs: Array, starts: BoolArray | None, answer: AnswerFrom) -> FloatArray:
        """Returns answers [E, ...], and keeps the state behind them.

        Args:
            agent: Who answers.
            obs: Observations. [E, *obs]
            starts: Which are the first of their episode: their rows are those of `initial_state`. None: none is, but
                before the first answer all are. [E]
            answer: Asks the agent.

        Raises:
            AgentContractError: The agent's states are not alike from step to step.
        """
        before = self._before(agent, len(obs), starts)
        if self._keeps_before:
            self.before = packed(before)  # first, as action() may write into the arrays that it is given
        answers, after = answer(obs, before)
        self.arrays = _checked(after, before, f"{type(agent).__name__}.action() returned")
        return answers

    def _before(self, agent: Any, num: int, starts: BoolArray | None) -> State:
        if self.arrays is not None and (starts is None or True not in starts.tolist()):
            return self.arrays
        initial = initial_state_of(agent, num)
        if self.arrays is None or starts is None:
            return initial
        arrays = self.arrays
        return {name: np.where(_of_rank(starts, arrays[name]), initial[name], arrays[name]) for name in initial}


def initial_state_of(agent: Any, num: int) -> State:
    """Returns copies of the arrays of an agent's `initial_state`, double precision brought to single.

    Raises:
        AgentContractError: They do not have a row for each of `num` environments.
    """
    initial = {name: np.asarray(values).copy() for name, values in agent.initial_state(num).items()}
    if not initial or any(values.shape[:1] != (num,) for values in initial.values()):
        raise AgentContractError(
            f"{type(agent).__name__}.initial_state({num}) must give arrays with {num} rows by name, such as "
            f"{{'h': zeros of [{num}, 64]}}; got {_shown(initial)}"
        )
    return {name: _single(values) for name, values in initial.items()}


def _single(values: Array) -> Array:
    return values.astype(np.float32) if values.dtype == np.float64 else values


def packed(state: Mapping[str, Array]) -> FloatArray:
    """Returns a copy of a state [N, ...], its arrays in a row in the order of their names, in float32: [N, S]."""
    rows = [np.asarray(state[name], np.float32).reshape(len(state[name]), -1) for name in sorted(state)]
    return np.concatenate(rows, axis=1)


def unpacked(rows: FloatArray, agent: Any) -> State:
    """Returns the arrays [N, ...] of an agent's states that stand in rows [N, S]."""
    like = initial_state_of(agent, 1)
    names = sorted(like)
    parts = np.split(rows, np.cumsum([like[name].size for name in names])[:-1], axis=1)
    shaped = zip(names, parts, strict=True)
    return {
        name: part.reshape(len(rows), *like[name].shape[1:]).astype(like[name].dtype, copy=False)
        for name, part in shaped
    }


def as_state(agent: Any, num: int, given: object) -> dict[str, Array]:
    """A copy of a state given to predict(), in the types of numbers that this agent's memory has.

    Raises:
        SettingsError: It is no state of this agent for this number of environments, or it holds NaN.
    """
    initial = initial_state_of(agent, num)
    alike = isinstance(given, Mapping) and given.keys() == initial.keys()
    if not alike or any(np.shape(given[name]) != np.shape(initial[name]) for name in initial):  # type: ignore[index]
        found = _shown(given) if isinstance(given, Mapping) else f"{given!r:.100}"
        raise SettingsError(
            f"state must be what the last call of predict() returned for {num} observations, {_shown(initial)}, or "
            f"None where episodes begin; got {found}"
        )
    assert isinstance(given, Mapping)
    state = {name: np.array(given[name], initial[name].dtype) for name in initial}
    for name, values in state.items():
        if np.isnan(values).any() and not np.isnan(initial[name]).any():
            raise SettingsError(
                f"state[{name!r}] holds NaN: the network has diverged, or the state was changed by hand"
            )
    return state


def no_place(agent: str) -> SettingsError:
    """Makes the error about an agent that cannot have a memory."""
    return SettingsError(
        "{} has no place for the state of a network with a memory: choose another network, or {}",
        *(agent, choice("an agent that learns from sequences, such as PPO, A2C or R2D2")),
    )


def _checked(after: Mapping[str, Array], before: State, what: str) -> State:
    given = {name: np.array(values) for name, values in after.items()}  # the agent may write into its own later
    if {name: one.shape for name, one in given.items()} != {name: one.shape for name, one in before.items()}:
        raise AgentContractError(f"{what} the state {_shown(given)} behind one of {_shown(before)}: both must be alike")
    return given


def _of_rank(starts: BoolArray, values: Array) -> Array:
    return starts.reshape(-1, *(1,) * (values.ndim - 1))


def _shown(state: Mapping[Any, Any]) -> str:
    return "{" + ", ".join(f"{name}: {list(np.shape(values))}" for name, values in state.items()) + "}"


def pair_of(output: Any, agent: Any, method: str = "action") -> tuple[Any, Mapping[str, Any]]:
    """Returns what a method(s, state) gave, as answers and state (AgentContractError: it is something else)."""
    if isinstance(output, tuple) and len(output) == 2 and isinstance(output[1], Mapping):
        return output[0], output[1]
    raise AgentContractError(
        f"{type(agent).__name__}.{method}(s, state) must return a pair, its answers and the next state by name, as the "
        f"class has an initial_state(); it returned {type(output).__name__}"
    )
