"""DDPG's losses against NumPy, in both frameworks."""

import numpy as np
import pytest

from tests.note_rl.agents.continuous import actor, columns, losses, make, q, sample
from tests.note_rl.frameworks import frameworks

pytestmark = pytest.mark.parametrize("framework", frameworks())


def test_ddpg_losses(framework):
    agent = make(framework, "DDPG")
    batch = sample(agent)
    s, a, r, next_s, discount = columns(batch)
    target = r + discount * q(agent.target_critic, next_s, actor(agent.target_actor, next_s))
    error = q(agent.critic, s, a) - target
    update = losses(framework, agent, batch)
    expected = [-q(agent.critic, s, actor(agent.actor, s)).mean(), (error**2).mean()]
    np.testing.assert_allclose(update.loss[0], expected, rtol=1e-4)
    np.testing.assert_allclose(np.abs(update.td_error[0]), np.abs(error), rtol=1e-4)
