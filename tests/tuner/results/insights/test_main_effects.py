"""The additive model of scores, against hand calculation and plain least squares."""

import numpy as np
import pytest

from tuner.results.insights.main_effects import AdditiveModel, contrasts, polynomials
from tuner.results.statistics import average_ranks


def test_terms_are_orthonormal_over_the_space() -> None:
    columns = polynomials(np.linspace(0.0, 1.0, 2001)).columns
    assert columns.T @ columns / 2001 == pytest.approx(np.eye(3), abs=0.01)
    assert columns.mean(axis=0) == pytest.approx(np.zeros(3), abs=0.01)
    assert columns[-1] == pytest.approx(np.sqrt([3, 5, 7]))  # Legendre polynomials are 1 at their end
    choices = contrasts([0, 1, 2, 3], 4).columns
    assert choices.T @ choices / 4 == pytest.approx(np.eye(3))
    assert choices.sum(axis=0) == pytest.approx(np.zeros(3))


def test_beyond_the_trials_an_effect_is_taken_as_flat() -> None:
    term = polynomials(np.array([0.3, 0.5, 0.7]))
    assert term.over_space[0] == pytest.approx(term.columns[0])
    assert term.over_space[-1] == pytest.approx(term.columns[2])


def test_with_many_trials_it_is_least_squares() -> None:
    rng = np.random.default_rng(0)
    places, choices = rng.random((600, 2)), rng.integers(0, 3, 600)
    terms = {"a": polynomials(places[:, 0]), "b": polynomials(places[:, 1]), "c": contrasts(choices, 3)}
    scores = 3 * places[:, 0] + np.cos(3 * places[:, 1]) + np.array([0.0, 0.5, 2.0])[choices] + rng.normal(0, 0.3, 600)
    found = AdditiveModel(terms).effects(scores.tolist())
    ranks = average_ranks(scores)
    columns = np.concatenate([np.ones((600, 1)), *(term.columns for term in terms.values())], axis=1)
    solved = np.linalg.lstsq(columns, (ranks - ranks.mean()) / ranks.std(), rcond=None)[0]
    expected = {"a": (solved[1:4] ** 2).sum(), "b": (solved[4:7] ** 2).sum(), "c": (solved[7:] ** 2).sum()}
    assert found == pytest.approx(expected, rel=0.02)


def test_an_effect_is_that_over_the_space_and_not_among_the_trials() -> None:
    rng = np.random.default_rng(1)
    crowded, spread = np.concatenate([rng.random(40), rng.uniform(0.45, 0.55, 160)]), rng.random(200)
    terms = {"crowded": polynomials(crowded), "spread": polynomials(spread)}
    found = AdditiveModel(terms).effects((crowded + spread).tolist())
    among_trials = crowded.var() / spread.var()
    assert among_trials < 0.3
    assert found["crowded"] / found["spread"] == pytest.approx(1.0, abs=0.35)


def test_what_does_nothing_is_shrunk_to_nothing() -> None:
    rng = np.random.default_rng(2)
    places = rng.random((20, 8))
    terms = {str(index): polynomials(places[:, index]) for index in range(8)}
    found = AdditiveModel(terms).effects((-((places[:, 0] - 0.5) ** 2)).tolist())
    assert found["0"] > 10 * max(value for name, value in found.items() if name != "0")
