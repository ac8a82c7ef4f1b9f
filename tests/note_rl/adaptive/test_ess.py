"""Effective sample sizes against numbers worked out by hand."""

import math

import numpy as np
import pytest

from note_rl.adaptive import ess
from note_rl.learners.reports import kl_divergence


def test_effective_sample_sizes_of_known_weights() -> None:
    assert ess.of_weights(np.ones(17)).ess == pytest.approx(17)
    assert ess.of_weights(np.eye(9)[4]).ess == pytest.approx(1)
    assert ess.of_weights([0, 3, 0, 3, 3]).ess == pytest.approx(3)
    assert ess.of_weights([1, 2, 3, 4]).ess == pytest.approx(10 / 3)
    for n, expected in ((10, 7.857143), (100, 75.373134)):
        assert ess.of_weights(np.arange(1, n + 1)).ess == pytest.approx(expected, rel=1e-6)
    assert ess.of_weights(0.5 ** np.arange(20)).ess == pytest.approx(2.9999943, rel=1e-7)
    assert ess.of_weights([10, *[1] * 100]).ess == pytest.approx(60.5)
    ranks = 1.0 / np.arange(1, 1001)
    assert ess.of_weights(ranks).ess == pytest.approx(34.0842, rel=1e-5)
    assert ess.of_weights(ranks**0.7).ess == pytest.approx(190.5942, rel=1e-5)


def test_the_scale_of_weights_does_not_matter_nor_overflow() -> None:
    weights = np.array([1.0, 2.0, 3.0, 4.0])
    assert ess.of_weights(1e-200 * weights).ess == pytest.approx(10 / 3)
    total, squares = 2 + math.exp(-1), 2 + math.exp(-2)
    assert ess.of_log_weights([1000, 1000, 999]).ess == pytest.approx(total**2 / squares)  # 2.6257483


def test_shards_are_pooled_by_their_sums() -> None:
    assert (ess.of_weights([1, 2]) + ess.of_weights([3, 4])).ess == pytest.approx(10 / 3)
    far_apart = ess.of_log_weights([0.0, 0.0]) + ess.of_log_weights([900.0])
    assert far_apart.ess == pytest.approx(1)
    assert far_apart.fraction == pytest.approx(1 / 3)


def test_what_is_no_weight_is_left_out_and_counted() -> None:
    assert math.isnan(ess.of_weights([]).fraction)
    assert ess.of_weights([0.0, 0.0]).fraction == 1.0  # samplers then draw uniformly
    odd = ess.of_weights([1.0, np.nan, np.inf, -1.0, 1.0])
    assert (odd.count, odd.dropped, odd.ess) == (2, 3, pytest.approx(2))


def test_priorities_of_exponential_errors() -> None:
    errors = np.random.default_rng(0).exponential(size=200_000)
    for alpha, expected in ((0.3, 0.901444), (0.5, math.pi / 4), (0.6, 0.724603), (0.7, 0.664663), (1.0, 0.5)):
        assert ess.of_weights(errors**alpha).fraction == pytest.approx(expected, rel=0.01)
    assert ess.exponent_for(errors, 0.5) == pytest.approx(0.996, abs=0.002)
    assert ess.exponent_for(errors, 0.724603) == pytest.approx(0.6, abs=0.01)
    assert ess.exponent_for(np.r_[errors, 1e-300], 0.724603) == pytest.approx(0.6, abs=0.01)
    assert ess.exponent_for(np.ones(9), 0.5) == 1.0
    two = np.array([1.0, 4.0])  # (1 + x)^2 / (1 + x^2) / 2 = 0.9 at x = 2
    assert ess.exponent_for(two, 0.9) == pytest.approx(0.5, abs=1e-3)
    assert ess.exponent_for(errors, 0.01) == 1.0  # out of reach
    assert ess.exponent_for(np.ones(10), 0.5) == 1.0


def test_ratios_of_shifted_gaussians_and_what_clipping_hides() -> None:
    x = np.random.default_rng(1).normal(size=400_000)
    clipped = {0.1: 0.9909, 0.2: 0.9796, 0.5: 0.9683, 1.0: 0.9655}
    for shift, expected in ((0.1, 0.99005), (0.2, 0.96079), (0.5, 0.77880), (1.0, 0.36788)):
        ratio = np.exp(shift * x - 0.5 * shift**2)
        raw = ess.of_weights(ratio).fraction
        assert raw == pytest.approx(expected, rel=0.04)
        assert ess.clipped_ratios(ratio, 0.2).fraction == pytest.approx(clipped[shift], abs=3e-3)
        assert kl_divergence(ratio) == pytest.approx(0.5 * shift**2, rel=0.05)
        assert ess.kl_of_fraction(expected) == pytest.approx(0.5 * shift**2, rel=1e-3)
    assert ess.clipped_ratios([0.1] * 6 + [9.0] * 4, 0.2).fraction == pytest.approx(0.96)  # 1 - c^2, the least
