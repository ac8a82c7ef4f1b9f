"""Films of an agent: windows, gifs, mp4 files."""

import sys

import gymnasium
import numpy as np
import pytest
from moviepy import VideoFileClip
from PIL import Image

from note_rl.errors import EnvironmentMismatchError, SettingsError
from note_rl.policy import EpsGreedyQPolicy
from note_rl.training.film import FilmFile, drawing_environment
from tests.note_rl.frameworks import frameworks
from tests.note_rl.small_environments import Counting

ONCE = pytest.mark.parametrize("framework", frameworks()[:1])  # what is drawn is the environment's matter


class Drawn(Counting):
    """A square that is brighter the further the episode has come."""

    metadata = {"render_modes": ["human", "rgb_array"], "render_fps": 10}  # noqa: RUF012

    def __init__(self, length=4):
        super().__init__(length)
        self.render_mode = None
        self.closed = False

    def render(self):
        return np.full((33, 35, 3), 20 * self.step_number, np.uint8) if self.render_mode == "rgb_array" else None

    def close(self):
        self.closed = True


def agent_in(framework, env):
    agent = framework.agents.DQN(hidden_size=(4,), env=env)
    agent.set(policy=EpsGreedyQPolicy(0.1), pool_size=50, batch=4)
    return agent


def brightness(path):
    frames = []
    with Image.open(path) as picture:
        for index in range(picture.n_frames):
            picture.seek(index)
            frames.append(int(np.asarray(picture.convert("RGB"))[5, 5, 0]))
        return frames, picture.info["duration"]


@pytest.mark.parametrize("framework", frameworks())
def test_a_gif_shows_the_whole_episode_in_its_own_time(framework, tmp_path):
    total = agent_in(framework, Drawn).animate_agent(100, tmp_path / "deep" / "film.gif")
    frames, duration = brightness(tmp_path / "deep" / "film.gif")
    assert frames == [0, 20, 40, 60, 80]  # before the first step, and after each of four
    assert duration == 100  # ms at 10 frames a second
    assert total == 10.0


@ONCE
def test_it_ends_after_max_steps(framework, tmp_path):
    assert agent_in(framework, lambda: Drawn(50)).animate_agent(3, tmp_path / "film.gif") == 6.0
    assert brightness(tmp_path / "film.gif")[0] == [0, 20, 40, 60]


@ONCE
@pytest.mark.parametrize("env", ["CartPole-v1", lambda: gymnasium.make("CartPole-v1"), Drawn()])
def test_mp4_of_every_kind_of_environment(framework, env, tmp_path):
    agent_in(framework, env).animate_agent(5, tmp_path / "film.mp4")
    with VideoFileClip(str(tmp_path / "film.mp4")) as clip:
        assert clip.n_frames == (5 if isinstance(env, Drawn) else 6)
    if isinstance(env, Drawn):
        assert not env.closed  # a copy was filmed


class OnOneCanvas(Drawn):
    """Draws into the same array each time, as many environments do."""

    def __init__(self, length=4):
        super().__init__(length)
        self.canvas = np.zeros((33, 35, 3), np.uint8)

    def render(self):
        self.canvas[:] = 20 * self.step_number
        return self.canvas


@ONCE
def test_pictures_that_are_drawn_into_one_array_stay_what_they_were(framework, tmp_path):
    agent_in(framework, OnOneCanvas).animate_agent(100, tmp_path / "film.gif")
    assert brightness(tmp_path / "film.gif")[0] == [0, 20, 40, 60, 80]


class Measuring(gymnasium.ObservationWrapper, gymnasium.utils.RecordConstructorArgs):
    """Shows how often it was asked, as a wrapper with running statistics would."""

    def __init__(self, env):
        gymnasium.utils.RecordConstructorArgs.__init__(self)
        super().__init__(env)
        self.count = 0.0

    def observation(self, obs):
        return obs + 0.0 * self.count


def changed(**more):
    env = gymnasium.make("CartPole-v1", **more)
    env.unwrapped.gravity = -30.0
    env = Measuring(env)
    env.count = 7.0
    return env


@ONCE
@pytest.mark.parametrize("mode", ["rgb_array", "human", None])
@pytest.mark.parametrize("given", [changed(), changed, changed(render_mode="rgb_array")])
def test_what_was_changed_in_an_environment_is_filmed_with_it(monkeypatch, framework, given, mode):
    monkeypatch.setenv("SDL_VIDEODRIVER", "dummy")
    drawn = drawing_environment(given, mode)
    assert drawn is not given
    assert drawn.unwrapped.render_mode == mode
    assert drawn.unwrapped.gravity == -30.0
    assert mode == "human" or drawn.count == 7.0
    drawn.reset(seed=1)
    assert mode != "rgb_array" or drawn.render().shape == (400, 600, 3)
    drawn.close()


@ONCE
def test_that_it_draws_is_tried_in_another_one(framework):
    class Resets(gymnasium.Wrapper):
        count = 0

        def reset(self, **arguments):
            self.count += 1
            return self.env.reset(**arguments)

    drawn = drawing_environment(
        lambda: gymnasium.wrappers.NormalizeObservation(gymnasium.make("CartPole-v1")), "rgb_array"
    )
    expected = gymnasium.wrappers.NormalizeObservation(gymnasium.make("CartPole-v1"))
    np.testing.assert_array_equal(drawn.reset(seed=1)[0], expected.reset(seed=1)[0])
    assert drawing_environment(lambda: Resets(gymnasium.make("CartPole-v1")), "rgb_array").count == 0


@ONCE
def test_where_a_copy_cannot_be_made_plain_attributes_are_taken_over(framework):
    env = gymnasium.make("CartPole-v1")
    env.unwrapped.gravity = -30.0
    env.unwrapped.lock = (number for number in ())  # a generator cannot be copied
    drawn = drawing_environment(env, "rgb_array")
    assert drawn.unwrapped is not env.unwrapped
    assert drawn.unwrapped.gravity == -30.0
    assert not hasattr(drawn.unwrapped, "lock")


@ONCE
def test_an_episode_is_kept_in_several_ways(framework, tmp_path):
    pictures = tmp_path / "pictures"
    pictures.mkdir()
    (pictures / "00099.png").write_text("of a longer episode")
    (pictures / "notes.png").write_text("mine")
    films = [tmp_path / "own.gif", FilmFile(tmp_path / "slow.gif", fps=2), FilmFile(pictures, every=2)]
    agent_in(framework, Drawn).animate_agent(100, films)
    assert brightness(tmp_path / "own.gif") == ([0, 20, 40, 60, 80], 100)
    assert brightness(tmp_path / "slow.gif") == ([0, 20, 40, 60, 80], 500)
    assert sorted(path.name for path in pictures.iterdir()) == ["00000.png", "00002.png", "00004.png", "notes.png"]
    for name, bright in (("00000.png", 0), ("00002.png", 40), ("00004.png", 80)):
        with Image.open(pictures / name) as picture:
            assert picture.size == (35, 33)
            assert np.asarray(picture).min() == np.asarray(picture).max() == bright
    for wrong in ({"every": 0}, {"fps": 0.0}, {"fps": float("nan")}):
        with pytest.raises(SettingsError, match=r"(every|fps) must be"):
            FilmFile("film.gif", **wrong)


@ONCE
@pytest.mark.parametrize("num_steps", [2, 12])
def test_a_codec_that_is_missing_is_said_in_words(framework, num_steps, tmp_path, monkeypatch):
    ffmpeg = tmp_path / "ffmpeg"
    ffmpeg.write_text("#!/bin/sh\necho \"Unknown encoder 'libx264'\" >&2\nexit 1\n")
    ffmpeg.chmod(0o755)
    monkeypatch.setattr("moviepy.video.io.ffmpeg_writer.FFMPEG_BINARY", str(ffmpeg))
    with pytest.raises(SettingsError, match=r"could not encode it as H\.264 \(libx264\).*, or write a \.gif"):
        agent_in(framework, lambda: Drawn(50)).animate_agent(num_steps, tmp_path / "film.mp4")


@ONCE
def test_somebody_else_may_act(framework, tmp_path):
    seen = []

    def acting_in(space):
        def choose(obs, starts):
            seen.append((obs.shape, starts.tolist()))
            return np.full(len(obs), space.n - 1)

        return choose

    agent = agent_in(framework, "CartPole-v1")
    evaluation = agent.evaluate(1, seed=3, acting_in=acting_in)
    assert 8 <= evaluation.mean <= 11, "a pole that is pushed to the right falls at once"
    assert seen[0] == ((1, 4), [True])
    assert len(seen) == evaluation.lengths[0]
    assert agent.animate_agent(100, tmp_path / "film.gif", seed=3, acting_in=acting_in) == evaluation.mean


@ONCE
def test_a_window(framework, monkeypatch):
    monkeypatch.setenv("SDL_VIDEODRIVER", "dummy")
    made = []
    make = gymnasium.make
    monkeypatch.setattr(gymnasium, "make", lambda *a, **k: made.append(k.get("render_mode")) or make(*a, **k))
    assert agent_in(framework, "CartPole-v1").animate_agent(3) == 3.0
    assert made[-1] == "human"


@pytest.mark.parametrize("framework", frameworks())
@pytest.mark.parametrize("env", ["CartPole-v1", Drawn])
def test_without_a_screen_no_window_is_opened(framework, env, monkeypatch, caplog):
    for name in ("DISPLAY", "WAYLAND_DISPLAY", "SDL_VIDEODRIVER"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setattr(sys, "platform", "linux")
    made = []
    make = gymnasium.make
    monkeypatch.setattr(gymnasium, "make", lambda *a, **k: made.append(k.get("render_mode")) or make(*a, **k))
    assert agent_in(framework, env).animate_agent(3) == (3.0 if env == "CartPole-v1" else 6.0)
    assert set(made) <= {None}, "SDL without a screen may end the process"
    assert caplog.messages == ["there is no screen to show the episode on: give a path, for example path='film.gif'"]


@ONCE
def test_training_does_not_notice(framework, tmp_path):
    env = Drawn()
    agent = agent_in(framework, [env])
    agent.train(optimizer=framework.optimizers.adam(agent.param), episodes=1, p=0)
    agent.animate_agent(2, tmp_path / "film.gif")
    agent.train(episodes=1, p=0)
    assert agent.num_env_steps == 8
    assert env.render_mode is None


@ONCE
def test_what_cannot_be_done_is_said(framework, tmp_path, monkeypatch):
    agent = agent_in(framework, Drawn)
    with pytest.raises(SettingsError, match="max_steps must be at least 1"):
        agent.animate_agent(0)
    with pytest.raises(SettingsError, match=r"\.gif or \.mp4"):
        agent.animate_agent(5, tmp_path / "film.avi")
    (tmp_path / "file").write_text("")
    with pytest.raises(SettingsError, match="cannot write"):
        agent.animate_agent(5, tmp_path / "file" / "film.gif")
    with pytest.raises(EnvironmentMismatchError, match=r"Counting cannot be drawn.*'rgb_array' is needed"):
        agent_in(framework, Counting).animate_agent(5, tmp_path / "film.gif")
    monkeypatch.setitem(sys.modules, "moviepy", None)
    with pytest.raises(ModuleNotFoundError, match=r"needs moviepy.*note-rl\[video\]"):
        agent.animate_agent(5, tmp_path / "film.mp4")


def test_an_environment_that_draws_nothing_although_it_says_so(tmp_path):
    class Blank(Drawn):
        def render(self):
            return None

    env = drawing_environment(Blank, "rgb_array")
    assert env.render_mode == "rgb_array"
