"""Numbers and parameters as people read them."""

import math

import pytest

from tuner.results.findings import Estimate
from tuner.results.number_format import (
    describe_params,
    describe_part,
    format_alike,
    format_mean,
    format_number,
    format_seconds,
    format_value,
    in_two_lines,
    join_words,
)


def test_a_heading_in_two_lines() -> None:
    assert in_two_lines("schedule.eps.end") == "schedule.eps.\nend"
    assert in_two_lines("seed") == "seed"


def test_describe_params_names_the_most_important_first() -> None:
    params = {"a.x": 1, "a.y": True, "a.z": None, "a.v": 1e-5, "a.w": "relu"}
    text = describe_params(params, {"a.w": 0.5, "a.z": 0.9}, limit=3)
    assert text == "a.z=null, a.w=relu, a.x=1, ..."


def test_numbers_are_written_for_people() -> None:
    assert [format_number(x) for x in (498.23, -97.41, 12345.6, 0.03125, -0.0, 1e-7, math.inf)] == [
        "498", "-97.4", "12,300", "0.0312", "0", "1.00e-07", "inf",
    ]  # fmt: skip
    assert [format_mean(x) for x in (9.999, 10.0, 498.0, 9.25)] == ["10.0", "10.0", "498", "9.25"]
    assert [format_value(x) for x in (6e-4, 64, True, None, "relu")] == ["0.0006", "64", "true", "null", "relu"]
    assert [format_value(x) for x in (0.98, 0.9, 0.99731, 0.999949, 1.0)] == ["0.98", "0.9", "0.997", "0.99995", "1"]
    assert [format_seconds(s) for s in (0.4, 59.6, 200, 7500)] == ["0 s", "1 min 00 s", "3 min 20 s", "2 h 05 min"]
    assert [join_words(words) for words in ([], ["a"], ["a", "b"], ["a", "b", "c"])] == [
        "",
        "a",
        "a and b",
        "a, b and c",
    ]


@pytest.mark.parametrize(
    ("values", "shown"),
    [
        ((9.3, 9.27, 9.4), "9.30 9.27 9.40"),  # they span 0.13
        ((-134.66666, -144.21, -120.5), "-135 -144 -120"),  # 23.7; -120.5 is rounded to the even one
        ((-0.01005, -1.611, 0.791), "0.0 -1.6 0.8"),  # 2.4, and no minus before a zero
        ((12345.6, 11000.0, 14000.0), "12,300 11,000 14,000"),  # 3,000
        ((0.01234, 0.0119, 0.0131), "0.0123 0.0119 0.0131"),  # 0.0012
        ((498.21, 497.9, 499.3), "498 498 499"),  # 1.4, but three digits at most
        ((500.0, 500.0, 500.0), "500 500 500"),  # nothing: as single numbers
        ((1e-7, 2e-7, 3e-7), "1.00e-07 2.00e-07 3.00e-07"),
        ((float("-inf"), 1.234567, 2.0), "-inf 1.23 2"),
    ],
)
def test_two_significant_digits_of_what_they_span(values: tuple[float, ...], shown: str) -> None:
    assert " ".join(format_alike(values)) == shown


def test_a_difference_has_signs_but_at_zero() -> None:
    assert format_alike((2.0, -0.01, 3.0), signed=True) == ["+2.0", "0.0", "+3.0"]
    assert Estimate(30.571, 24.17, 37.3, 5).signed == "+31 [+24, +37]"
    assert Estimate(-12.345, -20.5, -4.3, 5).lost == "12 [4, 20]"
    assert Estimate(-2.3919, None, None, 2).signed == "-2.39"


def test_parts_in_words() -> None:
    node = {"_target_": "optuna.samplers.TPESampler", "_partial_": True, "multivariate": True, "n_startup_trials": 10}
    assert describe_part(node) == "TPESampler (multivariate true, n_startup_trials 10)"
    assert describe_part({"_target_": "optuna.samplers.RandomSampler"}) == "RandomSampler"
    assert describe_part({"_target_": "optuna.pruners.NopPruner"}) == ""
