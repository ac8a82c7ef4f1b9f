"""Statistics of a benchmark have the values of rliable 1.2.0 for the same scores."""

import numpy as np
import pytest

from tuner.features.benchmark.pooled_statistics import (
    difference_of_iqms,
    improvement,
    improvement_interval,
    pooled_interval,
    pooled_iqm,
    profile,
)
from tuner.features.benchmark.standings import Standings

X = np.array([[1.4, 0.4, 0.6], [0.8, 0.2, 0.6], [0.6, -0.3, 1.1], [0.9, 0.3, 0.5], [0.9, 0.5, 0.5]])
Y = np.array([[-0.3, 0.7, 0.5], [0.5, -0.4, 1.2], [0.5, 0.2, 1.4], [0.4, -0.3, 0.2], [-0.7, 0.9, 0.2]])


def test_values_are_those_of_rliable() -> None:
    assert float(pooled_iqm(X)) == pytest.approx(0.6000000000000001, abs=1e-9)
    assert float(pooled_iqm(Y)) == pytest.approx(0.32222222222222224, abs=1e-9)
    assert improvement(X, Y) == pytest.approx(0.6933333333333334, abs=1e-9)
    assert improvement(Y, X) == pytest.approx(0.30666666666666664, abs=1e-9)
    shares = profile(X, np.array([0.0, 0.25, 0.6, 1.0]))
    assert shares == pytest.approx([0.9333333333333333, 0.8666666666666667, 1 / 3, 0.13333333333333333], abs=1e-9)


def test_values_of_the_scores_that_rliable_itself_is_tested_with() -> None:
    """Four and three runs of two tasks; the expected values follow by hand, too."""
    one, other = np.array([[1, 2], [2, 2], [1, 1], [2, 1]]), np.array([[1, 1], [2, 2], [3, 3]])
    assert (float(pooled_iqm(one)), float(pooled_iqm(other))) == (1.5, 2.0)
    assert improvement(one, other) == pytest.approx(1 / 3, abs=1e-9)
    assert improvement(other, one) == pytest.approx(2 / 3, abs=1e-9)


def test_intervals_are_wider_than_those_of_rliable_by_what_few_runs_ask_for() -> None:
    plain = {"x": (0.5111, 0.7222), "y": (0.0333, 0.6111), "x > y": (0.5067, 0.8867)}
    found = {"x": pooled_interval(X), "y": pooled_interval(Y), "x > y": improvement_interval(X, Y)}
    for name, (low, high) in plain.items():
        assert found[name].low < low < high < found[name].high
        # sqrt(5 / 4) * t(12 degrees of freedom) / 1.96 = 1.243, but for the tails of the bootstrap
        assert (found[name].high - found[name].low) / (high - low) == pytest.approx(1.24, abs=0.06)


def test_difference_is_of_runs_with_the_same_seed() -> None:
    difference, interval = difference_of_iqms(X, Y)
    assert difference == pytest.approx(float(pooled_iqm(X) - pooled_iqm(Y)))
    assert interval.low < difference < interval.high
    difference, interval = difference_of_iqms(X + 0.25, X)
    assert (difference, *interval) == pytest.approx((0.25, 0.25, 0.25))


def test_scores_are_put_on_declared_scales_or_between_the_means() -> None:
    bench = Standings({"a": {"e": [0, 2], "f": [5, 5]}, "b": {"e": [4, 6], "f": [5, 5]}}, {"f": (0.0, 10.0)})
    assert bench.tables["a"].tolist() == [[-0.25, 0.5], [0.25, 0.5]]
    assert bench.tables["b"].tolist() == [[0.75, 0.5], [1.25, 0.5]]
    assert list(bench.iqms) == ["b", "a"]
    assert "fewer than 5 seeds" in bench.verdict


def test_in_one_environment_scores_stay_as_they_are() -> None:
    scores = {"a": {"e": [1, 2, 3, 4, 5]}, "b": {"e": [4, 5, 6, 7, 8]}}
    alone = Standings(scores, {"e": (0.0, 10.0)})
    assert alone.iqms == {"b": 6.0, "a": 3.0}
    assert alone.lead(alone.leads[0]) == "3 [3, 3]"
    assert alone.scales == {}
    assert "b is the best" in alone.verdict


def test_a_lead_that_may_be_chance_has_its_probability_beside_it() -> None:
    """Of 25 pairs of runs, the one of `b` is higher in 15 and equal in one."""
    standings = Standings({"a": {"e": [1, 9, 2, 8, 5]}, "b": {"e": [2, 9.5, 3, 8.5, 6]}})
    (lead,) = standings.leads
    assert lead.probability == pytest.approx(15.5 / 25)
    assert lead.difference_interval.low > 0.0, "each run of b is higher than that of a with its seed"
    low, high = (round(100 * end) for end in lead.interval)
    assert f"is not clearly better than a (62 % [{low}, {high}]): the interval of the prob" in standings.verdict
