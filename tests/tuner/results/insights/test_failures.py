"""Failures by kind, counted by hand."""

from dataclasses import replace
from pathlib import Path

from tests.tuner.reporting.summaries import run
from tests.tuner.results.insights.small_studies import study, trial
from tuner.results.insights.failures import failed_runs, failure_kinds
from tuner.trial.messages import Outcome


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
