"""Exploration: from what the agent answers to a batch of observations to actions.

    from note_rl.policy import EpsGreedyQPolicy

A policy owns no parameters of the agent. Its numbers (`eps`, `tau`, `sigma`) are plain attributes, so that schedules
and adjusters can move them. `select` works on a whole batch with the caller's generator; `select_action` is the
single-vector form of the manuals and uses a generator of the policy's own.
"""

from note_rl.policy.base import Policy
from note_rl.policy.composite import PolicyPerAgent, PolicyPerEnvironment, default_policy, exploration
from note_rl.policy.continuous import GaussianPolicy, NoisyPolicy, SquashedGaussianPolicy
from note_rl.policy.discrete import (
    AdaptiveEpsGreedyPolicy,
    BoltzmannGumbelQPolicy,
    BoltzmannQPolicy,
    EpsGreedyQPolicy,
    GreedyQPolicy,
    MaxBoltzmannQPolicy,
    SoftmaxPolicy,
)
from note_rl.policy.gumbel import GumbelSoftmaxPolicy
from note_rl.policy.state_dependent import GSDEPolicy, SquashedGSDEPolicy

__all__ = [
    "AdaptiveEpsGreedyPolicy",
    "BoltzmannGumbelQPolicy",
    "BoltzmannQPolicy",
    "EpsGreedyQPolicy",
    "GSDEPolicy",
    "GaussianPolicy",
    "GreedyQPolicy",
    "GumbelSoftmaxPolicy",
    "MaxBoltzmannQPolicy",
    "NoisyPolicy",
    "Policy",
    "PolicyPerAgent",
    "PolicyPerEnvironment",
    "SoftmaxPolicy",
    "SquashedGSDEPolicy",
    "SquashedGaussianPolicy",
    "default_policy",
    "exploration",
]
