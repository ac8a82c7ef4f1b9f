"""When episodes ended within a round of collecting."""

import numpy as np

from note_rl.collect.step_join import shares_of_ends
from note_rl.types import Steps


def test_episodes_end_where_their_last_steps_are() -> None:
    ended = np.array([[False, False], [True, False], [False, False], [True, True]])
    row = np.zeros(ended.shape)
    steps = Steps(obs=row, action=row, reward=row, next_obs=row, terminated=row, ended=ended)
    assert shares_of_ends(steps, 3) == [0.5, 1.0, 1.0]
    assert shares_of_ends(steps, 2) == [1.0, 1.0], "where some steps are handed on later it is the end of the round"
