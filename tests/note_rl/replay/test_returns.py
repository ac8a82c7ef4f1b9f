import numpy as np
import pytest

from note_rl.replay.returns import generalised_advantage, standardise


def naive(reward, value, next_value, terminated, ended, gamma, lam):
    """The definition as a sum: A_t = sum_l (gamma lam)^l delta_(t+l), up to the end of the episode."""
    advantage = np.zeros_like(reward)
    for e in range(reward.shape[1]):
        for t in range(len(reward)):
            factor = 1.0
            for k in range(t, len(reward)):
                future = 0.0 if terminated[k, e] else next_value[k, e]
                advantage[t, e] += factor * (reward[k, e] + gamma * future - value[k, e])
                if ended[k, e]:
                    break
                factor *= gamma * lam
    return advantage


def test_numbers_by_hand():
    column = lambda *values: np.array(values, np.float64)[:, None]  # noqa: E731
    no = np.zeros((3, 1), bool)
    advantage, target = generalised_advantage(
        column(1, 1, 1), column(1, 2, 3), column(2, 3, 4), no, no, gamma=0.5, gae_lambda=0.5
    )
    # deltas: 1+.5*2-1=1, 1+.5*3-2=.5, 1+.5*4-3=0; A_1 = .5 + .25*0, A_0 = 1 + .25*.5
    np.testing.assert_allclose(advantage[:, 0], [1.125, 0.5, 0.0])
    np.testing.assert_allclose(target[:, 0], [2.125, 2.5, 3.0])


@pytest.mark.parametrize(("terminated", "expected"), [(True, [1.0 - 5.0]), (False, [1.0 + 0.9 * 10.0 - 5.0])])
def test_a_time_limit_bootstraps_and_a_termination_does_not(terminated, expected):
    one = np.ones((1, 1))
    advantage, _ = generalised_advantage(
        one, 5.0 * one, 10.0 * one, np.array([[terminated]]), np.array([[True]]), gamma=0.9, gae_lambda=0.95
    )
    np.testing.assert_allclose(advantage[0], expected)


def test_agrees_with_the_definition_over_several_episodes():
    rng = np.random.default_rng(0)
    shape = (40, 3)
    ended = rng.random(shape) < 0.2
    terminated = ended & (rng.random(shape) < 0.5)
    reward, value, next_value = rng.normal(size=(3, *shape))
    expected = naive(reward, value, next_value, terminated, ended, 0.97, 0.9)
    advantage, target = generalised_advantage(reward, value, next_value, terminated, ended, 0.97, 0.9)
    np.testing.assert_allclose(advantage, expected, rtol=1e-10)
    np.testing.assert_allclose(target, expected + value, rtol=1e-10)


def test_standardise():
    result = standardise(np.array([[1.0, 5.0]]))  # deviation 2, variance 4
    np.testing.assert_allclose(result, [[-1.0, 1.0]], rtol=1e-6)
