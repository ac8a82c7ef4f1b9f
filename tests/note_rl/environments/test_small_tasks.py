"""Small tasks reward what they say they do."""

import gymnasium
import numpy as np
import pytest

from note_rl.environments.small_tasks import ID, KINDS, LEAVE_REWARD, STAY_REWARD

RIGHT, OTHER, WRONG = 1, 2, 0


def played(kind, actions, continuous=False, seed=0):
    """Rewards, terminated and truncated of each step, with the observations before them."""
    env = gymnasium.make(ID, kind=kind, continuous=continuous)
    obs, _ = env.reset(seed=seed)
    found = []
    for action in actions:
        following, reward, terminated, truncated, _ = env.step(np.array([action]) if continuous else action)
        found.append((obs.tolist(), reward, terminated, truncated))
        obs = following
    return found


def test_one_action_is_rewarded():
    for action, reward in ((RIGHT, 1.0), (WRONG, 0.0)):
        assert [step[1:] for step in played("reward", [action])] == [(reward, True, False)]


@pytest.mark.parametrize("kind", ["reward", "time_limit"])
def test_observations_that_tell_nothing_are_noise(kind):
    shown = np.array([played(kind, [RIGHT], seed=seed)[0][0] for seed in range(400)])
    assert (shown[:, 0] == 1.0).all()
    np.testing.assert_allclose(shown[:, 1:].mean(axis=0), 0.0, atol=0.2)  # the error is 0.05
    np.testing.assert_allclose(shown[:, 1:].std(axis=0), 1.0, atol=0.14)  # 0.035


def test_the_observation_names_the_action():
    signs = set()
    for seed in range(8):
        [(obs, reward, terminated, _)] = played("observation", [RIGHT], seed=seed)
        assert (reward, terminated) == (float(obs[0] > 0.0), True)
        assert played("observation", [OTHER], seed=seed)[0][1] == float(obs[0] < 0.0)
        signs.add(obs[0])
    assert signs == {-1.0, 1.0}


def test_the_first_action_decides_the_last_reward():
    seed = next(seed for seed in range(8) if played("next_step", [RIGHT], seed=seed)[0][0][0] > 0.0)
    assert played("next_step", [RIGHT, WRONG], seed=seed) == [
        ([1.0, 1.0, 0.0, 0.0], 0.0, False, False),
        ([1.0, 1.0, np.float32(0.2), 0.0], 1.0, True, False),
    ]
    steps = played("delay", [WRONG] + [RIGHT] * 5, seed=seed)
    assert [reward for _, reward, _, _ in steps] == [0.0] * 6
    assert [terminated for _, _, terminated, _ in steps] == [False] * 5 + [True]
    assert [obs[0] for obs, _, _, _ in steps] == [1.0] + [-1.0] * 5


@pytest.mark.parametrize(("continuous", "right", "wrong"), [(False, RIGHT, WRONG), (True, 0.3, 0.1)])
def test_a_time_limit_cuts_off_and_leaving_ends(continuous, right, wrong):
    assert played("time_limit", [right], continuous)[0][1:] == (STAY_REWARD, False, True)
    assert played("time_limit", [wrong], continuous)[0][1:] == (LEAVE_REWARD, True, False)


def test_the_first_observation_names_the_last_action():
    signs = set()
    for seed in range(8):
        steps = played("memory", [WRONG, WRONG, RIGHT], seed=seed)
        sign = steps[0][0][0]
        assert [obs[0] for obs, _, _, _ in steps] == [sign, 0.0, 0.0]
        assert [step[1:] for step in steps] == [(0.0, False, False)] * 2 + [(float(sign > 0.0), True, False)]
        assert played("memory", [RIGHT, RIGHT, OTHER], seed=seed)[2][1] == float(sign < 0.0)
        signs.add(sign)
    assert signs == {-1.0, 1.0}


def test_numbers_are_right_by_their_distance():
    for action, share in ((0.5, 1.0), (0.0, 0.75), (-0.5, 0.0), (-1.0, 0.0)):
        assert played("reward", [action], continuous=True)[0][1] == share


def test_noise_has_no_mean():
    rewards = [played("noise", [RIGHT], seed=seed)[0] for seed in range(300)]
    right = [reward for obs, reward, _, _ in rewards if obs[0] > 0.0]
    assert abs(np.mean(right) - 1.0) < 4.0 * 0.5 / np.sqrt(len(right))
    assert np.std(right) == pytest.approx(0.5, rel=0.2)


@pytest.mark.parametrize("kind", KINDS)
def test_observations_lie_in_their_space(kind):
    env = gymnasium.make(ID, kind=kind)
    for seed in range(20):
        obs, _ = env.reset(seed=seed)
        assert env.observation_space.contains(obs)


def test_an_unknown_task_is_refused():
    with pytest.raises(ValueError, match="kind='rewards' must be one of reward, observation"):
        gymnasium.make(ID, kind="rewards")
