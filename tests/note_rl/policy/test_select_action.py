"""`select_action` of each policy, with the arguments that the manuals document."""

import math

import numpy as np
import pytest

from note_rl import policy as policies
from note_rl.errors import SettingsError
from note_rl.policy import (
    BoltzmannGumbelQPolicy,
    BoltzmannQPolicy,
    EpsGreedyQPolicy,
    GumbelSoftmaxPolicy,
    SoftmaxPolicy,
)
from note_rl.policy.noise import GaussianWhiteNoiseProcess, OrnsteinUhlenbeckProcess

DISCRETE = [
    *("EpsGreedyQPolicy", "AdaptiveEpsGreedyPolicy", "GreedyQPolicy", "BoltzmannQPolicy", "MaxBoltzmannQPolicy"),
    *("BoltzmannGumbelQPolicy", "GumbelSoftmaxPolicy", "SoftmaxPolicy"),
]


def test_gumbel_softmax_takes_single_vectors_and_any_number_of_rows():
    policy = GumbelSoftmaxPolicy(1.0, eps=1.0)
    chosen = np.array([policy.gumbel_softmax(np.zeros(3)) for _ in range(3000)])
    np.testing.assert_array_equal(np.sort(chosen, axis=1), [[0.0, 0.0, 1.0]] * 3000)
    np.testing.assert_allclose(chosen.mean(axis=0), 1 / 3, atol=5 * math.sqrt(2 / 9 / 3000))
    greedy = GumbelSoftmaxPolicy(eps=0.0)
    np.testing.assert_array_equal(greedy.onehot_from_logits([0.0, 5.0, 1.0]), [0.0, 1.0, 0.0])
    assert greedy.gumbel_softmax(np.zeros((2, 4, 3))).sum() == 8
    assert greedy.gumbel_softmax_sample([1.0, 2.0]).sum() == pytest.approx(1.0)
    assert greedy.sample_gumbel(shape=3, eps=1e-20).shape == (3,)


@pytest.mark.parametrize("name", DISCRETE)
def test_every_policy_selects_by_keyword(name):
    policy = getattr(policies, name)()
    scores = [0.0, 0.0, 1.0, 0.0]
    assert {policy.select_action(q_values=np.array(scores)) for _ in range(50)} <= {0, 1, 2, 3}
    assert type(policy.select_action(scores)) is int
    for nothing in (np.zeros((2, 4)), [], None, "scores"):
        with pytest.raises(SettingsError, match="must be one vector of numbers, one per action"):
            policy.select_action(q_values=nothing)


def test_documented_arguments_of_select_action():
    probs = np.array([0.0, 1.0, 0.0])
    policy = SoftmaxPolicy()
    assert policy.select_action(nb_actions=3, probs=probs) == policy.select_action(probs=probs) == 1
    assert policy.select_action(3, probs) == policy.select_action(probs) == policy.select_action(q_values=probs) == 1
    with pytest.raises(SettingsError, match=r"nb_actions=7, but probs has the shape \[3\]"):
        policy.select_action(7, probs)
    gumbel = BoltzmannGumbelQPolicy(C=1e-6)
    assert gumbel.select_action(q_values=probs, step_counter=4) == 1
    assert gumbel.action_counts.sum() == 4
    gumbel.select_action(q_values=probs, step_counter=0)
    assert gumbel.action_counts.sum() == 4


@pytest.mark.parametrize(
    "make",
    [
        *(lambda value, kind=kind: kind(value) for kind in (EpsGreedyQPolicy, BoltzmannQPolicy, GumbelSoftmaxPolicy)),
        lambda value: GaussianWhiteNoiseProcess(mu=value),
        lambda value: GaussianWhiteNoiseProcess(sigma=value),
        lambda value: GaussianWhiteNoiseProcess(n_steps_annealing=value),
        lambda value: OrnsteinUhlenbeckProcess(theta=value),
        lambda value: OrnsteinUhlenbeckProcess(0.15, dt=value),
        lambda value: BoltzmannQPolicy(clip=value),
    ],
)
def test_numbers_of_policies_and_noises_are_numbers(make):
    for value in ("0.1", None, math.nan, [1.0]):
        with pytest.raises(SettingsError, match=" must be "):
            make(value)
