import numpy as np
import pytest
from gymnasium import spaces
from hypothesis import given, settings
from hypothesis import strategies as st

from note_rl.errors import AgentContractError, EnvironmentMismatchError, SettingsError
from note_rl.policy import (
    AdaptiveEpsGreedyPolicy,
    BoltzmannGumbelQPolicy,
    BoltzmannQPolicy,
    EpsGreedyQPolicy,
    GreedyQPolicy,
    GumbelSoftmaxPolicy,
    MaxBoltzmannQPolicy,
    SoftmaxPolicy,
)
from tests.note_rl.policy.scores import SCORES, N, shares, softmax


def test_greedy():
    np.testing.assert_array_equal(shares(GreedyQPolicy(), [0.1, 0.5, 0.2]), [0, 1, 0])


def test_eps_greedy_explores_uniformly_over_all_actions():
    # the best action is also found by exploring: 1 - eps + eps / A
    np.testing.assert_allclose(shares(EpsGreedyQPolicy(0.3), [0.0, 2.0, 1.0]), [0.1, 0.8, 0.1], atol=0.01)


def test_eps_greedy_says_how_likely_it_was_and_how_likely_the_probabilities_are():
    scores = np.array([[0.2, 0.5, 0.3], [0.6, 0.1, 0.3]], np.float32)
    log_mu, ratio = EpsGreedyQPolicy(0.3).likelihoods(scores, np.array([1, 2]))
    np.testing.assert_allclose(np.exp(log_mu), [0.8, 0.1], rtol=1e-6)  # 0.7 + 0.3 / 3 for the likeliest, else 0.3 / 3
    np.testing.assert_allclose(ratio, [0.5 / 0.8, 0.3 / 0.1], rtol=1e-6)


def test_among_allowed_actions_both_are_conditioned():
    scores = np.array([[0.2, 0.5, 0.3]], np.float32)
    policy = EpsGreedyQPolicy(0.3)
    masked = policy.masked(scores, np.array([[True, False, True]]))
    log_mu, ratio = policy.likelihoods(masked, np.array([0]))
    np.testing.assert_allclose(np.exp(log_mu), [0.3 / 2], rtol=1e-6)
    np.testing.assert_allclose(ratio, [(0.2 / 0.5) / 0.15], rtol=1e-6)


def test_the_likelihoods_are_those_of_what_is_chosen():
    scores = [0.2, 0.5, 0.3]
    policy = EpsGreedyQPolicy(0.3)
    every = np.arange(3)
    log_mu, ratio = policy.likelihoods(np.tile(np.float32(scores), (3, 1)), every)
    np.testing.assert_allclose(shares(policy, scores), np.exp(log_mu), atol=0.01)
    np.testing.assert_allclose(np.exp(log_mu) * ratio, scores, rtol=1e-6)  # mu * pi / mu


def test_likelihoods_of_what_are_no_probabilities_are_refused():
    for scores in ([[2.0, -1.0]], [[0.5, 3.0]]):
        with pytest.raises(AgentContractError, match=r"importance_ratio needs probabilities.*softmax"):
            EpsGreedyQPolicy(0.1).likelihoods(np.array(scores), np.array([0]))


def test_only_who_may_choose_any_action_tells_importance():
    assert EpsGreedyQPolicy(0.1).tells_importance
    assert not EpsGreedyQPolicy(0.0).tells_importance
    assert not SoftmaxPolicy().tells_importance
    scores = np.array([[0.25, 0.75]], np.float32)
    log_pi, ratio = SoftmaxPolicy().likelihoods(scores, np.array([1]))
    np.testing.assert_allclose(log_pi, [np.log(0.75)], rtol=1e-6)
    assert ratio is None


@pytest.mark.parametrize(("eps", "best"), [(0.0, 1.0), (1.0, 0.5)])
def test_eps_can_be_moved_after_construction(eps, best):
    policy = EpsGreedyQPolicy(0.5)
    policy.eps = eps
    assert shares(policy, [0.0, 1.0])[1] == pytest.approx(best, abs=0.01)


def test_boltzmann_is_a_softmax_of_values_over_tau():
    expected = np.exp(np.array([0.0, 1.0, 2.0]) / 0.5)
    np.testing.assert_allclose(shares(BoltzmannQPolicy(0.5), [0, 1, 2]), expected / expected.sum(), atol=0.01)


def test_boltzmann_survives_huge_values():
    np.testing.assert_array_equal(shares(BoltzmannQPolicy(1.0), [0.0, 1e30]), [0, 1])


def test_softmax_samples_the_probabilities_given():
    np.testing.assert_allclose(shares(SoftmaxPolicy(), [0.7, 0.0, 0.3]), [0.7, 0.0, 0.3], atol=0.01)


def test_softmax_log_prob():
    scores = np.array([[0.25, 0.75], [1.0, 0.0]], np.float32)
    result = SoftmaxPolicy().log_prob(scores, np.array([1, 0]))
    np.testing.assert_allclose(result, [np.log(0.75), 0.0], rtol=1e-6)
    assert np.isfinite(SoftmaxPolicy().log_prob(scores, np.array([1, 1]))).all()


def test_softmax_refuses_what_are_no_probabilities():
    with pytest.raises(AgentContractError, match="sum to 1"):
        SoftmaxPolicy().select(np.array([[2.0, -1.0]]), np.random.default_rng(0))


@settings(max_examples=20, deadline=None)
@given(SCORES, st.floats(0.2, 3), st.integers(0, 2**32 - 1))
def test_boltzmann_for_any_values(scores, tau, seed):
    found = shares(BoltzmannQPolicy(tau), scores, np.random.default_rng(seed))
    np.testing.assert_allclose(found, softmax(np.array(scores) / tau), atol=0.02)


@settings(max_examples=20, deadline=None)
@given(SCORES, st.floats(0, 1), st.integers(0, 2**32 - 1))
def test_eps_greedy_for_any_values(scores, eps, seed):
    best = np.arange(len(scores)) == np.argmax(np.asarray(scores, np.float32))
    found = shares(EpsGreedyQPolicy(eps), scores, np.random.default_rng(seed))
    np.testing.assert_allclose(found, eps / len(scores) + (1 - eps) * best, atol=0.02)


@settings(max_examples=20, deadline=None)
@given(SCORES, st.floats(0, 1), st.floats(0.3, 2), st.integers(0, 2**32 - 1))
def test_max_boltzmann_is_boltzmann_with_probability_eps(scores, eps, tau, seed):
    best = np.arange(len(scores)) == np.argmax(np.asarray(scores, np.float32))
    found = shares(MaxBoltzmannQPolicy(eps, tau), scores, np.random.default_rng(seed))
    np.testing.assert_allclose(found, eps * softmax(np.array(scores) / tau) + (1 - eps) * best, atol=0.02)


def test_clipped_values_are_equally_likely():
    np.testing.assert_allclose(
        shares(BoltzmannQPolicy(1.0, clip=(-1.0, 1.0)), [5, 9, -9]), softmax([1, 1, -1]), atol=0.01
    )


def test_adaptive_eps_falls_by_the_steps_it_has_chosen():
    policy = AdaptiveEpsGreedyPolicy(eps_max=1.0, eps_min=0.2, eps_decay=0.01)
    scores = np.tile(np.array([0.0, 1.0], np.float32), (50, 1))
    assert policy.current_eps == 1.0
    policy.select(scores, np.random.default_rng(0))
    policy.select(scores, np.random.default_rng(0))
    assert policy.current_eps == pytest.approx(0.2 + 0.8 * np.exp(-1))  # 100 steps of 0.01
    restored = AdaptiveEpsGreedyPolicy(eps_max=1.0, eps_min=0.2, eps_decay=0.01)
    restored.set_state(policy.get_state())
    assert restored.current_eps == policy.current_eps
    policy.num_steps = 10**6
    assert shares(policy, [0.0, 1.0])[0] == pytest.approx(0.1, abs=0.01)


def test_boltzmann_gumbel_explores_less_the_more_often_an_action_was_chosen():
    # of two actions, argmax of q + s_i * G_i with equal s is a softmax of q / s
    policy = BoltzmannGumbelQPolicy(C=2.0)
    policy.action_counts = np.array([16, 16])
    np.testing.assert_allclose(shares(policy, [0.0, 0.5]), softmax(np.array([0.0, 0.5]) / (2.0 / 4.0)), atol=0.01)
    assert policy.action_counts.sum() == 32 + N
    policy.action_counts = np.array([10**8, 10**8])
    np.testing.assert_array_equal(shares(policy, [0.0, 0.5]), [0, 1])


def test_boltzmann_gumbel_counts_go_into_its_state():
    policy, restored = BoltzmannGumbelQPolicy(), BoltzmannGumbelQPolicy()
    assert policy.get_state() == {}
    policy.select(np.zeros((7, 3)), np.random.default_rng(0))
    assert policy.action_counts.sum() == 3 + 7
    restored.set_state(policy.get_state())
    np.testing.assert_array_equal(restored.action_counts, policy.action_counts)
    policy.select_action([0.0, 1.0, 2.0], 5)
    assert policy.action_counts.sum() == 11
    policy.select_action([0.0, 1.0, 2.0], 0)  # the first step of a run forgets what was before
    assert policy.action_counts.sum() == 4
    assert restored.action_counts.sum() == 10


@pytest.mark.parametrize(
    "policy",
    [
        EpsGreedyQPolicy(0.5),
        AdaptiveEpsGreedyPolicy(0.5),
        BoltzmannQPolicy(),
        MaxBoltzmannQPolicy(0.5),
        BoltzmannGumbelQPolicy(),
        GumbelSoftmaxPolicy(),
    ],
    ids=lambda policy: type(policy).__name__,
)
def test_environments_and_agents_explore_independently(policy):
    actions = policy.select(np.zeros((500, 4, 3)), np.random.default_rng(0))  # [E, n, A]
    assert actions.shape == (500, 4)
    assert abs(np.corrcoef(actions[:, 0], actions[:, 1])[0, 1]) < 0.15
    assert abs(np.corrcoef(actions[:-1, 0], actions[1:, 0])[0, 1]) < 0.15


def test_continuous_actions_are_refused():
    with pytest.raises(
        EnvironmentMismatchError, match=r"SoftmaxPolicy chooses one of several.*numbers .GaussianPolicy"
    ):
        SoftmaxPolicy().bind(spaces.Box(-1, 1, (2,)), 1)
    SoftmaxPolicy().bind(spaces.Discrete(2), 1)


def test_single_vector_form():
    assert GreedyQPolicy().select_action([0.0, 3.0, 1.0]) == 1
    assert SoftmaxPolicy().select_action(3, [0.0, 1.0, 0.0]) == SoftmaxPolicy().select_action([0.0, 1.0, 0.0]) == 1


@pytest.mark.parametrize(
    "make",
    [
        lambda: EpsGreedyQPolicy(1.5),
        lambda: BoltzmannQPolicy(0.0),
        lambda: BoltzmannQPolicy(1.0, clip=(1.0, -1.0)),
        lambda: MaxBoltzmannQPolicy(eps=-0.1),
        lambda: MaxBoltzmannQPolicy(tau=0.0),
        lambda: BoltzmannGumbelQPolicy(C=0.0),
        lambda: GumbelSoftmaxPolicy(temperature=0.0),
        lambda: AdaptiveEpsGreedyPolicy(eps_max=0.1, eps_min=0.2),
    ],
)
def test_values_out_of_range_are_refused(make):
    with pytest.raises(SettingsError, match="got"):
        make()


def test_likelihoods_are_refused_where_an_action_cannot_be_chosen_or_scores_are_no_probabilities():
    policy = EpsGreedyQPolicy(0.1)
    policy.eps = 0.0  # as a callback sets it
    with pytest.raises(AgentContractError, match="a policy that can choose any action, and eps is 0"):
        policy.likelihoods(np.array([[0.5, 0.5]]), np.array([0]))
    values = np.array([[7.0, 20.0, -np.inf], [0.2, 0.3, 0.5]])
    with pytest.raises(AgentContractError, match="needs probabilities"):
        EpsGreedyQPolicy(0.1).likelihoods(values, np.array([0, 0]))


def test_allowed_actions_without_probability_are_equally_likely():
    scores = np.array([[-np.inf, 0.0, 0.0]], np.float32)
    _, ratio = EpsGreedyQPolicy(0.2).likelihoods(scores, np.array([1]))
    assert ratio == pytest.approx(0.5 / 0.9)
