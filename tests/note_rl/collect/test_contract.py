"""Methods of an agent with wrong answers or arguments: refused before the first environment step."""

import numpy as np
import pytest

from note_rl.errors import AgentContractError, EnvironmentMismatchError
from note_rl.policy import EpsGreedyQPolicy
from tests.note_rl.small_dqn import BOTH, ONCE, dqn, train


@BOTH
def test_observations_of_another_size(framework):
    small = framework.agents.DQN(3, (4,), 2, env="CartPole-v1")
    small.set(policy=EpsGreedyQPolicy(0.1), batch=4)
    refusal = r"DQN cannot answer observations of the shape \[4\] \(float32\): its network takes 3 numbers"
    for call in (lambda: train(framework, small), lambda: small.evaluate(1)):
        with pytest.raises(EnvironmentMismatchError, match=refusal):
            call()
    agent = dqn(framework, env="CartPole-v1")
    train(framework, agent)
    with pytest.raises(EnvironmentMismatchError, match=r"shape \[5\] \(float32\): its network takes 4 numbers"):
        agent.learner.act(np.zeros((2, 5), np.float32))
    with pytest.raises(EnvironmentMismatchError, match=r"a batch .* is wanted, obs.None. of a single one"):
        agent.learner.act(np.zeros(4, np.float32))
    assert agent.learner.act(np.zeros((3, 4), np.float32)).shape == (3, 2)


@BOTH
def test_observations_that_an_agents_own_network_does_not_take(framework):
    class Own(framework.base()):
        def __init__(self):
            super().__init__()
            self.env = "CartPole-v1"
            self.weights = framework.variable(np.ones((3, 2)))
            self.param = [self.weights]

        def action(self, s):
            return s @ self.weights

        def __call__(self, s, a, next_s, r, d):
            raise AssertionError

    with pytest.raises(EnvironmentMismatchError, match=r"Own cannot answer .* \[4\] \(float32\): .*(shape|imension)"):
        Own().evaluate(1)


WRONG = {
    "__call__": [lambda self, s, a, next_s, r: 0, lambda self: 0, lambda self, s, a, next_s, r, d, w, more: 0],
    "action": [lambda self: 0, lambda self, s, i: 0],
    "update_param": [lambda self, tau: 0],
    "adjust_func": [lambda self, agent: 0],
    "window_size_func": [lambda self, p, q: 0],
}


@BOTH
@pytest.mark.parametrize("name", WRONG)
def test_methods_with_other_arguments_are_refused_before_the_first_step(framework, name):
    for method in WRONG[name]:
        agent = dqn(framework, kind=type("Own", (framework.agents.DQN,), {name: method}))
        with pytest.raises(AgentContractError, match=rf"Own.{name} takes \(.*\), but is called with \("):
            train(framework, agent)
        assert agent.num_env_steps == 0


@ONCE
def test_methods_that_are_not_called_may_take_what_they_like(framework):
    own = {"value": lambda self: 0, "reward": lambda self: 0, "reward_done_func": lambda self: 0}
    kind = type("Own", (framework.agents.DQN,), {**own, "__call__": lambda self, *batch: framework.agents.DQN.__call__(
        self, *batch[:5])})  # fmt: skip
    assert train(framework, dqn(framework, kind=kind)).num_gradient_steps > 0


@BOTH
def test_triplets_are_for_agents_that_read_them(framework):
    with pytest.raises(AgentContractError, match=r"TRL=True draws triplets.*the loss of DQN reads single transitions"):
        train(framework, dqn(framework, TRL=True))

    class Own(framework.agents.DQN):
        def __call__(self, s, a, next_s, r, d):
            return super().__call__(s, a, next_s, r, d)

    agent = dqn(framework, kind=Own, TRL=True)
    with pytest.raises(AgentContractError, match=r"TRL=True draws triplets.*Own.__call__ fails on them"):
        train(framework, agent)

    class Reading(framework.agents.DQN):
        def __call__(self, s, a, next_s, r, d):
            self.discount = self.discount[:, 0]  # of the first of the two transitions
            return super().__call__(s[:, 0], a[:, 0], next_s[:, 0], r[:, 0], d[:, 0])

    assert train(framework, dqn(framework, kind=Reading, TRL=True)).num_gradient_steps > 0
