"""Environments: how they are made, checked and copied, and stepped several at a time."""

from note_rl.environments.base import Env, Environments, as_the_space_has_it
from note_rl.environments.environment_factory import (
    EnvFactory,
    EnvLike,
    MakeEnv,
    as_factory,
    bounded_actions,
    check_listed,
    check_same_spaces,
    flat_observations,
    for_evaluation,
    holds_environments,
    is_environment,
    make_environments,
    num_discrete_actions,
)
from note_rl.environments.in_process import VectorEnvironment, difference
from note_rl.environments.stepping_choice import some_environments, training_environments

__all__ = [
    "Env",
    "EnvFactory",
    "EnvLike",
    "Environments",
    "MakeEnv",
    "VectorEnvironment",
    "as_factory",
    "as_the_space_has_it",
    "bounded_actions",
    "check_listed",
    "check_same_spaces",
    "difference",
    "flat_observations",
    "for_evaluation",
    "holds_environments",
    "is_environment",
    "make_environments",
    "num_discrete_actions",
    "some_environments",
    "training_environments",
]
