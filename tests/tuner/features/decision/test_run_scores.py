"""Scores of configurations from their runs, by hand."""

from collections.abc import Sequence

import pytest

from tests.tuner.reporting.summaries import run
from tuner.features.decision.run_scores import Score, Scoring, moved_up
from tuner.results.metric import Final
from tuner.results.records import RunRecord
from tuner.trial.messages import Outcome


def complete(number: int, early: float, final: float) -> RunRecord:
    return run(f"trial {number}", "screen", final, curve=((0.5, early), (1.0, final)))


def pruned(early: float, at: float = 0.5) -> RunRecord:
    return run("trial 9", "screen", None, curve=((at, early),), outcome=Outcome.PRUNED)


# final scores lie on 10 + 2 * early, but for 1 above, 1 below, 1 below, 1 above
SCREENED = (complete(0, 0.0, 11.0), complete(1, 1.0, 11.0), complete(2, 2.0, 13.0), complete(3, 3.0, 17.0))


def test_a_complete_run_says_its_score() -> None:
    assert Scoring(SCREENED, Final())(SCREENED[1]) == Score("trial 1", 11.0)


def test_a_pruned_run_says_what_is_expected_of_it_less_surely() -> None:
    found = Scoring(SCREENED, Final())(pruned(4.0))
    assert found is not None
    assert found.value == pytest.approx(10.0 + 2.0 * 4.0)
    assert found.variance == pytest.approx((1.0 + 1.0 + 1.0 + 1.0) / (4 - 2))


@pytest.mark.parametrize(
    ("screened", "one"),
    [
        (SCREENED[:3], pruned(4.0)),  # a line through three leaves nothing open that means something
        (SCREENED, pruned(4.0, at=0.1)),  # where no complete run has reported
        (SCREENED, run("trial 9", "screen", None, outcome=Outcome.CRASHED)),
        (SCREENED, run("trial 9", "confirm", None, outcome=None)),
    ],
)
def test_a_run_may_say_nothing(screened: Sequence[RunRecord], one: RunRecord) -> None:
    assert Scoring(screened, Final())(one) is None


def test_a_crash_where_screening_has_one_far_below_is_no_worse_than_its_bound() -> None:
    """Of 100, 105, 110, 120 and -2000 the quartiles are 100 and 110."""
    screened = [complete(number, 0.0, score) for number, score in enumerate((-2000.0, 100.0, 105.0, 110.0, 120.0))]
    crashed = run("trial 3", "confirm", None, outcome=Outcome.CRASHED)
    assert Scoring(screened, Final())(crashed) == Score("trial 3", 70.0)


def test_a_crash_on_a_fresh_seed_is_the_worst_score_there_is() -> None:
    crashed = run("trial 3", "confirm", None, outcome=Outcome.CRASHED)
    assert Scoring(SCREENED, Final())(crashed) == Score("trial 3", 11.0)


def scores(*values: float) -> list[Score]:
    return [Score(f"trial {number}", value) for number, value in enumerate(values)]


def test_what_lies_far_below_is_moved_up() -> None:
    """Of 1 to 8 and -1000 the quartiles are 2 and 6: far out begins at 2 - 3 * 4."""
    given = scores(-1000.0, 1.0, 2.0, 3.0, 4.0, 5.0, 6.0, 7.0, 8.0)
    assert moved_up(given) == [Score("trial 0", -10.0), *given[1:]]
    assert moved_up(given, {"trial 0"}) == given, "it has further scores, whose spread counts"


def test_of_few_scores_none_is_far_out() -> None:
    given = scores(-1000.0, 0.637, 0.637, 0.631)
    assert moved_up(given) == given


def test_what_is_expected_of_pruned_runs_draws_no_line() -> None:
    """With these, too, the quartiles would be 0 and 6."""
    sure = scores(-1000.0, 1.0, 2.0, 3.0, 4.0, 5.0, 6.0, 7.0, 8.0)
    expected = [Score("trial 9", 0.0, 1.0)] * 9
    assert moved_up([*sure, *expected]) == [Score("trial 0", -10.0), *sure[1:], *expected]
