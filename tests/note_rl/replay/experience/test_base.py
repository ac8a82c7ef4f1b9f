"""Rules for both replay and rollouts: the learned reward and normalisation."""

import numpy as np
import pytest

from note_rl.environments.normalise import ObservationNormaliser
from note_rl.errors import AgentContractError
from note_rl.replay.experience import AgentView, Clock
from tests.note_rl.replay.experience.experiences import pool, replay, rollout
from tests.note_rl.replay.story import steps


@pytest.mark.parametrize("make", [replay, rollout])
def test_a_learned_reward_needs_an_agent_that_has_one(make):
    with pytest.raises(AgentContractError, match="reward"):
        make(learned_reward=True)


def test_what_is_stored_stays_as_it_came_when_normalised():
    normaliser = ObservationNormaliser(limit=1e6)
    normaliser.set_state({"count": np.array(2), "mean": np.zeros(1), "squares": np.full(1, 0.5)})  # a deviation of 1/2
    view = AgentView(normaliser=normaliser, normalise_reward=lambda reward: reward / 2.0)
    experience = replay(view, batch_size=4, gradient_steps=1)
    experience.store(steps(0, 4))
    (sample,) = experience.update_blocks(Clock(num_env_steps=4))
    np.testing.assert_allclose(sample.obs[..., 0], 2.0 * sample.action)
    np.testing.assert_allclose(sample.next_obs[..., 0], 2.0 * sample.action + 1.0)
    np.testing.assert_allclose(sample.reward, sample.action / 2.0)
    assert pool(experience) == [0, 1, 2, 3]
    taken = rollout(view, num_steps=4, batch_size=4, num_epochs=1)
    taken.store(steps(0, 4))
    (sample,) = taken.update_blocks(Clock())
    np.testing.assert_allclose(sample.obs[..., 0], 2.0 * sample.action)
    np.testing.assert_allclose(sample.reward, sample.action / 2.0)
