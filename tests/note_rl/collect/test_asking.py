"""Answers of a learner besides action(): the learned reward, and one agent among several."""

import numpy as np
import pytest

from tests.note_rl.frameworks import frameworks
from tests.note_rl.samples import ready, sample

pytestmark = pytest.mark.parametrize("framework", frameworks())


class Several:
    """Agent i answers s @ w_i; the reward of a transition is (s' - s) @ w_0 plus the action."""

    def build(self, framework, mirrored=False):
        class Agent(framework.base()):
            def __init__(self):
                super().__init__()
                self.w = [framework.variable([[1.0, 0.0], [2.0, 1.0]]), framework.variable([[3.0, 1.0], [4.0, 0.0]])]
                self.param = self.w

            def action(self, s, i):
                return s @ self.w[i]

            def reward(self, s, a, next_s):
                return (next_s - s) @ self.w[0][:, :1] + framework.numbers(a)[:, None]

            def __call__(self, s, a, next_s, r, d):
                return ((s @ self.w[0])[:, 0] - r) ** 2

        class Mirrored(Agent):
            def acting_layers(self, i):
                return [(framework.array(self.w[i]), np.zeros(2, np.float32), "linear")]

        return Mirrored() if mirrored else Agent()


@pytest.mark.parametrize("mirrored", [False, True])
def test_each_agent_answers_for_itself(framework, mirrored):
    agent = Several().build(framework, mirrored)
    obs = sample(1, 5).obs[0]
    for index, w in enumerate([[[1.0, 0.0], [2.0, 1.0]], [[3.0, 1.0], [4.0, 0.0]]]):
        np.testing.assert_allclose(agent.learner.act_one(obs, index), obs @ np.float32(w), rtol=1e-5, atol=1e-6)
        assert agent.learner.actor.is_mirrored(index) == mirrored


@pytest.mark.parametrize("mirrored", [False, True])
def test_answers_follow_updates(framework, mirrored):
    agent = Several().build(framework, mirrored)
    obs = sample(1, 5).obs[0]
    before = agent.learner.act_one(obs, 0)
    ready(framework, agent).update(sample(1), {})
    after = agent.learner.act_one(obs, 0)
    assert not np.allclose(before, after)
    np.testing.assert_allclose(after, obs @ framework.array(agent.w[0]), rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize("num", [1, 7])
def test_learned_rewards(framework, num):
    agent = Several().build(framework)
    batch = sample(1, num)
    obs, action, next_obs = batch.obs[0], batch.action[0], batch.next_obs[0]
    reward = agent.learner.reward(obs, action, next_obs)
    assert reward.shape == (num,)
    np.testing.assert_allclose(reward, (next_obs - obs) @ np.float32([1.0, 2.0]) + action, rtol=1e-5, atol=1e-5)
    floats = action.astype(np.float32) / 2  # another kind of action is another question
    np.testing.assert_allclose(agent.learner.reward(obs, floats, next_obs), reward - action / 2, rtol=1e-5, atol=1e-5)
