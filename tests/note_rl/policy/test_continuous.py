import numpy as np
import pytest
from gymnasium import spaces

from note_rl.errors import AgentContractError, EnvironmentMismatchError, SettingsError
from note_rl.policy import (
    EpsGreedyQPolicy,
    GaussianPolicy,
    GreedyQPolicy,
    NoisyPolicy,
    SquashedGaussianPolicy,
    default_policy,
    exploration,
)
from note_rl.policy.noise import GaussianWhiteNoiseProcess, OrnsteinUhlenbeckProcess
from tests.note_rl.policy.bounds import N, rng

SPACE = spaces.Box(np.array([-2, 0], np.float32), np.array([2, 10], np.float32))


def bound(policy, space=SPACE, num_envs=N):
    policy.bind(space, num_envs)
    return policy


def rows(*values):
    return np.tile(np.array(values, np.float32), (N, 1))


def test_noise_is_added_to_the_action_and_clipped():
    chosen = bound(NoisyPolicy(GaussianWhiteNoiseProcess(sigma=1.0))).select(rows(0.0, 9.5), rng())
    assert chosen.dtype == np.float32
    assert chosen[:, 0].std() == pytest.approx(0.96, abs=0.02)  # of N(0, 1) cut at +-2
    assert chosen[:, 1].max() == 10.0
    assert np.mean(chosen[:, 1] == 10.0) == pytest.approx(0.309, abs=0.01)  # P(N(0, 1) > 0.5)


def test_relative_noise_is_in_units_of_half_the_range():
    chosen = bound(NoisyPolicy(GaussianWhiteNoiseProcess(sigma=0.1), relative=True)).select(rows(0.0, 5.0), rng())
    np.testing.assert_allclose(chosen.std(0), [0.2, 0.5], rtol=0.03)


def test_without_exploration_there_is_no_noise():
    policy = bound(NoisyPolicy(GaussianWhiteNoiseProcess()))
    np.testing.assert_array_equal(policy.greedy(np.array([[1.5, 99.0]])), [[1.5, 10.0]])
    np.testing.assert_array_equal(bound(NoisyPolicy()).select(np.array([[1.5, 99.0]]), rng()), [[1.5, 10.0]])


@pytest.mark.parametrize("make", [NoisyPolicy, SquashedGaussianPolicy])
def test_first_steps_are_uniformly_random(make):
    policy = bound(make(num_random_steps=2 * N))
    scores = np.zeros((N, 4 if make is SquashedGaussianPolicy else 2), np.float32)
    for _ in range(2):
        chosen = policy.select(scores, rng(3))
        np.testing.assert_allclose(chosen.mean(0), [0.0, 5.0], atol=0.1)
        np.testing.assert_allclose(chosen.std(0), np.array([4.0, 10.0]) / np.sqrt(12), rtol=0.02)
        np.testing.assert_allclose(np.quantile(chosen, 0.25, axis=0), [-1.0, 2.5], atol=0.15)
    restored = bound(make(num_random_steps=2 * N))
    restored.set_state(policy.get_state())
    third = policy.select(scores, rng(4))
    assert (third == 0.0).all() if make is NoisyPolicy else third[:, 0].std() < 1.3
    np.testing.assert_array_equal(restored.select(scores, rng(4)), third)


def test_a_gaussian_is_sampled_unclipped_and_played_clipped():
    policy = bound(GaussianPolicy())
    scores = rows(1.0, 5.0, np.log(2.0), np.log(0.5))
    chosen = policy.select(scores, rng())
    np.testing.assert_allclose(chosen.mean(0), [1.0, 5.0], atol=0.05)
    np.testing.assert_allclose(chosen.std(0), [2.0, 0.5], rtol=0.02)
    assert (chosen[:, 0] > 2.0).mean() == pytest.approx(0.309, abs=0.01)
    assert policy.for_env(chosen)[:, 0].max() == 2.0
    np.testing.assert_array_equal(policy.greedy(np.array([[3.0, 5.0, 0.0, 0.0]])), [[2.0, 5.0]])


def test_noise_of_a_gaussian_may_last():
    policy, generator = bound(GaussianPolicy(hold=3), SPACE), rng()
    noise = np.stack([policy.select(rows(0.0, 0.0, 0.0, 0.0), generator) for _ in range(7)])  # [T, N, 2]
    same = [bool((noise[t] == noise[t - 1]).all()) for t in range(1, 7)]
    assert same == [True, True, False, True, True, False]
    assert abs(np.corrcoef(noise[0, :, 0], noise[3, :, 0])[0, 1]) < 0.03
    np.testing.assert_allclose(noise.std(axis=1), 1.0, atol=0.02)  # so that log_prob() stays right
    shifted = bound(GaussianPolicy(hold=2), SPACE)
    steps = [shifted.select(rows(mean, 0.0, 0.0, 0.0), generator) for mean in (0.0, 1.0)]
    np.testing.assert_allclose(steps[1][:, 0] - steps[0][:, 0], 1.0, atol=1e-5)  # it is the noise that lasts


def test_lasting_noise_ends_with_the_episode_and_goes_on_from_a_checkpoint():
    policy = bound(GaussianPolicy(hold=4), num_envs=3)
    first = policy.select(np.zeros((3, 4)), rng(1))
    policy.reset(np.array([1]))
    restored = bound(GaussianPolicy(hold=4), num_envs=3)
    restored.set_state({name: array.copy() for name, array in policy.get_state().items()})
    second = policy.select(np.zeros((3, 4)), rng(2))
    assert (second == first).all(axis=1).tolist() == [True, False, True]
    np.testing.assert_array_equal(restored.select(np.zeros((3, 4)), rng(2)), second)
    later = [policy.select(np.zeros((3, 4)), rng(seed)) for seed in (3, 4, 5)]
    same = [(one == before).all(axis=1).tolist() for before, one in zip([second, *later], later, strict=False)]
    assert same == [[True] * 3, [True] * 3, [False, True, False]]  # the second one began a step later


@pytest.mark.parametrize("hold", [0, -1, 1.5, "long"])
def test_noise_lasts_for_a_whole_number_of_steps(hold):
    with pytest.raises(SettingsError, match="hold must"):
        GaussianPolicy(hold=hold)


def test_density_of_a_gaussian():
    # N(1; 0, 2) and N(5; 5, 1): -1/8 - log 2 - log(2 pi)/2 and -log(2 pi)/2
    density = GaussianPolicy().log_prob(np.array([[0.0, 5.0, np.log(2.0), 0.0]]), np.array([[1.0, 5.0]]))
    np.testing.assert_allclose(density, [-0.125 - np.log(2.0) - np.log(2 * np.pi)])


def test_a_squashed_gaussian_stays_within_the_bounds_and_has_the_right_quantiles():
    policy = bound(SquashedGaussianPolicy())
    chosen = policy.select(rows(0.3, -0.2, np.log(0.8), 1.0), rng())
    assert (chosen >= SPACE.low).all()
    assert (chosen <= SPACE.high).all()
    below = np.mean(chosen[:, 0] < 2.0 * np.tanh(0.3 + 0.8))  # one deviation above the mean
    assert below == pytest.approx(0.841, abs=0.01)
    np.testing.assert_allclose(np.median(chosen[:, 1]), 5.0 + 5.0 * np.tanh(-0.2), atol=0.3)
    np.testing.assert_allclose(policy.greedy(rows(0.3, 0.0, 9.0, 9.0))[0], [2.0 * np.tanh(0.3), 5.0], rtol=1e-6)


def test_huge_deviations_are_cut():
    chosen = bound(SquashedGaussianPolicy()).select(rows(0.0, 0.0, 1e4, -1e4), rng())
    assert np.isfinite(chosen).all()
    np.testing.assert_allclose(chosen[:, 1], 5.0, atol=1e-6)


def test_a_squashed_gaussian_with_noise_besides():
    policy = bound(SquashedGaussianPolicy(GaussianWhiteNoiseProcess(sigma=0.1)))
    chosen = policy.select(rows(0.0, 0.0, -20.0, -20.0), rng())
    np.testing.assert_allclose(chosen.std(0), [0.2, 0.5], rtol=0.03)


def test_schedules_move_the_deviation_of_the_noise():
    policy = NoisyPolicy(GaussianWhiteNoiseProcess(sigma=0.5))
    policy.sigma = 0.25
    assert policy.noise.sigma == policy.sigma == 0.25
    assert not hasattr(NoisyPolicy(), "sigma")


def test_episode_starts_reach_the_noise():
    policy = bound(NoisyPolicy(OrnsteinUhlenbeckProcess(0.1)), num_envs=3)
    policy.select(np.zeros((3, 2)), rng())
    policy.reset(np.array([0, 2]))
    assert policy.noise._starts.tolist() == [True, False, True]
    restored = bound(NoisyPolicy(OrnsteinUhlenbeckProcess(0.1)), num_envs=3)
    restored.set_state({name: array.copy() for name, array in policy.get_state().items()})
    np.testing.assert_array_equal(restored.select(np.zeros((3, 2)), rng(5)), policy.select(np.zeros((3, 2)), rng(5)))


def test_one_noise_per_environment_keeps_its_own_state():
    def make():
        return exploration(None, [OrnsteinUhlenbeckProcess(0.1, sigma=0.0), OrnsteinUhlenbeckProcess(0.1, mu=0.5)])

    policy, restored = bound(make(), num_envs=2), bound(make(), num_envs=2)
    first = policy.select(np.zeros((2, 2)), rng())
    assert (first[0] == 0.0).all()
    assert (first[1] != 0.0).all()
    policy.reset(np.array([1]))
    assert policy.policies[0].noise._starts.tolist() == [False]
    assert policy.policies[1].noise._starts.tolist() == [True]
    restored.set_state({name: array.copy() for name, array in policy.get_state().items()})
    np.testing.assert_array_equal(restored.select(np.zeros((2, 2)), rng(5)), policy.select(np.zeros((2, 2)), rng(5)))


def test_set_takes_a_policy_or_a_noise_and_refuses_the_rest():
    noise = GaussianWhiteNoiseProcess()
    assert exploration(None, noise).noise is noise
    policy = EpsGreedyQPolicy()
    assert exploration(policy, None) is policy
    with pytest.raises(SettingsError, match="set\\(\\) needs a policy"):
        exploration(None, None)
    with pytest.raises(SettingsError, match="both say how to explore"):
        exploration(policy, noise)
    with pytest.raises(SettingsError, match="same object twice"):
        exploration([policy, policy], None)
    with pytest.raises(SettingsError, match="must be a noise process"):
        exploration(None, 0.1)
    with pytest.raises(SettingsError, match="must be a policy"):
        exploration("softmax", None)


def test_default_policies_follow_the_action_space():
    assert isinstance(default_policy(spaces.Discrete(2)), GreedyQPolicy)
    assert isinstance(default_policy(SPACE), NoisyPolicy)


def test_what_does_not_fit_is_refused():
    with pytest.raises(EnvironmentMismatchError, match="NoisyPolicy chooses vectors of numbers"):
        NoisyPolicy().bind(spaces.Discrete(2), 1)
    unbounded = spaces.Box(-np.inf, np.inf, (1,))
    GaussianPolicy().bind(unbounded, 1)
    for policy in (SquashedGaussianPolicy(), NoisyPolicy(num_random_steps=1), NoisyPolicy(relative=True)):
        with pytest.raises(EnvironmentMismatchError, match="finite bounds"):
            policy.bind(unbounded, 1)
    with pytest.raises(SettingsError, match=r"size=3\) does not fit an action of 2"):
        NoisyPolicy(GaussianWhiteNoiseProcess(size=3)).bind(SPACE, 1)
    with pytest.raises(AgentContractError, match="a mean and a log deviation"):
        bound(GaussianPolicy()).select(np.zeros((1, 3)), rng())
