"""Samplers keep the contract that `tuner.testing` offers, and one that keeps what it knows to itself is found."""

import random
from typing import Any

import optuna
import pytest
from optuna.samplers import BaseSampler, RandomSampler, TPESampler

from tuner.study.sampling.sampler_factory import SamplerFactory
from tuner.testing import SamplerContract


class TestTPE(SamplerContract):
    def make(self) -> SamplerFactory:
        return TPESampler


class TestRandom(SamplerContract):
    num_trials = 6

    def make(self) -> SamplerFactory:
        return RandomSampler


class OwnSampler(BaseSampler):
    """As somebody writes one: its own generator, which a study does not see.

    Args:
        seed: Of that generator.
    """

    def __init__(self, seed: int | None = None) -> None:
        self.rng = random.Random(seed)

    def infer_relative_search_space(self, study: Any, trial: Any) -> dict[str, Any]:
        return {}

    def sample_relative(self, study: Any, trial: Any, search_space: Any) -> dict[str, Any]:
        return {}

    def sample_independent(self, study: Any, trial: Any, param_name: str, param_distribution: Any) -> Any:
        return _drawn(self.rng, param_distribution)


class SeededSampler(OwnSampler):
    """Seeds by the trial, so that nothing depends on what was drawn before."""

    def sample_independent(self, study: Any, trial: Any, param_name: str, param_distribution: Any) -> Any:
        return _drawn(random.Random(f"{trial.number} {param_name}"), param_distribution)


def _drawn(rng: random.Random, distribution: Any) -> Any:
    if isinstance(distribution, optuna.distributions.CategoricalDistribution):
        return rng.choice(distribution.choices)
    return distribution.to_external_repr(rng.uniform(distribution.low, distribution.high))


class TestOwn(SamplerContract):
    def make(self) -> SamplerFactory:
        return SeededSampler


def test_a_sampler_that_keeps_its_place_to_itself_is_found() -> None:
    class Contract(SamplerContract):
        def make(self) -> SamplerFactory:
            return OwnSampler

    Contract().test_the_seed_decides()
    with pytest.raises(AssertionError):
        Contract().test_a_study_that_is_continued_draws_what_it_would_have_drawn()
