"""What the report says besides who won, on small studies counted by hand."""

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from tests.tuner.reporting.summaries import full_study, run
from tuner.results.insights.effort import costs, expected_best
from tuner.results.insights.failures import failed_runs, failure_kinds
from tuner.results.insights.safe_ranges import good_trials, safe_ranges
from tuner.results.insights.winner_ties import seed_noise
from tuner.results.records import RunRecord, StudySummary
from tuner.trial.messages import Outcome


def trial(number: int, score: float | None, **params: Any) -> RunRecord:
    outcome = Outcome.CRASHED if score is None else Outcome.COMPLETE
    return run(f"trial {number}", "screen", score, params=params, outcome=outcome)


def study(*screened: RunRecord, tests: tuple[float, ...] = (), **changes: Any) -> StudySummary:
    """Trial 0 is the winner; `tests` are its scores on test seeds."""
    tested = [run("trial 0", "test", score, seed=seed) for seed, score in enumerate(tests)]
    fields: dict[str, Any] = {"runs": (*screened, *tested), "winner_label": "trial 0", "importances": {}, **changes}
    return full_study(**fields)


# Noise and safe ranges


def test_the_limit_of_seed_noise_is_two_deviations_below_the_winners_mean() -> None:
    summary = study(*(trial(n, score) for n, score in enumerate((50.0, 9.0, 7.0, 3.0))), tests=(8.0, 10.0, 12.0))
    noise = seed_noise(summary, "trial 0")
    assert noise is not None
    assert noise.deviation == pytest.approx(2.0)
    assert noise.limit == pytest.approx(10.0 - 2 * 2.0 * (4 / 3) ** 0.5)  # 5.38
    assert noise.tied == {"trial 1", "trial 2"}
    assert (noise.num_runs, noise.num_others) == (3, 3)
    assert seed_noise(study(trial(0, 1.0), trial(1, 1.0), tests=(1.0, 1.0)), "trial 0") is None


def test_a_safe_range_spans_the_trials_that_tie_with_the_winner() -> None:
    scores = (10.0, 9.0, 11.0, 1.0, 2.0, 0.0, 1.0, 2.0)
    rates = (1e-3, 3e-3, 1e-2, 5e-3, 1e-1, 1e-5, 1e-4, 1.0)
    kinds = ("b", "a", "b", "c", "a", "c", "c", "c")
    screened = [trial(n, scores[n], rate=rates[n], kind=kinds[n]) for n in range(8)]
    summary = study(*screened, tests=(8.0, 10.0, 12.0), importances={"kind": 0.9, "rate": 0.1})
    assert [one.label for one in good_trials(summary)[0]] == ["trial 0", "trial 1", "trial 2"]
    kind, rate = safe_ranges(summary)
    assert (kind.path, kind.choices, kind.low, kind.best) == ("kind", ("b", "a"), None, "b")
    assert (kind.num_good, kind.num_inside) == (3, 4)  # trial 4 has kind a and is bad
    assert (rate.low, rate.high, rate.best) == (1e-3, 1e-2, 1e-3)
    assert (rate.tried_low, rate.tried_high) == (1e-5, 1.0)
    assert (rate.num_good, rate.num_inside, rate.precision) == (3, 4, 0.75)  # trial 3 lies within and is bad


def test_where_noise_is_unknown_the_best_quarter_stands_for_the_good_ones() -> None:
    summary = study(*(trial(n, float(n), rate=float(n)) for n in range(16)), winner_label=None)
    (found,) = safe_ranges(summary)
    assert (found.low, found.high, found.num_good) == (12.0, 15.0, 4)
    lower = replace(summary, maximised=False, is_sweep=True)
    (found,) = safe_ranges(lower)
    assert (found.low, found.high) == (0.0, 3.0)
    assert safe_ranges(study(*(trial(n, float(n), rate=1.0) for n in range(7)))) == ()


# Failures


def test_failures_are_counted_by_kind_with_what_they_have_in_common() -> None:
    good = [trial(n, 1.0, rate=0.01 * n, size=n % 3) for n in range(6)]
    bad = [
        replace(trial(6 + n, 0.0, rate=0.5 + 0.1 * n, size=n), outcome=Outcome.DIVERGED, reason="the loss became nan")
        for n in range(3)
    ]
    lone = replace(trial(9, None, rate=0.3, size=1), reason="KeyError: 'x'")
    diverged, crashed = failure_kinds(study(*good, *bad, lone))
    assert (diverged.outcome, len(diverged.runs), diverged.num_same) == (Outcome.DIVERGED, 3, 3)
    assert diverged.reason == "the loss became nan"
    assert diverged.common == "rate was high (0.5 to 0.7), higher than in the good runs"
    assert "learning rate" in diverged.remedy
    assert (crashed.outcome, crashed.common, crashed.reason) == (Outcome.CRASHED, "", "KeyError: 'x'")
    assert failure_kinds(study(*good)) == ()


def test_how_many_runs_failed_and_where_to_look(tmp_path: Path) -> None:
    good = [trial(n, 10.0) for n in range(2)]
    bad = [replace(trial(n, None), reason="KeyError: 'x'", folder=str(tmp_path / f"screen/{n}")) for n in (2, 3)]
    assert failed_runs(study(*good, tests=(1.0, 2.0))) == ""
    said = failed_runs(study(*good, *bad, tests=(1.0, 2.0)))
    assert said == f"2 of 4 trials failed (2 crashed); most often: KeyError: 'x'; see {tmp_path}/screen/3"
    (tmp_path / "screen/3").mkdir(parents=True)
    (tmp_path / "screen/3/output.log").touch()
    (tmp_path / "screen/3/result.json").write_text("{}")
    assert failed_runs(study(*good, *bad)).endswith(f"see {tmp_path}/screen/3/result.json"), "nothing was printed"
    (tmp_path / "screen/3/output.log").write_text("Traceback ...")
    lost = run("trial 0", "test", 0.0, seed=9, outcome=Outcome.DIVERGED, reason="the loss became nan")
    summary = study(*good, *bad, lost)
    assert failed_runs(summary) == (
        "2 of 4 trials and 1 of 1 further run failed (2 crashed and 1 diverged); most often: KeyError: 'x'; "
        f"see {tmp_path}/screen/3/output.log"
    )
    assert failed_runs(replace(summary, is_sweep=True)).startswith("2 of 4 jobs and")


# Effort


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
    assert "hardly pay" in found.sentence()  # a gain of 0.06 against a deviation of 0.5
    assert "hardly beat the default configuration: keep it" in found.sentence(keeps_default=True)
    surer = replace(found, noise=0.01)
    assert "More trials may still pay: raise" in surer.sentence()
    assert "though the default configuration has not been beaten yet" in surer.sentence(keeps_default=True)
    lower = expected_best(replace(summary, maximised=False))
    assert lower is not None
    assert dict(lower.points)[2] == 0.25
    assert expected_best(study(*(trial(n, 1.0) for n in range(4)))) is None
