import json
import re
import sys
from pathlib import Path
from typing import Any

import gymnasium
import numpy as np
import pytest
from gymnasium import spaces
from PIL import Image

from tests.tuner.command_line import SMALL, SMALL_AGENTS, CommandLine
from tuner.commands.play import check_kind, load_run
from tuner.errors import UserError
from tuner.runs.folders import read_config


@pytest.mark.parametrize("backend", ["torch", "keras"])
def test_a_trained_run_is_evaluated_and_filmed(tuner: CommandLine, backend: str) -> None:
    chosen = (f"backend={backend}", "training.jit_compile=false")  # compiling takes longer than such a run
    tuner("train", *SMALL, *SMALL_AGENTS["dqn"], *chosen, "hydra.run.dir=mine")
    answer = tuner("play", "mine", "num_episodes=4")
    assert (answer.status, answer.errors) == (0, "")
    assert "over 4 episodes" in answer.output
    assert "after 240 steps of training" in answer.output
    with Image.open(tuner.folder / "mine" / "play.gif") as film:
        assert film.format == "GIF"
        assert getattr(film, "n_frames", 1) > 5
        assert film.info["duration"] % 20 == 0, "50 frames a second; Pillow joins equal ones"
    assert tuner("play", "run=mine", "num_episodes=4").output == answer.output, "the same episodes each time"


def test_without_a_film(tuner: CommandLine) -> None:
    tuner("train", *SMALL, *SMALL_AGENTS["dqn"], "hydra.run.dir=mine")
    answer = tuner("play", "mine", "gif=null", "num_episodes=1")
    assert len(answer.output.splitlines()) == 1
    assert not (tuner.folder / "mine" / "play.gif").exists()


def test_a_trial_of_a_study_is_a_run_too(tuner: CommandLine) -> None:
    tuner("train", *SMALL, *SMALL_AGENTS["dqn"], "seed=5", "hydra.run.dir=mine")
    folder = tuner.folder / "mine"
    config = read_config(folder)
    (folder / "config.yaml").unlink()
    (folder / "trial.json").write_text(json.dumps({"config": {**config, "seed": 0}, "seed": 5}))
    assert read_config(folder) == config
    assert load_run(folder).agent.num_env_steps == 240


class Drawn(gymnasium.Env[np.ndarray, int]):
    """Five steps, in each of which another picture would be seen; told to, it draws nothing."""

    observation_space = spaces.Box(0.0, 5.0, (1,), np.float32)
    action_space = spaces.Discrete(2, start=1)
    metadata = {"render_modes": ["rgb_array"], "render_fps": 10}  # noqa: RUF012

    def __init__(self, render_mode: str | None = None, blank: bool = False) -> None:
        self.render_mode, self.blank, self.number = render_mode, blank, 0

    def _shown(self) -> np.ndarray:
        return np.full(1, self.number, np.float32)

    def reset(self, *, seed: int | None = None, options: Any = None) -> tuple[np.ndarray, dict[str, Any]]:
        super().reset(seed=seed)
        self.number = 0
        return self._shown(), {}

    def step(self, action: int) -> tuple[np.ndarray, float, bool, bool, dict[str, Any]]:
        assert action in (1, 2)
        self.number += 1
        return self._shown(), 1.0, self.number == 5, False, {}

    def render(self) -> Any:
        return None if self.blank else np.full((20, 20, 3), 40 * self.number, np.uint8)


gymnasium.register("Drawn-v0", f"{__name__}:Drawn")


@pytest.mark.parametrize(("told", "brightness"), [([], [0, 40, 80, 120, 160, 200]), (["max_frames=3"], [0, 40, 80])])
def test_an_episode_is_filmed_to_its_end(tuner: CommandLine, told: list[str], brightness: list[int]) -> None:
    tuner("train", *SMALL, *SMALL_AGENTS["dqn"], f"env.id={__name__}:Drawn-v0", "hydra.run.dir=mine")
    answer = tuner("play", "mine", "num_episodes=1", *told)
    assert (answer.status, answer.errors) == (0, "")
    with Image.open(tuner.folder / "mine" / "play.gif") as film:
        frames = []
        for index in range(getattr(film, "n_frames", 1)):
            film.seek(index)
            frames.append(int(np.asarray(film.convert("RGB"))[5, 5, 0]))
        assert film.info["duration"] == 100
    assert frames == brightness


def test_an_environment_that_draws_nothing_after_all(tuner: CommandLine) -> None:
    blank = (f"env.id={__name__}:Drawn-v0", "+env.kwargs.blank=true")
    tuner("train", *SMALL, *SMALL_AGENTS["dqn"], *blank, "hydra.run.dir=mine")
    answer = tuner("play", "mine", "num_episodes=1")
    assert answer.status != 0
    assert "draws no pictures" in answer.errors
    assert "play it with gif=null" in answer.errors


def test_several_agents_are_filmed(tuner: CommandLine) -> None:
    tuner("train", *SMALL, *SMALL_AGENTS["maddpg"], "hydra.run.dir=mine")
    assert tuner("play", "mine", "num_episodes=1").status == 0
    with Image.open(tuner.folder / "mine" / "play.gif") as film:
        assert film.size == (160, 120)


def test_the_name_of_a_film_says_of_which_kind_it_is(tuner: CommandLine) -> None:
    tuner("train", *SMALL, *SMALL_AGENTS["dqn"], "hydra.run.dir=mine")
    assert tuner("play", "mine", "gif=play.mp4", "num_episodes=1", "max_frames=5").status == 0
    assert (tuner.folder / "mine" / "play.mp4").read_bytes()[4:8] == b"ftyp"
    answer = tuner("play", "mine", "gif=play.avi", "num_episodes=1")
    assert (answer.status, answer.output) == (2, "")
    assert (
        answer.errors
        == "tuner play: gif=mine/play.avi: films are written as .gif or .mp4, so let its name end in one of them\n"
    )


def test_a_kind_of_film_that_needs_more(tuner: CommandLine, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "moviepy", None)
    with pytest.raises(UserError, match=r"gif=play\.mp4: .*needs moviepy, .*pip install 'note-rl\[video\]'"):
        check_kind(Path("play.mp4"))


def test_a_film_that_cannot_be_written(tuner: CommandLine) -> None:
    tuner("train", *SMALL, *SMALL_AGENTS["dqn"], "hydra.run.dir=mine")
    answer = tuner("play", "mine", "gif=config.yaml/play.gif", "num_episodes=1", "max_frames=2")
    assert answer.status != 0
    assert re.search(r"cannot write .*play\.gif", answer.errors.replace("\n", " "))
