"""Facts about a run, from its objects."""

from pathlib import Path

from tests.tuner.studies import FakeExecutor, Script, learn, run_study
from tuner.trial.messages import TrialSpec


def test_a_value_that_the_objects_do_not_have_is_found_out(tmp_path: Path) -> None:
    def behave(spec: TrialSpec, attempt: int) -> Script:
        script = learn(spec, attempt)
        if spec.key == "screen/1":
            script.used = {**spec.config, "agent": {"gamma": 0.99}}
        if spec.key == "screen/2":
            script.used = {**spec.config, "buffer": {}}
        return script

    executor = FakeExecutor(behave=behave)
    screened = run_study(tmp_path, executor).stage("screen")
    assert screened[1].reason.startswith("agent.gamma was sampled as 0.9")
    assert screened[1].reason.endswith(
        "but is 0.99 in the objects that were built: the config does not reach the object"
    )
    assert "buffer.batch_size" in screened[2].reason
    assert "is not in what the run says it used" in screened[2].reason
    assert [screened[number].value for number in (1, 2)] == [None, None]
    assert executor.verdicts.count(("screen/1", 1 / 9, "stop")) == 1, "it is stopped at its first report"
