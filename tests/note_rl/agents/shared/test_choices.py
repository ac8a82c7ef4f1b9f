"""Actions that are several choices at once, MultiDiscrete and MultiBinary, over both frameworks."""

import importlib
import math

import numpy as np
import pytest
from gymnasium import spaces

from note_rl.agents.shared.spaces import BinarySpaces, FactoredSpaces
from note_rl.errors import AgentContractError, EnvironmentMismatchError
from note_rl.policy import EpsGreedyQPolicy, GreedyQPolicy, SoftmaxPolicy
from note_rl.seeding import seed_everything
from tests.note_rl.agents.shared.several_choices import Locks, dials
from tests.note_rl.frameworks import frameworks
from tests.note_rl.small_environments import Counting

BOTH = pytest.mark.parametrize("framework", frameworks())

ONCE = pytest.mark.parametrize("framework", frameworks()[:1])

LN2, LN3 = math.log(2.0), math.log(3.0)


def switches() -> Locks:
    return Locks(spaces.MultiBinary(3))


def choices(framework, found):
    return importlib.import_module(f"note_rl.agents.{framework.package}.choices").choice_of(found)


def tensor(framework, values):
    if framework.package == "pytorch":
        import torch

        return torch.tensor(values)
    import tensorflow as tf

    return tf.constant(values)


def number(framework, values):
    return float(framework.array(values)[0])


def entropy(*probabilities: float) -> float:
    return -sum(p * math.log(p) for p in probabilities)


@BOTH
def test_log_probabilities_entropies_and_divergences_of_several_choices_are_sums(framework):
    choice = choices(framework, FactoredSpaces((4,), (2, 3)))
    policy = choice.distribution(tensor(framework, [[0.0, LN3, 0.0, 0.0, LN2]]))  # 1/4, 3/4 and 1/4, 1/4, 1/2
    even = choice.distribution(tensor(framework, [[0.0] * 5]))
    assert number(framework, policy.log_prob(tensor(framework, [[1, 2]]))) == pytest.approx(math.log(0.75 * 0.5))
    assert number(framework, policy.log_prob(tensor(framework, [[0, 1]]))) == pytest.approx(math.log(0.25 * 0.25))
    assert number(framework, policy.entropy()) == pytest.approx(entropy(0.25, 0.75) + entropy(0.25, 0.25, 0.5))
    expected = math.log(2) - entropy(0.25, 0.75) + math.log(3) - entropy(0.25, 0.25, 0.5)
    assert number(framework, policy.detached().kl(even)) == pytest.approx(expected)
    answers = framework.array(choice.answers(tensor(framework, [[0.0, LN3, 0.0, 0.0, LN2]])))
    np.testing.assert_allclose(answers, [[0.25, 0.75, 0.25, 0.25, 0.5]], rtol=1e-6)
    indicators = framework.array(choice.indicators(tensor(framework, [[1, 2]])))
    assert indicators.tolist() == [[0, 1, 0, 0, 1]]


@BOTH
def test_log_probabilities_entropies_and_divergences_of_switches_are_sums(framework):
    choice = choices(framework, BinarySpaces((4,), 2))
    policy = choice.distribution(tensor(framework, [[0.0, LN3]]))  # 1/2 and 3/4 for 1
    even = choice.distribution(tensor(framework, [[0.0, 0.0]]))
    assert number(framework, policy.log_prob(tensor(framework, [[1, 0]]))) == pytest.approx(math.log(0.5 * 0.25))
    assert number(framework, policy.log_prob(tensor(framework, [[0, 1]]))) == pytest.approx(math.log(0.5 * 0.75))
    assert number(framework, policy.entropy()) == pytest.approx(entropy(0.5, 0.5) + entropy(0.25, 0.75))
    assert number(framework, policy.detached().kl(even)) == pytest.approx(math.log(2) - entropy(0.25, 0.75))
    np.testing.assert_allclose(
        framework.array(choice.answers(tensor(framework, [[0.0, LN3]]))), [[0.5, 0.75]], rtol=1e-6
    )


def test_the_policy_samples_each_choice_by_its_own_probabilities():
    policy, rng = SoftmaxPolicy(), np.random.default_rng(0)
    policy.bind(spaces.MultiDiscrete([2, 3]), 1)
    scores = np.tile(np.array([0.25, 0.75, 0.25, 0.25, 0.5], np.float32), (20_000, 1))
    action = policy.select(scores, rng)
    assert action.shape == (20_000, 2)
    assert np.mean(action[:, 0] == 1) == pytest.approx(0.75, abs=0.02)
    assert [np.mean(action[:, 1] == i) for i in range(3)] == pytest.approx([0.25, 0.25, 0.5], abs=0.02)
    assert np.corrcoef(action.T)[0, 1] == pytest.approx(0.0, abs=0.03)  # each for itself
    assert policy.log_prob(scores[:2], np.array([[1, 2], [0, 1]])) == pytest.approx(np.log([0.375, 0.0625]))
    assert policy.greedy(scores[:1]).tolist() == [[1, 2]]

    policy.bind(spaces.MultiBinary(2), 1)
    scores = np.tile(np.array([0.5, 0.75], np.float32), (20_000, 1))
    assert policy.select(scores, rng).mean(axis=0) == pytest.approx([0.5, 0.75], abs=0.02)
    assert policy.log_prob(scores[:1], np.array([[1, 0]])) == pytest.approx([math.log(0.125)])
    assert policy.greedy(scores[:1]).tolist() == [[0, 1]]

    policy.bind(spaces.Discrete(2), 1)  # as before
    assert policy.select(np.array([[0.0, 1.0]]), rng).tolist() == [1]


def test_what_is_no_probability_of_each_choice_is_refused():
    policy, rng = SoftmaxPolicy(), np.random.default_rng(0)
    policy.bind(spaces.MultiDiscrete([2, 3]), 1)
    with pytest.raises(AgentContractError, match=r"takes 5 probabilities per observation, .* returned 2 numbers"):
        policy.select(np.array([[0.5, 0.5]]), rng)
    with pytest.raises(AgentContractError, match="must sum to 1"):
        policy.select(np.full((1, 5), 0.2), rng)
    policy.bind(spaces.MultiBinary(2), 1)
    with pytest.raises(AgentContractError, match=r"numbers between -1 and 2"):
        policy.select(np.array([[-1.0, 2.0]]), rng)


@BOTH
@pytest.mark.parametrize("name", ["DQN", "DoubleDQN", "DuelingDQN", "ACER", "SACDiscrete"])
def test_agents_of_one_choice_refuse_several_in_words(framework, name):
    with pytest.raises(
        EnvironmentMismatchError,
        match=rf"{name} chooses one of several actions, but Locks has the action space MultiDiscrete\(.*; "
        "take PPO, A2C or TRPO, which choose several",
    ):
        getattr(framework.agents, name)(env=dials)


@ONCE
def test_agents_of_numbers_and_policies_of_one_choice_refuse_several(framework):
    with pytest.raises(EnvironmentMismatchError, match="SAC chooses vectors of numbers"):
        framework.agents.SAC(env=switches)
    with pytest.raises(EnvironmentMismatchError, match=r"GreedyQPolicy chooses one .*MultiBinary\(3\); use Softmax"):
        GreedyQPolicy().bind(spaces.MultiBinary(3), 1)


@ONCE
def test_a_custom_agent_cannot_explore_several_choices_as_one(framework):
    class Own(framework.base()):
        def __init__(self):
            super().__init__()
            self.env, self.weights = dials, framework.variable(np.zeros((4, 5)))
            self.param = [self.weights]

        def action(self, s):
            return s @ self.weights

        def __call__(self, s, a, next_s, r, d):
            return framework.mean(s @ self.weights)

    agent = Own()
    agent.set(policy=EpsGreedyQPolicy(0.1), batch=8)
    with pytest.raises(AgentContractError, match="EpsGreedyQPolicy chooses one of several actions, but the environ"):
        agent.train(optimizer=framework.optimizers.adam(agent.param, 1e-2), total_steps=8, p=0)


def ppo(framework, env, name="PPO", **settings):
    make = getattr(framework.agents, name)
    seed_everything(1)
    agent = make(hidden_size=(32,), env=env)
    agent.set(policy=SoftmaxPolicy(), num_envs=8, seed=1, **settings)
    return agent


ROLLOUTS = {
    "PPO": {"PPO": True, "rollout_steps": 16, "batch": 32, "num_epochs": 4},
    "A2C": {"rollout_steps": 5},
    "TRPO": {"rollout_steps": 32},
}

KERAS = ("PPO-switches", "TRPO-dials")  # tracing is slow
SLOW = {"pytorch": ("PPO-dials", "PPO-switches", "TRPO-switches")}  # PPO in Keras has switches, in workers dials


@pytest.mark.traced
@pytest.mark.slow_in_keras("TRPO")
@pytest.mark.parametrize(
    ("framework", "name", "env"),
    [
        pytest.param(
            *(*framework.values, name, env),
            marks=[pytest.mark.slow] if f"{name}-{env.__name__}" in SLOW.get(framework.id, ()) else [],
            id=f"{framework.id}-{name}-{env.__name__}",
        )
        for framework in frameworks()
        for name, env in [("PPO", dials), ("PPO", switches), ("A2C", switches), ("TRPO", dials), ("TRPO", switches)]
        if framework.id == "pytorch" or f"{name}-{env.__name__}" in KERAS
    ],
)
def test_several_choices_are_learned(framework, name, env):
    agent = ppo(framework, env, name, **ROLLOUTS[name])
    optimizer = framework.optimizers.adam(agent.param, 1e-2)
    before = agent.evaluate(10).mean
    agent.train(optimizer=optimizer, total_steps=5_000 if name == "A2C" else 3_000, p=0, jit_compile=False)
    assert before < 6.5
    assert agent.evaluate(10).mean > 7.5  # 8 is everything right in eight steps


@ONCE
def test_workers_answer_several_choices_in_numpy_and_act_as_the_agent_does(framework):
    agent = ppo(framework, dials, **ROLLOUTS["PPO"])
    optimizer = framework.optimizers.adam(agent.param, 1e-2)
    result = agent.train(optimizer=optimizer, total_steps=2_500, p=0, pool_network=True, processes=1)
    assert np.mean(result.returns[-20:]) > np.mean(result.returns[:20]) + 1.0


@ONCE
def test_gail_sees_several_choices_as_indicators(framework):
    agent = framework.agents.GAIL(hidden_size=(4,), env=dials, discriminator_size=4)
    pair = agent._pair(tensor(framework, np.eye(4, dtype=np.float32)[:1]), tensor(framework, [[1, 2]]))
    assert framework.array(pair).tolist() == [[1, 0, 0, 0, 0, 1, 0, 0, 1]]


class Dials(Counting):
    """The reward is 1 where the action is a member of the space, of its type, and else 0."""

    def __init__(self, space):
        super().__init__()
        self.action_space = space

    def step(self, action):
        obs, _, *others = super().step(action)
        fits = self.action_space.contains(action) and action.dtype == self.action_space.dtype
        return obs, float(fits), *others


SMALL_TYPES = [
    spaces.MultiDiscrete([3, 2], dtype=np.uint8),
    spaces.MultiDiscrete([3, 2], start=[-128, 100], dtype=np.int8),
    spaces.MultiDiscrete([3, 2], start=[-1, -5], dtype=np.int32),
    spaces.MultiBinary((2, 3)),
]


@pytest.mark.parametrize("framework", frameworks())
@pytest.mark.parametrize("space", SMALL_TYPES, ids=str)
def test_actions_have_the_type_of_the_space_in_training_and_in_predict(framework, space):
    agent = framework.agents.PPO(hidden_size=4, env=lambda: Dials(space))
    agent.set(policy=SoftmaxPolicy(), PPO=True, rollout_steps=6, batch=6, num_epochs=1, seed=0)
    optimizer = framework.optimizers.adam(agent.param)
    assert set(agent.train(optimizer=optimizer, total_steps=12, p=0).returns) == {3.0}
    assert agent.evaluate(1).returns.tolist() == [3.0]
    for obs in (np.zeros(2), np.zeros((4, 2))):
        action, _ = agent.predict(obs)
        assert action.dtype == space.dtype
        assert space.contains(action if obs.ndim == 1 else action[0])


@pytest.mark.parametrize("framework", frameworks())
@pytest.mark.parametrize(("start", "dtype"), [(250, np.uint8), (-128, np.int8), (5, np.int32)])
def test_one_choice_is_predicted_in_the_type_of_its_space(framework, start, dtype):
    space = spaces.Discrete(3, start=start, dtype=dtype)
    agent = framework.agents.DQN(hidden_size=4, env=lambda: Dials(space))
    assert space.contains(agent.predict(np.zeros(2))[0])
    assert agent.predict(np.zeros((3, 2)))[0].dtype == dtype
