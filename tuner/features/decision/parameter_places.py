"""Where configurations lie, as the model measures distances: each parameter counts alike."""

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from optuna.distributions import BaseDistribution, CategoricalDistribution, FloatDistribution, IntDistribution

from tuner.results.metric import FloatArray
from tuner.study.importance import places_of

_MIDDLE = 0.5
"""Of its range, where a number is not part of a trial."""
_ABSENT = 0.75**0.5
"""The further coordinate of such a number: with the middle it is 0.75 to 1 from any that is, squared."""
_ONE_OF = 0.5**0.5
"""The coordinate of a choice that is taken: where two choices differ, two coordinates do."""


def coordinates_of(drawn: Sequence[Mapping[str, Any]], distributions: Mapping[str, BaseDistribution]) -> FloatArray:
    """Points [C, D] whose squared distance is a mean over parameters, of at most 1 for each.

    A number has its place in its range, by its logarithm where it is drawn so. Two different choices are 1 apart,
    whichever they are. What is conditional is 0.75 to 1 from where it is not part of the trial, as another choice
    would be; where it is part of neither trial, it says nothing.

    Args:
        drawn: Optuna's parameters of each configuration, by name.
        distributions: The search space, by name.
    """
    columns = [column for name, domain in distributions.items() for column in _columns(drawn, name, domain)]
    places: FloatArray = np.array(columns).reshape(len(columns), len(drawn)).T
    return places / float(np.sqrt(len(distributions)))


def _columns(drawn: Sequence[Mapping[str, Any]], name: str, domain: BaseDistribution) -> list[FloatArray]:
    if isinstance(domain, CategoricalDistribution):
        taken = [domain.to_internal_repr(one[name]) if name in one else None for one in drawn]
        return [_ONE_OF * np.array([index == one for one in taken]) for index in (*range(len(domain.choices)), None)]
    assert isinstance(domain, FloatDistribution | IntDistribution)
    active = np.array([name in one for one in drawn])
    places = np.full(len(drawn), _MIDDLE)
    places[active] = places_of([float(str(one[name])) for one in drawn if name in one], domain)
    return [places, np.where(active, 0.0, _ABSENT)]
