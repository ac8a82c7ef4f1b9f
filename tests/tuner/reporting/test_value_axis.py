"""Axes that suit their values."""

from tuner.reporting.figures.value_axis import AxisScale


def test_a_scale_that_has_no_place_for_the_values_is_not_used() -> None:
    assert AxisScale.of([0.0, 5.0], "log").kind == "linear"
    assert AxisScale.of([0.5, 1.0], "one_minus").kind == "linear"
    assert AxisScale.of(["a", "b"], "log").choices == ("a", "b")
