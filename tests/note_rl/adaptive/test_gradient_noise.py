"""The gradient noise scale against hand calculation and problems whose noise is known."""

import math

import numpy as np
import pytest

from note_rl.adaptive.noise_scale import NoiseScale
from note_rl.adaptive.running_means import RunningMean
from note_rl.learners.batch_noise_scale import NoiseMoments, of_microbatches, of_norms


def _moments(samples: list[list[float]], num_small: int = 1) -> tuple[float, float]:
    gradients = np.array(samples, np.float64)
    found = of_microbatches(gradients.reshape(-1, num_small, gradients.shape[1]).mean(axis=1), num_small)
    return found.variance, found.squared_norm


def test_moments_by_hand() -> None:
    samples = [[1.0, 0.0], [0.0, 1.0], [2.0, 2.0], [1.0, 1.0]]
    assert _moments(samples) == pytest.approx((4 / 3, 5 / 3))
    assert _moments(samples, 2) == pytest.approx((2.0, 1.5))
    assert _moments([[1.0], [3.0]]) == pytest.approx((2.0, 3.0))
    assert _moments([[1.0, 2.0]] * 5) == pytest.approx((0.0, 5.0))
    assert _moments([[1.0], [-1.0]]) == pytest.approx((2.0, -1.0))


def test_two_halves_are_the_same_formula() -> None:
    first, second = np.array([1.0, 2.0]), np.array([2.0, -1.0])
    size = 6
    found = of_microbatches(np.stack([first, second]), size // 2)
    assert found.squared_norm == pytest.approx(first @ second)
    assert found.variance == pytest.approx(size / 4 * np.square(first - second).sum())


def test_noise_without_signal_is_unreliable_rather_than_negative() -> None:
    scale = NoiseScale()
    scale.add(NoiseMoments(2.0, -1.0))
    assert math.isnan(scale.value)
    for _ in range(30):
        scale.add(NoiseMoments(2.0, -1.0))
    assert scale.why_unreliable(64) == "unreliable: the gradient is lost in its noise"


def test_too_few_measurements_and_too_few_samples_are_unreliable() -> None:
    scale = NoiseScale(smooth=0.2)
    for index in range(20):
        assert scale.why_unreliable(64) == f"unreliable: {index} of 20 measurements"
        scale.add(NoiseMoments(100.0, 1.0))
    assert scale.value == pytest.approx(100.0)
    assert scale.why_unreliable(112) is None  # 9 measurements of 112 samples: 1008
    assert scale.why_unreliable(111) == "unreliable: too few samples for a noise scale of about 100"


def test_what_is_not_finite_leaves_no_trace() -> None:
    scale = NoiseScale()
    scale.add(NoiseMoments(3.0, 1.0))
    for bad in (math.nan, math.inf, -math.inf):
        scale.add(NoiseMoments(bad, 1.0))
        scale.add(NoiseMoments(1.0, bad))
    assert (scale.count, scale.value) == (1, pytest.approx(3.0))


def test_averages_do_not_lean_towards_their_beginning() -> None:
    mean = RunningMean(0.2)
    for value, expected in ((10.0, 10.0), (20.0, 15.5556), (30.0, 21.4754)):
        mean.add(value)
        assert mean.value == pytest.approx(expected, rel=1e-5)
    other = RunningMean(0.2)
    other.take(mean.to_json())
    assert (other.value, other.count) == (mean.value, 3)


def test_quadratic_with_known_noise() -> None:
    rng = np.random.default_rng(0)
    found = NoiseScale(smooth=0.01)
    for _ in range(2000):
        found.add(of_microbatches(-(1.0 + 2.0 * rng.normal(size=(64, 10))), 1))  # theta - x at theta = 0
    assert found.value == pytest.approx(4.0, rel=0.03)
    scaled = NoiseScale(smooth=0.01)
    rng = np.random.default_rng(0)
    for _ in range(2000):
        scaled.add(of_microbatches(-7.0 * (1.0 + 2.0 * rng.normal(size=(64, 10))), 1))
    assert scaled.value == pytest.approx(found.value, rel=1e-9)  # the loss times 7


def test_linear_regression_with_known_noise() -> None:
    rng = np.random.default_rng(0)
    error, found = np.full(8, 0.5), NoiseScale(smooth=0.005)
    for _ in range(4000):
        x, noise = rng.normal(size=(64, 8)), rng.normal(size=64)
        found.add(of_microbatches((x @ error + noise)[:, None] * x, 1))
    assert found.value == pytest.approx(13.0, rel=0.05)


def test_norms_and_gradients_agree() -> None:
    gradients = np.random.default_rng(2).normal(size=(8, 5))
    direct = of_microbatches(gradients, 4)
    small, big = np.square(gradients).sum(axis=1).mean(), np.square(gradients.mean(axis=0)).sum()
    assert of_norms(small, big, 4, 32) == direct
