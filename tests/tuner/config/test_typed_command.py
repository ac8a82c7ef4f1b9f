"""Command lines are read as they were written."""

import pytest

from tuner.config.typed_command import TypedCommand, root_of, typed_line


@pytest.mark.parametrize("config_dir", [None, "my conf"])
def test_a_line_is_read_as_it_was_written(config_dir: str | None) -> None:
    overrides = ("agent=dqn", "env=[cartpole, acrobot]", "study.name=it's")
    line = typed_line("tune", overrides, config_dir)
    assert line.startswith("tuner tune --config-dir 'my conf' " if config_dir else "tuner tune agent=dqn ")
    assert TypedCommand.read(line) == TypedCommand(config_dir, overrides)


@pytest.mark.parametrize(
    "word", ["agent=dqn", "+agent.gamma=0.9", "~agent.eps", "agent@other=dqn", "agent/x=y", "agent"]
)
def test_the_root_of_an_override_is_its_section(word: str) -> None:
    assert root_of(word) == "agent"


def test_an_unknown_command_has_no_words() -> None:
    assert TypedCommand.read("") == TypedCommand(None, ())


def test_a_line_has_no_password() -> None:
    line = typed_line("tune", ["storage.url=postgresql://me:secret@host/db"], None)
    assert line == "tuner tune 'storage.url=postgresql://me:***@host/db'"
