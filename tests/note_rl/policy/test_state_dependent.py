"""Noise that is a function of the state: one matrix for some steps, the density of each step, what a resume needs."""

import math

import numpy as np
import pytest
from gymnasium import spaces

from note_rl.errors import AgentContractError, EnvironmentMismatchError, SettingsError
from note_rl.policy import GSDEPolicy, PolicyPerEnvironment, SquashedGSDEPolicy

BOX = spaces.Box(np.float32([-2.0, 0.0]), np.float32([4.0, 1.0]))
ONE = spaces.Box(-1.0, 1.0, (1,))


def bound(policy, space=BOX, num_envs=3):
    policy.bind(space, num_envs)
    return policy


def scores(num_envs=3, num_actions=2, num_features=4, seed=0):
    """Means, then pushes."""
    rng = np.random.default_rng(seed)
    return rng.normal(size=(num_envs, num_actions * (1 + num_features))).astype(np.float32)


def noise_of(policy, answers, rng):
    return policy.select(answers, rng) - answers[:, :2]


def test_the_density_is_that_of_a_sum_of_normal_numbers():
    """Pushes 3 and 4 make a deviation of 5."""
    policy = bound(GSDEPolicy(), ONE, 1)
    answers, action = np.float32([[0.5, 3.0, 4.0]]), np.float32([[3.0]])
    expected = -0.5 * (2.5 / 5.0) ** 2 - math.log(5.0) - 0.5 * math.log(2.0 * math.pi)
    assert policy.log_prob(answers, action) == pytest.approx([expected], rel=1e-6)
    both = np.float32([[0.5, 0.0, 3.0, 4.0, 0.0, 2.0]])  # the second number: mean 0, deviation 2
    second = -0.5 * (1.0 / 2.0) ** 2 - math.log(2.0) - 0.5 * math.log(2.0 * math.pi)
    found = bound(GSDEPolicy(), num_envs=1).log_prob(both, np.float32([[3.0, 1.0]]))
    assert found == pytest.approx([expected + second], rel=1e-6)


def test_features_that_are_all_zero_leave_a_density():
    policy = bound(GSDEPolicy(), ONE, 1)
    assert policy.log_prob(np.float32([[0.5, 0.0, 0.0]]), np.float32([[0.5]]))[0] == pytest.approx(
        -math.log(1e-3) - 0.5 * math.log(2.0 * math.pi), rel=1e-5
    )


def test_over_many_matrices_deviations_are_those_of_the_density():
    policy, rng = bound(GSDEPolicy(hold=1), ONE, 5000), np.random.default_rng(0)
    answers = np.tile(np.float32([[0.5, 3.0, 4.0]]), (5000, 1))
    drawn = policy.select(answers, rng)
    assert drawn.mean() == pytest.approx(0.5, abs=0.2)
    assert drawn.std() == pytest.approx(5.0, rel=0.05)


def test_noise_is_the_same_function_of_the_state_while_a_matrix_lasts():
    policy, rng = bound(GSDEPolicy(hold=3)), np.random.default_rng(0)
    answers, others = scores(), scores(seed=1)
    first, again = noise_of(policy, answers, rng), noise_of(policy, answers, rng)
    np.testing.assert_array_equal(first, again)
    # linear in the pushes, with the same numbers: those of another state give another noise, twice as large ones twice
    doubled = answers.copy()
    doubled[:, 2:] *= 2.0
    np.testing.assert_allclose(noise_of(policy, doubled, rng), 2.0 * first, rtol=1e-5, atol=1e-6)
    fourth = noise_of(policy, answers, rng)
    assert not np.isclose(fourth, first).any(), "a new matrix after three steps"
    assert not np.isclose(noise_of(policy, others, rng), fourth).any()


def test_each_environment_has_a_matrix_of_its_own():
    answers = np.tile(scores(1), (3, 1))
    noise = noise_of(bound(GSDEPolicy(hold=5)), answers, np.random.default_rng(0))
    assert len(np.unique(noise)) == 6


def test_a_matrix_outlasts_episodes():
    policy, rng, answers = bound(GSDEPolicy(hold=5)), np.random.default_rng(0), scores()
    first = noise_of(policy, answers, rng)
    policy.reset(np.arange(3))
    np.testing.assert_array_equal(noise_of(policy, answers, rng), first)


def test_what_is_kept_goes_on_with_the_same_matrix():
    policy, rng, answers = bound(GSDEPolicy(hold=4)), np.random.default_rng(0), scores()
    policy.select(answers, rng)
    state, other, same = policy.get_state(), bound(GSDEPolicy(hold=4)), np.random.default_rng(0)
    other.set_state(state)
    same.bit_generator.state = rng.bit_generator.state
    for _ in range(7):
        np.testing.assert_array_equal(policy.select(answers, rng), other.select(answers, same))


def test_a_matrix_that_is_taken_over_lasts_no_longer_than_those_to_come():
    policy, rng, answers = bound(GSDEPolicy(hold=100)), np.random.default_rng(0), scores()
    policy.select(answers, rng)
    shorter = bound(GSDEPolicy(hold=2))
    shorter.set_state(policy.get_state())
    first, second, third = (noise_of(shorter, answers, rng) for _ in range(3))
    np.testing.assert_array_equal(first, second)
    assert not np.isclose(third, first).any()


def test_another_number_of_environments_gets_a_new_matrix():
    policy, rng = bound(GSDEPolicy(hold=100)), np.random.default_rng(0)
    policy.select(scores(), rng)
    assert policy.select(scores(7), rng).shape == (7, 2)


def test_without_exploration_it_is_the_mean_within_the_bounds():
    answers = scores()
    answers[0, :2] = (9.0, -3.0)
    action = bound(GSDEPolicy()).greedy(answers)
    np.testing.assert_array_equal(action[0], np.float32([4.0, 0.0]))
    np.testing.assert_array_equal(action[1:], np.clip(answers[1:, :2], BOX.low, BOX.high))


def test_the_environment_gets_what_is_sampled_within_the_bounds():
    policy = bound(GSDEPolicy())
    answers = 20.0 * scores()
    action = policy.select(answers, np.random.default_rng(0))
    assert not BOX.contains(action[0])
    assert all(BOX.contains(one) for one in policy.for_env(action))


def test_squashed_actions_fill_the_range():
    policy, rng = bound(SquashedGSDEPolicy(hold=1)), np.random.default_rng(0)
    answers = 20.0 * scores()
    drawn = np.concatenate([policy.select(answers, rng) for _ in range(20)])
    assert drawn.dtype == np.float32
    assert (drawn.min(0) < BOX.low + 0.1).all()
    assert (drawn.max(0) > BOX.high - 0.1).all()
    centre, half = (BOX.low + BOX.high) / 2, (BOX.high - BOX.low) / 2
    np.testing.assert_allclose(policy.greedy(answers), centre + half * np.tanh(answers[:, :2]), rtol=1e-5)
    assert policy.log_prob(answers, drawn[:3]) is None


def test_squashed_actions_begin_with_random_ones():
    policy, answers = bound(SquashedGSDEPolicy(num_random_steps=6)), np.zeros((3, 10), np.float32)
    rng = np.random.default_rng(0)
    assert np.ptp(policy.select(answers, rng)[:, 0]) > 0.1
    policy.select(answers, rng)
    np.testing.assert_allclose(policy.select(answers, rng), np.tile([1.0, 0.5], (3, 1)))  # no pushes: no noise


def test_one_for_each_environment():
    policy = PolicyPerEnvironment([GSDEPolicy(hold=1), GSDEPolicy(hold=10)])
    policy.bind(BOX, 2)
    rng, answers = np.random.default_rng(0), scores(2)
    first, second = (policy.select(answers, rng) for _ in range(2))
    assert (first[0] != second[0]).all()
    np.testing.assert_array_equal(first[1], second[1])
    assert policy.log_prob(answers, first).shape == (2,)


@pytest.mark.parametrize("hold", [0, -1, 1.5, "rollout"])
def test_a_hold_that_is_no_count_is_refused(hold):
    with pytest.raises(SettingsError, match="hold"):
        GSDEPolicy(hold=hold)


def test_answers_of_another_width_are_refused():
    with pytest.raises(AgentContractError, match=r"means \[A\] and pushes \[A, F\].*A = 2.*\[3, 5\]"):
        bound(GSDEPolicy()).select(np.zeros((3, 5), np.float32), np.random.default_rng(0))


def test_actions_to_choose_from_are_refused():
    with pytest.raises(EnvironmentMismatchError, match="GSDEPolicy chooses vectors of numbers"):
        GSDEPolicy().use_space(spaces.Discrete(3))


def test_squashing_needs_bounds():
    with pytest.raises(EnvironmentMismatchError, match="finite bounds"):
        SquashedGSDEPolicy().use_space(spaces.Box(-np.inf, np.inf, (1,)))
