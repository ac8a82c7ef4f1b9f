"""The columns of a transition are defined by the types, and by nothing else."""

from dataclasses import fields

import numpy as np

from note_rl.collect.step_join import columns_of, steps_of
from note_rl.learners.base import CALL_ARGUMENTS, sample_columns
from note_rl.replay.frame_ring import FrameRing
from note_rl.replay.ring import Ring
from note_rl.types import STEP_COLUMNS, TRANSITION_COLUMNS, Sample
from tests.note_rl.replay.story import random_story


def test_columns_that_are_always_there():
    """Their names and order are those of stored pools and checkpoints."""
    assert STEP_COLUMNS == ("obs", "action", "reward", "next_obs", "terminated", "ended")
    assert TRANSITION_COLUMNS == ("obs", "action", "reward", "next_obs", "terminated", "discount")
    assert Ring.stored == STEP_COLUMNS
    assert FrameRing.stored == ("obs", "action", "reward", "terminated", "ended")


def test_a_minibatch_holds_transitions():
    assert tuple(one.name for one in fields(Sample))[: len(TRANSITION_COLUMNS)] == TRANSITION_COLUMNS
    assert set(CALL_ARGUMENTS) < set(TRANSITION_COLUMNS)
    values = {name: np.full((1, 2), number, np.float64) for number, name in enumerate(TRANSITION_COLUMNS)}
    columns = sample_columns(Sample(**values, sync=np.ones(1, bool), extras={"advantage": np.ones((1, 2))}))
    assert tuple(columns) == (*TRANSITION_COLUMNS, "advantage")
    assert [columns[name][0, 0] for name in TRANSITION_COLUMNS] == [0, 1, 2, 3, 4, 5]
    assert columns["reward"].dtype == columns["advantage"].dtype == np.float32


def test_steps_come_back_from_their_columns():
    story = random_story(np.random.default_rng(0), 5, 2)
    columns = columns_of(story)
    assert tuple(columns) == (*STEP_COLUMNS, "extras/achieved_goal")
    again = steps_of({**columns, "log_prob": story.reward})
    assert all(getattr(again, name) is getattr(story, name) for name in STEP_COLUMNS)
    assert list(again.extras) == ["achieved_goal"]
    assert again.extras["achieved_goal"] is story.extras["achieved_goal"]
    assert again.log_prob is story.reward
