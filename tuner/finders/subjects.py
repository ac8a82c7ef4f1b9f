"""Subjects of finders: an agent with its optimizer, made anew in the process of each run."""

import pickle
from collections import OrderedDict, deque
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, Protocol

import numpy as np

from note_rl.collect.agent_recipe import Rebuildable, Recipe
from note_rl.collect.workers.worker_pickling import pickled, pickled_recipe
from note_rl.errors import SettingsError
from note_rl.learners.adjustable import LEARNING_RATE
from note_rl.learners.base import LayerNumbers
from note_rl.optimizers.optimizer_recipe import OptimizerRecipe, recipes_of
from note_rl.optimizers.rates import Rates
from note_rl.seeding import seed_everything
from tuner.config.composition import RunConfig
from tuner.executors.preload import Backend
from tuner.finders.plain_content import digest, shown, source
from tuner.runs.build import build_run
from tuner.runs.checkpoints import take_weights
from tuner.trial.messages import JsonDict

_COLLECTIONS = (list, tuple, set, frozenset, dict, deque, OrderedDict)
_NOT_CARRIED = frozenset({"stop_training", "path", "save_freq", "max_save_files", "save_best_only", "save_param_only"})


class Subject(Protocol):
    """An agent and its optimizer, as they are to be made in another process."""

    @property
    def about(self) -> JsonDict:
        """All that makes it what it is, plain."""

    @property
    def backend(self) -> Backend:
        """The framework it needs."""

    def build(self, seed: int) -> tuple[Any, Any]:
        """The agent with its settings, and its optimizer; the same seed gives the same ones."""


@dataclass(frozen=True)
class LiveSubject:
    """An agent that exists in the caller's process, which is left as it is.

    Attributes:
        name: Class of the agent.
        recipe: Pickle of how it was made.
        carried: Pickle of what was set since: its settings, plain attributes, and the numbers of its layers.
        weights: File of its parameters, target networks included.
        optimizers: How its optimizers are made; several: one per group of parameters.
        several: Whether they were given as a list.
        about: See `Subject`.
        backend: See `Subject`.
        rate: Learning rate instead of the one that the optimizer and the schedules say; None: those.
    """

    name: str
    recipe: bytes
    carried: bytes
    weights: bytes
    optimizers: tuple[OptimizerRecipe, ...]
    several: bool
    about: JsonDict
    backend: Backend
    rate: float | None = None

    def at_rate(self, rate: float) -> "LiveSubject":
        """The same, at another learning rate throughout."""
        return replace(self, rate=rate, about={**self.about, "rate": rate})

    def build(self, seed: int) -> tuple[Any, Any]:
        """The same parameters with every seed; environments, exploration and minibatches follow the seed."""
        recipe: Recipe = pickle.loads(self.recipe)  # brings the framework, which is to be seeded
        seed_everything(seed)
        agent = recipe.make()
        settings, attributes, layers = pickle.loads(self.carried)
        for name, value in attributes.items():
            _take_over(agent, name, value)
        agent.path = None  # the files of the caller's agent are not this one's
        _restore(agent, self.weights, layers)
        agent.settings = replace(settings, seed=seed)
        made = [recipe.make(agent.param) for recipe in self.optimizers]
        seed_everything(seed)  # restoring may have drawn
        optimizer = made if self.several else made[0]
        if self.rate is not None:
            kept = {name: schedule for name, schedule in settings.schedules.items() if name != LEARNING_RATE}
            agent.settings = replace(agent.settings, schedules=kept)
            Rates(optimizer).set(self.rate)
        return agent, optimizer


@dataclass(frozen=True)
class ConfiguredSubject:
    """An agent that a run's configuration describes.

    Attributes:
        config: Of the run, resolved.
    """

    config: JsonDict

    @property
    def about(self) -> JsonDict:
        """The configuration without what does not change a result."""
        return {key: value for key, value in self.config.items() if key not in ("seed", "checkpoint", "tracker")}

    @property
    def backend(self) -> Backend:
        """The framework of the configuration."""
        name: Backend = self.config["backend"]["name"]
        return name

    def build(self, seed: int) -> tuple[Any, Any]:
        """Initial parameters follow the seed as everything else does, unless `init` says what they are."""
        run = build_run(RunConfig.from_json({**self.config, "seed": seed}))
        if run.config.init is not None:
            take_weights(run.agent, run.config.init)
        return run.agent, run.optimizer


def live_subject(agent: Any, optimizer: Any, finder: str) -> LiveSubject:
    """An agent at hand, with an optimizer or a list of them.

    Args:
        agent: An agent of `note_rl`, on which set() was called.
        optimizer: Of the agent's framework; a function that makes one of its parameters will do, too.
        finder: Name of the finder, for messages.

    Raises:
        SettingsError: It cannot be made again in another process; names the argument that is in the way.
    """
    if not issubclass(type(agent), Rebuildable):
        raise SettingsError(f"{finder} tries agents that inherit from RL or RL_pytorch; it was given {agent!r}")
    settings = agent.settings
    if optimizer is None:
        raise SettingsError(f"{finder} needs an optimizer: set agent.optimizer = Adam(...) before")
    recipe = pickled_recipe(agent, finder)
    attributes = _attributes(agent)
    with _as_it_was(agent):
        layers = agent.learner.layer_numbers()
    instead = "give set() plain numbers, and functions that hold on to nothing open"
    carried = pickled("the settings of set()", (settings, attributes, layers), instead, finder)
    optimizers = tuple(recipes_of(optimizer, agent.param))
    for one in optimizers:
        pickled(f"the optimizer {one.name}", one, "give one whose settings are plain numbers", finder)
    weights = _weights(agent)
    about = {
        "agent": type(agent).__name__,
        "code": digest(source(type(agent)).encode()),
        "arguments": {name: shown(value) for name, value in agent.recipe.named_arguments().items()},
        "settings": shown(settings),
        "attributes": shown(attributes),
        "layers": layers.numbers,
        "weights": digest(weights),
        "optimizers": [{"name": one.name, **{key: shown(value) for key, value in one.settings.items()},
                        "groups": shown(one.groups)} for one in optimizers],
    }  # fmt: skip
    several = isinstance(optimizer, list | tuple)
    name = type(agent).__name__
    return LiveSubject(name, recipe, carried, weights, optimizers, several, about, backend_of(agent))


def backend_of(agent: Any) -> Backend:
    """The framework in which an agent says that it is written."""
    framework: Backend = type(agent).framework
    return framework


def common_backend(subjects: Sequence[Subject]) -> Backend:
    """The framework of all; none where they differ, and each process imports its own."""
    backends = {subject.backend for subject in subjects}
    return backends.pop() if len(backends) == 1 else "none"


def _attributes(agent: Any) -> dict[str, Any]:
    """Plain attributes of an agent's own, arrays and collections included, which may have changed since it was made."""
    passed_over = agent._bookkeeping | _NOT_CARRIED
    own = {name: value for name, value in vars(agent).items() if not name.startswith("_") and name not in passed_over}
    return {name: value for name, value in own.items() if _is_plain(value)}


def _is_plain(value: Any) -> bool:
    if type(value) in _COLLECTIONS:
        return all(map(_is_plain, (*value, *value.values()) if isinstance(value, dict) else value))
    if isinstance(value, np.ndarray):
        return bool(value.dtype.kind != "O")
    return value is None or type(value) in (int, float, bool, str) or isinstance(value, np.generic)


def _take_over(agent: Any, name: str, value: Any) -> None:
    """Sets an attribute where the constructor made another one; an equal one may be held by others, too."""
    made = getattr(agent, name, None)
    is_in_use = value is None and not _is_plain(made)
    if not is_in_use and shown(made) != shown(value):
        setattr(agent, name, value)


def _weights(agent: Any) -> bytes:
    """The file that save_param() would write; the agent has no learner afterwards if it had none before."""
    with _as_it_was(agent), TemporaryDirectory() as folder:
        path = Path(folder) / "param.safetensors"
        agent.save_param(path)
        return path.read_bytes()


def _restore(agent: Any, weights: bytes, layers: LayerNumbers) -> None:
    """The parameters of the caller's agent, and what is set on its layers.

    Raises:
        SettingsError: A layer was exchanged since the agent was made.
    """
    with _as_it_was(agent), TemporaryDirectory() as folder:
        path = Path(folder) / "param.safetensors"
        path.write_bytes(weights)
        agent.restore_param(path)
        if agent.learner.layer_numbers().kinds != layers.kinds:
            raise SettingsError(
                f"a layer of {type(agent).__name__}, or a hook of one, was set after the agent was made, and finders "
                "make the agent anew in each process: do so in its constructor, or remove the hook before"
            )
        agent.learner.set_layer_numbers(layers.numbers)


@contextmanager
def _as_it_was(agent: Any) -> Iterator[None]:
    """A learner that is made on the way does not stay: it would keep set(device=...) from moving parameters."""
    before = agent._learner
    try:
        yield
    finally:
        agent._learner = before
