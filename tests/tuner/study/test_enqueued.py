"""Trials that wait in the storage, such as those that somebody enqueues."""

from types import SimpleNamespace

import optuna
import pytest

from tests.tuner.features.population.test_population import POPULATION, drift
from tests.tuner.studies import ControllerDied, FakeExecutor, definition, journal, run_study
from tests.tuner.sweeper.test_sweep_study import SameFolder
from tests.tuner.sweeper.test_sweep_study import definition as sweep_definition
from tuner.study import StudyStore, run_registry
from tuner.study.enqueued import close
from tuner.study.run_registry import ScreenRegistry
from tuner.study.sampling.sampler_factory import mend
from tuner.study.storage.store import quiet_optuna
from tuner.study.sweep.job_registry import SweepRegistry


@pytest.fixture
def clock(monkeypatch):
    clock = SimpleNamespace(now=100.0)
    monkeypatch.setattr(run_registry, "time", SimpleNamespace(monotonic=lambda: clock.now))
    return clock


def registry_of(study, tmp_path, starts=()):
    of_the_study = definition(tmp_path, num_trials=100)
    points = {f"start {number}": {"optimizer.learning_rate": rate} for number, rate in enumerate(starts)}
    object.__setattr__(of_the_study, "starts", lambda: points)
    return ScreenRegistry(study, of_the_study, seed=1)


def rates(registry, number):
    return [registry.next_run().values["optimizer.learning_rate"] for _ in range(number)]


def test_they_are_run_before_new_ones_and_found_within_a_second(tmp_path, clock):
    study = optuna.create_study(sampler=optuna.samplers.RandomSampler(0))
    registry = registry_of(study, tmp_path, starts=[0.011, 0.012])
    first = rates(registry, 3)
    assert first[:2] == [0.011, 0.012]
    study.enqueue_trial({"optimizer.learning_rate": 0.013})
    clock.now += 0.9
    assert 0.013 not in rates(registry, 2)
    clock.now += 0.2
    assert rates(registry, 2)[0] == 0.013


def test_they_are_not_looked_for_in_between(tmp_path, clock, monkeypatch):
    study = optuna.create_study(sampler=optuna.samplers.RandomSampler(0))
    registry = registry_of(study, tmp_path)
    looked = []
    monkeypatch.setattr(type(study), "_pop_waiting_trial_id", lambda self: looked.append(clock.now))
    rates(registry, 10)
    clock.now += 1.0
    rates(registry, 10)
    assert looked == [100.0, 101.0]


WRONG = {
    "a text": (
        {"optimizer.learning_rate": "fast"},
        "optimizer.learning_rate='fast', which is out of its range: 'fast' is",
    ),
    "beyond its range": (
        {"optimizer.learning_rate": 2.0},
        "optimizer.learning_rate=2.0, which is out of its range: 2 is",
    ),
    "no number": ({"optimizer.learning_rate": float("nan")}, "optimizer.learning_rate=nan, which is out of its range"),
    "another name": ({"optimizer.learning_rte": 0.1}, "which is not searched; did you mean optimizer.learning_rate?"),
    "its path": ({"agent.gamma": 0.9}, "agent.gamma=0.9, which is not searched by that name: it is 1-agent.gamma"),
    "no whole number": ({"log2(buffer.batch_size)": 4.5}, "log2(buffer.batch_size)=4.5, which is out of its range"),
    "larger than any": ({"optimizer.learning_rate": 10**400}, "which is out of its range"),
}


def enqueue(folder, parameters):
    with StudyStore(journal(folder)) as store:
        store.require("study").enqueue_trial(parameters)


@pytest.mark.parametrize("kind", WRONG)
def test_an_enqueued_trial_that_cannot_be_run_is_closed_and_reported_and_the_study_goes_on(tmp_path, caplog, kind):
    parameters, said = WRONG[kind]
    run_study(tmp_path, num_trials=2)
    enqueue(tmp_path, parameters)
    enqueue(tmp_path, {"optimizer.learning_rate": 0.013})
    summary = run_study(tmp_path, num_trials=5)
    screened = [run for run in summary.runs if run.stage == "screen"]
    assert [run.outcome.value for run in screened] == ["complete", "complete", "crashed", "complete", "complete"]
    assert screened[2].reason.startswith("it was enqueued with ")
    assert said in screened[2].reason
    assert "trial 2 of study study is not run: it was enqueued with " in caplog.text
    assert screened[3].params["optimizer.learning_rate"] == 0.013
    assert not (tmp_path / "studies" / "study" / "screen" / "2").exists()


def test_a_study_that_an_earlier_version_stuck_with_goes_on(tmp_path):
    run_study(tmp_path, num_trials=2)
    enqueue(tmp_path, {"optimizer.learning_rate": "fast"})
    with StudyStore(journal(tmp_path)) as store:
        assert store.require("study").ask().number == 2  # and then it could not be drawn
    summary = run_study(tmp_path, num_trials=4)
    assert [run.outcome.value for run in summary.runs if run.stage == "screen"].count("complete") == 3


@pytest.mark.parametrize("name", ["random", "tpe", "grid", "brute_force", "qmc", "cmaes"])
def test_no_sampler_minds_one_that_was_closed(name):
    choices = optuna.distributions.IntDistribution(0, 3)
    make = {
        "random": lambda: optuna.samplers.RandomSampler(0),
        "tpe": lambda: optuna.samplers.TPESampler(seed=0, n_startup_trials=1),
        "grid": lambda: optuna.samplers.GridSampler({"x": [0, 1, 2, 3]}, seed=0),
        "brute_force": lambda: optuna.samplers.BruteForceSampler(seed=0),
        "qmc": lambda: optuna.samplers.QMCSampler(seed=0, warn_independent_sampling=False),
        "cmaes": lambda: optuna.samplers.CmaEsSampler(seed=0, warn_independent_sampling=False),
    }
    with quiet_optuna():
        study = optuna.create_study(sampler=make[name]())
        mend(study.sampler)
        study.stop = lambda: None  # as those do that have tried everything
        for number in range(4):
            if number == 2:
                study.enqueue_trial({"y": 1})
                close(study, study.ask(), "it was enqueued by mistake")
            trial = study.ask({"x": choices})
            study.tell(trial, float(trial.params["x"]))
    assert [trial.state.name for trial in study.trials].count("COMPLETE") == 4


def winner_of(summary):
    return next(run for run in summary.runs if run.stage == "evolve" and run.label == summary.winner_label)


def test_a_population_closes_those_that_are_no_members_of_it(tmp_path):
    with pytest.raises(ControllerDied):
        run_study(tmp_path, FakeExecutor(behave=drift, die_after=20), **POPULATION)
    enqueue(tmp_path, {"optimizer.learning_rate": 0.1})
    summary = run_study(tmp_path, FakeExecutor(behave=drift), **POPULATION)
    alone = run_study(tmp_path / "alone", FakeExecutor(behave=drift), **POPULATION)
    enqueued = [run for run in summary.runs if "it was enqueued by somebody" in run.reason]
    assert len(enqueued) == 1
    assert winner_of(summary).value == winner_of(alone).value
    assert winner_of(summary).number == winner_of(alone).number + 1


def test_a_sweep_closes_one_that_cannot_be_run(tmp_path):
    study = optuna.create_study(sampler=optuna.samplers.RandomSampler(0))
    study.enqueue_trial({"x": "fast"})
    study.enqueue_trial({"x": 0.5})
    registry = SweepRegistry(study, sweep_definition(), SameFolder("job"), tmp_path, total=3)
    assert registry.next_run().values == {"overrides": ["x=0.5"]}
    assert [trial.state.name for trial in study.trials] == ["FAIL", "RUNNING"]
