"""The agent of the manuals' chapter on building one: refused as printed, and learning once it is corrected."""

import numpy as np
import pytest

from note_rl.errors import AgentContractError
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


def test_as_printed_it_is_refused_with_the_reason(framework):
    seed_everything(0)
    agent = dqn(framework.package, as_printed=True)(state_dim=4, hidden_dim=128, action_dim=2)
    agent.set(policy=EpsGreedyQPolicy(eps=0.05), pool_size=100000, batch=64, update_steps=10, seed=0)
    before = framework.parameters(agent)
    with pytest.raises(AgentContractError, match=r"Q-values of shape \[B, 1\] broadcast against them to \[B, B\]"):
        trained(framework, agent, episodes=500)
    for mine, old in zip(framework.parameters(agent), before, strict=True):
        np.testing.assert_array_equal(mine, old)


@pytest.mark.usefixtures("eager_updates")
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


def test_corrected_it_trains_as_the_chapter_says(framework):
    seed_everything(0)
    agent = dqn(framework.package, env=environment_without_time_limit())(state_dim=4, hidden_dim=128, action_dim=2)
    agent.set(policy=EpsGreedyQPolicy(eps=0.05), pool_size=100000, batch=64, update_steps=10, seed=0)
    losses = []
    watch = LambdaCallback(on_batch_end=lambda batch, logs: losses.append(logs["loss"]))
    result = trained(framework, agent, episodes=12, callbacks=[watch])
    assert len(result.returns) == 12
    assert result.num_gradient_steps == len(losses) > 0
    assert np.isfinite(losses).all()


@pytest.mark.slow_in_keras
def test_corrected_it_learns(framework):
    seed_everything(1)
    agent = dqn(framework.package, env=Corridor)(state_dim=5, hidden_dim=32, action_dim=2)
    agent.set(policy=EpsGreedyQPolicy(eps=0.3), pool_size=1000, batch=32, train_freq=8, num_updates=4, seed=1)
    trained(framework, agent, 1e-2, total_steps=2000)
    assert agent.evaluate(5).returns.tolist() == [1.0] * 5
