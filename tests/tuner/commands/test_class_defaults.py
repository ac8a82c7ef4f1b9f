"""Values in `set_defaults` of a class are named where files of the configuration have others."""

import itertools
import logging
from collections.abc import Callable, Sequence

import pytest

from tests.tuner.command_line import CommandLine, tuner
from tuner.commands.preflight import preflight

__all__ = ["tuner"]

CODE = """
from note_rl.agents.pytorch import A2C, DQN

class {name}(DQN):
    batch_attributes = ("ended",)
    set_defaults = {{"sequences": True, "sequence_length": 8, "learning_starts": 200, "update_batches": 50}}

class Heir(A2C):
    pass
"""
FILE = """# @package _global_
defaults:
  - override /buffer: sequences
agent: {{_target_: my_{name}.{name}, gamma: 0.99}}
buffer: {settings}
"""
Said = Callable[..., list[str]]
NUMBERS = itertools.count()


@pytest.fixture
def said(tuner: CommandLine, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch) -> Said:
    """Composes with an own class, of another name in each test: lines are said once in a process."""
    name = f"Mine{next(NUMBERS)}"
    monkeypatch.syspath_prepend(tuner.folder)

    def lines(command: str, settings: str, overrides: Sequence[str] = (), agent: str = "agent=mine") -> list[str]:
        (tuner.folder / f"my_{name}.py").write_text(CODE.format(name=name))
        for group, text in {"agent": FILE.format(name=name, settings=settings), "space": "{}\n"}.items():
            (tuner.folder / "own" / group).mkdir(parents=True)
            (tuner.folder / "own" / group / "mine.yaml").write_text(text)
        typed = [agent.format(name=name), *overrides]
        with caplog.at_level(logging.WARNING):
            config = preflight(command, typed, tuner.folder / "own")
        assert config.buffer.num_steps != 8, "a value of the class counts"
        return [line.replace(name, "Mine") for line in caplog.messages if "set_defaults" in line]

    return lines


@pytest.mark.parametrize("command", ["train", "tune", "check"])
def test_values_that_nobody_has_chosen_are_named(said: Said, command: str) -> None:
    assert said(command, "{batch_size: 16}") == [
        "set_defaults of my_Mine.Mine is for Python alone: buffer.num_steps=20, buffer.learning_starts=1000 and "
        "buffer.target_update_interval=null are used here; for its values, write them into the file of the agent "
        "(tuner guide agents), or type buffer.num_steps=8 buffer.learning_starts=200 +buffer.target_update_interval=50"
    ]


def test_what_the_file_of_the_agent_or_a_word_chooses_is_not(said: Said) -> None:
    assert said("train", "{num_steps: 30, target_update_interval: 10}", ["buffer.learning_starts=1000"]) == []


def test_what_is_searched_is_not(said: Said) -> None:
    searched = "{low: 100, high: 2000}"
    assert (
        said("tune", "{num_steps: 30, target_update_interval: 10}", [f"+space.buffer.learning_starts={searched}"]) == []
    )


def test_the_file_of_another_agent_chooses_nothing_for_a_class(said: Said) -> None:
    typed = ["buffer=sequences", "~buffer.gradient_steps"]
    [line] = said("train", "{}", typed, "agent._target_=my_{name}.{name}")
    assert "buffer.target_update_interval=128 are used here" in line, "that of dqn"
    assert line.endswith("type buffer.num_steps=8 buffer.learning_starts=200 buffer.target_update_interval=50")


def test_heirs_of_our_agents_have_the_values_of_their_file(said: Said) -> None:
    assert said("train", "{}", ["agent=a2c"], "agent._target_=my_{name}.Heir") == []
