"""The configuration of a study's run, the names that a study may have, and where its search may begin."""

from pathlib import Path

import pytest

from tests.tuner.entries import synthetic_curve
from tests.tuner.studies import CONFIG, SPACE, FakeExecutor, definition, run_study
from tuner.errors import UserError
from tuner.results.findings import Finding
from tuner.results.metric import Mixed
from tuner.results.verdict import verdict
from tuner.trial.messages import JsonDict


def test_each_run_gets_its_values_its_seed_and_nothing_else_changed(tmp_path: Path) -> None:
    executor = FakeExecutor()
    summary = run_study(tmp_path, executor)
    specs = {spec.key: spec for spec in executor.started}
    for run in summary.runs:
        spec = specs[f"{run.stage}/{run.number}"]
        assert spec.seed == spec.config["seed"] == run.seed
        assert spec.config["agent"]["gamma"] == run.params.get("agent.gamma", 0.99)
        assert spec.config["optimizer"]["learning_rate"] == run.params.get("optimizer.learning_rate", 0.1)
        assert spec.config["buffer"]["batch_size"] == run.params.get("buffer.batch_size", 64)
        assert {key: spec.config[key] for key in ("env", "training", "backend")} == {
            key: CONFIG[key] for key in ("env", "training", "backend")
        }
        assert run.value == Mixed()(synthetic_curve(spec.config, spec.seed))
    assert all(not run.params for run in summary.stage("test", "default"))


def test_what_refers_to_a_searched_value_follows_it(tmp_path: Path) -> None:
    def configure(values: JsonDict) -> JsonDict:
        rate = values.get("optimizer.learning_rate", 0.1)
        return {**CONFIG, "optimizer": {"learning_rate": rate}, "schedule": {"start": rate}}

    executor = FakeExecutor()
    space = {"optimizer": SPACE["optimizer"]}
    run_study(tmp_path, executor, configure=configure, space=space)
    for spec in executor.started:
        assert spec.config["schedule"]["start"] == spec.config["optimizer"]["learning_rate"]


@pytest.mark.parametrize("name", ["", "a/b", ".hidden"])
def test_names_that_are_no_folder_are_refused(tmp_path: Path, name: str) -> None:
    with pytest.raises(UserError, match=r"study.name=.* must be a plain name"):
        definition(tmp_path, name=name)


def test_the_default_configuration_can_be_tried_first(tmp_path: Path) -> None:
    summary = run_study(tmp_path, warm_start={"default": CONFIG})
    first = summary.stage("screen")[0]
    assert first.params == {"agent.gamma": 0.99, "buffer.batch_size": 64, "optimizer.learning_rate": 0.1}
    assert len(summary.stage("screen")) == 6
    assert any("started with the default configuration (trial 0)" in note for note in summary.notes)


def test_a_default_outside_the_space_is_refused_as_a_start(tmp_path: Path) -> None:
    executor = FakeExecutor()
    space = {"optimizer": {"learning_rate": {"low": 1e-5, "high": 1e-2, "log": True}}}
    with pytest.raises(UserError, match=r"optimizer.learning_rate=0.1 cannot be a starting point"):
        run_study(tmp_path, executor, space=space, warm_start={"default": CONFIG})
    assert executor.started == []


GOOD: JsonDict = {**CONFIG, "optimizer": {"learning_rate": 1e-3}}
"""The best configuration that there is."""


def test_a_default_that_stays_the_best_is_tested_once(tmp_path: Path) -> None:
    known = {"default": GOOD}
    summary = run_study(tmp_path, config=GOOD, warm_start=known, num_test_seeds=5)
    assert (summary.winner_label, summary.default_label, len(summary.stage("test"))) == ("trial 0", "trial 0", 5)
    found = verdict(summary)
    assert found.finding is Finding.DEFAULT_AS_GOOD
    assert found.sentence.startswith("The winner is the default configuration: test IQM ")
    assert found.sentence.endswith(" on 5 test seeds. The search found nothing better among 5 other configurations.")
    assert not any("tried first" in one for one in found.details)


def test_a_default_that_is_beaten_later_is_compared_with_the_winner(tmp_path: Path) -> None:
    config: JsonDict = {**CONFIG, "optimizer": {"learning_rate": 5e-3}}
    told = {"config": config, "warm_start": {"default": config}, "num_candidates": 1}
    first = run_study(tmp_path, num_trials=1, **told)
    assert (first.winner_label, {run.label for run in first.stage("test")}) == ("trial 0", {"trial 0"})
    later = run_study(tmp_path, num_trials=40, **told)
    assert later.winner_label != "trial 0"
    assert later.default_label == "trial 0"
    assert {run.label for run in later.stage("test")} == {"trial 0", later.winner_label}
    assert later.stage("test", "trial 0") == first.stage("test", "trial 0"), "it runs once"
    assert verdict(later).default == verdict(first).winner
