"""Pairs of parameters that act together, and what chance makes of others."""

import numpy as np
import optuna
import pytest
from optuna.distributions import BaseDistribution, CategoricalDistribution, FloatDistribution, IntDistribution
from optuna.trial import TrialState, create_trial

from tuner.features.interactions.facts import INTERACTIONS, Interactions
from tuner.features.interactions.pairs import interactions
from tuner.results.records import StudySummary
from tuner.results.summary_json import summary_from_json, summary_to_json

DOMAINS: dict[str, BaseDistribution] = {
    "rate": FloatDistribution(1e-4, 1.0, log=True),
    "batch": IntDistribution(1, 64),
    "kind": CategoricalDistribution(["a", "b", "c"]),
    "dummy": FloatDistribution(0.0, 1.0),
}
SPACE = {name: {"path": f"agent.{name}"} for name in DOMAINS}


def study(effect: str, num_trials: int = 60, seed: int = 0, direction: str = "maximize") -> optuna.Study:
    """Random trials: each of rate, batch and kind has an effect of its own, `effect` says which two one together."""
    made = optuna.create_study(direction=direction)
    rng = np.random.default_rng(seed)
    for _ in range(num_trials):
        params = {
            "rate": float(10 ** rng.uniform(-4, 0)),
            "batch": int(rng.integers(1, 65)),
            "kind": str(rng.choice(["a", "b", "c"])),
            "dummy": float(rng.random()),
        }
        rate, batch, kind = (np.log10(params["rate"]) + 4) / 4, params["batch"] / 64, "abc".index(params["kind"]) / 2
        together = {"none": 0.0, "rate batch": (rate - 0.5) * (batch - 0.5), "rate kind": (rate - 0.5) * (kind - 0.5)}
        score = rate + batch - kind + 6 * together[effect] + 0.2 * rng.normal()
        made.add_trial(
            create_trial(
                state=TrialState.COMPLETE,
                params=params,
                distributions=DOMAINS,
                value=score if direction == "maximize" else -score,
            )
        )
    return made


@pytest.mark.parametrize(("effect", "direction"), [("rate batch", "maximize"), ("rate kind", "minimize")])
def test_the_pair_that_acts_together_rises_above_chance(
    effect: str, direction: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("tuner.features.interactions.pairs._SHUFFLES", 6)
    found = interactions(study(effect, direction=direction), SPACE, direction == "maximize")
    assert found is not None
    first, second, share = found.pairs[0]
    assert {first, second} == {f"agent.{name}" for name in effect.split()}
    assert share > 2 * found.chance
    assert len(found.pairs) == 6


def test_of_effects_that_add_up_no_pair_rises_above_chance() -> None:
    found = interactions(study("none", Interactions.MIN_TRIALS, seed=1), SPACE)
    assert found is not None
    assert found.found == ()


def test_it_is_not_guessed_from_too_little() -> None:
    assert interactions(study("rate batch", Interactions.MIN_TRIALS - 1), SPACE) is None
    assert interactions(study("rate batch"), {"rate": SPACE["rate"]}) is None, "one parameter is no pair"
    same = optuna.create_study()
    for trial in study("none").trials:
        same.add_trial(create_trial(params=trial.params, distributions=DOMAINS, value=1.0))
    assert interactions(same, SPACE) is None, "all are equal"


def test_a_parameter_that_only_some_trials_have_is_in_no_pair(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("tuner.features.interactions.pairs._SHUFFLES", 1)  # chance is not what this is about
    made = optuna.create_study(direction="maximize")
    for number, trial in enumerate(study("rate batch").trials):
        names = [name for name in DOMAINS if name != "kind" or number % 2]
        made.add_trial(
            create_trial(
                params={name: trial.params[name] for name in names},
                distributions={name: DOMAINS[name] for name in names},
                value=trial.value,
            )
        )
    found = interactions(made, SPACE)
    assert found is not None
    assert len(found.pairs) == 3
    assert found.pairs[0][:2] == ("agent.rate", "agent.batch")


def test_a_summary_keeps_them() -> None:
    found = Interactions((("a", "b", 0.25), ("a", "c", 0.01)), 0.05)
    assert found.found == (("a", "b", 0.25),)
    summary = StudySummary("mine", "final", "CartPole-v1", "DQN", "torch", facts={INTERACTIONS.key: found})
    assert INTERACTIONS.of(summary_from_json(summary_to_json(summary))) == found
