"""Points of loss curves: against curves whose decisive points are known."""

import math

import numpy as np
import pytest

from tuner.finders.learning_rate.loss_curves import (
    has_diverged,
    moving_mean,
    normalised,
    points_of,
    rates_of,
    slope,
    smooth,
    suggest,
)


def test_the_rate_grows_by_the_same_factor_and_reaches_the_end_exactly() -> None:
    rates = rates_of(1e-4, 1.0, 77)
    assert (len(rates), rates[0], rates[-1]) == (78, 1e-4, 1.0)
    assert np.allclose(rates[1:] / rates[:-1], (1.0 / 1e-4) ** (1 / 77))


def test_smoothing_has_no_lag_and_keeps_what_is_constant() -> None:
    step = np.where(np.arange(41) < 20, 1.0, 0.0)
    step[20] = 0.5
    curve = smooth(step, 0.8)
    assert np.allclose(curve + curve[::-1], 1.0)  # as symmetrical as the step
    assert np.allclose(smooth(np.full(7, 3.0), 0.9), 3.0)
    assert smooth([1.0, 0.0], 0.5) == pytest.approx([(1.0 + (0.5 * 0.5 + 0.0) / 0.75 * 4 / 3) / 2, 1 / 6], abs=0.2)


def test_moving_means_and_normalised_rewards() -> None:
    assert moving_mean([1.0, 2.0, 6.0, 0.0], 2).tolist() == [1.0, 1.5, 4.0, 3.0]
    assert normalised([1.0, 3.0, 3.0, 3.0], 2).tolist() == [0.0, 1.0, 0.0, 0.0]


def test_the_slope_is_per_factor_of_ten() -> None:
    assert slope([0.1, 1.0, 10.0], [5.0, 3.0, 1.0]).tolist() == pytest.approx([-2.0, -2.0, -2.0])


@pytest.mark.parametrize(
    ("losses", "diverged"),
    [
        ([1.0, 0.9, 0.5, 0.4, 2.1], False),
        ([1.0, 0.9, 0.5, 0.4, 2.3], True),  # above 0.4 + 3 * (1 - 0.4)
        ([3.9, 3.9, 3.9, 3.9, 15.5], False),
        ([3.9, 3.9, 3.9, 3.9, 15.7], True),  # four times the best
        ([-1.0, -2.0, -2.0, -2.0, 3.9], False),
        ([-1.0, -2.0, -2.0, -2.0, 4.1], True),  # the best is negative: three times its size above it
        ([1.0, 9.0], False),  # warming up
        ([1.0, math.nan], True),
    ],
)
def test_divergence(losses: list[float], diverged: bool) -> None:
    assert has_diverged(losses) is diverged


def v_curve(rates: np.ndarray, steep: float, rise: float) -> np.ndarray:
    """A loss that falls steepest at one rate (logistic in its logarithm) and explodes from another one on."""
    fall = 1.0 / (1.0 + (rates / steep) ** 2)
    return np.asarray(fall + np.where(rates > rise, (rates / rise) ** 4 - 1.0, 0.0))


@pytest.mark.parametrize("steep", [1e-4, 1e-3, 3e-3])
@pytest.mark.parametrize("noise", [0.0, 0.01])
def test_the_points_of_a_v_shaped_curve_are_found(steep: float, noise: float) -> None:
    rates = rates_of(1e-6, 10.0, 100)
    step, rise = rates[1] / rates[0], 0.3
    losses = v_curve(rates, steep, rise) + np.random.default_rng(0).normal(0.0, noise, len(rates))
    end = next(index for index in range(3, len(rates)) if has_diverged(losses[: index + 1].tolist()))
    found = points_of(rates, losses[: end + 1], skip_begin=5)
    assert found.diverged
    assert rise / step**2 <= found.stable <= rise * step**2
    assert found.steep is not None
    assert abs(math.log(found.steep / steep)) <= (1.01 if noise == 0.0 else 4.0) * math.log(step)
    assert found.valley is not None
    assert found.minimum is not None
    assert steep < found.valley <= found.minimum <= found.stable * step
    assert found.suggestion == min(found.steep, found.stable / 10.0)


def test_noise_behind_the_minimum_is_no_fall() -> None:
    """Where a rate is far too high the loss jumps up and down without growing: off-policy losses do."""
    rates = rates_of(1e-6, 1.0, 100)
    losses = v_curve(rates, 1e-3, 10.0)
    far = rates > 3e-2
    losses[far] += np.abs(np.random.default_rng(0).normal(0.0, 0.5, far.sum()))
    found = points_of(rates, losses, skip_begin=5)
    assert found.steep == pytest.approx(1e-3, rel=0.5)


def test_a_curve_without_a_fall_gives_no_number() -> None:
    rates = rates_of(1e-5, 1.0, 60)
    noise = np.random.default_rng(0).normal(0.0, 0.1, 61)
    assert points_of(rates, 2.0 + noise).suggestion is None
    assert points_of(rates, np.full(61, 2.0)).suggestion is None
    rising = points_of(rates, np.linspace(1.0, 3.0, 61))
    assert (rising.suggestion, rising.stable, rising.diverged) == (None, 1.0, False)


def test_suggestions_of_several_seeds() -> None:
    found = suggest([1e-3, 1e-2, 1e-1], [1.0, 1.0, 1.0], "why")
    assert (found.rate, found.low, found.high) == (1e-2, 1e-3, 1e-1)
    assert found.space == {"low": 1e-3, "high": 1e-1, "log": True}
    capped = suggest([1e-2], [0.06], "why")
    assert (capped.rate, capped.low, capped.high) == (1e-2, 1e-3, 0.03)
    flat = suggest([1e-2, None, None], [1.0, 1.0, 1.0], "why")
    assert flat.rate is None
    assert "2 of 3 curves are flat" in flat.reason
    with pytest.raises(ValueError, match="there is no range"):
        flat.space
