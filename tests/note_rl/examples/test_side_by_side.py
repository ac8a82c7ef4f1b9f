"""Several environments for one agent."""

import pytest

from note_rl.errors import SettingsError
from note_rl.examples.side_by_side import side_by_side


@pytest.mark.parametrize("processes", [2.5, True])
def test_their_number_is_a_whole_one(processes: object) -> None:
    with pytest.raises(SettingsError, match=rf"^processes must be a whole number, got {processes}$"):
        side_by_side("CartPole-v1", processes)  # type: ignore[arg-type]


def test_an_environment_is_copied_and_none_asked_for_is_itself() -> None:
    first, second = side_by_side("CartPole-v1", 2)
    assert first.unwrapped is not second.unwrapped
    assert side_by_side("CartPole-v1", None) == "CartPole-v1"
