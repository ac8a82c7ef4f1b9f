"""Cost of a study and whether more would pay, by hand."""

from dataclasses import replace

import pytest

from tests.tuner.reporting.summaries import run
from tests.tuner.results.insights.small_studies import study, trial
from tuner.results.insights.effort import costs, expected_best
from tuner.trial.messages import Outcome


def test_the_cost_of_a_stage_counts_runs_seconds_and_steps() -> None:
    half = run("trial 1", "screen", 3.0, outcome=Outcome.PRUNED, curve=((0.25, 1.0), (0.5, 3.0)), seconds=4.0)
    lost = run("trial 2", "screen", None, outcome=Outcome.CRASHED, curve=((0.25, 1.0),), seconds=3.0)
    summary = study(run("trial 0", "screen", 5.0), half, lost, tests=(1.0,), budget={"environment steps per run": 1000})
    screen, test = costs(summary)
    assert (screen.num_runs, screen.num_complete, screen.num_pruned, screen.num_failed) == (3, 1, 1, 1)
    assert (screen.seconds, screen.lost_seconds, screen.env_steps) == (17.0, 3.0, 1750)
    assert (test.stage, test.num_runs, test.env_steps) == ("test", 1, 1000)
    assert costs(replace(summary, budget={}))[0].env_steps is None


def test_the_expected_best_of_k_and_whether_more_would_pay() -> None:
    summary = study(*(trial(n, float(n % 2)) for n in range(8)), tests=(1.0, 1.5, 2.0))
    found = expected_best(summary)
    assert found is not None
    points = dict(found.points)
    assert [points[k] for k in (1, 2, 3)] == [0.5, 0.75, 0.875]  # Dodge et al. 2019 with {0, 1}
    assert points[8] == pytest.approx(1 - 0.5**8)
    assert found.gain == pytest.approx(0.5**4 - 0.5**8)
    assert "unlikely to raise the score" in found.sentence()  # a gain of 0.06 against a deviation of 0.5
    assert "unlikely to beat the default configuration: keep it" in found.sentence(keeps_default=True)
    surer = replace(found, noise=0.01)
    assert "More trials may still raise it: raise" in surer.sentence()
    assert "though the default configuration has not been beaten yet" in surer.sentence(keeps_default=True)
    lower = expected_best(replace(summary, maximised=False))
    assert lower is not None
    assert dict(lower.points)[2] == 0.25
    assert expected_best(study(*(trial(n, 1.0) for n in range(4)))) is None
