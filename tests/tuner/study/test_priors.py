"""Values that are expected to be good: where they are drawn near, how a study begins with them, what is refused."""

import math
from typing import Any

import numpy as np
import optuna
import pytest
from optuna.distributions import CategoricalDistribution, FloatDistribution, IntDistribution
from optuna.samplers import BruteForceSampler, RandomSampler, TPESampler
from optuna.trial import TrialState

from tests.tuner.command_line import CommandLine
from tuner.errors import UserError
from tuner.study.sampling.sampler_factory import SeededByTrial, grid, make_sampler
from tuner.study.space.drawn_points import DEVIATION, near
from tuner.study.space.space import Space

CONFIG = {"agent": {"rate": 1e-3, "kind": "a", "size": 64}, "buffer": {"freq": 16, "steps": 4}}
TREE: dict[str, Any] = {
    "agent": {
        "rate": {"low": 1e-5, "high": 1e-1, "log": True, "prior": 1e-2},
        "kind": {"choices": ["a", "b", "c"], "prior": "b"},
        "size": {"low": 32, "high": 512, "transform": "power_of_two"},
    },
    "buffer": {"steps": {"low": 0.0625, "high": 1.0, "log": True, "of": "buffer.freq", "prior": 8}},
}
SPACE = Space.from_config(TREE, CONFIG)


def test_a_prior_is_kept_as_the_point_that_is_drawn() -> None:
    kept = {one.path: one.prior for one in SPACE.parameters}
    assert kept == {"agent.rate": 1e-2, "agent.kind": "b", "agent.size": None, "buffer.steps": 0.5}
    there = SPACE.with_priors(CONFIG)
    assert there is not None
    assert there["agent"] == {"rate": 1e-2, "kind": "b", "size": 64}
    assert there["buffer"]["steps"] == 8
    assert Space.from_config({"agent": {"size": TREE["agent"]["size"]}}, CONFIG).with_priors(CONFIG) is None


def test_a_share_of_what_has_a_prior_too_is_the_typed_value() -> None:
    tree = {
        "buffer": {"steps": TREE["buffer"]["steps"], "freq": {"low": 8, "high": 64, "prior": 32}},
    }
    space = Space.from_config(tree, CONFIG)
    assert {one.path: one.prior for one in space.parameters} == {"buffer.steps": 0.25, "buffer.freq": 32}
    there = space.with_priors(CONFIG)
    assert there is not None
    assert there["buffer"] == {"steps": 8, "freq": 32}


def test_samplers_that_try_every_point_have_no_use_for_priors() -> None:
    space = Space.from_config({"agent": {"kind": TREE["agent"]["kind"]}}, CONFIG)
    for sampler in (grid, BruteForceSampler):
        with pytest.raises(UserError, match="tries every point"):
            make_sampler(sampler, 0, 0, space)


def test_a_study_with_another_prior_is_another_study() -> None:
    other = Space.from_config({**TREE, "buffer": {"steps": {**TREE["buffer"]["steps"], "prior": 4}}}, CONFIG)
    assert other.fingerprint != SPACE.fingerprint
    assert other.difference(SPACE.describe()) == [
        "buffer.steps was searched over 0.0625 .. 1 (log) of buffer.freq, expected near 0.5, "
        "and is now over 0.0625 .. 1 (log) of buffer.freq, expected near 0.25"
    ]


@pytest.mark.parametrize("prior", [1.0, "x", [1]])
def test_a_prior_outside_is_refused(prior: object) -> None:
    tree = {"agent": {"rate": {"low": 1e-5, "high": 1e-1, "prior": prior}}}
    with pytest.raises(UserError, match=r"space\.agent\.rate\.prior=.* is not among what is searched"):
        Space.from_config(tree, CONFIG)


def test_draws_near_a_number_are_normal_on_its_scale() -> None:
    rng = np.random.default_rng(0)
    drawn = [math.log10(float(str(near(FloatDistribution(1e-5, 1e-1, log=True), 1e-3, rng)))) for _ in range(4000)]
    assert np.mean(drawn) == pytest.approx(-3.0, abs=0.03)
    assert np.std(drawn) == pytest.approx(4 * DEVIATION, rel=0.05)  # the range has four powers of ten
    at_an_end = [float(str(near(FloatDistribution(0.0, 1.0), 1.0, rng))) for _ in range(1000)]
    assert max(at_an_end) <= 1.0
    assert np.mean(at_an_end) == pytest.approx(1.0 - DEVIATION * math.sqrt(2 / math.pi), abs=0.02)  # half a normal


def test_draws_near_whole_numbers_and_choices() -> None:
    rng = np.random.default_rng(0)
    whole = [near(IntDistribution(0, 20, step=2), 10, rng) for _ in range(500)]
    assert {type(one) for one in whole} == {int}
    assert {one % 2 for one in whole if isinstance(one, int)} == {0}
    choices = [near(CategoricalDistribution(["a", "b", "c"]), "b", rng) for _ in range(3000)]
    assert choices.count("b") / 3000 == pytest.approx(0.8, abs=0.03)  # 0.7 and a third of the rest


def rates(sampler: SeededByTrial, num_trials: int) -> list[float]:
    """Values drawn for `agent.rate` as powers of ten, by trial."""
    study = optuna.create_study(sampler=sampler, direction="maximize")
    for number in range(num_trials):
        trial = study.ask(SPACE.distributions())
        study.tell(trial, float(-number))
    return [math.log10(one.params["agent.rate"]) for one in study.trials]


def test_every_second_of_the_first_trials_is_drawn_near_it() -> None:
    near_it, others, later = [], [], []
    for seed in range(40):
        drawn = rates(make_sampler(RandomSampler, seed, 0, SPACE), 14)
        near_it += drawn[:10:2]
        others += drawn[1:10:2]
        later += drawn[10:]
    assert np.std(np.array(near_it) + 2.0) < 0.6
    for free in (others, later):
        assert np.mean(free) == pytest.approx(-3.0, abs=0.25)
        assert np.std(free) == pytest.approx(4 / math.sqrt(12), rel=0.15)


@pytest.mark.parametrize("end", [TrialState.COMPLETE, TrialState.FAIL, TrialState.PRUNED])
def test_a_wrong_prior_is_left_behind(end: TrialState) -> None:
    """The first trial, at the prior, is the worst so far or has failed: from the fourth on, draws are free."""
    drawn = []
    for seed in range(60):
        study = optuna.create_study(sampler=make_sampler(RandomSampler, seed, 0, SPACE), direction="maximize")
        for number in range(10):
            trial = study.ask(SPACE.distributions())
            if number == 0:
                trial.report(0.0, 1)
                study.tell(trial, 0.0 if end is TrialState.COMPLETE else None, state=end)
            else:
                study.tell(trial, 1.0)
        drawn += [math.log10(one.params["agent.rate"]) for one in study.trials[4::2]]
    assert np.mean(drawn) == pytest.approx(-3.0, abs=0.25)
    assert np.std(drawn) == pytest.approx(4 / math.sqrt(12), rel=0.15)


@pytest.mark.parametrize("free", [False, True])
def test_a_draw_near_it_is_no_earlier_trial_once_more(free: bool) -> None:
    """Of three choices; one more is searched only with a choice that is not expected."""
    tree: dict[str, Any] = {"agent": {"kind": TREE["agent"]["kind"]}}
    if free:
        tree["agent"]["size"] = {**TREE["agent"]["size"], "when": {"agent.kind": ["a"]}}
    space = Space.from_config(tree, CONFIG)
    seconds = []
    for seed in range(30):
        study = optuna.create_study(sampler=make_sampler(RandomSampler, seed, 0, space), direction="maximize")
        study.enqueue_trial({"agent.kind": "b"})
        for _ in range(10):
            trial = study.ask()
            space.draw(lambda name, one, trial=trial: trial._suggest(name, one))  # type: ignore[misc]
            study.tell(trial, 0.0)
        seconds.append(study.trials[2].params["agent.kind"])
    assert "b" not in seconds
    assert {"a", "c"} == {*seconds}


def test_null_may_be_the_choice_that_is_expected() -> None:
    config = {"agent": {"target_kl": 0.1}}
    (found,) = Space.from_config({"agent": {"target_kl": {"choices": [None, 0.1], "prior": None}}}, config).parameters
    assert (found.has_prior, found.prior) == (True, None)
    assert found.describe()["prior"] is None
    space = Space((found,))
    assert space.with_priors(config) == {"agent": {"target_kl": None}}
    assert make_sampler(RandomSampler, 0, 0, space)._expected == {"agent.target_kl": None}
    (found,) = Space.from_config({"agent": {"target_kl": {"choices": [0.2, 0.1], "prior": None}}}, config).parameters
    assert not found.has_prior


def test_without_priors_nothing_is_drawn_otherwise() -> None:
    plain = Space.from_config({"agent": {"rate": {**TREE["agent"]["rate"], "prior": None}}}, CONFIG)
    drawn = []
    for space in (plain, None):
        study = optuna.create_study(sampler=make_sampler(TPESampler, 3, 0, space))
        drawn.append([study.ask(plain.distributions()).params["agent.rate"] for _ in range(4)])
    assert drawn[0] == drawn[1]


def test_the_first_trial_has_all_prior_values(tuner: CommandLine) -> None:
    typed = ("tune", "agent=synthetic", "executor=inline", "tracker=jsonl", "study.num_trials=2", "study.name=s")
    sizes = ("study.num_candidates=1", "study.num_race_seeds=0", "study.num_test_seeds=1", "storage=journal")
    answer = tuner(*typed, *sizes, "+space.agent.gamma.prior=0.95")
    assert answer.status == 0, answer
    assert "tried first" in answer.output


def test_refusals_on_the_command_line(tuner: CommandLine) -> None:
    said = tuner.refused("tune", "agent=dqn", "space.optimizer.learning_rate.prior=3e-4")
    assert "to add it, type +space.optimizer.learning_rate.prior=0.0003" in said
    said = tuner.refused("tune", "agent=dqn", "study=pbt", "+space.optimizer.learning_rate.prior=3e-4")
    assert "has no use for a prior" in said
