"""How much of its space a search has looked at, counted by hand."""

from collections.abc import Mapping, Sequence
from typing import Any

import pytest
from optuna.distributions import BaseDistribution, CategoricalDistribution, FloatDistribution, IntDistribution
from optuna.trial import FrozenTrial, TrialState, create_trial

from tuner.features.coverage.facts import COVERAGE, Coverage, Reach
from tuner.features.coverage.ranges import MIN_TRIALS, coverage
from tuner.features.coverage.wider_range import widened
from tuner.results.records import StudySummary
from tuner.results.summary_json import summary_from_json, summary_to_json
from tuner.study.space.space import Space

CONFIG = {"agent": {"gamma": 0.99, "rate": 0.1, "tau": 0.5, "kind": "a"}, "buffer": {"steps": 64}}
TREE = {
    "agent": {
        "gamma": {"low": 0.9, "high": 0.9999, "transform": "one_minus"},
        "rate": {"low": 1e-5, "high": 1e-2, "log": True},
        "tau": {"low": 0.0, "high": 1.0},
        "kind": {"choices": ["a", "b"]},
    },
    "buffer": {"steps": {"low": 32, "high": 1024, "transform": "power_of_two"}},
}
SPACE = Space.from_config(TREE, CONFIG)
NAMES = {parameter.path: parameter.name for parameter in SPACE.parameters}


def trials(places: Mapping[str, Sequence[float]], scores: Sequence[float]) -> list[FrozenTrial]:
    """One for each score, at these places of its ranges, 0 to 1; in the middle of the others."""
    made = []
    for number, score in enumerate(scores):
        params, domains = {}, dict[str, BaseDistribution]()
        for path, name in NAMES.items():
            domains[name] = domain = SPACE.distributions()[name]
            params[name] = at(domain, places[path][number] if path in places else 0.5)
        trial = create_trial(params=params, distributions=domains, value=score)
        trial.number = number
        made.append(trial)
    return made


def at(domain: BaseDistribution, place: float) -> Any:
    if isinstance(domain, CategoricalDistribution):
        return domain.choices[0]
    assert isinstance(domain, FloatDistribution | IntDistribution)
    if isinstance(domain, IntDistribution):
        return round(domain.low + place * (domain.high - domain.low))
    return domain.low * (domain.high / domain.low) ** place if domain.log else domain.low + place * domain.high


def reach_of(found: Coverage | None, path: str) -> Reach:
    assert found is not None
    return next(reach for reach in found.reaches if reach.path == path)


def test_parts_of_ranges_are_counted() -> None:
    early, late = (
        [0.05 + index / 10 for index in range(10)],
        [0.01, 0.02, 0.11, 0.12, 0.13, 0.99, 0.98, 0.97, 0.03, 0.1],
    )
    found = coverage(
        trials({"agent.rate": early + late, "buffer.steps": [0.0, 1.0] * 10}, [0.0] * 20), SPACE.describe(), None
    )
    assert found is not None
    assert found.num_late == 10
    assert [reach.path for reach in found.reaches] == ["agent.gamma", "agent.rate", "agent.tau", "buffer.steps"]
    rate = reach_of(found, "agent.rate")
    assert (rate.num_parts, rate.num_visited, rate.num_late) == (10, 10, 3), "the first, second and last tenth"
    assert rate.expected_late == pytest.approx(10 * (1 - 0.9**10)), "6.5 parts"
    assert rate.is_narrow, "3 of 6.5"
    steps = reach_of(found, "buffer.steps")
    assert (steps.num_parts, steps.num_visited, steps.num_late) == (6, 2, 2), "32, 64 to 1024; two of them were tried"
    assert steps.expected_late == pytest.approx(6 * (1 - (5 / 6) ** 10))
    assert found.is_corner, "gamma and tau never moved, and the others were narrow in the end"
    assert coverage(trials({}, [0.0] * (MIN_TRIALS - 1)), SPACE.describe(), None) is None


def test_half_of_what_even_draws_would_see_is_enough() -> None:
    wide = Reach("agent.rate", 10, 10, 4, 8.0)
    narrow = Reach("agent.rate", 10, 10, 3, 8.0)
    assert not wide.is_narrow
    assert narrow.is_narrow
    assert Coverage(20, (narrow, narrow, wide, wide)).is_corner
    assert not Coverage(20, (narrow, narrow, wide, wide, wide)).is_corner, "two of five"
    assert not Coverage(20, (narrow,)).is_corner, "one parameter makes no corner"


RISING = [float(number) for number in range(18)]
"""Scores: the last trial is the best one, and the best third are the last six."""


@pytest.mark.parametrize(
    ("path", "best", "edge", "widen"),
    [
        ("agent.rate", [0.2, 0.2, 0.2, 0.2, 0.9, 0.01], "low", "space.agent.rate.low=3e-06"),
        ("agent.rate", [0.8, 0.8, 0.8, 0.8, 0.8, 0.99], "high", "space.agent.rate.high=0.03"),
        ("agent.rate", [0.2, 0.2, 0.9, 0.9, 0.9, 0.01], "", ""),  # three of six are too few
        ("agent.rate", [0.2, 0.2, 0.2, 0.9, 0.9, 0.01], "low", "space.agent.rate.low=3e-06"),  # four of six
        ("agent.rate", [0.2, 0.2, 0.2, 0.2, 0.2, 0.11], "", ""),  # the winner is further inside
        ("agent.gamma", [0.8, 0.8, 0.8, 0.8, 0.8, 0.99], "low", "space.agent.gamma.low=0.8"),  # of 1 - gamma: 0.2
        ("agent.gamma", [0.1, 0.1, 0.1, 0.1, 0.1, 0.0], "high", "space.agent.gamma.high=0.99995"),
        ("agent.tau", [0.1, 0.1, 0.1, 0.1, 0.1, 0.0], "", ""),  # there is nothing below 0
        ("agent.tau", [0.9, 0.9, 0.9, 0.9, 0.9, 1.0], "", ""),  # a share ends at 1
        ("buffer.steps", [1.0, 1.0, 1.0, 1.0, 0.5, 1.0], "high", "space.buffer.steps.high=2048"),
        ("buffer.steps", [0.0, 0.0, 0.0, 0.0, 0.5, 0.0], "low", "space.buffer.steps.low=16"),
        ("buffer.steps", [1.0, 1.0, 1.0, 1.0, 0.5, 0.8], "", ""),  # 512 is no edge
    ],
)
def test_a_winner_at_an_edge(path: str, best: list[float], edge: str, widen: str) -> None:
    made = trials({path: [0.5] * 12 + best}, RISING)
    reach = reach_of(coverage(made, SPACE.describe(), winner=17), path)
    assert (reach.edge, reach.widen) == (edge, widen)
    assert reach_of(coverage(made, SPACE.describe(), winner=None), path).edge == "", "nothing is chosen"


def test_pruned_trials_have_looked_but_are_not_among_the_best() -> None:
    made = trials({"agent.rate": [0.5] * 8 + [0.2] * 7 + [0.9] * 2 + [0.01]}, RISING)
    for trial in made[8:15]:
        trial.state = TrialState.PRUNED
    reach = reach_of(coverage(made, SPACE.describe(), winner=17), "agent.rate")
    assert reach.num_visited == 4
    assert reach.edge == "", "of eleven complete trials the best four lie at 0.5, 0.9, 0.9 and 0.01"


def test_infeasible_trials_are_not_among_the_best() -> None:
    made = trials({"agent.rate": [0.5] * 12 + [0.9] + [0.01] * 5}, RISING)
    assert reach_of(coverage(made, SPACE.describe(), winner=17), "agent.rate").edge == "low"
    for trial in made[13:17]:
        trial.set_constraint("seconds<600", 0.5)
    assert reach_of(coverage(made, SPACE.describe(), winner=17), "agent.rate").edge == ""


def test_the_widened_range_is_one_that_can_be_searched() -> None:
    made = trials({"agent.gamma": [0.8] * 17 + [1.0], "buffer.steps": [0.8] * 17 + [1.0]}, RISING)
    found = coverage(made, SPACE.describe(), winner=17)
    assert reach_of(found, "agent.gamma").widen == "space.agent.gamma.low=0.8"
    wider = Space.from_config({"agent": {"gamma": {**TREE["agent"]["gamma"], "low": 0.8}}}, CONFIG)
    assert wider.distributions()["1-agent.gamma"] == FloatDistribution(1e-4, 0.2, log=True)


@pytest.mark.parametrize(
    ("edge", "typed"), [("low", "space.agent.clip.low=0.05"), ("high", "space.agent.clip.high=0.55")]
)
def test_a_range_above_0_is_not_widened_to_it(edge: str, typed: str) -> None:
    """A clip of 0 is none that can be."""
    described = {"path": "agent.clip", "scale": "Range", "low": 0.1, "high": 0.4, "log": False, "integer": False}
    assert widened({**described, "step": None, "of": []}, edge) == typed


def test_a_share_below_1_is_not_widened_to_1() -> None:
    described = {"path": "agent.tau", "scale": "Range", "low": 0.2, "high": 0.9, "log": False, "integer": False}
    assert widened({**described, "step": None, "of": []}, "high") == "space.agent.tau.high=0.95"


def test_a_summary_keeps_it() -> None:
    found = Coverage(20, (Reach("agent.gamma", 10, 10, 3, 8.8, "low", "space.agent.gamma.low=0.8"),))
    summary = StudySummary("mine", "final", "CartPole-v1", "DQN", "torch", facts={COVERAGE.key: found})
    assert COVERAGE.of(summary_from_json(summary_to_json(summary))) == found
