"""Training from rollouts in whole sequences: their length stays, whatever becomes of the batch size."""

from dataclasses import replace

import numpy as np
import pytest

from note_rl import errors
from note_rl.errors import SettingsError
from note_rl.policy import SoftmaxPolicy
from note_rl.replay.experience.base import AgentView, Clock
from note_rl.replay.experience.experience_factory import make_experience
from note_rl.settings import Adaptive, RolloutSettings, Settings
from note_rl.types import EPISODE_START, STATE_BEFORE, Steps

T, E = 8, 3


def steps():
    """Observation 10 * e + t, without ends."""
    obs = (np.arange(T)[:, None] + 10.0 * np.arange(E))[..., None].astype(np.float32)
    zeros, never = np.zeros((T, E), np.float32), np.zeros((T, E), np.bool_)
    extras = {STATE_BEFORE: obs, EPISODE_START: never}
    return Steps(obs, zeros.astype(np.int64), zeros, obs + 1.0, never, never, zeros, extras)


def made(adaptive=None, **chosen):
    experience = RolloutSettings(**{"num_steps": T, "batch_size": 12, "num_epochs": 1, **chosen})
    settings = Settings(experience=experience, policy=SoftmaxPolicy(), adaptive=adaptive)
    return make_experience(settings, AgentView(in_sequences=True), E, np.random.default_rng(0))


@pytest.mark.parametrize(("batch_size", "taken"), [(12, 12), (10, 8), (4, 4), (2, 4), (16, 16)])
def test_minibatches_are_the_whole_sequences_that_the_present_batch_size_holds(batch_size, taken):
    experience = made()
    experience.settings = replace(experience.settings, batch_size=batch_size)
    experience.store(steps())
    blocks = list(experience.update_blocks(Clock()))
    assert {sample.obs.shape[1] for sample in blocks} == {taken}
    assert sum(sample.num_gradient_steps for sample in blocks) == T * E // taken
    for sample in blocks:
        sequences = sample.obs.reshape(-1, 4)
        assert (np.diff(sequences, axis=1) == 1.0).all()
        np.testing.assert_array_equal(sample.extras[STATE_BEFORE].ravel(), sequences[:, 0])


def test_batch_sizes_that_are_adapted_are_multiples_of_the_length():
    def adaptive(align):
        return Adaptive(signals=["kl"], parameters={"batch_size": {"align": align}})

    with pytest.raises(SettingsError, match=r"multiples of 6 are no whole sequences of 4 steps.*align=4"):
        made(adaptive(6))
    made(adaptive(8))


@pytest.mark.parametrize(
    ("chosen", "said"),
    [({}, True), ({"batch_size": 24}, False), ({"sequence_length": 2}, False)],
)
def test_sequences_shorter_than_a_rollout_are_said_unless_they_were_asked_for(chosen, said, caplog, monkeypatch):
    monkeypatch.setattr(errors, "_said", set())
    made(**chosen)
    assert ("sequences of 4 steps" in caplog.text) is said
    assert "a multiple of 8" in caplog.text or not said
