"""Distances between configurations, by hand."""

from itertools import pairwise

import numpy as np
import pytest
from optuna.distributions import BaseDistribution, CategoricalDistribution, FloatDistribution, IntDistribution

from tuner.features.decision.model import MOST_BEST, considered
from tuner.features.decision.parameter_places import coordinates_of

RATE = {"rate": FloatDistribution(1e-4, 1.0, log=True)}
LAYERS = {"layers": IntDistribution(1, 5)}
KIND = {"kind": CategoricalDistribution(("relu", "tanh", "gelu"))}


def squared(drawn: list[dict[str, object]], space: dict[str, BaseDistribution]) -> list[float]:
    """Squared distances of each configuration from the one before."""
    return [float(((one - other) ** 2).sum()) for one, other in pairwise(coordinates_of(drawn, space))]


def test_numbers_have_their_place_in_their_range() -> None:
    assert squared([{"rate": 1e-4}, {"rate": 1e-2}, {"rate": 1.0}], {**RATE}) == pytest.approx([0.25, 0.25])
    assert squared([{"layers": 1}, {"layers": 2}, {"layers": 5}], {**LAYERS}) == pytest.approx([1 / 16, 9 / 16])


def test_choices_have_no_order() -> None:
    kinds: list[dict[str, object]] = [{"kind": kind} for kind in ("relu", "gelu", "tanh", "tanh")]
    assert squared(kinds, {**KIND}) == pytest.approx([1.0, 1.0, 0.0])


def test_each_parameter_counts_alike() -> None:
    drawn: list[dict[str, object]] = [{"rate": 1e-4, "kind": "relu"}, {"rate": 1.0, "kind": "relu"}]
    drawn.append({"rate": 1.0, "kind": "tanh"})
    assert squared(drawn, {**RATE, **KIND}) == pytest.approx([0.5, 0.5])


def test_what_is_no_part_of_a_trial_says_nothing_of_it() -> None:
    """Absent from both: no distance; from one: 0.75 and its own distance from the middle, or as another choice."""
    drawn: list[dict[str, object]] = [{}, {}, {"layers": 3}, {}, {"layers": 5}]
    assert squared(drawn, {**LAYERS}) == pytest.approx([0.0, 0.75, 0.75, 1.0])
    assert squared([{}, {"kind": "relu"}, {"kind": "tanh"}], {**KIND}) == pytest.approx([1.0, 1.0])


def test_of_very_many_the_best_are_looked_at_and_what_lies_beside_them() -> None:
    """Good ones lie at 1; of the bad ones those at 0.9 are nearer than those at 0."""
    places = np.array([[1.0]] * MOST_BEST + [[0.9]] * MOST_BEST + [[0.0]] * 500)
    scores = [1.0] * MOST_BEST + [-9.0] * MOST_BEST + [0.0] * 500
    assert considered(places, scores) == list(range(2 * MOST_BEST))
    assert considered(places[:5], scores[:5]) == [0, 1, 2, 3, 4]
