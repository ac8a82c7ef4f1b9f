"""Snippets of the manuals as data, and how they are built and trained."""

import importlib
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from note_rl.noise import GaussianWhiteNoiseProcess
from note_rl.policy import EpsGreedyQPolicy, SoftmaxPolicy
from note_rl.seeding import seed_everything

DQN_SET = {"pool_size": 10000, "batch": 64, "update_steps": 10}
POOL_SET = {"pool_size": 10000, "batch": 64, "update_batches": 17}
PPO_SET = {"pool_size": 10000, "batch": 64, "update_steps": 1000, "PPO": True}
HER_SET = {"pool_size": 10000, "batch": 256, "trial_count": 10, "HER": True}
STOP = {"trial_count": 10, "criterion": 200.0}

NO_ROBOT = "FetchReach needs MuJoCo: the default is a goal environment of our own; env='FetchReach-v4' gives the robot"
TWO_AGENTS = "the manual names no environment: the default is our coordination game"


@dataclass(frozen=True)
class Learning:
    """Changes with which a snippet learns: other settings than those printed, and what evaluate() then reaches."""

    episodes: int
    reaches: float
    settings: dict[str, Any] = field(default_factory=dict)
    attributes: dict[str, Any] = field(default_factory=dict)  # of the agent
    learning_rates: tuple[float, ...] = (1e-3,)  # one, or one per optimizer


@dataclass(frozen=True)
class Snippet:
    """One snippet: agent and arguments as printed, then set(), train() and what is corrected."""

    agent: str
    arguments: tuple[Any, ...] | dict[str, Any]
    settings: dict[str, Any]
    explore: str  # eps, softmax or noise
    train: dict[str, Any] = field(default_factory=dict)
    attributes: dict[str, Any] = field(default_factory=dict)
    frameworks: tuple[str, ...] = ("keras", "pytorch")
    correction: str = "none"
    learning: Learning | None = None  # None: it shows something else, or cannot learn as it is


FEWER = {"save_freq": 2, "trial_count": 2}
EXPLORE = {
    "eps": lambda: {"policy": EpsGreedyQPolicy(0.01)},
    "softmax": lambda: {"policy": SoftmaxPolicy()},
    "noise": lambda: {"noise": GaussianWhiteNoiseProcess()},
}


def build(framework: str, snippet: Snippet) -> Any:
    """The agent as the snippet makes and sets it."""
    module = importlib.import_module(f"note_rl.examples.{framework}.{snippet.agent}")
    make = getattr(module, snippet.agent.rpartition(".")[2].partition("_")[0].replace("MADDPG", "DDPG"))
    given = snippet.arguments
    model = make(**given) if isinstance(given, dict) else make(*given)
    model.set(**EXPLORE[snippet.explore](), **snippet.settings)
    for name, value in snippet.attributes.items():
        setattr(model, name, value)
    return model


def train(framework: str, model: Any, episodes: int, rates: Sequence[float] = (1e-3,), **options: Any) -> Any:
    """As the manuals call it: Keras begins with the metric, PyTorch with the optimizer."""
    groups = model.param if isinstance(model.param[0], list) else [model.param]
    pairs = list(zip(groups, rates if len(rates) > 1 else [*rates] * len(groups), strict=True))
    if framework == "pytorch":
        adam = importlib.import_module("torch").optim.Adam
        made = [adam(group, rate) for group, rate in pairs]
        return model.train(made if len(made) > 1 else made[0], episodes, **options)
    keras = importlib.import_module("keras")
    train_loss = keras.metrics.Mean(name="train_loss")
    made = [keras.optimizers.Adam(rate) for _, rate in pairs]
    optimizer = made if len(made) > 1 else made[0]
    result = model.train(train_loss, optimizer, episodes, **options)
    assert (float(train_loss.result()) != 0.0) == (result.num_gradient_steps > 0)
    return result


def _small(arguments: tuple[Any, ...] | dict[str, Any]) -> tuple[Any, ...] | dict[str, Any]:
    """The same with layers of 8 units instead of 128."""
    if isinstance(arguments, dict):
        return {name: 8 if value == 128 else value for name, value in arguments.items()}
    return tuple(8 if value == 128 else value for value in arguments)


def run_short(framework: str, name: str, snippet: Snippet) -> None:
    """Four episodes in the current folder, in small: networks, gradient steps and processes are few.

    Files are there afterwards.
    """
    model = build(framework, replace(snippet, arguments=_small(snippet.arguments)))
    model.set(**({"num_epochs": 1} if snippet.settings.get("PPO") else {"num_updates": 4}))
    if snippet.attributes:
        model.save_freq = FEWER["save_freq"]
    if "best" in name:
        model.set(trial_count=FEWER["trial_count"])
    options = {"jit_compile": False, "p": 0} | snippet.train if framework == "keras" else snippet.train
    if "processes" in options:
        options = {**options, "processes": 2}
    result = train(framework, model, 4, **options)
    assert len(result.returns) >= 4
    files = sorted(path.name for path in Path.cwd().iterdir())
    if "best" in name:
        assert files == ["model.dat"]
    elif snippet.attributes:
        stem = snippet.attributes["path"].removesuffix(".dat")
        assert files == [f"{stem}-2.dat", f"{stem}-4.dat"]


def run_to_learn(framework: str, snippet: Snippet, seed: int) -> float:
    """Trains with what the snippet needs to learn; the mean return of 20 episodes without exploration."""
    learning = snippet.learning
    assert learning is not None
    seed_everything(seed)
    model = build(framework, snippet)
    model.set(**{"trial_count": None, "criterion": None, "seed": seed, **learning.settings})
    for name, value in learning.attributes.items():
        setattr(model, name, value)
    train(framework, model, learning.episodes, learning.learning_rates, p=0)
    return float(model.evaluate(20).mean)
