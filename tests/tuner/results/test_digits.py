"""Digits of verdicts: a mean and its interval have the same decimals, as many as chance leaves a meaning."""

import pytest

from tuner.results.findings import Estimate, estimate
from tuner.results.number_format import format_alike


@pytest.mark.parametrize(
    ("values", "shown"),
    [
        ((9.3, 9.27, 9.4), "9.30 9.27 9.40"),  # they span 0.13
        ((-134.66666, -144.21, -120.5), "-135 -144 -120"),  # 23.7; -120.5 is rounded to the even one
        ((-0.01005, -1.611, 0.791), "0.0 -1.6 0.8"),  # 2.4, and no minus before a zero
        ((12345.6, 11000.0, 14000.0), "12,346 11,000 14,000"),
        ((0.01234, 0.0119, 0.0131), "0.0123 0.0119 0.0131"),  # 0.0012
        ((500.0, 500.0, 500.0), "500 500 500"),  # nothing: as single numbers
        ((1e-7, 2e-7, 3e-7), "1.00e-07 2.00e-07 3.00e-07"),
        ((float("-inf"), 1.234567, 2.0), "-inf 1.235 2"),
    ],
)
def test_two_significant_digits_of_what_they_span(values: tuple[float, ...], shown: str) -> None:
    assert " ".join(format_alike(values)) == shown


def test_a_difference_has_signs_but_at_zero() -> None:
    assert format_alike((2.0, -0.01, 3.0), signed=True) == ["+2.0", "0.0", "+3.0"]
    assert Estimate(30.571, 24.17, 37.3, 5).signed == "+31 [+24, +37]"
    assert Estimate(-12.345, -20.5, -4.3, 5).lost == "12 [4, 20]"
    assert Estimate(-2.3919, None, None, 2).signed == "-2.39"


def test_an_estimate_is_its_mean_and_what_is_around() -> None:
    found = Estimate(44.4012, 39.0, 49.54, 5)
    assert (str(found), found.mean, found.around) == ("44 [39, 50]", "44", "[39, 50]")
    few = estimate([496.4, 500.0])
    assert (str(few), few.mean, few.around) == ("498.2 (496.4, 500.0)", "498.2", "(496.4, 500.0)")
    one = estimate([0.123456])
    assert (str(one), one.around) == ("0.1235", "")
