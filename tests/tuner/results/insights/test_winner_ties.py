"""Which trials tie with the winner, by hand."""

import pytest

from tests.tuner.results.insights.small_studies import study, trial
from tuner.results.insights.winner_ties import seed_noise


def test_the_limit_of_seed_noise_is_two_deviations_below_the_winners_mean() -> None:
    summary = study(*(trial(n, score) for n, score in enumerate((50.0, 9.0, 7.0, 3.0))), tests=(8.0, 10.0, 12.0))
    noise = seed_noise(summary, "trial 0")
    assert noise is not None
    assert noise.deviation == pytest.approx(2.0)
    assert noise.limit == pytest.approx(10.0 - 2 * 2.0 * (4 / 3) ** 0.5)  # 5.38
    assert noise.tied == {"trial 1", "trial 2"}
    assert (noise.num_runs, noise.num_others) == (3, 3)
    assert seed_noise(study(trial(0, 1.0), trial(1, 1.0), tests=(1.0, 1.0)), "trial 0") is None
