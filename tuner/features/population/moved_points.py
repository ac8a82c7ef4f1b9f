"""Points of a search space a step away from another one."""

import numpy as np
from optuna.distributions import FloatDistribution, IntDistribution

from tuner.results.records import Scalar
from tuner.study.space.coordinates import PowerOfTwo
from tuner.study.space.drawn_points import within
from tuner.study.space.space import Parameter

_FACTORS = (0.8, 1.25)


def moved(parameter: Parameter, drawn: Scalar, rng: np.random.Generator) -> Scalar:
    """A point 0.8 or 1.25 times as large, on the parameter's own scale and in its range.

    Whole numbers move by 1 at least; an exponent of two goes one up or down.
    """
    distribution = parameter.distribution
    assert isinstance(distribution, FloatDistribution | IntDistribution)
    assert isinstance(drawn, int | float)
    factor = _FACTORS[int(rng.integers(len(_FACTORS)))]
    point = drawn * factor
    if isinstance(distribution, IntDistribution):
        step = distribution.step if factor > 1.0 else -distribution.step
        small = isinstance(parameter.coordinate, PowerOfTwo) or abs(point - drawn) < abs(step)
        point = drawn + step if small else point
    return within(distribution, point)
