"""Errors before training where a custom agent, its environment or its optimizer does not fit."""

import math
from types import SimpleNamespace

import gymnasium
import numpy as np
import pytest

from note_rl.errors import AgentContractError, EnvironmentMismatchError, SettingsError
from note_rl.examples.coordination import CoordinationGame
from note_rl.policy import EpsGreedyQPolicy, GreedyQPolicy, SoftmaxPolicy
from note_rl.policy.noise import GaussianWhiteNoiseProcess
from tests.note_rl.frameworks import frameworks
from tests.note_rl.small_environments import Counting

BOTH = pytest.mark.parametrize("framework", frameworks())
ONCE = pytest.mark.parametrize("framework", frameworks()[:1])  # for what happens before any framework is asked


def own_agent(framework, env=None, **methods):
    """A linear agent whose action() and __call__ are replaced by functions of (agent, values [B, 2], ...)."""

    class Own(framework.base()):
        def __init__(self):
            super().__init__()
            self.env = Counting(5) if env is None else env
            self.weights = framework.variable(np.full((2, 2), 0.1))
            self.param = [self.weights]

        def action(self, s):
            return methods.get("action", lambda agent, q: q)(self, s @ self.weights)

        def __call__(self, s, a, next_s, r, d):
            return methods.get("loss", lambda agent, q, r: (q[:, 0] - r) ** 2)(self, s @ self.weights, r)

    return Own()


def train(framework, agent, optimizer=None, episodes=2, **settings):
    agent.set(**{"policy": EpsGreedyQPolicy(0.1), "batch": 4, "num_updates": 1, **settings})
    optimizer = framework.optimizers.sgd(agent.param, 1e-3) if optimizer is None else optimizer
    return agent.train(optimizer=optimizer, episodes=episodes, p=0, jit_compile=False)


@BOTH
def test_as_it_should_be_it_trains(framework):
    agent = own_agent(framework)
    before = framework.array(agent.weights)
    assert train(framework, agent).num_gradient_steps == 2
    assert not np.array_equal(framework.array(agent.weights), before)


@BOTH
def test_losses_that_are_none_are_refused_and_nothing_is_learned(framework):
    for loss, message in [
        (lambda agent, q, r: None, "it returned None: it has no return"),
        (lambda agent, q, r: 1.0, "it returned float"),
        (lambda agent, q, r: {"loss": framework.mean(q)}, "it returned dict"),
        (lambda agent, q, r: "x", "it returned str"),
        (lambda agent, q, r: [framework.mean(q), None], "it returned None"),
        (lambda agent, q, r: framework.stop(framework.mean(q)), "has no gradient"),
        (lambda agent, q, r: framework.mean(r), "has no gradient"),
    ]:
        agent = own_agent(framework, loss=loss)
        before = framework.array(agent.weights)
        with pytest.raises(AgentContractError, match=message):
            train(framework, agent)
        np.testing.assert_array_equal(framework.array(agent.weights), before)


@BOTH
def test_answers_of_another_shape_are_refused_when_the_first_is_given(framework):
    wide = framework.variable(np.ones((2, 4)))
    for action, message in [
        (lambda agent, q: q[:, 0], r"one row per observation, \[1, ...\] here; it returned the shape \[1\]"),
        (lambda agent, q: q[:, :1], r"returned 1 numbers per observation \(the shape \[1, 1\]\), but 2 are what "),
        (lambda agent, q: q @ wide, "returned 4 numbers per observation"),
        (lambda agent, q: None, r"action\(\) must return a tensor, it returned NoneType"),
        (lambda agent, q: (q, q), r"action\(\) must return a tensor, it returned (tuple|list)"),
    ]:
        agent = own_agent(framework, action=action)
        with pytest.raises(AgentContractError, match=message):
            train(framework, agent)
        assert agent.num_env_steps == 0
        with pytest.raises(AgentContractError, match=message):
            agent.set(policy=GreedyQPolicy()) or agent.evaluate(1)


@ONCE
def test_answers_in_numpy_are_refused(framework):
    agent = own_agent(framework, action=lambda agent, q: q.numpy())
    with pytest.raises(AgentContractError, match="must return a tensor, it returned ndarray"):
        train(framework, agent)


@BOTH
def test_parts_that_were_forgotten_are_named(framework):
    base = framework.base()

    class NoSuper(base):
        def __init__(self):
            self.env = Counting()

    class Empty(base):
        def action(self, s):
            return s

    with pytest.raises(AgentContractError, match=r"NoSuper.__init__ must call super\(\).__init__\(\)"):
        NoSuper().set(policy=GreedyQPolicy())
    with pytest.raises(AgentContractError, match=r"NoSuper.__init__ must call super\(\).__init__\(\)"):
        NoSuper().evaluate(1)
    for part in ("env", "param"):
        agent = own_agent(framework)
        delattr(agent, part)
        agent.set(policy=GreedyQPolicy())
        with pytest.raises(AgentContractError, match=f"Own has no {part}, "):
            agent.train(optimizer=framework.optimizers.sgd([agent.weights]), episodes=1, p=0)
    agent = Empty()
    agent.env, agent.param = Counting(), [framework.variable([1.0])]
    with pytest.raises(AgentContractError, match="Empty has no __call__, the loss"):
        train(framework, agent)
    del Empty.action
    with pytest.raises(AgentContractError, match="Empty has no action, the answers"):
        train(framework, agent)


@BOTH
def test_param_holds_weights(framework):
    network = framework.agents.DQN(hidden_size=(4,), env=Counting).q_net
    optimizer = framework.optimizers.sgd([framework.variable([1.0])])
    for param in (network, [network], 3, [np.ones(2)], [[framework.variable([1.0])], [network]], []):
        agent = own_agent(framework)
        agent.param = param
        with pytest.raises(AgentContractError, match=r"agent.param (must be a list of weights|is empty)"):
            train(framework, agent, optimizer)


def test_a_network_that_was_not_called_has_no_weights():
    import keras

    agent = own_agent(next(one.values[0] for one in frameworks() if one.id == "keras"))
    agent.param = keras.Sequential([keras.layers.Dense(2)]).trainable_variables
    with pytest.raises(AgentContractError, match=r"a network of Keras has none until it is called, as in self\.net\("):
        _ = agent.learner


@BOTH
def test_weights_that_no_attribute_holds_are_refused(framework):
    agent = own_agent(framework)
    agent.helper, agent.nets = SimpleNamespace(bias=framework.variable(np.zeros(2))), {"q": [agent.weights]}
    del agent.weights
    agent.action = lambda s: s @ agent.nets["q"][0]
    agent.param = [*agent.nets["q"], agent.helper.bias]
    message = r"agent.param holds 1 parameter \(the first of shape \[2\]\) that no attribute of the agent holds"
    with pytest.raises(AgentContractError, match=message):
        train(framework, agent)
    agent.bias = agent.helper.bias
    own = type(agent)
    own.__call__ = lambda agent, s, a, next_s, r, d: ((s @ agent.nets["q"][0])[:, 0] + agent.bias[0] - r) ** 2
    assert train(framework, agent).num_gradient_steps == 2


@BOTH
def test_what_is_no_optimizer_of_the_framework_is_refused(framework):
    agent = own_agent(framework)
    for wrong in ("adam", 3, [None], object()):
        with pytest.raises(SettingsError, match=r"optimizer must be one of (torch|keras)'s, such as Adam, or a"):
            train(framework, agent, wrong)
    assert agent.num_env_steps == 0


@BOTH
def test_decay_rates_of_moments_may_be_whole_numbers(framework):
    for make in (framework.optimizers.adam, framework.optimizers.adamw):
        agent = own_agent(framework)
        assert train(framework, agent, make(agent.param, beta1=0)).num_gradient_steps == 2


def two_groups(framework):
    agent = own_agent(framework)
    agent.other = framework.variable(np.zeros(2))
    agent.param = [[agent.weights], [agent.other]]
    return agent


@ONCE
def test_optimizers_of_other_parameters_are_refused(framework):
    make = framework.optimizers.sgd
    agent, stranger = two_groups(framework), own_agent(framework)
    for optimizer, message in [
        (make(stranger.param), "the SGD does not hold 2 of the 2 parameters in agent.param: it was made for another"),
        (make([agent.weights]), "the SGD does not hold 1 of the 2 parameters in agent.param: make it from all of them"),
        (
            [make([agent.other]), make([agent.weights])],
            r"optimizer 0 \(SGD\) does not hold 1 of the 1 parameters in group 0 of agent.param: it holds those of gro",
        ),
        ([make([agent.weights]), make(stranger.param)], r"optimizer 1 \(SGD\) does not .* made for another agent"),
    ]:
        with pytest.raises(AgentContractError, match=message):
            train(framework, agent, optimizer)
    assert agent.num_env_steps == 0
    one = make(agent.param)
    with pytest.raises(SettingsError, match="holds the same one twice"):
        train(framework, agent, [one, one])


@pytest.mark.parametrize("framework", frameworks()[1:])
def test_an_optimizer_that_another_agent_has_used_is_refused(framework):
    first, second = own_agent(framework), own_agent(framework)
    optimizer = framework.optimizers.sgd(first.param)
    train(framework, first, optimizer)
    with pytest.raises(AgentContractError, match="made for another agent"):
        train(framework, second, optimizer)


class Rewarding(Counting):
    def __init__(self, reward):
        super().__init__(5)
        self.reward = reward

    def step(self, action):
        obs, _, terminated, truncated, info = super().step(action)
        return obs, self.reward, terminated, truncated, info


@ONCE
def test_rewards_that_are_none_are_the_environments_fault(framework):
    not_finite = "gave None, nan or infinity as a reward"
    for reward, said in ((None, "gave None as the reward"), (math.nan, not_finite), (-math.inf, not_finite)):
        agent = own_agent(framework, Rewarding(reward))
        with pytest.raises(EnvironmentMismatchError, match=said):
            train(framework, agent)
        assert agent.num_gradient_steps == 0


@ONCE
def test_several_agents_want_marl(framework):
    for env in (CoordinationGame, CoordinationGame()):
        agent = own_agent(framework, env)
        with pytest.raises(EnvironmentMismatchError, match="add MARL=True to set"):
            train(framework, agent, policy=SoftmaxPolicy())


@ONCE
def test_noise_on_means_and_deviations_is_refused(framework):
    agent = framework.agents.SAC(hidden_size=(4,), env=gymnasium.make("Pendulum-v1"))
    optimizer = [framework.optimizers.adam(group) for group in agent.param]
    with pytest.raises(AgentContractError, match=r"returned 2 numbers .* but 1 are .*SquashedGaussianPolicy\(noise\)"):
        train(framework, agent, optimizer, policy=None, noise=GaussianWhiteNoiseProcess())
