"""What a study keeps of how it was made."""

from pathlib import Path

import pytest

from tests.tuner.studies import CONFIG, run_study
from tuner.results.number_format import describe_part
from tuner.study.space.parameter_text import describe_values
from tuner.study.space.space import Space


def test_the_space_in_words() -> None:
    space = {
        "optimizer": {"learning_rate": {"low": 1e-5, "high": 1.0, "log": True}},
        "agent": {
            "gamma": {"low": 0.9, "high": 0.9999, "transform": "one_minus"},
            "kind": {"choices": ["plain", "odd"]},
        },
        "buffer": {
            "batch_size": {"low": 16, "high": 256, "transform": "power_of_two"},
            "train_freq": {"low": 1, "high": 9, "step": 2, "when": {"agent.kind": ["odd"]}},
            "gradient_steps": {"low": 0.125, "high": 1.0, "log": True, "of": ["buffer.train_freq"]},
        },
    }
    described = Space.from_config(space, CONFIG).describe()
    assert {one["path"]: describe_values(one) for one in described.values()} == {
        "optimizer.learning_rate": "1e-05 .. 1 (log)",
        "agent.gamma": "0.9 .. 0.9999 (log of 1 - x)",
        "agent.kind": "plain, odd",
        "buffer.batch_size": "16 .. 256 (powers of 2)",
        "buffer.gradient_steps": "0.125 .. 1 (log) of buffer.train_freq",
        "buffer.train_freq": "1 .. 9 (steps of 2), where agent.kind is odd",
    }


def test_parts_in_words() -> None:
    node = {"_target_": "optuna.samplers.TPESampler", "_partial_": True, "multivariate": True, "n_startup_trials": 10}
    assert describe_part(node) == "TPESampler (multivariate true, n_startup_trials 10)"
    assert describe_part({"_target_": "optuna.samplers.RandomSampler"}) == "RandomSampler"
    assert describe_part({"_target_": "optuna.pruners.NopPruner"}) == ""


def test_what_a_study_goes_on_with_is_told_besides(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    revisions = iter(["one", "one", "two"])
    monkeypatch.setattr("tuner.study.storage.store.code_revision", lambda folder: next(revisions))
    for sampler in ("RandomSampler", "TPESampler", "TPESampler"):
        summary = run_study(tmp_path, facts={"sampler": sampler})
    assert (summary.sampler, summary.code) == ("RandomSampler; then TPESampler", "one; then two")
    assert summary.space["agent.gamma"] == "0.9 .. 0.9999 (log of 1 - x)"
