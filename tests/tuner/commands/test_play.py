"""`tuner play`: runs are evaluated, filmed and shown."""

import json
import re
import sys
from pathlib import Path
from typing import Any

import gymnasium
import numpy as np
import pytest
from gymnasium import spaces
from moviepy import VideoFileClip
from PIL import Image

import tuner as package
from note_rl.training.checkpoint import read_checkpoint
from tests.tuner.command_line import SMALL, SMALL_AGENTS, SMALL_STUDY, CommandLine
from tuner import load as load_study
from tuner.commands.play import check_kind, load_run
from tuner.errors import UserError
from tuner.runs.evaluation_policy import Exploring
from tuner.runs.run_folders import read_config


@pytest.mark.usefixtures("dqn_run")
def test_a_trained_run_is_evaluated_and_filmed(tuner: CommandLine) -> None:
    answer = tuner("play", "mine", "num_episodes=4")
    assert (answer.status, answer.errors) == (0, "")
    assert "over 4 episodes" in answer.output
    assert "after 240 steps of training" in answer.output
    with Image.open(tuner.folder / "mine" / "play.gif") as film:
        assert film.format == "GIF"
        assert getattr(film, "n_frames", 1) > 5
        assert film.info["duration"] % 20 == 0, "50 frames a second; Pillow joins equal ones"
    assert tuner("play", "run=mine", "num_episodes=4").output == answer.output, "the same episodes each time"


@pytest.mark.usefixtures("dqn_run")
def test_without_a_film(tuner: CommandLine) -> None:
    answer = tuner("play", "mine", "gif=null", "num_episodes=1")
    assert len(answer.output.splitlines()) == 2
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
    """Five steps, in each of which another picture would be seen; with `blank`, it draws nothing."""

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


@pytest.mark.parametrize(("typed", "brightness"), [([], [0, 40, 80, 120, 160, 200]), (["max_frames=3"], [0, 40, 80])])
def test_an_episode_is_filmed_to_its_end(tuner: CommandLine, typed: list[str], brightness: list[int]) -> None:
    tuner("train", *SMALL, *SMALL_AGENTS["dqn"], f"env.id={__name__}:Drawn-v0", "hydra.run.dir=mine")
    answer = tuner("play", "mine", "num_episodes=1", *typed)
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


def test_where_there_is_no_screen_it_is_said_how_mujoco_draws(
    tuner: CommandLine, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fails(self: Drawn) -> None:
        raise RuntimeError("an OpenGL platform library has not been loaded\nfrom here on nobody reads")

    monkeypatch.setattr(Drawn, "render", fails)
    tuner("train", *SMALL, *SMALL_AGENTS["dqn"], f"env.id={__name__}:Drawn-v0", "hydra.run.dir=mine")
    answer = tuner("play", "mine", "num_episodes=1")
    assert answer.status != 0
    assert "mean return" in answer.output
    assert "no film: an OpenGL platform library has not been loaded; MUJOCO_GL=egl" in answer.errors
    assert "nobody reads" not in answer.errors


def test_several_agents_are_filmed(tuner: CommandLine) -> None:
    tuner("train", *SMALL, *SMALL_AGENTS["maddpg"], "hydra.run.dir=mine")
    assert tuner("play", "mine", "num_episodes=1").status == 0
    with Image.open(tuner.folder / "mine" / "play.gif") as film:
        assert film.size == (160, 120)
    assert tuner("play", "mine", "num_episodes=1", "gif=null", "deterministic=false").status == 0


@pytest.mark.usefixtures("dqn_run")
def test_the_name_of_a_film_says_of_which_kind_it_is(tuner: CommandLine) -> None:
    assert tuner("play", "mine", "gif=play.mp4", "num_episodes=1", "max_frames=5").status == 0
    assert (tuner.folder / "mine" / "play.mp4").read_bytes()[4:8] == b"ftyp"
    answer = tuner("play", "mine", "gif=play.avi", "num_episodes=1")
    assert (answer.status, answer.output) == (2, "")
    assert (
        answer.errors
        == "tuner play: gif=mine/play.avi: films are written as .gif or .mp4, so let its name end in one of them\n"
    )


def test_an_episode_is_kept_in_several_ways(tuner: CommandLine) -> None:
    small = tuple(word for word in SMALL if not word.startswith("training."))
    drawn = (f"env.id={__name__}:Drawn-v0", "hydra.run.dir=mine", "training.total_steps=80")
    tuner("train", *small, *SMALL_AGENTS["dqn"], *drawn)
    files = ("gif=null", "mp4=play.mp4", "frames=pictures", "every=2", "fps=20", "num_episodes=1")
    answer = tuner("play", "mine", *files)
    assert (answer.status, answer.errors) == (0, "")
    assert answer.output.splitlines()[0] == "playing mine, weights of checkpoint.safetensors"
    assert answer.output.splitlines()[2:] == [
        "film of one episode: mine/play.mp4",
        "film of one episode: mine/pictures",
    ]
    with VideoFileClip(str(tuner.folder / "mine" / "play.mp4")) as clip:
        assert (clip.n_frames, clip.fps, clip.size) == (6, 20, [20, 20])
    brightness = {}
    for path in (tuner.folder / "mine" / "pictures").iterdir():
        with Image.open(path) as picture:
            brightness[path.name] = picture.getpixel((5, 5))
    assert brightness == {"00000.png": (0, 0, 0), "00002.png": (80, 80, 80), "00004.png": (160, 160, 160)}
    answer = tuner("play", "mine", "mp4=true", "gif=false", "frames=true", "num_episodes=1")
    assert answer.output.splitlines()[2:] == [
        "film of one episode: mine/play.mp4",
        "film of one episode: mine/frames",
    ]
    for wrong, said in (
        ("mp4=play.gif", "mp4=play.gif: its name must end in .mp4"),
        (
            "frames=pictures.png",
            "frames=pictures.png: a film has an end such as .gif, and a folder of pictures has none",
        ),
        ("gif=film", "gif=film: a film has an end"),
        ("every=0", "every=0 is not possible: it must be at least 1"),
        ("fps=0", "it must be above 0, or null"),
        ("render=rgb", "it must be human, or null for no window"),
        ("frames=.", "the name of a folder"),
    ):
        assert said in tuner.refused("play", "mine", wrong)


@pytest.mark.usefixtures("dqn_run")
def test_a_window_needs_a_screen(tuner: CommandLine, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("DISPLAY", "WAYLAND_DISPLAY", "SDL_VIDEODRIVER"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setattr(sys, "platform", "linux")
    assert "render=human needs a screen, and there is none here" in tuner.refused("play", "mine", "render=human")
    monkeypatch.setenv("SDL_VIDEODRIVER", "dummy")
    made = []
    make = gymnasium.make
    monkeypatch.setattr(gymnasium, "make", lambda *a, **k: made.append(k.get("render_mode")) or make(*a, **k))
    answer = tuner("play", "mine", "render=human", "num_episodes=1", "max_frames=4", "frames=pictures")
    assert (answer.status, answer.errors) == (0, "")
    assert [mode for mode in made if mode] == ["rgb_array", "human"], "films and a window"
    assert len(list((tuner.folder / "mine" / "pictures").iterdir())) == 4


def test_with_exploration(tuner: CommandLine) -> None:
    tuner("train", *SMALL, *SMALL_AGENTS["dqn"], "policy.eps=1.0", "schedule=none", "hydra.run.dir=mine")
    greedy = tuner("play", "mine", "gif=null").output
    explored = [tuner("play", "mine", "gif=null", "deterministic=false", *seed).output for seed in ([], [], ["seed=1"])]
    assert explored[0] == explored[1] != greedy
    assert explored[2] != explored[0]
    run = load_run(tuner.folder / "mine")
    actions = [
        Exploring(run.agent, spaces.Discrete(2), np.random.default_rng(seed))(np.zeros((50, 4)), np.ones(50, np.bool_))
        for seed in range(4)
    ]
    assert 0.35 < np.mean(actions) < 0.65, "eps is 1: each action as often as the other"


def test_a_checkpoint_is_played_by_its_file(tuner: CommandLine) -> None:
    tuner("train", *SMALL, *SMALL_AGENTS["dqn"], "checkpoint.keep=3", "hydra.run.dir=mine")
    first, *_ = sorted((tuner.folder / "mine").glob("checkpoint_*.safetensors"))
    assert "after 80 steps of training" in tuner("play", f"mine/{first.name}", "num_episodes=1").output
    assert (tuner.folder / "mine" / "play.gif").exists(), "beside it"
    best = tuner("play", "mine/best.safetensors", "num_episodes=2", "gif=null").output
    assert best == tuner("play", "mine", "weights=best", "num_episodes=2", "gif=null").output
    assert "when it was evaluated best" in best
    assert best.startswith("playing mine, weights of best.safetensors\n")
    first.rename(tuner.folder / "elsewhere.safetensors")
    assert "is not the folder of a run" in tuner.refused("play", "elsewhere.safetensors")
    for path in (tuner.folder / "mine").glob("*.safetensors"):
        path.unlink()
    assert "has no checkpoint yet" in tuner.refused("play", "mine")


def test_without_a_storage_beside_it_a_study_names_the_run_to_play(tuner: CommandLine) -> None:
    small = (*SMALL, *SMALL_AGENTS["dqn"], *SMALL_STUDY, "study.num_trials=1", "study.name=mine", "storage=memory")
    line = tuner("tune", *small).output.partition("watch the winner:\n  ")[2].splitlines()[0]
    assert line.startswith("tuner play studies/mine/test/")
    assert tuner(*line.split()[1:], "num_episodes=1", "gif=null").status == 0


def test_of_a_study_the_winner_is_played(tuner: CommandLine, dqn_study: str) -> None:
    assert "\nwatch the winner:\n  tuner play studies/mine\n" in dqn_study
    expected = load_study("studies/mine").best_run()
    answer = tuner("play", "mine", "num_episodes=2")
    assert (answer.status, answer.errors) == (0, "")
    assert answer.output.splitlines()[0] == f"playing {expected}, weights of checkpoint.safetensors"
    assert answer.output.splitlines()[2] == f"film of one episode: {expected / 'play.gif'}"
    assert answer.output == tuner("play", "studies/mine", "num_episodes=2").output
    assert answer.output == tuner("play", str(expected), "num_episodes=2").output
    screened = tuner("play", "studies/mine/screen/0", "num_episodes=1")
    assert (tuner.folder / "studies" / "mine" / "screen" / "0" / "play.gif").exists(), screened.errors


def test_a_kind_of_film_that_needs_more(tuner: CommandLine, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "moviepy", None)
    with pytest.raises(UserError, match=r"gif=play\.mp4: .*needs moviepy, .*pip install 'note-rl\[video\]'"):
        check_kind(Path("play.mp4"))


@pytest.mark.usefixtures("dqn_run")
def test_a_film_that_cannot_be_written(tuner: CommandLine) -> None:
    answer = tuner("play", "mine", "gif=config.yaml/play.gif", "num_episodes=1", "max_frames=2")
    assert answer.status != 0
    assert re.search(r"cannot write .*play\.gif", answer.errors.replace("\n", " "))


def test_the_agent_of_a_run_in_python(tuner: CommandLine) -> None:
    """Its last weights, or those of its best evaluation."""
    answer = tuner("train", *SMALL, *SMALL_AGENTS["ppo"], "hydra.run.dir=mine", "tracker=jsonl")
    assert (answer.status, answer.errors) == (0, "")
    mine, obs = tuner.folder / "mine", np.random.default_rng(0).normal(size=(50, 4)).astype(np.float32)
    for weights, name in (("last", "checkpoint"), ("best", "best")):
        player = package.load_agent(mine, weights=weights)
        assert player.predict(obs)[0].shape == (50,)
        arrays = read_checkpoint(mine / f"{name}.safetensors")[0]
        state = player.run.agent.learner.get_state()
        kept = [one for one in arrays if "agent/actor" in one]
        assert kept
        for one in kept:
            np.testing.assert_array_equal(state[one[one.index("agent/") :]], arrays[one])
    with pytest.raises(UserError, match=r"is a run, and no study: its agent is tuner.load_agent\("):
        package.load(mine)
    with pytest.raises(UserError, match="weights='first' must be last or best"):
        package.load_agent(mine, weights="first")
    with pytest.raises(UserError, match="is not the folder of a run, nor a study"):
        package.load_agent(tuner.folder / "nothing")
