"""Updates on workers of a ParameterServerStrategy, by a coordinator that does them here and at once."""

from contextlib import nullcontext

import keras
import numpy as np
import pytest
import tensorflow as tf

from note_rl import RL
from note_rl.agents.keras import DDPG
from note_rl.distributed.keras.served_update import ServedUpdate
from note_rl.errors import AgentContractError
from note_rl.learners.keras.variables import arrays_of
from note_rl.learners.keras.waiting_groups import counts_of
from note_rl.types import Sample


class Done:
    def __init__(self, answer):
        self._answer = answer

    def fetch(self):
        return tf.nest.map_structure(lambda tensor: tensor.numpy(), self._answer)


class AtOnce:
    """Forgets to count, as workers that count at the same time do."""

    def __init__(self, optimizer):
        self._optimizer = optimizer

    def schedule(self, function, arguments):
        answer = Done(function(*arguments))
        for count in counts_of(self._optimizer):
            count.assign(0)
        return answer

    def join(self):
        pass

    def naming_the_lost(self):
        return nullcontext()


def minibatches(seed, sync, batch=8):
    rng, num = np.random.default_rng(seed), len(sync)
    obs, next_obs = rng.normal(size=(2, num, batch, 3)).astype(np.float32)
    action = rng.uniform(-2.0, 2.0, (num, batch, 1)).astype(np.float32)
    reward = rng.normal(size=(num, batch)).astype(np.float32)
    discount = np.full((num, batch), 0.9, np.float32)
    return Sample(obs, action, reward, next_obs, 0.0 * reward, discount, np.array(sync))


def learner_of(kind, served, optimizer=None):
    keras.utils.set_random_seed(1)
    agent = kind(hidden_size=(8,), env="Pendulum-v1")
    optimizer = optimizer or keras.optimizers.SGD(0.1)  # whose steps do not depend on how many there were
    if served:
        update = agent.learner._made(ServedUpdate)
        update.strategy, update.coordinator = tf.distribute.get_strategy(), AtOnce(optimizer)
        agent.learner._update = update
    agent.learner.prepare(optimizer, 0.5, ["tau"], False)
    return agent, optimizer


BLOCKS = [(0.5, [False, True, False]), (0.1, [True, True])]


def test_targets_move_between_steps_and_by_what_is_scheduled():
    (alone, _), (served, optimizer) = learner_of(DDPG, False), learner_of(DDPG, True)
    num_steps = 0
    for seed, (tau, sync) in enumerate(BLOCKS):
        num_steps += len(sync)
        sample = minibatches(seed, sync)
        expected, found = (agent.learner.update(sample, {"tau": tau}) for agent in (alone, served))
        np.testing.assert_allclose(found.loss, expected.loss, rtol=1e-4, atol=1e-6)
        for name, values in arrays_of(alone).items():
            np.testing.assert_allclose(arrays_of(served)[name], values, rtol=1e-4, atol=1e-6, err_msg=name)
        assert int(optimizer.iterations.numpy()) == num_steps, "counted here"


class Delayed(DDPG):
    """Its actor waits."""

    groups_at_sync = (0,)


def test_steps_of_groups_that_wait_are_counted_here_too():
    optimizer = keras.optimizers.Adam(0.01)
    agent, _ = learner_of(Delayed, True, optimizer)
    for seed, (tau, sync) in enumerate(BLOCKS):
        agent.learner.update(minibatches(seed, sync), {"tau": tau})
    assert [int(count) for count in counts_of(optimizer)] == [5, 1 + 2]


def test_a_block_with_a_loss_that_is_no_number_is_undone():
    agent, optimizer = learner_of(DDPG, True)
    agent.learner.update(minibatches(0, [True] * 2), {"tau": 0.5})
    before = arrays_of(agent)
    spoiled = minibatches(1, [True, False])
    spoiled.reward[1, 3] = np.nan
    assert agent.learner.update(spoiled, {"tau": 0.5}).diverged
    for name, values in arrays_of(agent).items():
        np.testing.assert_array_equal(values, before[name], err_msg=name)
    assert int(optimizer.iterations.numpy()) == 2


class Asking(RL):
    """Has one number and its target, which asks for it."""

    def __init__(self, hidden_size, env):
        super().__init__()
        self.w, self.target = tf.Variable([1.0]), tf.Variable([0.0])
        self.param, self.env = [self.w], env

    def action(self, s):
        return s[:, :1] * self.w

    def __call__(self, s, a, next_s, r, d):
        return tf.square(self.w[0] - r)

    def update_param(self):
        self.target.assign(self.w.numpy())


def test_targets_that_ask_for_numbers_are_refused_in_words():
    agent, _ = learner_of(Asking, True)
    with pytest.raises(AgentContractError, match=r"Asking.update_param\(\) is part of the compiled update"):
        agent.learner.update(minibatches(0, [False, True, False, False]), {"tau": 0.5})
