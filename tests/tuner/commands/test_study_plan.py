"""`tuner tune plan=true`: what would be done, and how long it takes."""

from types import SimpleNamespace

import pytest

import tuner as tuner_package
from tests.tuner.command_line import CommandLine
from tests.tuner.commands.fake_studies import FAKE, tune
from tests.tuner.studies import FakeExecutor, Script
from tuner.errors import UserError

pytestmark = pytest.mark.usefixtures("fake_executor")


def test_a_plan_says_what_would_be_done_and_does_nothing(tuner: CommandLine) -> None:
    answer = tuner("tune", "plan=true", "study.steps_per_second=2000")
    assert answer.status == 0
    words = " ".join(answer.output.split())
    assert "agent.gamma 0.97 .. 0.999 (log of 1 - x)" in words
    assert "screen 20 runs 600,000 env steps" in words
    assert "env steps configurations, sampled; the first is the default configuration seed" in words
    assert "confirm 10 runs 300,000 env steps" in words
    assert "test 2 x 5 runs 300,000 env steps" in words
    assert "rungs after 1/9 and 3/9 of a run" in words
    assert "at most 1,200,000 environment steps: about 5 min 00 s with 2 at a time" in words
    assert not (tuner.folder / "studies").exists()
    assert not (tuner.folder / "studies.db").exists()
    by_seeds = tuner("tune", "plan=true", "study.steps_per_second=2000", "study.decision=confirmed").output
    words = " ".join(by_seeds.split())
    assert "race 4 runs 120,000 env steps" in words
    assert "confirm 3 x 2 runs 180,000 env steps" in words


def test_a_plan_names_rungs_only_where_runs_can_be_pruned(tuner: CommandLine) -> None:
    for argument in ("pruner=none", "study.num_trials=8"):
        words = tuner("tune", "plan=true", "study.steps_per_second=2000", argument).output
        assert "no run is pruned" in words
        assert "rungs" not in words


def test_a_plan_names_what_is_tried_first(tuner: CommandLine) -> None:
    starts = ("agent=dqn", "warm_start=[dqn_cartpole,default]")
    words = " ".join(tuner("tune", "plan=true", "study.steps_per_second=2000", *starts).output.split())
    assert "configurations, sampled; the first ones are dqn_cartpole and the default configuration" in words
    words = tuner("tune", "plan=true", "study.steps_per_second=2000", "warm_start=off").output
    assert "configurations, sampled\n" in words


def test_a_plan_says_why_the_default_is_not_tried(tuner: CommandLine) -> None:
    words = " ".join(tuner("tune", "plan=true", "study.steps_per_second=2000", "++agent.gamma=0.5").output.split())
    assert "configurations, sampled; the default is not tried: agent.gamma=0.5 cannot be a starting point" in words
    assert "over 0.97 .. 0.999 (log of 1 - x): widen space.agent.gamma" in words


def test_a_plan_of_a_grid_ends_where_the_grid_does(tuner: CommandLine) -> None:
    parts = ("agent.gamma", "agent.batch_size", "agent.entropy_coef", "agent.learning_rate")  # 3 activations are left
    left = ("agent=synthetic", "sampler=grid", *(f"~space.{part}" for part in parts))
    sizes = ("study.num_trials=400", "study.num_race_seeds=2", "study.num_candidates=3", "study.decision=confirmed")
    answer = tuner("tune", *left, *sizes, "plan=true", "study.steps_per_second=2000")
    assert "screen 3 runs" in " ".join(answer.output.split())
    assert "race" not in answer.output


def test_from_python_a_plan_is_refused_rather_than_run() -> None:
    with pytest.raises(UserError, match="plan=true prints a plan and runs nothing"):
        tuner_package.tune(["agent=synthetic", "plan=true"])


def test_a_plan_remembers_how_fast_runs_were(tuner: CommandLine) -> None:
    tune(tuner)  # a fake run says that it took one second
    words = " ".join(tuner("tune", *FAKE, "plan=true", "executor.parallel=1").output.split())
    assert "1,200,000 environment steps: about 40 s with 1 at a time" in words
    assert "30,000 steps per second each (the median of 5 earlier runs)" in words


def measured_plan(tuner: CommandLine, monkeypatch: pytest.MonkeyPatch, half_s: float) -> str:
    """The plan after a run that takes a second, and so long for the second half of its 4,000 steps."""
    clock = iter([100.0, 100.0 + half_s])
    monkeypatch.setattr("tuner.study.study_probe.time", SimpleNamespace(monotonic=lambda: next(clock)))
    (tuner.folder / "mine" / "executor" / "two.yaml").write_text(
        "_target_: tests.tuner.commands.test_study_plan.TwoReports\n"
    )
    answer = tuner("tune", "--config-dir", "mine", "executor=two", "plan=true")
    assert answer.status == 0, answer.errors
    return " ".join(answer.output.split())


def test_a_plan_counts_what_it_takes_to_start_a_run(tuner: CommandLine, monkeypatch: pytest.MonkeyPatch) -> None:
    words = measured_plan(tuner, monkeypatch, half_s=0.25)
    # 8000 steps a second are 150 s for 1,200,000, and each of 40 runs of 30,000 takes half a second besides
    assert (
        "about 2 min 50 s with 1 at a time, 8,000 steps per second each, and 0.5 s to start and end each run" in words
    )


def test_a_plan_measures_where_nothing_has_run(tuner: CommandLine, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("os.getloadavg", lambda: (1.2, 0.0, 0.0))
    words = measured_plan(tuner, monkeypatch, half_s=4.0)
    # 2000 steps in 4 s are 500 a second; 1,200,000 of them take 40 minutes
    assert "about 40 min 00 s with 1 at a time, 500 steps per second each (measured just now, one run alone)" in words
    assert not (tuner.folder / "studies.db").exists()


def test_a_plan_says_that_it_was_measured_on_a_busy_machine(
    tuner: CommandLine, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("os.getloadavg", lambda: (5.2, 0.0, 0.0))
    words = measured_plan(tuner, monkeypatch, half_s=4.0)
    assert "500 steps per second each (measured just now, one run beside other programs, load 4)" in words


class TwoReports(FakeExecutor):
    """Trials that report twice."""

    def __init__(self) -> None:
        super().__init__(behave=lambda spec, attempt: Script([(0.5, 1.0), (1.0, 2.0)]))
