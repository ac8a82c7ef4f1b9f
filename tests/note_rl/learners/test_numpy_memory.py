"""Acting in NumPy where an agent remembers: only as long as NumPy gives what the framework does."""

from functools import partial

import gymnasium
import numpy as np
import pytest
from gymnasium import spaces

from note_rl.errors import EnvironmentMismatchError
from note_rl.learners.numpy_memory import ActingCell, ActingMemory, RecurrentActor
from note_rl.learners.numpy_policy import Actor
from note_rl.learners.recurrence import RecurrentState
from note_rl.policy import SoftmaxPolicy
from note_rl.settings import GSDE
from note_rl.training.callbacks import LambdaCallback
from tests.note_rl.frameworks import frameworks

UNITS = 2
OBS = np.array([[1.0, 2.0, 3.0]], np.float32)
BEFORE = {"h": np.zeros((1, UNITS), np.float32)}


class Remembers:
    """A GRU of two numbers; the framework gives one thousand times its answers where it is broken."""

    def __init__(self):
        rng = np.random.default_rng(0)
        dense = (rng.normal(size=(3, 3 * UNITS)).astype(np.float32), np.zeros(3 * UNITS, np.float32), "linear")
        head = (rng.normal(size=(UNITS, 2)).astype(np.float32), np.zeros(2, np.float32), "linear")
        cell = ActingCell([dense], rng.normal(size=(UNITS, 3 * UNITS)).astype(np.float32), "gru")
        self.memory = ActingMemory({"h": cell}, [head])
        self.broken = False
        self.num_calls = 0

    def action(self, s, state):
        raise NotImplementedError

    def acting_memory(self):
        return self.memory

    def by_framework(self, obs, before):
        self.num_calls += 1
        answers, after = self.memory(obs, before)
        return answers * (1000.0 if self.broken else 1.0), after


def acting(agent, num_changes=0):
    counter = Actor(agent, lambda obs, index: None, mirrored=False)
    counter.num_changes = num_changes
    return RecurrentActor(agent, agent.by_framework, counter, lambda read: read), counter


@pytest.mark.parametrize("num_changes", [0, 1, 3, 5, 6, 100])
def test_the_first_answer_is_compared_whatever_has_changed_before_it(num_changes):
    agent = Remembers()
    agent.broken = True
    act, _ = acting(agent, num_changes)
    np.testing.assert_array_equal(act(OBS, BEFORE)[0], agent.memory(OBS, BEFORE)[0] * 1000.0)


def test_it_is_compared_ever_more_seldom_and_also_where_several_changes_are_counted_at_once():
    agent = Remembers()
    act, counter = acting(agent)
    compared = []
    for counter.num_changes in range(0, 60, 3):
        before = agent.num_calls
        act(OBS, BEFORE)
        act(OBS, BEFORE)
        compared += [counter.num_changes] * (agent.num_calls - before)
    assert compared == [0, 3, 6, 9, 18, 33]


def test_what_differs_after_some_changes_is_found_at_the_next_comparison():
    agent = Remembers()
    act, counter = acting(agent)
    act(OBS, BEFORE)
    agent.broken, counter.num_changes = True, 3
    np.testing.assert_array_equal(act(OBS, BEFORE)[0], agent.memory(OBS, BEFORE)[0] * 1000.0)


def small_memory(framework, **settings):
    return partial(framework.module("shared/recurrent").recurrent_network, units=3, hidden_sizes=(4,), **settings)


BOTH = pytest.mark.parametrize("framework", frameworks())


@BOTH
@pytest.mark.parametrize("head_sizes", [(), (5,)])
def test_state_dependent_exploration_goes_with_it(framework, head_sizes):
    """The framework is called once, for the comparison."""
    agent = framework.agents.PPO(
        env="Pendulum-v1", network=small_memory(framework, head_sizes=head_sizes), gsde=GSDE(clip_mean=0.2)
    )
    called, action = [], agent.action
    agent.action = lambda s, state: called.append(s) or action(s, state)
    state, obs = RecurrentState(keeps_before=True), np.random.default_rng(0).normal(size=(5, 3)).astype(np.float32)
    for _ in range(3):
        before = state.arrays
        answers = agent.learner.act(obs, state)
    assert len(called) == 1
    assert answers.shape == (5, 1 + (head_sizes or (3,))[0])
    np.testing.assert_allclose(answers, agent.learner._evaluate_from("action", obs, before)[0], rtol=1e-4, atol=1e-6)


@BOTH
@pytest.mark.parametrize("layers", [(), ({"norm": "layer"},)])
def test_observations_of_a_wrong_size_are_refused_in_words(framework, layers):
    """In NumPy, and in the framework where a layer is none of NumPy's."""
    agent = framework.agents.A2C(env="CartPole-v1", network=small_memory(framework, layers=layers))
    said = "" if layers else ": its network takes 4 numbers"
    for _ in range(2):
        with pytest.raises(
            EnvironmentMismatchError, match=rf"A2C cannot answer observations of the shape \[5\].*{said}"
        ):
            agent.learner.act(np.zeros((2, 5), np.float32))
    agent.learner.act(np.zeros((2, 4), np.float32))
    assert agent.learner.actor.examples[None].shape == (1, 4)


class Bytes(gymnasium.Env):
    """Shows four bytes, which a network takes as shares of 255; never ends."""

    def __init__(self):
        self.observation_space = spaces.Box(0, 255, (4,), np.uint8)
        self.action_space = spaces.Discrete(2)

    def reset(self, *, seed=None, options=None):
        super().reset(seed=seed)
        return self._obs(), {}

    def step(self, action):
        return self._obs(), float(action), False, False, {}

    def _obs(self):
        return self.np_random.integers(0, 256, 4).astype(np.uint8)


@pytest.mark.usefixtures("eager_updates")
@pytest.mark.parametrize("framework", frameworks())
def test_a_resumed_agent_acts_on_bytes_by_the_framework_as_before(framework, tmp_path):
    """It counts three changes before its first answer."""

    def prepared():
        network = partial(framework.module("shared/recurrent").recurrent_network, units=3, hidden_sizes=(4,))
        agent = framework.agents.PPO(env=Bytes, network=network)
        agent.set(policy=SoftmaxPolicy(), PPO=True, rollout_steps=4, batch=4, num_epochs=1, num_envs=1, seed=1)
        return agent

    def train(agent, *callbacks):
        optimizer = framework.optimizers.adam(agent.param, 1e-2)
        agent.train(optimizer=optimizer, total_steps=8, callbacks=list(callbacks), p=0)

    first, second = prepared(), prepared()
    train(first, LambdaCallback(on_phase_end=lambda phase, logs: setattr(first, "stop_training", True)))
    first.save(tmp_path / "a")
    second.restore(tmp_path / "a")
    answered = []
    act = second.learner._act_from
    second.learner._act_from = lambda obs, before: answered.append((obs, before, act(obs, before))) or answered[-1][2]
    train(second)
    obs, before, (answers, _) = answered[0]
    np.testing.assert_allclose(answers, first.learner._evaluate_from("action", obs, before)[0], rtol=1e-5)
    assert len(answered) == 4
