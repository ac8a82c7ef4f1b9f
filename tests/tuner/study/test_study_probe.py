"""The random policy that a study begins with."""

from pathlib import Path

from tests.tuner.studies import FakeExecutor, Script, learn, run_study
from tests.tuner.study_records import stored


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
