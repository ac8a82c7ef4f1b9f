import numpy as np
import pytest

from note_rl.errors import AgentContractError, SettingsError
from note_rl.policy import BoltzmannQPolicy, EpsGreedyQPolicy, GreedyQPolicy, SoftmaxPolicy

N = 40_000


def shares(policy, scores, rng=None):
    """How often each action is chosen for one row of scores."""
    actions = policy.select(np.tile(np.asarray(scores, np.float32), (N, 1)), rng or np.random.default_rng(0))
    assert actions.shape == (N,)
    return np.bincount(actions, minlength=len(scores)) / N


def test_greedy():
    np.testing.assert_array_equal(shares(GreedyQPolicy(), [0.1, 0.5, 0.2]), [0, 1, 0])


def test_eps_greedy_explores_uniformly_over_all_actions():
    # the best action is also found by exploring: 1 - eps + eps / A
    np.testing.assert_allclose(shares(EpsGreedyQPolicy(0.3), [0.0, 2.0, 1.0]), [0.1, 0.8, 0.1], atol=0.01)


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


def test_single_vector_form():
    assert GreedyQPolicy().select_action([0.0, 3.0, 1.0]) == 1


@pytest.mark.parametrize("make", [lambda: EpsGreedyQPolicy(1.5), lambda: BoltzmannQPolicy(0.0)])
def test_values_out_of_range_are_refused(make):
    with pytest.raises(SettingsError, match="got"):
        make()
