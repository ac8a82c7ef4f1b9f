"""Parts that do not fit are refused before a run begins, and nothing of the run is left."""

import sys
from collections.abc import Iterator
from typing import Any

import gymnasium
import numpy as np
import pytest
from gymnasium import spaces

import tuner as package
from note_rl.errors import NoteRLError
from tests.tuner.command_line import SMALL, SMALL_AGENTS, CommandLine
from tuner.errors import UserError

NETWORKS = """
def too_narrow(shape, outputs):
    {imports}
    return {narrow}

def too_many(shape, outputs):
    {imports}
    return {many}
"""
WRITTEN = {
    "torch": NETWORKS.format(
        imports="from torch import nn", narrow="nn.Linear(3, outputs)", many="nn.Linear(shape[0], outputs + 1)"
    ),
    "keras": NETWORKS.format(
        imports="import keras",
        narrow="keras.Sequential([keras.Input((3,)), keras.layers.Dense(outputs)])",
        many="keras.Sequential([keras.Input(shape), keras.layers.Dense(outputs + 1)])",
    ),
}
REFUSALS = {
    "too_narrow": ("observations of the shape [4]", "; does its network (my_networks.too_narrow) take them?"),
    "too_many": ("action() returned 3 numbers per observation",),
}


class Screen(gymnasium.Env[Any, Any]):
    """Noise on a screen."""

    action_space = spaces.Discrete(2)

    def __init__(self, shape: tuple[int, ...] = (40, 36, 3)) -> None:
        self.observation_space = spaces.Box(0, 255, tuple(shape), np.uint8)

    def reset(self, *, seed: int | None = None, options: Any = None) -> Any:
        super().reset(seed=seed)
        self.time = 0
        return self.np_random.integers(0, 256, self.observation_space.shape).astype(np.uint8), {}

    def step(self, action: Any) -> Any:
        self.time += 1
        return self.observation_space.sample(), 1.0, self.time == 5, False, {}


@pytest.fixture(autouse=True)
def _screen() -> Iterator[None]:
    gymnasium.register("Screen-v0", Screen)
    yield
    gymnasium.registry.pop("Screen-v0")


def chosen(backend: str) -> tuple[str, ...]:
    small = [word for word in SMALL if not word.startswith("network.")]
    return (*small, *SMALL_AGENTS["dqn"], f"backend={backend}", "training.jit_compile=false")


@pytest.mark.parametrize("backend", ["torch", "keras"])
@pytest.mark.parametrize("name", REFUSALS)
def test_a_network_that_does_not_fit_leaves_no_folder(tuner: CommandLine, backend: str, name: str) -> None:
    (tuner.folder / "my_networks.py").write_text(WRITTEN[backend])
    network = f"+network={{_target_: my_networks.{name}, _partial_: true}}"
    try:
        said = tuner.refused("train", *chosen(backend), "~network", network)
        assert all(words in said for words in REFUSALS[name])
        assert "in user code" not in said
        with pytest.raises((UserError, NoteRLError)):
            package.train([*chosen(backend), "~network", network], folder="here")
        assert not (tuner.folder / "here").exists()
    finally:
        sys.modules.pop("my_networks")


def test_convolutions_need_images_and_images_convolutions(tuner: CommandLine) -> None:
    for command in ("train", "tune", "find"):
        said = tuner.refused(command, *(["lr"] if command == "find" else []), "env.id=Screen-v0")
        assert "shows images [40, 36, 3], of which network=mlp would take every pixel" in said
        assert "4,320 in all" in said
        assert "use network=cnn" in said
    assert "[height, width, channels] of at least 36" in tuner.refused("train", "network=cnn")
    small = ("env.id=Screen-v0", "network=cnn", "+env.kwargs.shape=[12,12,3]")
    assert "has the shape [12, 12, 3]; use network=mlp or minatar, which is for small" in tuner.refused("train", *small)
    first = ("env.id=Screen-v0", "+env.kwargs.shape=[3,40,40]")
    assert "use network=cnn" in tuner.refused("train", *first)


@pytest.mark.parametrize(
    "choice",
    [
        ("network=cnn", "network.hidden_sizes=[8]"),
        ("network=cnn", "network.hidden_sizes=[8]", "+env.kwargs.shape=[3,40,40]"),
        (
            "network.hidden_sizes=[8]",
            "+wrapper.flat={_target_: gymnasium.wrappers.FlattenObservation, _partial_: true}",
        ),
        ("network.hidden_sizes=[8]", "+env.kwargs.shape=[7,7,3]"),
    ],
)
def test_what_fits_is_trained(tuner: CommandLine, choice: tuple[str, ...]) -> None:
    words = [*chosen("torch"), "env.id=Screen-v0", "training.total_steps=80", "evaluation.num_points=1"]
    answer = tuner("train", *words, *choice, "hydra.run.dir=mine")
    assert (answer.status, answer.errors) == (0, "")
    assert (tuner.folder / "mine" / "result.json").exists()
