"""Points of Optuna's distributions: moved onto the grid and into the range, drawn anywhere, or near a value."""

import math
from typing import Final

import numpy as np
from optuna.distributions import BaseDistribution, CategoricalDistribution, FloatDistribution, IntDistribution

from tuner.results.records import Scalar

DEVIATION: Final = 0.15
"""Of the normal distribution around an expected value, as a share of the range on its own scale."""
SHARE: Final = 0.7
"""Of the draws that take the choice that is expected; the others take any."""


def within(distribution: FloatDistribution | IntDistribution, point: float) -> float | int:
    """The nearest point of a range with steps."""
    low, high, step = distribution.low, distribution.high, distribution.step
    if step is not None:
        point = low + round((point - low) / step) * step
    point = min(max(point, low), high)
    return int(point) if isinstance(distribution, IntDistribution) else float(point)


def anywhere(distribution: BaseDistribution, rng: np.random.Generator) -> Scalar:
    """A point of a distribution: uniform, on the scale that it has."""
    if isinstance(distribution, CategoricalDistribution):
        return distribution.choices[int(rng.integers(len(distribution.choices)))]
    assert isinstance(distribution, FloatDistribution | IntDistribution)
    low, high = distribution.low, distribution.high
    if distribution.log:
        point = math.exp(rng.uniform(math.log(low), math.log(high)))
    elif isinstance(distribution, IntDistribution):
        point = rng.uniform(low - 0.5, high + 0.5)
    else:
        point = rng.uniform(low, high)
    return within(distribution, point)


def near(distribution: BaseDistribution, expected: Scalar, rng: np.random.Generator) -> Scalar:
    """A point drawn around another one: normal on the scale of a range, and within it; mostly the same choice."""
    if isinstance(distribution, CategoricalDistribution):
        return expected if rng.random() < SHARE else distribution.choices[int(rng.integers(len(distribution.choices)))]
    assert isinstance(distribution, FloatDistribution | IntDistribution)
    assert isinstance(expected, int | float)
    low, high, middle = distribution.low, distribution.high, float(expected)
    if distribution.log:
        low, high, middle = math.log(low), math.log(high), math.log(middle)
    place = low - 1.0
    while not low <= place <= high:
        place = rng.normal(middle, DEVIATION * (high - low))
    return within(distribution, math.exp(place) if distribution.log else place)
