"""The agent of the manuals' chapter on building one: what it learns as printed and corrected is the same."""

import logging

import numpy as np
import pytest

from note_rl.policy import EpsGreedyQPolicy
from note_rl.seeding import seed_everything
from note_rl.training.callbacks import LambdaCallback
from tests.note_rl.frameworks import frameworks
from tests.note_rl.manuals.agents import dqn, environment_without_time_limit
from tests.note_rl.samples import ready, sample
from tests.note_rl.small_environments import Corridor

pytestmark = pytest.mark.parametrize("framework", frameworks())


def trained(framework, agent, rate=1e-3, callbacks=(), **budget):
    """As the chapter trains, with the optimizer of either framework."""
    optimizer = framework.optimizers.adam(agent.param, rate)
    return agent.train(optimizer=optimizer, pool_network=False, callbacks=callbacks, p=0, **budget)


def test_corrected_its_loss_is_that_of_double_dqn(framework):
    seed_everything(0)
    agent = dqn(framework.package)(state_dim=2, hidden_dim=8, action_dim=2)
    batch = sample(1, 16)
    q, next_q = agent.learner.act(batch.obs[0]), agent.learner.act(batch.next_obs[0])
    learner = ready(framework, agent)
    state = learner.get_state()
    online = [name for name in state if name.startswith("agent/q_net")]
    learner.set_state({**state, **{name.replace("q_net", "target_q_net"): state[name] for name in online}})
    target = batch.reward[0] + 0.99 * next_q.max(1) * (1 - batch.terminated[0])  # equal networks: double is plain
    expected = np.square(np.take_along_axis(q, batch.action[0][:, None], 1)[:, 0] - target).mean()
    assert learner.update(batch, {}).loss[0, 0] == pytest.approx(expected, rel=1e-5)


def as_the_chapter_trains(framework, as_printed):
    """Agent, result and losses, always from the same weights."""
    seed_everything(0)
    make = dqn(framework.package, as_printed, env=environment_without_time_limit())
    agent = make(state_dim=4, hidden_dim=128, action_dim=2)
    agent.set(policy=EpsGreedyQPolicy(eps=0.05), pool_size=100000, batch=64, update_steps=10, seed=0)
    losses = []
    watch = LambdaCallback(on_batch_end=lambda batch, logs: losses.append(logs["loss"]))
    return agent, trained(framework, agent, episodes=8, callbacks=[watch]), losses


@pytest.mark.slow_in_keras
def test_as_printed_it_learns_what_was_meant(framework, caplog):
    """Its loss is [B, B], as r and d are [B] in Note_rl, too; here they come as [B, 1], which is said once."""
    with caplog.at_level(logging.WARNING):
        agent, result, losses = as_the_chapter_trains(framework, as_printed=True)
    said = [record.getMessage() for record in caplog.records if "broadcast" in record.getMessage()]
    assert len(said) == 1
    assert "DQN.__call__ (agents.py, line" in said[0]
    corrected, expected, expected_losses = as_the_chapter_trains(framework, as_printed=False)
    assert result.returns == expected.returns
    assert len(result.returns) == 8
    assert result.num_gradient_steps == len(losses) > 0
    np.testing.assert_allclose(losses, expected_losses, rtol=1e-4)
    for mine, other in zip(framework.parameters(agent), framework.parameters(corrected), strict=True):
        np.testing.assert_allclose(mine, other, rtol=1e-4, atol=1e-6)


@pytest.mark.slow  # that it is trained: test_own_agents.py
def test_corrected_it_learns(framework):
    seed_everything(1)
    agent = dqn(framework.package, env=Corridor)(state_dim=5, hidden_dim=32, action_dim=2)
    agent.set(policy=EpsGreedyQPolicy(eps=0.3), pool_size=1000, batch=32, train_freq=8, num_updates=4, seed=1)
    trained(framework, agent, 1e-2, total_steps=2000)
    assert agent.evaluate(5).returns.tolist() == [1.0] * 5
