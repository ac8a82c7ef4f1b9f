"""From values at any steps to scores on the study's grid."""

import pytest

from tuner.runs.command.score_grid import ScoreGrid


def added(grid: ScoreGrid, *points: tuple[float, float]) -> list[tuple[float, float]]:
    return [ended for step, value in points for ended in grid.add(step, value)]


def test_a_score_is_the_mean_since_the_point_before() -> None:
    grid = ScoreGrid(100, 4, None)
    found = added(grid, (5, 1.0), (20, 3.0), (30, 10.0), (50, 20.0), (60, 7.0), (75, 9.0), (99, 1.0))
    assert found == [(0.25, 2.0), (0.5, 15.0), (0.75, 8.0)]
    assert (grid.reached, grid.num_values) == (0.99, 7)
    assert grid.finish() == [(1.0, 1.0)]
    assert grid.finish() == []


def test_an_evaluation_at_a_point_counts_there_at_once() -> None:
    assert added(ScoreGrid(90, 9, None), *((step, float(step)) for step in range(10, 100, 10))) == [
        (pytest.approx(k / 9), 10.0 * k) for k in range(1, 10)
    ]


def test_a_value_that_passes_several_points_is_the_score_of_each_that_has_none() -> None:
    grid = ScoreGrid(10, 5, None)
    assert added(grid, (1, 4.0), (7, 8.0)) == [(0.2, 4.0), (0.4, 8.0), (0.6, 8.0)]
    assert grid.finish() == [(0.8, 8.0), (1.0, 8.0)]


def test_a_window_counts_the_last_values_whenever_they_came() -> None:
    grid = ScoreGrid(4, 2, 3)
    assert added(grid, (1, 1.0), (2, 2.0), (3, 6.0), (4, 10.0)) == [(0.5, 1.5), (1.0, 6.0)]


def test_steps_beyond_the_end_are_its_end() -> None:
    grid = ScoreGrid(10, 2, None)
    assert added(grid, (25, 3.0), (26, 4.0)) == [(0.5, 3.0), (1.0, 3.0)]
    assert grid.reached == 1.0
