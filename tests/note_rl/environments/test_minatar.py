"""MinAtar's games: what is shown of them, and that a seed and the actions decide everything."""

import sys

import numpy as np
import pytest
from minatar import Environment

from note_rl.environments import EnvFactory
from note_rl.environments.minatar import GAMES, MinAtar
from note_rl.errors import EnvironmentMismatchError, SettingsError

MODULE = "note_rl.environments.minatar"


def factory(game, **kwargs):
    return EnvFactory(f"{MODULE}:MinAtar/{game}-v0", kwargs)


def played(env, seed, actions):
    """Observations and rewards of a game, until it ends or the actions do."""
    seen = [env.reset(seed=seed)[0]]
    rewards = []
    for action in actions:
        obs, reward, terminated, truncated, _ = env.step(int(action))
        seen.append(obs)
        rewards.append(reward)
        if terminated or truncated:
            break
    return np.stack(seen), rewards


@pytest.mark.parametrize("game", GAMES)
def test_a_board_and_rewards_are_those_of_minatar(game):
    ours, theirs = MinAtar(game, sticky_action_prob=0.0), Environment(game, sticky_action_prob=0.0)
    obs, _ = ours.reset(seed=5)
    theirs.seed(int(np.random.default_rng(np.random.SeedSequence(5)).integers(2**31)))
    theirs.reset()
    rng = np.random.default_rng(0)
    for _ in range(200):
        assert obs.dtype == np.uint8
        np.testing.assert_array_equal(obs, np.where(theirs.state(), 255, 0))
        action = int(rng.integers(ours.action_space.n))
        obs, reward, terminated, truncated, _ = ours.step(action)
        assert (reward, terminated) == theirs.act(theirs.minimal_action_set()[action])
        assert not truncated
        if terminated:
            break


def test_a_seed_and_the_actions_decide_a_game_whatever_was_played_before():
    env = factory("breakout", sticky_action_prob=0.9)()
    actions = np.random.default_rng(1).integers(3, size=60)
    boards, rewards = played(env, 7, actions)
    played(env, 8, [2, 2, 2])  # leaves an action that would be repeated
    again, same = played(env, 7, actions)
    np.testing.assert_array_equal(boards, again)
    assert rewards == same
    assert len({played(env, seed, actions)[0].tobytes() for seed in range(3)}) == 3


def test_all_actions_of_the_console_can_be_had():
    assert MinAtar("breakout").action_space.n == 3
    assert MinAtar("breakout", full_action_space=True).action_space.n == 6


def test_a_channel_has_a_colour_and_a_cell_sixteen_pixels():
    env = MinAtar("breakout", render_mode="rgb_array")
    obs, _ = env.reset(seed=0)
    picture = env.render()
    assert picture.shape == (160, 160, 3)
    (paddle,) = np.argwhere(obs[..., 0])
    (brick, *_) = np.argwhere(obs[..., 3])
    assert tuple(picture[16 * paddle[0] + 15, 16 * paddle[1]]) == (86, 180, 233)
    assert tuple(picture[16 * brick[0], 16 * brick[1] + 15]) == (0, 158, 115)
    assert tuple(picture[-1, 16 * ((paddle[1] + 5) % 10)]) == (0, 0, 0)


def test_what_cannot_be_meant_is_refused():
    with pytest.raises(SettingsError, match="sticky_action_prob"):
        MinAtar("breakout", sticky_action_prob=1.5)
    with pytest.raises(EnvironmentMismatchError, match="Did you mean: `breakout`"):
        factory("brakout")()


def test_the_extra_is_named_where_it_is_missing(monkeypatch):
    monkeypatch.delitem(sys.modules, MODULE)
    monkeypatch.setitem(sys.modules, "minatar", None)
    with pytest.raises(EnvironmentMismatchError, match=r"no module named 'minatar' .*note-rl\[minatar\]"):
        factory("breakout")()
