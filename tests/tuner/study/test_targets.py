"""Studies scored by how soon a value is reached: censored runs, kills, and what verdict, table and page say of it."""

import io
from pathlib import Path
from typing import Any

import pytest
from rich.console import Console

import tuner as api
from tests.tuner.command_line import CommandLine
from tests.tuner.studies import ControllerDied, FakeExecutor, Script, ending, learn, run_study
from tuner.reporting import FinalTable
from tuner.results.metric import SecondsTo, Timing
from tuner.results.summary_json import summary_from_json, summary_to_json
from tuner.results.verdict import verdict
from tuner.trial.messages import Outcome, TrialResult, TrialSpec

COSTLY: dict[str, Any] = {"metric": "seconds_to_40", "num_trials": 8, "num_test_seeds": 3}


def costly(spec: TrialSpec, attempt: int) -> Script:
    """Large batches take longer."""
    return Script(learn(spec, attempt).curve, whole_s=spec.config["buffer"]["batch_size"] / 4)


def test_a_score_is_the_time_until_the_value_and_without_it_ten_times_that_of_the_first_complete_run(
    tmp_path: Path,
) -> None:
    summary = run_study(tmp_path, FakeExecutor(behave=costly), **COSTLY)
    first = summary.stage("screen")[0]
    limit = first.times[-1][1]
    assert limit == first.params["buffer.batch_size"] / 4
    assert {run.time_limit for run in summary.runs} == {limit}
    metric = SecondsTo(40.0)
    for run in summary.runs:
        whole_s = run.params.get("buffer.batch_size", 64) / 4
        assert run.times == tuple((step, step * whole_s) for step, _ in run.curve)
        assert run.value == metric(run.curve, Timing(run.times, limit))
    reached = [run.value for run in summary.stage("screen") if metric.is_reached_by(run.curve)]
    missed = [run.value for run in summary.stage("screen") if not metric.is_reached_by(run.curve)]
    assert min(reached) > -10.0 * limit >= max(missed), "and there are some of both"
    assert summary_from_json(summary_to_json(summary)) == summary


@pytest.mark.parametrize("events", [7, 25, 60, 150])
def test_a_study_whose_controller_was_killed_has_the_scores_of_one_that_was_not(tmp_path: Path, events: int) -> None:
    undisturbed = run_study(tmp_path / "undisturbed", FakeExecutor(behave=costly), **COSTLY)
    with pytest.raises(ControllerDied):
        run_study(tmp_path / "killed", FakeExecutor(behave=costly, die_after=events), **COSTLY)
    summary = run_study(tmp_path / "killed", FakeExecutor(behave=costly), **COSTLY)
    told = [
        [(run.stage, run.number, run.value, run.times, run.time_limit) for run in one.runs]
        for one in (undisturbed, summary)
    ]
    assert told[0] == told[1]
    assert summary.winner_label == undisturbed.winner_label


def test_a_run_that_failed_has_the_worst_value_there_is(tmp_path: Path) -> None:
    diverges = ending(3, TrialResult(Outcome.DIVERGED, "nan", seconds=0.1), reports=1)
    summary = run_study(tmp_path, FakeExecutor(behave=diverges), **COSTLY)
    failed, before = summary.stage("screen")[3], summary.stage("screen")[:3]
    assert failed.outcome is Outcome.DIVERGED
    assert failed.value is not None
    assert failed.value <= min(run.value for run in before)


def test_a_run_that_does_not_say_when_it_reported_has_no_score(tmp_path: Path) -> None:
    def silent(spec: TrialSpec, attempt: int) -> Script:
        script = costly(spec, attempt)
        return Script(script.curve, whole_s=None) if spec.key == "screen/1" else script

    run = run_study(tmp_path, FakeExecutor(behave=silent), **COSTLY).stage("screen")[1]
    assert (run.outcome, run.value) == (Outcome.CRASHED, None)
    assert run.reason == "its reports do not say after how many seconds of training"


def test_other_studies_keep_no_times(tmp_path: Path) -> None:
    summary = run_study(tmp_path, FakeExecutor(behave=costly), **{**COSTLY, "metric": "steps_to_40"})
    assert {(run.times, run.time_limit) for run in summary.runs} == {((), 0.0)}


def reaching(*wanted: bool) -> Any:
    """Test runs of the default configuration reach 40 after a quarter of 16 s, on these of the test seeds."""

    def behave(spec: TrialSpec, attempt: int) -> Script:
        if spec.stage != "test":
            return costly(spec, attempt)
        reaches = "default" not in labels(spec) or wanted[len(seen)]
        if "default" in labels(spec):
            seen.append(spec.seed)
        end = 80.0 if reaches else 20.0
        return Script([(point / 9, end * min(1.0, 2 * point / 9)) for point in range(1, 10)], whole_s=16.0)

    def labels(spec: TrialSpec) -> tuple[str, ...]:
        return ("default",) if spec.config["optimizer"]["learning_rate"] == 0.1 else ("winner",)

    seen: list[int] = []
    return behave


@pytest.mark.parametrize(
    ("metric", "after", "limit"),
    [("seconds_to_40", "4 s of training", True), ("steps_to_40", "25% of the budget", False)],
)
def test_the_verdict_says_on_how_many_seeds_the_value_was_reached(
    tmp_path: Path, metric: str, after: str, limit: bool
) -> None:
    behave = reaching(True, False, False)
    summary = run_study(tmp_path, FakeExecutor(behave=behave), **{**COSTLY, "metric": metric})
    found = verdict(summary)
    winner = f"{summary.winner_label} reached 40 on 3 of 3 seeds, after {after}".capitalize()
    default = f"the default configuration reached 40 on 1 of 3 seeds, there after {after}."
    assert found.details[0] == f"{winner}; {default}"
    assert ("A run that does not reach 40" in found.details[1]) is limit
    assert "reached 40 on no test seed" not in found.sentence
    console = Console(file=io.StringIO(), width=150)
    console.print(FinalTable(summary))
    table = console.file.getvalue()  # type: ignore[attr-defined]
    assert "reached 40" in table
    (row,) = [line for line in table.splitlines() if line.startswith(" default")]
    assert "1 of 3" in row


def test_a_winner_that_never_reaches_the_value_is_not_praised_for_speed(tmp_path: Path) -> None:
    summary = run_study(tmp_path, FakeExecutor(behave=costly), **{**COSTLY, "metric": "seconds_to_4000"})
    assert (
        "The winner did not reach 4000 on any test seed, so its scores measure how close it came"
        in verdict(summary).sentence
    )


INLINE = (
    "agent=synthetic",
    "executor=inline",
    "storage=memory",
    "tracker=jsonl",
    "study.num_trials=6",
    "study.name=one",
)


def test_a_study_by_seconds_says_what_was_reached_in_the_terminal_and_on_the_page(tuner: CommandLine) -> None:
    done = tuner("tune", *INLINE, "study.metric=seconds_to_20")
    assert done.status == 0, done.errors
    assert "reached 20 on" in done.output
    page = (tuner.folder / "studies/one/report.html").read_text()
    assert "minus the seconds of training until 20" in page
    assert "reached 20 on" in page


def test_seconds_to_a_value_may_stand_behind_another_objective(tuner: CommandLine) -> None:
    summary = api.tune([*INLINE, "study.metric=[final,seconds_to_20]", "pruner=none"]).summary
    assert [(other.name, other.maximised) for other in summary.others] == [("seconds_to_20", True)]
    metric = SecondsTo(20.0)
    complete = [run for run in summary.stage("screen") if run.complete]
    for run in complete:
        assert run.scores["seconds_to_20"] == metric(run.curve, Timing(run.times, run.time_limit))
