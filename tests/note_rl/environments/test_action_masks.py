"""Environments that say which actions they allow: what is read of them, and that nothing else is ever done."""

import functools
import logging
import math
from typing import Any

import gymnasium
import numpy as np
import pytest
from gymnasium import spaces
from gymnasium.vector import AsyncVectorEnv, AutoresetMode, SyncVectorEnv

from note_rl.collect.collector import Collector
from note_rl.collect.evaluation import random_policy_returns
from note_rl.environments import VectorEnvironment, training_environments
from note_rl.environments.gymnasium_vector import foreign_environments
from note_rl.errors import AgentContractError, EnvironmentMismatchError
from note_rl.policy import (
    BoltzmannGumbelQPolicy,
    BoltzmannQPolicy,
    EpsGreedyQPolicy,
    MaxBoltzmannQPolicy,
    Policy,
    PolicyPerEnvironment,
    SoftmaxPolicy,
)
from note_rl.replay.buffer import Parts, ReplayBuffer
from note_rl.replay.readers import NStep
from note_rl.seeding import seed_everything
from note_rl.types import Sample
from tests.note_rl.environments.odd_environments import Plain
from tests.note_rl.frameworks import frameworks

BOTH = pytest.mark.parametrize("framework", frameworks())
MASKS = np.array([[1, 1, 0], [0, 1, 1], [1, 0, 0], [0, 1, 0]], bool)  # by place


class Places(gymnasium.Env[np.ndarray, int]):
    """Four places; action a leads a + 1 places on, where that is allowed. The first allowed one earns 1."""

    def __init__(self, length: int = 5, by_time: bool = False) -> None:
        self.observation_space = spaces.Box(0.0, 1.0, (4,), np.float32)
        self.action_space = spaces.Discrete(3, start=10)
        self.length, self.by_time = length, by_time
        self.place = self.number = 0

    def reset(self, *, seed=None, options=None):
        super().reset(seed=seed)
        self.place, self.number = int(self.np_random.integers(4)), 0
        return self.observation(), self.info(False)

    def step(self, action):
        assert MASKS[self.place][action - 10], f"{action} in {self.place}"
        reward = float(action - 10 == MASKS[self.place].argmax())
        self.place, self.number = (self.place + action - 9) % 4, self.number + 1
        over = self.number == self.length
        ended = over and not self.by_time
        return self.observation(), reward, ended, over and self.by_time, self.info(ended)

    def observation(self) -> np.ndarray:
        return np.eye(4, dtype=np.float32)[self.place]

    def info(self, ended: bool) -> dict:
        return {"action_mask": MASKS[self.place] & (not ended)}  # nothing is allowed where all is over


class Asked(Places):
    """The same, announced by a method."""

    def info(self, ended: bool) -> dict:
        return {}

    def action_masks(self) -> np.ndarray:
        return MASKS[self.place]


def allowed_in(obs):
    return MASKS[obs.argmax(axis=-1)]


def steps_of(envs, number=40):
    collector = Collector(envs, EpsGreedyQPolicy(0.5), np.random.default_rng(0))
    return collector.collect(lambda obs: np.tile([0.0, 1.0, 2.0], (len(obs), 1)), number)[0]


def check_masks(steps, has_last=True):
    np.testing.assert_array_equal(steps.extras["action_mask"], allowed_in(steps.obs))
    after, told = steps.extras["next_action_mask"], allowed_in(steps.next_obs)
    np.testing.assert_array_equal(after[~steps.ended], told[~steps.ended])
    np.testing.assert_array_equal(after[steps.terminated], True)  # it does not matter
    limit = steps.ended & ~steps.terminated
    np.testing.assert_array_equal(after[limit], told[limit] if has_last else True)
    assert steps.ended.any()


@pytest.mark.parametrize(("kind", "by_time"), [(Places, False), (Places, True), (Asked, True)])
def test_what_is_allowed_stands_beside_each_step_and_nothing_else_is_done(kind, by_time):
    check_masks(steps_of(VectorEnvironment([kind(length, by_time) for length in (2, 5, 7)], seed=0)))


@pytest.mark.parametrize("mode", list(AutoresetMode))
@pytest.mark.parametrize("kind", [Places, Asked])
def test_vector_environments_tell_the_same(kind, mode):
    envs = SyncVectorEnv([functools.partial(kind, length, True) for length in (2, 5, 7)], autoreset_mode=mode)
    has_last = kind is Places or mode is not AutoresetMode.SAME_STEP  # a method is then of the new episode already
    check_masks(steps_of(training_environments(envs, None, seed=0)), has_last)


def test_asynchronous_vector_environments_tell_the_same():
    for kind in (Places, Asked):
        envs = AsyncVectorEnv([functools.partial(kind, length, True) for length in (2, 5)])
        check_masks(steps_of(training_environments(envs, None, seed=0), 20))
        envs.close()


def test_environments_that_tell_nothing_add_nothing_to_steps():
    envs = VectorEnvironment([gymnasium.make("CartPole-v1")], seed=0)
    assert envs.action_mask is None
    collector = Collector(envs, EpsGreedyQPolicy(0.5), np.random.default_rng(0))
    assert collector.collect(lambda obs: np.zeros((1, 2)), 5)[0].extras == {}


def test_a_replayed_episode_allows_what_it_did():
    first, second = (VectorEnvironment([Places(7), Places(3)], seed=0) for _ in range(2))
    for _ in range(5):
        first.step(first.action_mask.argmax(axis=1))
    assert second.set_state(first.get_state())
    np.testing.assert_array_equal(second.action_mask, first.action_mask)
    np.testing.assert_array_equal(second.action_mask, allowed_in(second.obs))


class Wrong(Places):
    """Announces `mask`."""

    mask = None

    def info(self, ended: bool) -> dict:
        return {"action_mask": self.mask}


@pytest.mark.parametrize(
    ("mask", "message"),
    [
        (np.ones(4, bool), r"one entry for each of the 3 actions.* got the shape \[4\]"),
        (np.zeros(3, bool), "allows no action and yet goes on"),
        (None, "must be there after every reset and step"),
        (np.array([0.0, -np.inf, 0.0]), "holds -inf, and must hold 1 or True where an action is allowed"),
        (np.array([0, 2, 1]), "holds 2, and must hold 1"),
    ],
)
def test_masks_that_are_none_are_refused(mask, message):
    env = Wrong()
    env.mask = mask
    with pytest.raises(EnvironmentMismatchError, match=message):
        VectorEnvironment([env], seed=0)


def test_either_all_environments_tell_or_none():
    plain = Places()
    plain.info = lambda ended: {}
    with pytest.raises(EnvironmentMismatchError, match="1 of 2 environments tell which actions they allow"):
        VectorEnvironment([Places(), plain], seed=0)


@pytest.mark.parametrize(
    "policy",
    [
        EpsGreedyQPolicy(1.0),
        BoltzmannQPolicy(tau=5.0),
        BoltzmannQPolicy(clip=(-1.0, 1.0)),
        MaxBoltzmannQPolicy(eps=0.7),
        BoltzmannGumbelQPolicy(),
        PolicyPerEnvironment([EpsGreedyQPolicy(0.5), BoltzmannQPolicy()]),
    ],
)
def test_policies_choose_allowed_actions_only_and_all_of_them(policy):
    rng, mask = np.random.default_rng(0), np.array([[1, 0, 1, 1], [0, 1, 0, 0]], bool)
    scores = np.tile(np.array([0.1, 9.0, 0.2, 0.0], np.float32), (2, 1))
    seen = np.zeros((2, 4), bool)
    for _ in range(200):
        action = policy.select(policy.masked(scores, mask), rng)
        seen[np.arange(2), action] = True
    np.testing.assert_array_equal(seen, mask)
    assert policy.greedy(policy.masked(scores, mask)).tolist() == [2, 1]


def test_random_exploration_takes_each_allowed_action_equally_often():
    policy, rng = EpsGreedyQPolicy(1.0), np.random.default_rng(0)
    scores = policy.masked(np.zeros((9000, 4), np.float32), np.tile([True, False, True, True], (9000, 1)))
    share = np.bincount(policy.select(scores, rng), minlength=4) / 9000
    assert share == pytest.approx([1 / 3, 0, 1 / 3, 1 / 3], abs=0.02)


def test_probabilities_are_those_under_the_condition_of_an_allowed_action():
    policy = SoftmaxPolicy()
    scores = policy.masked(np.array([[0.5, 0.3, 0.2], [1.0, 0.0, 0.0]]), np.array([[1, 0, 1], [0, 1, 1]], bool))
    np.testing.assert_allclose(scores, [[5 / 7, 0, 2 / 7], [0, 0.5, 0.5]], rtol=1e-6)
    assert policy.log_prob(scores, np.array([0, 2])) == pytest.approx(np.log([5 / 7, 0.5]), rel=1e-5)


def test_a_policy_that_heeds_no_mask_is_refused():
    class Stubborn(Policy):
        def select(self, scores, rng):
            return np.full(len(scores), 2)

    collector = Collector(VectorEnvironment([Places()], seed=0), Stubborn(), np.random.default_rng(0))
    with pytest.raises(AgentContractError, match="Stubborn chose an action that the environment's action mask forbids"):
        collector.collect(lambda obs: np.zeros((1, 3)), 20)


def test_of_n_steps_it_is_the_last_that_says_what_is_allowed_next():
    buffer = ReplayBuffer(100, Parts(reader=NStep(3), chained=True))
    steps = steps_of(VectorEnvironment([Places(7, True)], seed=0), 12)
    buffer.add(steps)
    sample = buffer.gather(np.array([[0, 1, 5]]), 0.9, np.ones(1, bool), np.random.default_rng(0))
    np.testing.assert_array_equal(sample.extras["next_action_mask"], allowed_in(sample.next_obs))
    np.testing.assert_array_equal(sample.extras["next_action_mask"][0], allowed_in(steps.next_obs[[2, 3, 6], 0]))
    np.testing.assert_array_equal(sample.extras["action_mask"], allowed_in(sample.obs))


def tensor(framework, values):
    if framework.package == "pytorch":
        import torch

        return torch.tensor(values)
    import tensorflow as tf

    return tf.constant(values)


def with_outputs(framework, network, values):
    """The network, whose outputs are these for all inputs."""
    *_, kernel, bias = network.parameters() if framework.package == "pytorch" else network.trainable_variables
    for parameter, numbers in ((kernel, np.zeros(kernel.shape, np.float32)), (bias, np.array(values, np.float32))):
        if framework.package == "pytorch":
            parameter.data.copy_(tensor(framework, numbers))
        else:
            parameter.assign(numbers)


@BOTH
@pytest.mark.parametrize(("name", "expected"), [("DQN", 3.0), ("DoubleDQN", 1.0)])
def test_targets_look_at_allowed_actions_only(framework, name, expected):
    agent = getattr(framework.agents, name)(hidden_size=(4,), env=Places)
    with_outputs(framework, agent.q_net, [2.0, 9.0, 1.0])
    with_outputs(framework, agent.target_q_net, [1.0, 5.0, 3.0])
    s = tensor(framework, np.eye(4, dtype=np.float32)[:1])
    agent.next_action_mask = tensor(framework, [[1.0, 0.0, 1.0]])  # the double one prefers 0, which is worth 1 there
    assert framework.array(agent.next_value(s)).tolist() == [expected]
    agent.next_action_mask = None
    assert framework.array(agent.next_value(s)).tolist() == [5.0]


@BOTH
@pytest.mark.parametrize("name", ["PPO", "TRPO"])
def test_likelihoods_and_entropies_are_of_allowed_actions(framework, name):
    agent = getattr(framework.agents, name)(hidden_size=(4,), env=Places)
    with_outputs(framework, agent.actor, [0.0, 5.0, math.log(3.0)])
    s, mask = tensor(framework, np.eye(4, dtype=np.float32)[:1]), tensor(framework, [[1.0, 0.0, 1.0]])
    log_prob, entropy = agent.log_prob_and_entropy(s, tensor(framework, [2]), mask)
    expected = -0.25 * math.log(0.25) - 0.75 * math.log(0.75)
    assert framework.array(log_prob).tolist() == pytest.approx([math.log(0.75)])
    assert framework.array(entropy).tolist() == pytest.approx([expected])
    policy = agent.distribution(s, mask)
    assert framework.array(policy.entropy()).tolist() == pytest.approx([expected])
    even = type(agent).distribution(agent, s, tensor(framework, [[0.0, 0.0, 1.0]]))
    assert framework.array(even.kl(policy)).tolist() == pytest.approx([-math.log(0.75)])


@BOTH
@pytest.mark.parametrize("name", ["DQN", "PPO"])
def test_losses_get_the_masks_of_their_minibatch(framework, name):
    """One allowed action: no entropy, and next values that are those of this action."""
    agent = getattr(framework.agents, name)(hidden_size=(4,), env=Places)
    rows = np.eye(4, dtype=np.float32)[[[0, 1]]]
    columns = {"action": np.full((1, 2), 2), "reward": np.zeros((1, 2), np.float32)}
    only = np.tile(np.array([0.0, 0.0, 1.0], np.float32), (1, 2, 1))
    extras = {"action_mask": only, "next_action_mask": only}
    if name == "PPO":
        zero = np.zeros((1, 2), np.float32)
        extras |= {"advantage": zero, "return_": zero, "value_old": zero, "log_prob_old": zero}
    else:
        with_outputs(framework, agent.q_net, [0.0, 0.0, 0.0])
        with_outputs(framework, agent.target_q_net, [1.0, 5.0, 3.0])
    discount = np.full((1, 2), 0.5, np.float32)
    given = Sample(
        rows, columns["action"], columns["reward"], rows, 0.0 * discount, discount, np.zeros(1, bool), extras
    )
    agent.learner.prepare(framework.optimizers.sgd(agent.param, 1e-3), None, (), False)
    update = agent.learner.update(given, {})
    if name == "PPO":
        assert update.reported["entropy"][0] == pytest.approx(0.0, abs=1e-6)
    else:
        assert update.loss[0, 0] == pytest.approx(1.5 - 0.5)  # Huber's, 0.5 * 3 from the target


RUNS = {
    "DQN": {"policy": EpsGreedyQPolicy(0.3), "batch": 32, "train_freq": 32, "num_updates": 4, "num_steps": 2},
    "DuelingDQN": {"policy": EpsGreedyQPolicy(0.3), "batch": 32, "train_freq": 32, "num_updates": 4, "PR": True},
    "PPO": {"policy": SoftmaxPolicy(), "PPO": True, "rollout_steps": 16, "batch": 64, "num_epochs": 2},
    "A2C": {"policy": SoftmaxPolicy(), "rollout_steps": 8},
    "TRPO": {"policy": SoftmaxPolicy(), "rollout_steps": 64},
    "ACER": {"policy": SoftmaxPolicy(), "sequence_length": 8, "replay_ratio": 1.0, "learning_starts": 100},
    "SACDiscrete": {"policy": SoftmaxPolicy(), "batch": 32, "train_freq": 32, "num_updates": 4},
}
IN_KERAS = ("DQN", "PPO", "TRPO", "ACER")  # tracing is slow


@pytest.mark.traced
@pytest.mark.slow_in_keras  # what losses in Keras make of masks: the tests above
@pytest.mark.parametrize(
    ("framework", "name"),
    [
        pytest.param(*framework.values, name, id=f"{framework.id}-{name}")
        for framework in frameworks()
        for name in RUNS
        if framework.id == "pytorch" or name in IN_KERAS
    ],
)
def test_thousands_of_steps_are_allowed_and_the_best_of_them_are_learned(framework, name):
    """An action that is not allowed ends a step of `Places` with an error."""
    make = getattr(framework.agents, name)
    seed_everything(0)
    agent = make(hidden_size=(16,), env=functools.partial(Places, 12, True), gamma=0.9)
    agent.set(num_envs=8, seed=0, **RUNS[name])
    optimizer = framework.optimizers.adam(agent.param, 1e-2)
    agent.train(optimizer=optimizer, total_steps=3_000, p=0, jit_compile=False)
    assert random_policy_returns(agent.env, 50, seed=0).mean() < 10.0
    assert agent.evaluate(20).mean > 11.0  # of 12


class LateMask(Plain):
    """Tells which actions are allowed after steps only."""

    def step(self, action: Any) -> Any:
        *others, _ = super().step(action)
        return *others, {"action_mask": np.array([1, 0], np.int8)}


@pytest.mark.parametrize(
    "make", [lambda: VectorEnvironment([LateMask()], 0), lambda: foreign_environments(late_vector(), 0)]
)
def test_masks_that_begin_with_the_first_step_are_refused(make: Any) -> None:
    envs = make()
    with pytest.raises(EnvironmentMismatchError, match=r"step\(\) of LateMask tells .* its first reset\(\) did not"):
        envs.step(np.zeros(len(envs), np.int64))


def late_vector() -> SyncVectorEnv:
    return SyncVectorEnv([LateMask] * 2)


@pytest.mark.parametrize("space", [spaces.MultiDiscrete([2, 2]), spaces.Box(0, 1, (2,))], ids=str)
def test_masks_of_other_actions_are_said_to_be_unheeded(space: Any, monkeypatch: Any, caplog: Any) -> None:
    monkeypatch.setattr("note_rl.errors._said", set())
    caplog.set_level(logging.WARNING)
    env = LateMask()
    env.action_space = space
    envs = VectorEnvironment([env], seed=0)
    envs.step(np.zeros((1, 2), np.int64))
    assert "masks are heeded where actions are Discrete" in caplog.text
