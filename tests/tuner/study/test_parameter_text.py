"""Searched parameters in words."""

from tests.tuner.studies import CONFIG
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
