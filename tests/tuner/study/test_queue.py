"""Trials that wait in the storage, such as those that somebody enqueues."""

from types import SimpleNamespace

import optuna
import pytest

from tests.tuner.studies import definition
from tuner.study import run_registry
from tuner.study.run_registry import ScreenRegistry


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
