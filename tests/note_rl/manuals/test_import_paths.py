"""The manuals' agents: one order of arguments and one set of defaults in both frameworks."""

import importlib
import inspect
import pickle
import re
from pathlib import Path
from typing import Any

import pytest

from tests.note_rl.frameworks import Framework, frameworks

PATHS = {
    "DQN": "DQN",
    "PPO": "PPO",
    "DDPG_HER": "DDPG",
    "MADDPG": "DDPG",
    "AlphaZeroCartPole": "AlphaZeroCartPole",
    "pool_network.AlphaZeroCartPole": "AlphaZeroCartPole",
    "pool_network.DQN": "DQN",
    "pool_network.DQN_pr": "DQN",
    "pool_network.DQN_PR": "DQN",
    "pool_network.PPO": "PPO",
    "pool_network.PPO_pr": "PPO",
    "pool_network.DDPG_HER": "DDPG",
    "pool_network.MADDPG": "DDPG",
}


def agent_class(framework: Framework, path: str) -> Any:
    return getattr(importlib.import_module(f"note_rl.examples.{framework.package}.{path}"), PATHS[path])


def import_lines() -> list[str]:
    """Those that the guide says in place of the manuals'."""
    table = Path("tuner/guide/from-note-rl.md").read_text().partition("| Note_rl | note_rl |")[2].partition("\n\n")[0]
    rows = [row.split(" | ")[1] for row in table.splitlines() if row.count(" | ") == 1]
    return [line for row in rows for line in re.findall(r"`(from [^`]+)`", row)]


@pytest.mark.parametrize("line", import_lines())
def test_import_lines_in_place_of_the_manuals(line: str) -> None:
    names: dict[str, Any] = {}
    exec(line, names)
    assert len(names) == 2  # and the builtins


def test_there_are_import_lines() -> None:
    assert len(import_lines()) == 8


def test_networks_of_note_are_named_as_those_of_a_framework() -> None:
    nn = importlib.import_module("note_rl.nn")
    with pytest.raises(AttributeError, match=r"no attribute 'Model': networks are made of keras\.Model"):
        _ = nn.Model


@pytest.mark.parametrize("path", PATHS)
def test_both_frameworks_take_the_same(path: str) -> None:
    one, other = (inspect.signature(agent_class(case.values[0], path)) for case in frameworks())
    assert list(one.parameters) == list(other.parameters)
    assert [each.default for each in one.parameters.values()] == [each.default for each in other.parameters.values()]


@pytest.mark.slow_in_keras("MADDPG", "pool_network.PPO_pr")
@pytest.mark.parametrize("framework", frameworks())
@pytest.mark.parametrize("path", ["DDPG_HER", "MADDPG", "pool_network.PPO_pr"])
def test_a_pickle_finds_its_class_again(framework: Framework, path: str) -> None:
    kind = agent_class(framework, path)
    agent = kind(hidden_size=4, processes=2)
    assert len(agent.env) == 2
    again = pickle.loads(pickle.dumps(agent))
    assert type(again) is kind
    for mine, theirs in zip(framework.parameters(agent), framework.parameters(again), strict=True):
        assert (mine == theirs).all()


@pytest.mark.parametrize("framework", frameworks())
@pytest.mark.parametrize("path", ["DDPG_HER", "MADDPG"])
def test_numbers_by_position_reach_the_agent(framework: Framework, path: str) -> None:
    agent = agent_class(framework, path)(4, 0.25, 0.5, 0.125)
    assert (agent.tau, agent.gamma) == (0.25, 0.5)
    rates = [
        one.param_groups[0]["lr"] if hasattr(one, "param_groups") else float(one.learning_rate)
        for one in agent.optimizer
    ]
    assert rates == [0.125, 0.125]
