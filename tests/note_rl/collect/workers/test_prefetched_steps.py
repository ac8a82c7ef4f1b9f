"""Steps that came before they were asked for: none is lost, none is given twice, episodes stay with their steps."""

import numpy as np

from note_rl.collect.workers.prefetched_steps import WaitingSteps
from note_rl.types import Episode, Steps


def round_of(first: int, ended: list[list[bool]]) -> tuple[Steps, list[Episode]]:
    """Steps [T, E] whose rewards count up from the first, and an episode for each that ended; its return is that."""
    at_end = np.array(ended)
    reward = np.arange(first, first + at_end.size, dtype=np.float32).reshape(at_end.shape)
    steps = Steps(
        obs=reward[..., None],
        action=reward.astype(np.int32),
        reward=reward,
        next_obs=reward[..., None] + 1,
        terminated=at_end.astype(np.float32),
        ended=at_end,
    )
    return steps, [Episode(float(reward[t, e]), 1, int(e)) for t, e in np.argwhere(at_end)]


def test_steps_are_taken_in_the_order_in_which_they_came_with_the_episodes_that_ended_in_them() -> None:
    waiting = WaitingSteps()
    waiting.add(*round_of(0, [[False, True], [False, False]]))
    waiting.add(*round_of(4, [[True, False], [False, True]]))
    assert len(waiting) == 4
    steps, episodes = waiting.take(3)
    assert steps.reward.tolist() == [[0, 1], [2, 3], [4, 5]]
    assert [episode.return_ for episode in episodes] == [1.0, 4.0]
    assert (len(waiting), waiting.has_ended_episode) == (1, True)
    steps, episodes = waiting.take_all()
    assert steps.reward.tolist() == [[6, 7]]
    assert [(episode.return_, episode.env_index) for episode in episodes] == [(7.0, 1)]
    assert (len(waiting), waiting.has_ended_episode, waiting.get_state()) == (0, False, {})


def test_what_waits_is_the_same_after_a_checkpoint() -> None:
    waiting, restored = WaitingSteps(), WaitingSteps()
    waiting.add(*round_of(0, [[False, False], [True, False]]))
    restored.add(*round_of(9, [[True, True]]))
    restored.set_state(waiting.get_state())
    steps, episodes = restored.take_all()
    assert steps.reward.tolist() == [[0, 1], [2, 3]]
    assert steps.ended.tolist() == [[False, False], [True, False]]
    assert episodes == [Episode(2.0, 1, 0)]
    restored.set_state({})
    assert len(restored) == 0
