"""Means of scores, and what is around them."""

from tests.tuner.results.runs_of import FIVE
from tuner.results.findings import Estimate, estimate


def test_estimate_interval_starts_at_five_scores() -> None:
    assert estimate(FIVE[:4]).low is None
    assert estimate(FIVE).low is not None
    assert str(estimate([3.0])) == "3"


def test_an_estimate_is_its_mean_and_what_is_around() -> None:
    found = Estimate(44.4012, 39.0, 49.54, 5)
    assert (str(found), found.mean, found.around) == ("44 [39, 50]", "44", "[39, 50]")
    few = estimate([496.4, 500.0])
    assert (str(few), few.mean, few.around) == ("498 (496, 500)", "498", "(496, 500)")
    one = estimate([0.123456])
    assert (str(one), one.around) == ("0.123", "")
