"""Command lines are read as they were written."""

import pytest

from tuner.config.typed_command import TypedCommand, line_of


@pytest.mark.parametrize("config_dir", [None, "my conf"])
def test_a_line_is_read_as_it_was_written(config_dir: str | None) -> None:
    overrides = ("agent=dqn", "env=[cartpole, acrobot]", "study.name=it's")
    line = line_of("tune", overrides, config_dir)
    assert line.startswith("tuner tune --config-dir 'my conf' " if config_dir else "tuner tune agent=dqn ")
    assert TypedCommand.read(line) == TypedCommand(config_dir, overrides)


def test_an_unknown_command_has_no_words() -> None:
    assert TypedCommand.read("") == TypedCommand(None, ())


def test_a_line_has_no_password() -> None:
    line = line_of("tune", ["storage.url=postgresql://me:secret@host/db"], None)
    assert line == "tuner tune 'storage.url=postgresql://me:***@host/db'"
