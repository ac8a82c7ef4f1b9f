"""Dotted paths into configs, and what differs between two."""

from pathlib import Path
from typing import Any

import pytest

from tuner.config.paths import config_difference, flatten, get_path, set_path, targets_in
from tuner.errors import UserError
from tuner.runs.run_folders import begin, check_same

CONFIG: dict[str, Any] = {
    "agent": {"_target_": "A", "widths": [8, 4], "net": {}},
    "parts": [{"_target_": "B", "x": 1}],
    "seed": 3,
}


def test_values_by_path() -> None:
    assert flatten(CONFIG) == {
        "agent._target_": "A",
        "agent.widths": [8, 4],
        "agent.net": {},
        "parts": [{"_target_": "B", "x": 1}],
        "seed": 3,
    }
    assert get_path(CONFIG, "agent.widths") == [8, 4]
    assert get_path(CONFIG, "agent.widths.1") == 4
    assert get_path(CONFIG, "parts.0.x") == 1
    for path in ("agent.gamma", "seed.x", "parts.1", "parts.-1", "parts.x"):
        with pytest.raises(KeyError):
            get_path(CONFIG, path)


def test_a_number_leads_into_a_list() -> None:
    config = {"parts": [{"x": 1.0}, {"x": 2.0}], "widths": [8, 4]}
    set_path(config, "parts.1.x", 5)
    set_path(config, "widths.0", 16)
    assert config == {"parts": [{"x": 1.0}, {"x": 5}], "widths": [16, 4]}


def test_what_is_built_is_found_at_any_depth() -> None:
    assert {path: node["_target_"] for path, node in targets_in(CONFIG)} == {"agent": "A", "parts.0": "B"}


@pytest.mark.parametrize(
    ("before", "now", "lines"),
    [
        ({"a": {"b": 1}}, {"a": {"b": 2}}, ["a.b was 1 and is 2"]),
        ({"a": {"b": 1}}, {"a": {}}, ["a.b was 1 and is gone"]),
        ({"a": {}}, {"a": {"b": 1}}, ["a.b is new"]),
        ({"a": {}}, {}, []),
        ({}, {"a": {"b": None}}, []),
        ({"a": {}}, {"a": None}, ["a was {} and is None"]),
    ],
)
def test_what_differs(before: dict[str, Any], now: dict[str, Any], lines: list[str]) -> None:
    assert config_difference(before, now) == lines


def test_folders_are_compared_as_studies_are(tmp_path: Path) -> None:
    begin(tmp_path, {"agent": {"gamma": 0.9}, "tracker": {}})
    check_same(tmp_path, {"agent": {"gamma": 0.9}, "callbacks": {}})
    with pytest.raises(UserError, match=r"begun with another configuration \(agent.gamma was 0.9 and is 0.8\)"):
        check_same(tmp_path, {"agent": {"gamma": 0.8}, "tracker": {}})
