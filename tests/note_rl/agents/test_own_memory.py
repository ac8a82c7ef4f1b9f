"""An agent of a user's own with a memory: that of the guide in PyTorch, and the same in Keras."""

from functools import cache

import numpy as np
import pytest

from note_rl.errors import AgentContractError
from note_rl.policy import SoftmaxPolicy
from note_rl.training.callbacks import LambdaCallback
from tests.documents import FILES
from tests.note_rl.frameworks import frameworks
from tests.note_rl.small_environments import Counting

BOTH = pytest.mark.parametrize("framework", frameworks())
UNITS = 3


@cache
def in_torch():
    names = {}
    exec(FILES["my_memory.py"], names)

    class Noting(names["MemoryActorCritic"]):
        """Reports how far the probabilities of the loss are from those that it acted by."""

        batch_attributes = (*names["MemoryActorCritic"].batch_attributes, "log_prob_old")

        def __call__(self, s, a, next_s, r, d):
            log_prob = self.policy(self.remembered(s)).log_softmax(1).gather(1, a[:, None].long()).squeeze(1)
            self.report(far=(log_prob - self.log_prob_old).abs(), begins=self.episode_start)
            return super().__call__(s, a, next_s, r, d)

    return Noting


@cache
def in_keras():
    import keras
    import tensorflow as tf

    from note_rl import RL

    class Noting(RL):
        """As the one of the guide, which is in PyTorch."""

        on_policy = True
        batch_attributes = ("advantage", "return_", "state_before", "episode_start", "log_prob_old")
        gamma = 0.99

        def __init__(self, env, units):
            super().__init__()
            self.env, self.units = env, units
            self.cell = keras.layers.GRUCell(units)
            self.policy, self.critic = keras.layers.Dense(2), keras.layers.Dense(1)
            self.cell.build((None, 2))
            self.policy.build((None, units))
            self.critic.build((None, units))
            self.param = [one for part in (self.cell, self.policy, self.critic) for one in part.trainable_variables]

        def initial_state(self, num_envs):
            return {"hidden": np.zeros((num_envs, self.units), np.float32)}

        def action(self, s, state):
            hidden, _ = self.cell(s, [state["hidden"]])
            return tf.nn.softmax(self.policy(hidden)), {"hidden": hidden}

        def value(self, s, state):
            hidden, _ = self.cell(s, [state["hidden"]])
            return tf.squeeze(self.critic(hidden), 1), {"hidden": hidden}

        def remembered(self, s):
            hidden, seen = self.state_before, []
            steps = tf.reshape(s, (hidden.shape[0], -1, s.shape[1]))
            starts = tf.reshape(self.episode_start, (hidden.shape[0], -1, 1))
            for t in range(steps.shape[1]):
                hidden, _ = self.cell(steps[:, t], [hidden * (1.0 - starts[:, t])])
                seen.append(hidden)
            return tf.reshape(tf.stack(seen, 1), (-1, self.units))

        def __call__(self, s, a, next_s, r, d):
            hidden = self.remembered(s)
            log_prob = tf.gather(tf.nn.log_softmax(self.policy(hidden)), a, batch_dims=1)
            self.report(far=tf.abs(log_prob - self.log_prob_old), begins=self.episode_start)
            error = self.return_ - tf.squeeze(self.critic(hidden), 1)
            return tf.reduce_mean(0.5 * tf.square(error) - log_prob * self.advantage)

    return Noting


def kind_of(framework):
    return in_torch() if framework.package == "pytorch" else in_keras()


def made(framework, kind=None, **settings):
    agent = (kind or kind_of(framework))(Counting, units=UNITS)
    rollouts = {"PPO": True, "rollout_steps": 4, "batch": "rollout", "num_epochs": 1}
    agent.set(**{"policy": SoftmaxPolicy(), "num_envs": 6, "seed": 0, **rollouts, **settings})
    return agent


def train(framework, agent, total_steps=24, *callbacks):
    optimizer = framework.optimizers.adam(agent.param, 1e-2)
    agent.train(optimizer=optimizer, total_steps=total_steps, callbacks=list(callbacks), p=0)


@BOTH
def test_it_learns_on_the_policy_that_acted(framework):
    """Rollouts of four steps of episodes of three: sequences begin within episodes, and episodes within sequences."""
    reported = []
    agent = made(framework)
    train(framework, agent, 72, LambdaCallback(on_phase_end=lambda phase, logs: reported.append(dict(agent.reported))))
    assert agent.num_gradient_steps == 3
    assert max(one["far"] for one in reported) < 1e-6
    assert [one["begins"] for one in reported] == [2 / 4, 1 / 4, 1 / 4]  # steps 0 and 3, 6, 9


def test_a_state_that_is_written_over_in_place_is_stored_as_it_was():
    """As PyTorch programs often do, here in the array that initial_state() returns each time, too."""
    (framework,) = frameworks()[0].values
    reported, zeros = [], {}

    class InPlace(in_torch()):
        def initial_state(self, num_envs):
            if num_envs not in zeros:
                zeros[num_envs] = super().initial_state(num_envs)["hidden"]
            return {"hidden": zeros[num_envs]}

        def action(self, s, state):
            answers, after = super().action(s, state)
            state["hidden"].copy_(after["hidden"])
            return answers, state

    agent = made(framework, InPlace)
    note = LambdaCallback(on_phase_end=lambda phase, logs: reported.append(dict(agent.reported)))
    train(framework, agent, 72, note)
    assert max(one["far"] for one in reported) < 1e-6
    assert not any(array.any() for array in zeros.values())
    before = {"hidden": np.ones((6, UNITS), np.float32)}
    after = agent.predict(np.ones((6, 2), np.float32), before)[1]
    assert (before["hidden"] == 1.0).all()
    assert (after["hidden"] != 1.0).all()


@BOTH
def test_an_initial_state_in_double_precision_is_brought_to_single(framework):
    class Double(kind_of(framework)):
        def initial_state(self, num_envs):
            return {"hidden": np.full((num_envs, self.units), 0.5)}

    agent = made(framework, Double)
    train(framework, agent)
    assert agent.num_gradient_steps == 1
    assert agent.predict(np.ones((6, 2), np.float32))[1]["hidden"].dtype == np.float32


def test_a_state_without_an_initial_one_is_refused_by_name():
    (framework,) = frameworks()[0].values

    class Stateless(kind_of(framework)):
        batch_attributes = ("advantage", "return_")

        def initial_state(self, num_envs):
            return {}

    with pytest.raises(AgentContractError, match=r"takes \(s, state\).*a state comes with initial_state\(\)"):
        train(framework, made(framework, Stateless))


def test_sequences_of_a_pool_name_all_that_is_to_be_declared():
    (framework,) = frameworks()[0].values

    class OffPolicy(kind_of(framework)):
        on_policy = None
        batch_attributes = ()

    agent = OffPolicy(Counting, units=UNITS)
    agent.set(policy=SoftmaxPolicy(), num_envs=2, sequences=True, sequence_length=4, batch=2)
    with pytest.raises(AgentContractError, match=r"= \('state_before', 'episode_start', 'ended'\)"):
        train(framework, agent)


@BOTH
@pytest.mark.parametrize("batch", [4, 12])
def test_minibatches_are_any_number_of_sequences(framework, batch):
    agent = made(framework, batch=batch)
    train(framework, agent)
    assert agent.num_gradient_steps == 24 // batch


@BOTH
def test_sequences_that_influence_each_other_are_found(framework):
    """Returns [B] and values [B, 1] are [B, B]."""

    class Mistaken(kind_of(framework)):
        def __call__(self, s, a, next_s, r, d):
            return framework.mean((self.return_ - self.critic(self.remembered(s))) ** 2)

    with pytest.raises(AgentContractError, match=r"samples influence each other in the loss.*shape"):
        train(framework, made(framework, Mistaken))


def test_steps_in_front_of_sequences_are_found_and_named():
    (framework,) = frameworks()[0].values

    class StepsFirst(kind_of(framework)):
        def remembered(self, s):
            hidden = super().remembered(s)
            return hidden.unflatten(0, (len(self.state_before), -1)).transpose(0, 1).flatten(0, 1)

    with pytest.raises(AgentContractError, match=r"Usual cause: the minibatch is n sequences of L steps.*second axis"):
        train(framework, made(framework, StepsFirst))


@BOTH
def test_without_a_value_it_learns_from_rewards(framework):
    class Reinforce(kind_of(framework)):
        batch_attributes = ("state_before", "episode_start")
        value = property()  # hasattr() finds none

        def __call__(self, s, a, next_s, r, d):
            chosen = framework.numbers(a) * 2.0 - 1.0
            logits = self.policy(self.remembered(s))
            return framework.mean(-r * chosen * (logits[:, 1] - logits[:, 0]))

    agent = made(framework, Reinforce)
    before = framework.parameters(agent)
    train(framework, agent)
    assert agent.num_gradient_steps == 1
    assert any((a != b).any() for a, b in zip(framework.parameters(agent), before, strict=True))


def test_a_pool_of_single_transitions_is_refused():
    """Each would come with a state, and without beginnings of episodes; `R2D2` learns from a pool of sequences."""
    (framework,) = frameworks()[0].values

    class OffPolicy(kind_of(framework)):
        on_policy = None
        batch_attributes = ("state_before", "episode_start")

    agent = OffPolicy(Counting, units=UNITS)
    agent.set(policy=SoftmaxPolicy(), num_envs=2, batch=8)
    whole = r"OffPolicy has a memory.*whole sequences, of rollouts or of a pool: .*PPO=True.*sequences=True"
    with pytest.raises(AgentContractError, match=whole):
        train(framework, agent)


def test_an_initial_state_that_is_no_dictionary_is_refused():
    (framework,) = frameworks()[0].values

    class Bare(kind_of(framework)):
        def initial_state(self, num_envs):
            return np.zeros((num_envs, UNITS), np.float32)

    with pytest.raises(AgentContractError, match=r"Bare.initial_state\(1\) must give arrays.*by name.*got ndarray"):
        train(framework, made(framework, Bare))


def test_replicas_refuse_it_by_name():
    (framework,) = frameworks()[0].values
    agent = made(framework)
    with pytest.raises(AgentContractError, match=r"Noting has a memory \(initial_state\).*use train\(\)"):
        agent.distributed_training(optimizer=framework.optimizers.adam(agent.param, 1e-3), total_steps=24, replicas=2)
