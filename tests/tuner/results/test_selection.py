"""Selection from stage to stage, and the winner."""

import pytest

from tests.tuner.results.test_protocol import run
from tuner.results.records import RunRecord
from tuner.results.selection import choose_candidates, choose_winner, rank_entrants, survivors
from tuner.trial.messages import Outcome


def test_candidates_are_the_best_complete_runs() -> None:
    runs = [
        run(0, 5.0),
        run(1, 9.0),
        run(2, 99.0, outcome=Outcome.PRUNED),
        run(3, 50.0, outcome=Outcome.DIVERGED),
        run(4, 9.0),
        run(5, None, outcome=Outcome.CRASHED),
    ]
    assert [candidate.number for candidate in choose_candidates(runs, 3)] == [1, 4, 0]


def confirm(label: str, *values: float | None) -> list[RunRecord]:
    crashed = Outcome.CRASHED
    return [
        run(number, value, "confirm", label, seed=number, outcome=crashed if value is None else Outcome.COMPLETE)
        for number, value in enumerate(values)
    ]


CANDIDATES = [run(0, 90.0), run(1, 80.0), run(2, 70.0)]


def test_the_winner_has_the_best_mean_on_fresh_seeds_alone() -> None:
    confirmed = [*confirm("trial 0", 10.0, 20.0), *confirm("trial 1", 30.0, 5.0), *confirm("trial 2", 1.0, 1.0)]
    winner = choose_winner(confirmed, CANDIDATES)
    assert winner is CANDIDATES[1]


def test_of_equals_the_one_that_screened_better_wins() -> None:
    confirmed = [*confirm("trial 2", 15.0, 15.0), *confirm("trial 1", 10.0, 20.0), *confirm("trial 0", 1.0, 2.0)]
    assert choose_winner(confirmed, CANDIDATES) is CANDIDATES[1]


def test_a_crash_on_a_fresh_seed_counts_as_the_worst_score() -> None:
    # trial 0: (100 + 1) / 2 = 50.5, less than 60
    confirmed = [*confirm("trial 0", 100.0, None), *confirm("trial 1", 60.0, 60.0), *confirm("trial 2", 1.0, 1.0)]
    assert choose_winner(confirmed, CANDIDATES) is CANDIDATES[1]


def test_nobody_wins_where_nothing_finished() -> None:
    assert choose_winner(confirm("trial 0", None, None), CANDIDATES) is None


def test_the_worst_seed_can_decide() -> None:
    confirmed = [*confirm("trial 0", 100.0, 1.0), *confirm("trial 1", 40.0, 41.0), *confirm("trial 2", 39.0, 90.0)]
    assert choose_winner(confirmed, CANDIDATES) is CANDIDATES[2]
    assert choose_winner(confirmed, CANDIDATES, "worst") is CANDIDATES[1]


# The race: trials 0, 1, 2 screened 90, 80 and 70 on seed 0


def race(label: str, *values: float | None) -> list[RunRecord]:
    """Runs on seeds 1, 2, ..."""
    crashed = Outcome.CRASHED
    return [
        run(seed, value, "race", label, seed=seed, outcome=crashed if value is None else Outcome.COMPLETE)
        for seed, value in enumerate(values, start=1)
    ]


def labels(runs: tuple[RunRecord, ...]) -> list[int]:
    return [one.number for one in runs]


def test_entrants_are_ranked_by_all_tune_seeds() -> None:
    # means: (90 + 10 + 20) / 3 = 40, (80 + 30 + 40) / 3 = 50, (70 + 60 + 5) / 3 = 45
    raced = [*race("trial 0", 10.0, 20.0), *race("trial 1", 30.0, 40.0), *race("trial 2", 60.0, 5.0)]
    assert labels(rank_entrants(CANDIDATES, raced)) == [1, 2, 0]
    assert labels(rank_entrants(CANDIDATES, raced, "worst")) == [1, 0, 2]  # 30, 10, 5


def test_of_equals_in_the_race_the_one_that_screened_better_is_in_front() -> None:
    raced = [*race("trial 0", 10.0), *race("trial 1", 20.0), *race("trial 2", 30.0)]
    assert labels(rank_entrants(CANDIDATES, raced)) == [0, 1, 2]


def test_a_crash_in_the_race_counts_as_the_worst_score() -> None:
    # trial 0: (90 + 30) / 2 = 60; trial 1: (80 + 50) / 2 = 65; trial 2: (70 + 30) / 2 = 50
    raced = [*race("trial 0", None), *race("trial 1", 50.0), *race("trial 2", 30.0)]
    assert labels(rank_entrants(CANDIDATES, raced)) == [1, 0, 2]


def test_who_is_behind_on_each_of_three_seeds_drops_out() -> None:
    raced = [*race("trial 0", 90.0, 91.0), *race("trial 1", 80.0, 92.0), *race("trial 2", 89.0, 90.0)]
    assert labels(survivors(CANDIDATES, raced, num_kept=1)) == [0, 1], "trial 1 was ahead once"
    assert labels(survivors(CANDIDATES, raced, num_kept=2)) == [0, 1]
    assert labels(survivors(CANDIDATES, raced, num_kept=3)) == [0, 1, 2]


def test_two_seeds_and_ties_drop_nobody() -> None:
    raced = [*race("trial 0", 99.0), *race("trial 1", 5.0), *race("trial 2", 1.0)]
    assert labels(survivors(CANDIDATES, raced, num_kept=1)) == [0, 1, 2]
    equal = [run(number, 500.0) for number in range(2)]
    raced = [*race("trial 0", 500.0, 500.0, 500.0), *race("trial 1", 500.0, 500.0, 500.0)]
    assert labels(survivors(equal, raced, num_kept=1)) == [0, 1]


def test_of_more_seeds_the_test_may_ask_for_more() -> None:
    # differences 10, 1, 1, -4 of 16 signs: sums >= 8 are 12+4=16, 8, 14, 14-8=6.. counted by hand: 4 of 16
    entrants = [run(0, 20.0), run(1, 10.0)]
    raced = [*race("trial 0", 11.0, 11.0, 6.0), *race("trial 1", 10.0, 10.0, 10.0)]
    assert labels(survivors(entrants, raced, num_kept=1)) == [0, 1]
    raced = [*race("trial 0", 11.0, 11.0, 11.0), *race("trial 1", 10.0, 10.0, 10.0)]
    assert labels(survivors(entrants, raced, num_kept=1)) == [0]


@pytest.mark.parametrize("num_kept", [1, 2])
def test_a_run_that_has_not_ended_is_no_score_yet(num_kept: int) -> None:
    raced = [*race("trial 0", 90.0, 91.0), run(7, None, "race", "trial 2", seed=1, outcome=None)]
    assert 2 in labels(survivors(CANDIDATES, raced, num_kept))
