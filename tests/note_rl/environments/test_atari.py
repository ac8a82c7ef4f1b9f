"""Atari games: what is shown of them, where they begin, what is for learning only, and being brought back."""

import sys

import gymnasium
import numpy as np
import pytest
from ale_py.vector_env import AtariVectorEnv
from gymnasium.wrappers import AtariPreprocessing

from note_rl.collect.collector import Collector
from note_rl.environments import EnvFactory, VectorEnvironment, for_evaluation, training_environments
from note_rl.environments.atari import FireStart
from note_rl.environments.atari_vector import AtariVector
from note_rl.environments.gymnasium_vector import SeededVector
from note_rl.environments.training_only import LifeLoss, SignOfReward
from note_rl.errors import EnvironmentMismatchError, SettingsError
from note_rl.policy import GreedyQPolicy
from note_rl.replay.buffer import Parts, ReplayBuffer

MODULE = "note_rl.environments.atari"
NO_OP = 0


def game(name="breakout", *, training=(), **kwargs):
    return EnvFactory(f"{MODULE}:Atari/{name}-v0", kwargs, training_wrappers=training)


def plain(name="Breakout", repeat_action_probability=0.0, **kwargs):
    """The game as Gymnasium prepares it, without anything of ours."""
    return AtariPreprocessing(
        gymnasium.make(f"ALE/{name}-v5", frameskip=1, repeat_action_probability=repeat_action_probability), **kwargs
    )


def test_frames_are_those_of_gymnasium_bit_for_bit():
    settings = {"repeat_action_probability": 0.25, "frame_skip": 3, "screen_size": 42}
    kwargs = {name: value for name, value in settings.items() if name != "repeat_action_probability"}
    ours, theirs = game(fire_start=False, **settings)(), plain(**{**settings, **kwargs})
    rng = np.random.default_rng(0)
    np.testing.assert_array_equal(ours.reset(seed=7)[0], theirs.reset(seed=7)[0])
    for _ in range(150):
        action = int(rng.integers(4))
        (obs, *rest, _), (expected, *expected_rest, _) = ours.step(action), theirs.step(action)
        np.testing.assert_array_equal(obs, expected)
        assert rest == expected_rest
        if rest[1]:
            break


def test_fire_is_pressed_where_a_game_or_a_life_begins():
    ours, theirs = game()(), plain()
    theirs.reset(seed=3)
    fire = theirs.unwrapped.get_action_meanings().index("FIRE")
    np.testing.assert_array_equal(ours.reset(seed=3)[0], theirs.step(fire)[0])
    lives = 5
    while lives > 3:
        obs, _, _, _, info = ours.step(NO_OP)
        expected, *_, there = theirs.step(NO_OP)
        if there["lives"] < lives:
            expected, *_, there = theirs.step(fire)
        np.testing.assert_array_equal(obs, expected)
        assert info == there
        lives = info["lives"]


def test_games_without_that_button_begin_as_they_are():
    ours, theirs = game("ms_pacman")(), plain("MsPacman")
    assert isinstance(ours.env, FireStart)
    np.testing.assert_array_equal(ours.reset(seed=1)[0], theirs.reset(seed=1)[0])


def test_settings_reach_the_emulator():
    env = game("pong", max_frames=40, noop_max=0, full_action_space=True, repeat_action_probability=0.5)()
    assert env.action_space.n == 18
    assert env.unwrapped.ale.getFloat("repeat_action_probability") == 0.5
    env.reset(seed=0)
    truncated = [env.step(NO_OP)[3] for _ in range(9)]
    assert truncated == [False] * 8 + [True]  # 4 frames of FIRE before them
    assert game("pong", frame_skip=2)().metadata["render_fps"] == 30


def doing_nothing(envs, num_steps):
    """Steps of doing nothing, `num_steps` of them or an episode, and the episodes that ended in them."""
    collector = Collector(envs, GreedyQPolicy(), np.random.default_rng(0))
    return collector.collect(lambda obs: np.zeros((len(obs), envs.action_space.n)), num_steps)


TRAINED = game(training=(LifeLoss, SignOfReward))


def test_a_lost_life_ends_what_is_learned_and_not_the_game():
    """Doing nothing loses a life every 24 steps, and the game with the fifth."""
    steps, episodes = doing_nothing(VectorEnvironment([TRAINED()], 0), 120)
    assert np.flatnonzero(steps.terminated).tolist() == [23, 47, 71, 95, 119]
    assert np.flatnonzero(steps.ended).tolist() == [119]
    assert [one.length for one in episodes] == [120]


def test_rewards_are_counted_as_they_are_and_learned_from_by_their_sign():
    factory = game("ms_pacman", max_frames=1200, training=(LifeLoss, SignOfReward))
    both = (VectorEnvironment([made()], 0) for made in (factory, for_evaluation(factory)))
    (steps, episodes), (raw, expected) = (doing_nothing(envs, None) for envs in both)
    assert set(np.unique(steps.reward)) == {0.0, 1.0}
    assert raw.reward.max() == 10.0
    assert episodes == expected
    assert episodes[0].return_ == raw.reward.sum() > steps.reward.sum()


@pytest.mark.parametrize("vector", [pytest.param(False, marks=pytest.mark.slow), True])
def test_games_are_brought_back_in_their_second_life(vector):
    factory = game(training=(LifeLoss, SignOfReward), repeat_action_probability=0.25)

    def made():
        if vector:
            return training_environments(factory, 2, seed=4)
        return VectorEnvironment([factory() for _ in range(2)], seed=4)

    envs, rng = made(), np.random.default_rng(1)
    lives = 0
    while lives < 4:
        lives += int(envs.step(rng.integers(4, size=2))[3].sum())
    state = envs.get_state()
    again = made()
    assert again.set_state(state)
    for _ in range(40):
        action = rng.integers(4, size=2)
        for one, other in zip(envs.step(action), again.step(action), strict=True):
            np.testing.assert_array_equal(one, other)


def test_ale_steps_games_together_with_the_same_frames():
    envs, theirs = AtariVector("breakout", 2, noop_max=0, fire_start=False), plain(noop_max=0)
    obs, _ = envs.reset(seed=[5, 6], options={"reset_mask": np.ones(2, np.bool_)})
    np.testing.assert_array_equal(obs[1], theirs.reset(seed=6)[0])
    rng = np.random.default_rng(0)
    for _ in range(100):
        action = int(rng.integers(4))
        obs, reward, terminated, _, _ = envs.step(np.array([1, action]))
        expected, gain, done, *_ = theirs.step(action)
        np.testing.assert_array_equal(obs[1], expected)
        assert (reward[1], terminated[1]) == (gain, done)
        if done:
            break


def test_ale_presses_fire_for_those_who_do_nothing():
    """Else the second ball would never come."""
    envs = AtariVector("breakout", 1)
    envs.reset(seed=[0], options={"reset_mask": np.ones(1, np.bool_)})
    ended = [bool(envs.step(np.array([NO_OP]))[2][0]) for _ in range(130)]
    assert True in ended


def test_several_games_are_stepped_by_ale_unless_a_wrapper_is_for_single_ones():
    envs = training_environments(game("pong"), 2, seed=0)
    assert type(envs) is SeededVector
    assert type(envs.env) is AtariVector
    unknown = game("pong", training=(SignOfReward, gymnasium.Wrapper))
    assert isinstance(training_environments(unknown, 2, seed=0), VectorEnvironment)


@pytest.mark.parametrize(("name", "max_frames"), [("breakout", 108_000), ("ms_pacman", 1200)])
def test_what_is_for_training_only_is_the_same_for_games_that_ale_steps_together(name: str, max_frames: int):
    """A lost life ends what is learned; the sign of a reward is learned from, and the reward counted."""
    settings = {"noop_max": 0, "fire_start": False, "max_frames": max_frames}  # which ALE would begin otherwise
    factory = game(name, training=(LifeLoss, SignOfReward), **settings)
    together = training_environments(factory, 2, seed=3)
    assert isinstance(together, SeededVector)
    alone = VectorEnvironment([factory() for _ in range(2)], seed=3)
    rng, lost = np.random.default_rng(0), 0
    for _ in range(400):
        action = rng.integers(together.action_space.n, size=2)
        steps = together.step(action), alone.step(action)
        for one, other in zip(*steps, strict=True):
            np.testing.assert_array_equal(one, other)
        np.testing.assert_array_equal(together.counted, alone.counted)
        np.testing.assert_array_equal(together.obs, alone.obs)
        lost += int((steps[0][3] & ~steps[0][4]).sum())
    assert lost >= 2
    assert together.counted.dtype == np.float64


def test_a_factory_of_ales_own_vector_is_used_with_its_number_of_games():
    def make():
        return AtariVectorEnv("pong", 2, stack_num=1, num_threads=1)

    envs = training_environments(make, None, seed=0)
    assert len(envs) == 2
    assert envs.step(np.zeros(2, np.int64))[2].shape == (2, 1, 84, 84)
    with pytest.raises(EnvironmentMismatchError, match="num_envs=3, but env is a vector environment of 2"):
        training_environments(make, 3, seed=0)


def test_a_million_transitions_take_seven_gigabytes():
    steps, _ = doing_nothing(VectorEnvironment([TRAINED()], 0), 130)
    buffer = ReplayBuffer(2000, Parts(frame_stack=4))
    for _ in range(16):
        buffer.add(steps)
    assert steps.ended.any()
    assert len(buffer) == 2000
    assert buffer.ring.nbytes / 2000 < 7200


@pytest.mark.parametrize(
    ("given", "said"),
    [
        (lambda: game("pongg"), "Did you mean: `pong`"),
        (lambda: game("Pong"), "Did you mean: `pong`"),
        (lambda: game("pong", frameskip=4), "frameskip=4 would skip frames a second time"),
        (
            lambda: EnvFactory(f"{MODULE}:Atari/pong-v0", wrappers=[AtariPreprocessing]),
            "through AtariPreprocessing already",
        ),
        (lambda: EnvFactory("ale_py:ALE/Pong-v5", wrappers=[AtariPreprocessing]), "Disable frame-skipping"),
        (lambda: game("pong", colour=True), "unexpected keyword argument 'colour'"),
    ],
)
def test_what_cannot_be_meant_is_refused(given, said):
    with pytest.raises(EnvironmentMismatchError, match=said):
        given()()


@pytest.mark.parametrize(
    ("name", "value"),
    [("noop_max", -1), ("frame_skip", 0), ("screen_size", 0), ("repeat_action_probability", 1.5), ("max_frames", 0)],
)
def test_values_out_of_range_are_refused(name, value):
    with pytest.raises(SettingsError, match=name):
        game(**{name: value})()


@pytest.mark.parametrize("missing", ["ale_py", "cv2"])
def test_the_extra_is_named_where_it_is_missing(monkeypatch, missing):
    monkeypatch.delitem(sys.modules, MODULE)
    monkeypatch.setitem(sys.modules, missing, None)
    with pytest.raises(EnvironmentMismatchError, match=rf"no module named '{missing}' .*note-rl\[atari\]"):
        game("pong")()
