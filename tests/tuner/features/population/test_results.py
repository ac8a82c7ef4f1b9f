"""Verdict on a schedule beside the best configuration without one."""

import pytest

from tuner.features.population.results import _against_static
from tuner.results.findings import Estimate


@pytest.mark.parametrize(
    ("low", "high", "words"),
    [
        (0.5, 3.0, "the schedule is better, by +2.0 [+0.5, +3.0]."),
        (-3.0, -0.5, "is WORSE, by +2.0 [-3.0, -0.5]. Train with experiment=static instead of the schedule."),
        (-0.5, 3.0, "which may be chance. The constant one is experiment=static."),
        (None, None, "differs from it by +2, which may be chance."),
    ],
)
def test_a_schedule_against_no_schedule(low: float | None, high: float | None, words: str) -> None:
    assert words in _against_static(Estimate(2.0, low, high, 5, ()))
