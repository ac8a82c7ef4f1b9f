"""Parameters that are searched only with some choices of others."""

import copy

import optuna
import pytest

from tests.tuner.studies import CONFIG, SPACE
from tuner.errors import UserError
from tuner.study.space.space import Space
from tuner.trial.messages import JsonDict

CONDITIONAL: JsonDict = {
    "agent": {
        "kind": {"choices": ["plain", "double", "noisy"]},
        "gamma": {"low": 0.9, "high": 0.999, "when": {"agent.kind": ["double", "noisy"]}},
    },
    "buffer": {
        "batch_size": {"choices": [32, 64], "when": {"agent.kind": "noisy"}},
        "train_freq": {"low": 1, "high": 8, "when": {"buffer.batch_size": 64, "agent.kind": ["noisy", "double"]}},
        "gradient_steps": {"low": 0.5, "high": 1.0, "of": "buffer.train_freq"},
    },
}


def drawn_with(**chosen: object) -> dict[str, object]:
    """The parameters that are asked for when choices come out so, and all else at its lowest."""
    space = Space.from_config(CONDITIONAL, CONFIG)

    def suggest(name: str, distribution: optuna.distributions.BaseDistribution) -> object:
        return chosen[name.rpartition(".")[2]] if hasattr(distribution, "choices") else distribution.low  # type: ignore[attr-defined]

    return space.draw(suggest)  # type: ignore[arg-type, return-value]


def test_a_conditional_parameter_is_asked_for_only_with_its_choices() -> None:
    share = "buffer.gradient_steps/buffer.train_freq"
    assert set(drawn_with(kind="plain")) == {"agent.kind", share}
    assert set(drawn_with(kind="double")) == {"agent.kind", "agent.gamma", share}
    assert set(drawn_with(kind="noisy", batch_size=32)) == {"agent.kind", "agent.gamma", "buffer.batch_size", share}
    everything = set(Space.from_config(CONDITIONAL, CONFIG).distributions())
    assert set(drawn_with(kind="noisy", batch_size=64)) == everything


def test_what_is_not_asked_for_keeps_its_default() -> None:
    space = Space.from_config(CONDITIONAL, CONFIG)
    values = space.values(drawn_with(kind="plain"), CONFIG)  # type: ignore[arg-type]
    assert values == {"agent.kind": "plain", "buffer.gradient_steps": 2}, "half of the default train_freq, 4"
    applied = space.apply(CONFIG, values)
    assert applied["agent"]["gamma"] == CONFIG["agent"]["gamma"]


def test_the_starting_point_has_the_parameters_of_its_own_choices() -> None:
    config = {**CONFIG, "buffer": {**CONFIG["buffer"], "gradient_steps": 2}}
    assert set(Space.from_config(CONDITIONAL, config).drawn(config)) == {
        "agent.kind",
        "buffer.gradient_steps/buffer.train_freq",
    }


def test_a_condition_is_part_of_what_a_study_must_not_change() -> None:
    plain = copy.deepcopy(CONDITIONAL)
    del plain["agent"]["gamma"]["when"]
    before, now = (Space.from_config(tree, CONFIG) for tree in (CONDITIONAL, plain))
    assert before.fingerprint != now.fingerprint
    assert now.difference(before.describe()) == [
        "agent.gamma was searched over 0.9 .. 0.999, where agent.kind is double and noisy, and is now over 0.9 .. 0.999"
    ]


@pytest.mark.parametrize(
    ("when", "why"),
    [
        ("double", "must name a parameter and its choices"),
        ({}, "must name a parameter and its choices"),
        ({"agent.knd": "double"}, "names agent.knd, which is not searched; did you mean agent.kind?"),
        ({"optimizer.learning_rate": 0.1}, "which is not searched by choices"),
        ({"agent.kind": "triple"}, r"with ['triple'], but its choices are ['plain', 'double']"),
        ({"agent.kind": []}, "with no choice"),
    ],
)
def test_conditions_that_make_no_sense_are_refused(when: object, why: str) -> None:
    tree: JsonDict = {
        "agent": {"kind": {"choices": ["plain", "double"]}, "gamma": {"low": 0.9, "high": 0.99, "when": when}},
        "optimizer": SPACE["optimizer"],
    }
    with pytest.raises(UserError) as raised:
        Space.from_config(tree, CONFIG)
    assert why in str(raised.value)
    assert "space.agent.gamma.when" in str(raised.value)


def test_conditions_in_a_circle_are_refused() -> None:
    tree: JsonDict = {
        "agent": {"kind": {"choices": ["plain", "double"], "when": {"buffer.batch_size": 32}}},
        "buffer": {"batch_size": {"choices": [32, 64], "when": {"agent.kind": "plain"}}},
    }
    with pytest.raises(UserError, match=r"agent.kind and buffer.batch_size depend on each other"):
        Space.from_config(tree, CONFIG)
