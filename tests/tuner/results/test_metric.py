"""Metrics over learning curves, against numbers worked out by hand."""

import pytest

from tuner.errors import UserError
from tuner.results.metric import AUC, METRICS, Best, Final, Metric, Mixed, SecondsTo, StepsTo, Timing, make_metric

CURVE = [(0.1, 0.0), (0.2, 10.0), (0.4, 20.0), (0.6, 40.0), (1.0, 30.0)]
NINTHS = [(point / 9, float(point)) for point in range(1, 10)]


def test_area_under_the_curve_is_the_mean_height() -> None:
    # trapezoids: .1*5 + .2*15 + .2*30 + .4*35 = 23.5, over a width of .9
    assert AUC()(CURVE) == pytest.approx(23.5 / 0.9)
    assert AUC()(NINTHS) == pytest.approx(5.0)
    assert AUC()([(0.5, 7.0)]) == 7.0


def test_final_is_the_mean_of_the_last_fifth() -> None:
    assert Final()(CURVE) == 30.0
    assert Final()(NINTHS) == 8.5  # the last two of nine
    assert Final()([(0.5, 7.0)]) == 7.0


def test_best_is_the_maximum() -> None:
    assert Best()(CURVE) == 40.0


def test_mixed_is_half_of_each() -> None:
    assert Mixed()(CURVE) == pytest.approx(0.5 * 23.5 / 0.9 + 0.5 * 30.0)
    assert Mixed()(NINTHS) == pytest.approx(0.5 * 5.0 + 0.5 * 8.5)


def test_sooner_is_better_where_the_end_is_the_same() -> None:
    early = [(point / 9, 500.0 if point >= 3 else 0.0) for point in range(1, 10)]
    late = [(point / 9, 500.0 if point >= 7 else 0.0) for point in range(1, 10)]
    assert Final()(early) == Final()(late)
    assert Mixed()(early) > Mixed()(late)


@pytest.mark.parametrize("metric", [kind() for kind in METRICS.values()], ids=list(METRICS))
def test_a_rung_scores_what_a_run_of_that_length_would_score(metric: Metric) -> None:
    for point in range(1, 10):
        assert metric.partial(NINTHS, point / 9) == metric(NINTHS[:point])
    assert metric.partial(NINTHS, 1.0) == metric(NINTHS)


@pytest.mark.parametrize("metric", [kind() for kind in METRICS.values()], ids=list(METRICS))
def test_a_run_without_reports_has_no_score(metric: Metric) -> None:
    with pytest.raises(ValueError, match="reported nothing"):
        metric([])


def test_metrics_by_name() -> None:
    assert isinstance(make_metric("mixed"), Mixed)
    with pytest.raises(UserError, match=r"study.metric=finall is unknown; did you mean final\?"):
        make_metric("finall")
    assert isinstance(make_metric("steps_to_-110"), StepsTo)
    for name in ("steps_to_", "steps_to_fast", "steps_to_nan"):
        with pytest.raises(UserError, match=f"study.metric={name} must end in a number, as steps_to_475 does"):
            make_metric(name)
    assert isinstance(make_metric("seconds_to_-110"), SecondsTo)
    with pytest.raises(UserError, match=r"study.metric=second_to_475 is unknown; did you mean seconds_to_475\?$"):
        make_metric("second_to_475")
    for name in ("seconds_to_", "seconds_to_fast", "seconds_to_nan"):
        with pytest.raises(UserError, match=f"study.metric={name} must end in a number, as seconds_to_475 does"):
            make_metric(name)


def test_steps_to_a_value_are_read_off_the_curve() -> None:
    curve = [(0.25, 100.0), (0.5, 300.0), (0.75, 200.0), (1.0, 500.0)]
    assert StepsTo(300.0)(curve) == -0.5
    assert StepsTo(200.0)(curve) == pytest.approx(-0.375), "half-way between 0.25 and 0.5"
    assert StepsTo(50.0)(curve) == -0.25
    assert StepsTo(500.0)(curve) == -1.0
    assert StepsTo(-110.0)([(0.5, -200.0), (1.0, -100.0)]) == pytest.approx(-0.95)


def test_a_value_that_is_not_reached_scores_lower_the_further_away_it_is() -> None:
    scores = [StepsTo(475.0)([(0.5, 0.0), (1.0, end)]) for end in (470.0, 100.0, 9.0, -1e9)]
    assert scores == sorted(scores, reverse=True)
    assert -1.0 > scores[0] > -1.02
    assert scores[-1] > -2.0 - 1e-9
    assert StepsTo(400.0)([(1.0, 200.0)]) == pytest.approx(-1.0 - 0.5 / 1.5)


def test_a_rung_of_steps_to_a_value_knows_only_what_came_before() -> None:
    curve = [(0.25, 100.0), (0.5, 300.0), (1.0, 500.0)]
    assert StepsTo(300.0).partial(curve, 0.5) == -0.5
    assert StepsTo(300.0).partial(curve, 0.25) < -1.0


CLIMB = [(0.25, 100.0), (0.5, 300.0), (0.75, 200.0), (1.0, 500.0)]
CLOCK = Timing(((0.25, 2.0), (0.5, 10.0), (0.75, 18.0), (1.0, 30.0)))


def test_seconds_to_a_value_are_those_between_the_evaluations_around_it() -> None:
    assert SecondsTo(300.0)(CLIMB, CLOCK) == -10.0
    assert SecondsTo(200.0)(CLIMB, CLOCK) == pytest.approx(-6.0), "half-way between 2 s and 10 s"
    assert SecondsTo(50.0)(CLIMB, CLOCK) == -2.0, "at the first evaluation, or somewhere before it"
    assert SecondsTo(400.0)(CLIMB, CLOCK) == pytest.approx(-26.0), "two thirds of the way from 18 s to 30 s"
    assert SecondsTo(500.0)(CLIMB, CLOCK) == -30.0


def test_a_run_that_misses_the_value_has_ten_times_the_limit_and_up_to_a_tenth_more() -> None:
    # best evaluation 500 of 1000: half the value away, which is a third of the margin: 300 s and 10 s
    assert SecondsTo(1000.0)(CLIMB, CLOCK) == pytest.approx(-310.0), "its own seconds are the limit if none is known"
    assert SecondsTo(1000.0)(CLIMB, Timing(CLOCK.seconds, limit=12.0)) == pytest.approx(-120.0 * (1.0 + 0.1 / 3))
    slow = Timing(CLOCK.seconds, limit=2.0)
    assert SecondsTo(1000.0)(CLIMB, slow) == pytest.approx(-31.0), "20 s are less than it has taken"


def test_runs_that_reach_the_value_come_first_and_then_those_that_come_near() -> None:
    def run(end: float, whole_s: float) -> float:
        curve = [(0.5, 0.0), (1.0, end)]
        return SecondsTo(475.0)(curve, Timing(((0.5, whole_s / 2), (1.0, whole_s)), limit=20.0))

    quick, slow = run(500.0, 10.0), run(500.0, 60.0)
    near, far, idle = run(470.0, 30.0), run(100.0, 30.0), run(9.0, 1.0)
    assert quick > slow > near > far > idle, "though the one that hardly learns is through first"
    assert run(470.0, 1.0) == run(470.0, 30.0), "and between those that miss it, time does not count"


def test_a_rung_of_seconds_to_a_value_knows_only_what_came_before() -> None:
    metric = SecondsTo(300.0)
    assert metric.partial(CLIMB, 0.5, CLOCK) == -10.0
    # 100 of 300: two thirds away, two fifths of the margin. 2 s for a quarter are 8 s for all
    assert metric.partial(CLIMB, 0.25, Timing(CLOCK.seconds[:1])) == pytest.approx(-80.0 * 1.04)
    assert metric.partial(CLIMB, 0.25, Timing(CLOCK.seconds, limit=30.0)) == pytest.approx(-300.0 * 1.04)


def test_a_repeated_part_that_was_quicker_does_not_turn_time_back() -> None:
    timing = Timing(((0.5, 9.0), (1.0, 8.0)))
    assert SecondsTo(10.0)([(0.5, 0.0), (1.0, 10.0)], timing) == -9.0


def test_a_curve_without_times_has_no_seconds() -> None:
    with pytest.raises(ValueError, match=r"the report at 0\.75 does not say after how many seconds"):
        SecondsTo(300.0)(CLIMB, Timing(CLOCK.seconds[:2]))
