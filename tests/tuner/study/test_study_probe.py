"""The random policy that a study begins with."""

from pathlib import Path

import pytest

from tests.tuner.studies import FakeExecutor, Script, definition, learn, run_study
from tests.tuner.study_records import stored
from tuner.errors import UserError
from tuner.study.control import Interrupts
from tuner.study.study_probe import run_probe
from tuner.trial.messages import Outcome, TrialResult, TrialSpec


def test_a_random_policy_is_measured_once(tmp_path: Path) -> None:
    executor = FakeExecutor(
        behave=lambda spec, attempt: Script([(1.0, -7.0)]) if spec.stage == "probe" else learn(spec, 1)
    )
    run_study(tmp_path, executor, probe="tests.tuner.entries:probe")
    assert executor.started[0].key == "probe/0"
    assert executor.started[0].entry == "tests.tuner.entries:probe"
    assert stored(tmp_path).user_attrs["random_score"] == -7.0
    again = FakeExecutor()
    run_study(tmp_path, again, probe="tests.tuner.entries:probe", num_trials=7)
    assert {spec.stage for spec in again.started} <= {"screen", "confirm", "test"}


def test_a_probe_that_loses_its_machine_begins_again(tmp_path: Path) -> None:
    def behave(spec: TrialSpec, attempt: int) -> Script:
        end = TrialResult(Outcome.LOST, "far-1 was lost") if attempt < 3 else TrialResult(Outcome.COMPLETE)
        return Script([(1.0, -7.0)], end)

    executor = FakeExecutor(behave=behave)
    score = run_probe(definition(tmp_path, probe="tests.tuner.entries:probe"), executor, Interrupts())
    assert score == -7.0
    assert [spec.key for spec in executor.started] == ["probe/0"] * 3


def test_what_is_wrong_and_ends_nothing_is_shown(tmp_path: Path) -> None:
    end = TrialResult(Outcome.COMPLETE, "Bad-v0 shows 3")
    executor, notes = FakeExecutor(behave=lambda spec, attempt: Script([(1.0, -7.0)], end)), list[str]()
    study = definition(tmp_path, probe="tests.tuner.entries:probe")
    assert run_probe(study, executor, Interrupts(), note=notes.append) == -7.0
    assert notes == ["Warning: Bad-v0 shows 3"]


@pytest.mark.parametrize(("retries", "num_started"), [(0, 1), (1, 2)])
def test_a_probe_that_is_killed_is_tried_again_as_any_run(tmp_path: Path, retries: int, num_started: int) -> None:
    def behave(spec: TrialSpec, attempt: int) -> Script:
        return Script([], TrialResult(Outcome.CRASHED, "its process was killed by SIGKILL"))

    executor = FakeExecutor(behave=behave)
    with pytest.raises(UserError, match="cannot run: its process was killed by SIGKILL"):
        run_probe(definition(tmp_path, probe="tests.tuner.entries:probe", retries=retries), executor, Interrupts())
    assert len(executor.started) == num_started


def test_a_probe_that_finds_a_mistake_finds_it_once(tmp_path: Path) -> None:
    wrong = TrialResult(Outcome.CRASHED, "EnvironmentMismatchError: no such action", deterministic=True)
    executor = FakeExecutor(behave=lambda spec, attempt: Script([], wrong))
    with pytest.raises(UserError, match="cannot run: no such action"):
        run_probe(definition(tmp_path, probe="tests.tuner.entries:probe", retries=3), executor, Interrupts())
    assert len(executor.started) == 1
