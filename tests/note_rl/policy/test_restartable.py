"""Policies and noise that an agent has used explore for the next one as new ones do."""

import numpy as np
import pytest
import torch
from gymnasium import spaces

from note_rl.agents.pytorch import SAC
from note_rl.policy import (
    BoltzmannGumbelQPolicy,
    GaussianPolicy,
    GSDEPolicy,
    NoisyPolicy,
    SquashedGaussianPolicy,
    SquashedGSDEPolicy,
)
from note_rl.policy.composite import PolicyPerEnvironment
from note_rl.policy.noise import ClippedNoise, GaussianWhiteNoiseProcess, NoiseSum, OrnsteinUhlenbeckProcess
from note_rl.settings import GSDE
from tests.note_rl.agents.continuous import Target

NUMBERS, NUM_ENVS = spaces.Box(-1.0, 1.0, (2,), np.float32), 3


def wandering():
    return OrnsteinUhlenbeckProcess(0.15, sigma=1.0, sigma_min=0.1, n_steps_annealing=50)


def white():
    return GaussianWhiteNoiseProcess(sigma=1.0, sigma_min=0.1, n_steps_annealing=50)


class Bound(GaussianPolicy):
    """A user's policy, whose state is made when it is bound."""

    def bind(self, action_space, num_envs):
        super().bind(action_space, num_envs)
        self.drift = np.zeros(num_envs, np.float32)

    def select(self, scores, rng):
        self.drift += rng.normal(size=len(scores))
        return super().select(scores, rng) + self.drift[:, None]

    def get_state(self):
        return {**super().get_state(), "drift": self.drift}

    def set_state(self, state):
        super().set_state(state)
        self.drift = np.array(state["drift"])


def as_it_is(policy):
    return policy


# What is used twice, and the policy that is made of it each time
MADE = {
    "random steps": (lambda: SquashedGaussianPolicy(num_random_steps=12), as_it_is),
    "held noise": (lambda: GaussianPolicy(hold=5), as_it_is),
    "matrix": (lambda: GSDEPolicy(hold=7), as_it_is),
    "squashed matrix": (lambda: SquashedGSDEPolicy(hold=7, num_random_steps=12), as_it_is),
    "counts of actions": (BoltzmannGumbelQPolicy, as_it_is),
    "sum of noises": (lambda: NoiseSum([wandering(), ClippedNoise(white(), 0.5)]), NoisyPolicy),
    "noises in others made anew": (
        lambda: [wandering(), white()],
        lambda noises: NoisyPolicy(NoiseSum([noises[0], ClippedNoise(noises[1], 0.5)])),
    ),
    "policies": (lambda: [GaussianPolicy(hold=4) for _ in range(NUM_ENVS)], PolicyPerEnvironment),
    "made by bind": (Bound, as_it_is),
}


def explored(policy, seed):
    """Ten actions of a policy, as an agent's training has it begin."""
    space = spaces.Discrete(4) if isinstance(policy, BoltzmannGumbelQPolicy) else NUMBERS
    policy.begin()
    policy.bind(space, NUM_ENVS)
    rng = np.random.default_rng(seed)
    answers = rng.normal(size=(10, NUM_ENVS, _width(policy))).astype(np.float32)
    return np.stack([policy.select(one, rng) for one in answers])


def _width(policy):
    if isinstance(policy, NoisyPolicy) and not isinstance(policy, SquashedGaussianPolicy):
        return 2
    return 8 if isinstance(policy, GSDEPolicy | SquashedGSDEPolicy) else 4


@pytest.mark.parametrize("kind", MADE)
def test_what_was_used_begins_as_new(kind):
    make, policy_of = MADE[kind]
    used = make()
    first, again = (explored(policy_of(used), seed) for seed in (0, 1))
    assert not np.array_equal(first, again)
    np.testing.assert_array_equal(again, explored(policy_of(make()), 1))


@pytest.mark.parametrize("gsde", [None, GSDE()])
def test_agents_that_share_a_policy_are_trained_as_with_their_own(gsde):
    def trained(policy):
        torch.manual_seed(0)
        agent = SAC(env=Target, hidden_size=(4,), gsde=gsde)
        agent.set(policy=policy, batch=4, pool_size=64, seed=1)
        agent.train(optimizer=[torch.optim.SGD(group, 1e-2) for group in agent.param], total_steps=24, p=0)
        return agent.learner.get_state()

    kind = SquashedGaussianPolicy if gsde is None else SquashedGSDEPolicy
    shared = kind(num_random_steps=10)
    trained(shared)
    second, own = trained(shared), trained(kind(num_random_steps=10))
    for name, values in own.items():
        np.testing.assert_array_equal(second[name], values)
