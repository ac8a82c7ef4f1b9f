"""Agents in pickles and copies: what goes along, and what is made anew.

What trains (learner, environments that are running, replay pool) is taken as save() takes it, and train() goes on from
there. Plain attributes go through cloudpickle, so that functions typed anywhere go along and a function that refers to
the agent refers to the copy afterwards. Networks and optimizers are left to the framework: those of PyTorch know how to
be pickled; a Keras agent is made again from the arguments of its constructor and given its parameters.
"""

import io
import pickle
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import cloudpickle  # type: ignore[import-untyped]
import numpy as np

from note_rl.collect.workers.worker_pickling import REFUSALS
from note_rl.errors import CheckpointError, SettingsError
from note_rl.learners.base import check_state
from note_rl.optimizers.optimizer_recipe import recipes_of
from note_rl.seeding import shared_random_state
from note_rl.training.checkpoint_saver import SavingOptions, Snapshot

_MADE_ANEW = ("_learner", "_trainer", "_restored", "_measured", "_adapted", "_predictor", "_callback_states")


class _OfTheFramework(Exception):  # noqa: N818 (a finding, not an error)
    """There is a network, a variable or the like in what was to be pickled."""


def _of_the_framework(value: object) -> bool:
    """Whether it belongs to TensorFlow, Keras or PyTorch, classes and constant tensors of TensorFlow excepted."""
    if isinstance(value, type) or (hasattr(value, "numpy") and type(value).__name__ == "EagerTensor"):
        return False
    return any(kind.__module__.partition(".")[0] in ("keras", "tensorflow", "torch") for kind in type(value).__mro__)


class _Pickler(cloudpickle.Pickler):  # type: ignore[misc]
    """Refers to the agent where it finds it, and goes no further where it finds something of a framework."""

    def __init__(self, file: io.BytesIO, agent: Any) -> None:
        super().__init__(file)
        self._agent = agent

    def persistent_id(self, value: Any) -> str | None:
        """The word that stands for the agent; None: the value is pickled itself."""
        return "agent" if value is self._agent else None

    def reducer_override(self, value: Any) -> Any:
        """Asked for everything that is not built in."""
        if _of_the_framework(value):
            raise _OfTheFramework
        return super().reducer_override(value)


class _Unpickler(pickle.Unpickler):
    """Puts an agent where the pickle refers to one. What it reads was written by this module."""

    def __init__(self, content: bytes, agent: Any) -> None:
        super().__init__(io.BytesIO(content))
        self._agent = agent

    def persistent_load(self, reference: Any) -> Any:
        """The agent."""
        return self._agent


def _dumped(value: Any, agent: Any) -> bytes:
    file = io.BytesIO()
    _Pickler(file, agent).dump(value)
    return file.getvalue()


def _loaded(content: bytes, agent: Any) -> Any:
    return _Unpickler(content, agent).load()


def _refusal(agent: Any, reason: str) -> SettingsError:
    return SettingsError(
        f"{type(agent).__name__} cannot be pickled or copied: {reason}. Write it with agent.save(path), and restore() "
        "the file in an agent that is made in the same way"
    )


def _in_two(agent: Any) -> tuple[bytes, dict[str, Any]]:
    """The plain attributes of an agent, pickled, and those that hold something of a framework.

    Raises:
        SettingsError: Naming the first attribute that cannot be pickled.
    """
    plain, others = {}, {}
    for name, value in vars(agent).items():
        if name in _MADE_ANEW:
            continue
        try:
            _dumped(value, agent)
        except _OfTheFramework:
            others[name] = value
        except REFUSALS as error:
            reason = str(error).splitlines()[0] if str(error) else type(error).__name__
            what = "an argument of its constructor" if name == "recipe" else f"its attribute {name}"
            raise _refusal(agent, f"{what} has no pickle ({reason})") from error
        else:
            plain[name] = value
    return _dumped(plain, agent), others


def _training(agent: Any) -> Snapshot | None:
    """Where training stands; None before there was any."""
    if agent._trainer is None:
        waiting: Snapshot | None = agent._restored
        return waiting
    snapshot: Snapshot = agent._snapshot(SavingOptions(path=Path()))
    return snapshot.copy()


def state_of(agent: Any) -> dict[str, Any]:
    """For a framework whose networks and optimizers have pickles: what `__getstate__` gives.

    Raises:
        SettingsError: Something has no pickle; save() is named.
    """
    plain, others = _in_two(agent)
    return {"plain": plain, "others": others, "training": _training(agent)}


def take_state(agent: Any, state: Mapping[str, Any]) -> None:
    """The other way round, for `__setstate__`."""
    vars(agent).update(dict.fromkeys(_MADE_ANEW))
    vars(agent).update(state["others"])
    vars(agent).update(_loaded(state["plain"], agent))
    agent._restored = state["training"]


def remade(agent: Any) -> tuple[Any, tuple[Any, ...]]:
    """For a framework whose networks have none: what `__reduce__` gives. The agent is made again once, to see it work.

    Raises:
        SettingsError: Something has no pickle, or the constructor makes another agent; save() is named.
    """
    plain, others = _in_two(agent)
    for name, value in others.items():
        if name == "recipe":
            raise _refusal(agent, "its constructor was given parts of networks, which only a constructor can make")
        if not _within_reach(value):
            raise _refusal(agent, f"its attribute {name} holds networks or variables inside of an object")
    others.pop("optimizer", None)  # made from its settings
    parameters = {name: values for name, values in agent.learner.get_state().items() if name.startswith("agent/")}
    try:
        recipes = None if agent.optimizer is None else recipes_of(agent.optimizer, agent.param)
    except SettingsError as error:
        raise _refusal(agent, str(error)) from error
    optimizers = (recipes, isinstance(agent.optimizer, list | tuple))
    whole = (_dumped(agent.recipe, agent), plain, list(others), parameters, optimizers, _training(agent))
    _try(agent, whole)
    return made_again, whole


def made_again(
    recipe: bytes,
    plain: bytes,
    others: list[str],
    parameters: Mapping[str, Any],
    optimizers: tuple[Any, bool],
    training: Snapshot | None,
) -> Any:
    """The agent that `remade` describes.

    Raises:
        CheckpointError: The constructor made another one.
    """
    agent = pickle.loads(recipe).make()
    vars(agent).update(_loaded(plain, agent))
    missing = [name for name in others if name not in vars(agent)]
    if missing:
        raise CheckpointError(f"its constructor does not make the attribute {missing[0]}")
    current = agent.learner.get_state()
    check_state(parameters, current)
    check_state(current, parameters)
    agent.learner.set_state({**current, **parameters})
    recipes, several = optimizers
    if recipes is not None:
        made = [one.make(agent.param) for one in recipes]
        agent.optimizer = made if several else made[0]
    agent._restored = training
    return agent


def _within_reach(value: Any) -> bool:
    """Whether save() would find what there is of a framework: in lists and mappings, not inside of other objects."""
    if isinstance(value, Mapping):
        return all(_within_reach(one) for one in value.values())
    if isinstance(value, list | tuple):
        return all(_within_reach(one) for one in value)
    return _of_the_framework(value) or value is None or isinstance(value, int | float | str | np.ndarray)


def _try(agent: Any, whole: tuple[Any, ...]) -> None:
    """Makes the agent again and lets it answer what it answered before."""
    with _undisturbed():
        try:
            made = made_again(*whole)
        except CheckpointError as error:
            raise _refusal(agent, f"its constructor makes another one of its arguments ({error})") from error
        for index, obs in agent.learner.actor.examples.items():
            answers = _answers(agent, obs, index)
            known = np.array_equal(answers, _answers(agent, obs, index), equal_nan=True)  # else it answers by chance
            if known and not np.allclose(_answers(made, obs, index), answers, 1e-4, 1e-5, equal_nan=True):
                raise _refusal(agent, "what its constructor makes of its arguments answers otherwise")


def _answers(agent: Any, obs: Any, index: int | None) -> Any:
    """Of an agent, or of one of several; where it has a memory, as an episode begins."""
    return agent.learner.act(obs) if index is None else agent.learner.act_one(obs, index)


@contextmanager
def _undisturbed() -> Iterator[None]:
    """Networks that are made within draw no random numbers from anybody else."""
    put_back = shared_random_state()
    try:
        yield
    finally:
        put_back()
