import json
import sys
from pathlib import Path

import numpy as np
import pytest
from PIL import Image

from note_rl.environments import EnvFactory
from note_rl.errors import SettingsError
from note_rl.training.film import write_film
from tests.tuner.command_line import SMALL, SMALL_AGENTS, CommandLine
from tuner.commands.play import find_writer, load_run
from tuner.errors import UserError
from tuner.runs.film import film_episode
from tuner.runs.folders import read_config


@pytest.mark.parametrize("backend", ["torch", "keras"])
def test_a_trained_run_is_evaluated_and_filmed(tuner: CommandLine, backend: str) -> None:
    tuner("train", *SMALL, *SMALL_AGENTS["dqn"], f"backend={backend}", "hydra.run.dir=mine")
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


def test_an_episode_is_filmed_to_its_end() -> None:
    lengths = []
    for action in (0, 1):
        frames, fps = film_episode(
            lambda obs, action=action: np.full(len(obs), action), EnvFactory("CartPole-v1"), 0, 1000
        )
        assert frames[0].shape == (400, 600, 3)
        assert fps == 50
        lengths.append(len(frames))
    assert all(8 <= length <= 13 for length in lengths), "pushing one way ends after about ten steps"
    frames, _ = film_episode(lambda obs: np.zeros(len(obs), int), EnvFactory("CartPole-v1"), 0, 3)
    assert len(frames) == 3


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
        find_writer(Path("play.mp4"))


def test_a_film_that_cannot_be_written(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    path = tmp_path / "file" / "play.gif"
    with pytest.raises(SettingsError, match=r"cannot write .*play\.gif"):
        write_film(find_writer(path), path, [np.zeros((4, 4, 3), np.uint8)], 30)
