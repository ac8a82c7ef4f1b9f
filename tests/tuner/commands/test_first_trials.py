"""First trials of a search: the default configuration, then the default with one choice changed."""

from typing import Any

import pytest

from tuner.commands.first_trials import choices_changed, first_names
from tuner.commands.preflight import preflight
from tuner.commands.study_from_config import define
from tuner.study.space.space import Space

CONFIG: dict[str, Any] = {"a": {"kind": "x", "width": 4, "scale": 0.5}, "b": [64, 64]}
SPACE: dict[str, Any] = {
    "a": {
        "kind": {"choices": ["x", "y", "z"]},
        "width": {"low": 1, "high": 9},
        "scale": {"choices": [0.5, 1.0], "when": {"a.kind": ["y"]}},
    },
    "b": {"choices": [[64, 64], [256, 256]]},
}


def changed(num_trials: int = 100, begun: dict[str, Any] | None = None) -> dict[str, Any]:
    return choices_changed(Space.from_config(SPACE, CONFIG, ()), CONFIG, num_trials, begun)


def test_each_other_choice_is_tried_alone_where_it_matters() -> None:
    """Not the width, which is no choice, and not the scale, which is searched with another kind only."""
    assert changed() == {
        "default with a.kind=y": {**CONFIG, "a": {**CONFIG["a"], "kind": "y"}},
        "default with a.kind=z": {**CONFIG, "a": {**CONFIG["a"], "kind": "z"}},
        "default with b=[256,256]": {**CONFIG, "b": [256, 256]},
    }


@pytest.mark.parametrize(("num_trials", "number"), [(4, 0), (5, 1), (14, 2), (20, 3)])
def test_one_trial_in_five_at_most(num_trials: int, number: int) -> None:
    assert len(changed(num_trials)) == number


def test_a_study_that_goes_on_has_those_that_it_began_with() -> None:
    assert changed(begun={"warm_start": ["default"]}) == {}
    assert list(changed(5, {"warm_start": ["default", "default with b=[256,256]"]})) == ["default with b=[256,256]"]


@pytest.mark.parametrize(
    ("typed", "before", "names"),
    [
        ("auto", None, ["default"]),
        ("auto", [], []),
        ("auto", ["default", "default with b=[256,256]"], ["default"]),
        ("auto", ["prior", "default"], ["default"]),
        ("off", None, []),
        ("study:mine", None, ["default", "study:mine"]),
        ("study:mine", ["study:mine/1"], ["study:mine"]),
    ],
)
def test_the_default_is_tried_where_nobody_says_otherwise(
    typed: str, before: list[str] | None, names: list[str]
) -> None:
    begun = None if before is None else {"warm_start": before}
    assert first_names(typed, True, lambda: begun) == names


@pytest.mark.parametrize(
    ("typed", "names"),
    [
        ([], ["default"]),
        (["warm_start=default"], ["default"]),
        (["study.metric=[mixed,seconds]"], ["default"]),
        (["agent=ppo"], ["default", "default with network.activation=tanh"]),
        (["agent=ppo", "+space.agent.gamma.prior=0.95"], ["prior", "default"]),
        (["agent=ppo", "study.num_trials=4"], ["default"]),
        (["agent=ppo", "warm_start=off"], []),
        (
            ["agent=ppo_continuous", "env=pendulum"],
            [
                "default",
                "default with network.activation=relu",
                "default with network.hidden_sizes=[256,256]",
                "default with training.normalise_obs=false",
                "default with training.normalise_reward=false",
            ],
        ),
    ],
)
def test_what_studies_begin_with(tmp_path: Any, typed: list[str], names: list[str]) -> None:
    words = [*typed, f"storage.url=journal:///{tmp_path}/s.journal"]
    assert list(define(preflight("tune", words), words).warm_start) == names
