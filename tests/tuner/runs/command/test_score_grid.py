"""From values at any steps to scores on the study's grid."""

import json
import math

import pytest

from tuner.runs.command.metric_files import Batch
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


NAN = math.nan


def same(found: list[tuple[float, float]], wanted: list[tuple[float, float]]) -> bool:
    return found == [pytest.approx(point, nan_ok=True) for point in wanted]


@pytest.mark.parametrize(
    ("window", "points", "wanted"),
    [
        (None, [(5, NAN), (10, NAN), (20, 4.0), (25, 6.0)], [(0.25, 5.0)]),
        (2, [(5, 1.0), (10, 3.0), (20, NAN), (25, 5.0)], [(0.25, 4.0)]),
        (None, [(10, 2.0), (25, math.inf)], [(0.25, 2.0)]),
        (None, [(25, NAN), (30, 4.0), (50, 6.0)], [(0.25, 4.0), (0.5, 5.0)]),  # waits for the next number
        (None, [(25, NAN), (50, NAN)], [(0.25, NAN), (0.5, NAN)]),  # has diverged
        (None, [(25, 7.0), (30, NAN), (50, NAN), (75, NAN)], [(0.25, 7.0), (0.5, NAN), (0.75, NAN)]),
        (None, [(10, 7.0), (20, NAN), (25, NAN), (50, NAN)], [(0.25, NAN), (0.5, NAN)]),  # since step 20
        (None, [(60, NAN), (75, 3.0)], [(0.25, 3.0), (0.5, 3.0), (0.75, 3.0)]),  # one value passes two points
        (3, [(25, NAN), (50, NAN)], [(0.25, NAN), (0.5, NAN)]),
    ],
)
def test_what_is_not_finite_is_left_out_and_a_run_that_gives_nothing_else_has_diverged(
    window: int | None, points: list[tuple[float, float]], wanted: list[tuple[float, float]]
) -> None:
    assert same(added(ScoreGrid(100, 4, window), *points), wanted)


@pytest.mark.parametrize(
    ("points", "last"),
    [([(50, 2.0), (90, 4.0), (95, NAN)], 4.0), ([(50, 2.0), (80, NAN)], NAN), ([(60, 2.0), (75, 3.0)], 2.5)],
)
def test_the_last_score_counts_for_the_rest_unless_it_ends_without_a_number(
    points: list[tuple[float, float]], last: float
) -> None:
    grid = ScoreGrid(100, 4, None)
    before = added(grid, *points)
    assert same(grid.finish(), [(number / 4, last) for number in range(len(before) + 1, 5)])


def batch(*points: tuple[float, float], anew: bool = False, file: str = "a") -> Batch:
    return Batch(file, anew, list(points))


def test_values_of_several_files_count_by_their_steps() -> None:
    grid = ScoreGrid(100, 2, None)
    assert grid.take([batch((10, 1.0), (60, 5.0)), batch((20, 3.0), (70, 7.0), file="b")]) == [(0.5, 2.0)]
    assert grid.take([batch((90, 0.0)), batch((100, 8.0), file="b")]) == [(1.0, 5.0)]
    assert ScoreGrid(100, 2, None).take([batch((50, 1.0), (50, 2.0), (50, 6.0))]) == [(0.5, 3.0)]


def test_a_program_that_goes_on_replaces_what_it_had_given_behind_its_checkpoint() -> None:
    grid = ScoreGrid(100, 2, None)
    assert grid.take([batch((10, 1.0), (50, 1.0), (60, 2.0), (70, 100.0), (80, 200.0))]) == [(0.5, 1.0)]
    grid.begin_attempt()
    assert grid.take([batch((70, 4.0))]) == []
    assert grid.take([batch((80, 5.0), (90, 9.0), file="another")]) == []
    assert grid.finish() == [(1.0, 5.0)]


def test_one_that_goes_on_from_before_a_point_gives_it_no_second_time() -> None:
    grid = ScoreGrid(100, 4, None)
    assert grid.take([batch((25, 1.0), (50, 2.0), (60, 100.0))]) == [(0.25, 1.0), (0.5, 2.0)]
    grid.begin_attempt()
    assert grid.take([batch((25, 7.0), (30, 7.0), (50, 7.0), (60, 4.0))]) == []
    assert grid.take([batch((75, 6.0))]) == [(0.75, 5.0)]


def test_a_window_holds_the_same_values_whether_or_not_the_program_was_killed() -> None:
    points = [(float(step), float(step * step)) for step in range(1, 41)]
    whole = ScoreGrid(40, 4, 15).take([batch(*points)])
    for killed in (9, 10, 11, 27):
        for checkpoint in (killed, killed - 1, max(killed - 12, 0)):
            grid = ScoreGrid(40, 4, 15)
            ended = grid.take([batch(*points[:killed])])
            again = ScoreGrid(40, 4, 15)
            again.restore(json.loads(json.dumps(grid.state())))
            assert ended + again.take([batch(*points[checkpoint:])]) == whole, (killed, checkpoint)


def test_a_file_that_is_written_anew_replaces_its_own_values_only() -> None:
    grid = ScoreGrid(100, 1, None)
    grid.take([batch((10, 1.0), (20, 2.0)), batch((15, 9.0), file="b")])
    grid.take([batch(anew=True)])  # seen while it is empty
    grid.take([batch((10, 3.0), (20, 4.0), (30, 8.0))])
    assert grid.finish() == [(1.0, 6.0)]
    grid = ScoreGrid(100, 1, None)
    grid.take([batch((10, 1.0), (20, 2.0), (30, 3.0))])
    grid.take([batch((20, 2.0), (30, 3.0), (40, 6.0), anew=True)])  # one that keeps its last rows only
    assert grid.finish() == [(1.0, 3.0)]


@pytest.mark.parametrize(
    "harm", [{"grid": [100, 5, None]}, {"next": 9}, {"waiting": [3]}, {"since": [[1, 2]]}, {"recent": None}]
)
def test_what_is_no_state_of_this_grid_changes_nothing(harm: dict[str, object]) -> None:
    grid = ScoreGrid(100, 4, 2)
    grid.take([batch((25, 1.0), (30, 2.0))])
    other = ScoreGrid(100, 4, 2)
    with pytest.raises((ValueError, TypeError)):
        other.restore({**grid.state(), **harm})
    assert json.dumps(other.state()) == json.dumps(ScoreGrid(100, 4, 2).state())
