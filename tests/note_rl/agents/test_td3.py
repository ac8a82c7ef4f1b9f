"""TD3's losses against NumPy and its delayed actor, in both frameworks."""

import numpy as np
import pytest

from tests.note_rl.agents.continuous import HIGH, LOW, SCALE, actor, columns, losses, make, q, ready, sample
from tests.note_rl.frameworks import frameworks

pytestmark = pytest.mark.parametrize("framework", frameworks())


def test_td3_losses(framework):
    agent = make(framework, "TD3", target_noise=0.4, noise_clip=0.5)
    batch = sample(agent, sync=True)  # a step in which the actor learns, too
    s, a, r, next_s, discount = columns(batch)
    noise = np.clip(0.4 * batch.extras["next_noise"][0], -0.5, 0.5)
    assert (np.abs(noise) == 0.5).any()
    next_a = np.clip(actor(agent.target_actor, next_s) + noise * SCALE, LOW, HIGH)
    next_q = np.minimum(q(agent.target_critic_1, next_s, next_a), q(agent.target_critic_2, next_s, next_a))
    errors = [q(critic, s, a) - (r + discount * next_q) for critic in (agent.critic_1, agent.critic_2)]
    update = losses(framework, agent, batch)
    expected = [-q(agent.critic_1, s, actor(agent.actor, s)).mean(), (errors[0] ** 2 + errors[1] ** 2).mean()]
    np.testing.assert_allclose(update.loss[0], expected, rtol=1e-4)
    np.testing.assert_allclose(update.td_error[0], np.abs(errors).mean(0), rtol=1e-4)


def test_td3s_actor_waits_for_the_targets(framework):
    agent = make(framework, "TD3")
    learner = ready(agent, framework.optimizers.adam(agent.param, 0.01))
    before = agent.actor.dense_layers()[0][0].copy()
    learner.update(sample(agent, 3), {})
    np.testing.assert_array_equal(agent.actor.dense_layers()[0][0], before)
    learner.update(sample(agent, 3, sync=True), {})
    assert not np.allclose(agent.actor.dense_layers()[0][0], before)


def test_an_actor_that_waits_has_adam_count_its_own_steps(framework):
    """The first step of Adam moves each number by the learning rate, however often the critics have learned before."""
    agent = make(framework, "TD3")
    learner = ready(agent, framework.optimizers.adam(agent.param, 0.01))
    learner.update(sample(agent, 5), {})
    before = agent.actor.dense_layers()[-1][1].copy()
    learner.update(sample(agent, 1, sync=True), {})
    np.testing.assert_allclose(np.abs(agent.actor.dense_layers()[-1][1] - before), 0.01, rtol=1e-3)
