"""Agents in pickles and copies act as before, and their training goes on as if nothing had been copied."""

import copy
import pickle
import threading
from functools import partial
from pathlib import Path

import cloudpickle
import numpy as np
import pytest

from note_rl.errors import SettingsError
from note_rl.policy import AdaptiveEpsGreedyPolicy, EpsGreedyQPolicy, SoftmaxPolicy, SquashedGaussianPolicy
from note_rl.policy.noise import OrnsteinUhlenbeckProcess
from note_rl.seeding import seed_everything
from note_rl.settings.schedules import Linear
from note_rl.training.checkpoint_saver import SavingOptions
from tests.note_rl.frameworks import frameworks
from tests.note_rl.small_environments import Counting

BOTH = pytest.mark.parametrize("framework", frameworks())
WAYS = {
    "pickle": lambda agent: pickle.loads(pickle.dumps(agent)),
    "cloudpickle": lambda agent: cloudpickle.loads(cloudpickle.dumps(agent)),
    "deepcopy": copy.deepcopy,
}
REPLAY = {"pool_size": 200, "batch": 8, "num_updates": 2, "learning_starts": 10, "train_freq": 15}
CASES = {
    "DQN": (
        {"env": "CartPole-v1"},
        {"policy": AdaptiveEpsGreedyPolicy(), "PR": True, "num_steps": 2, "update_batches": 3, **REPLAY},
    ),
    "PPO": (
        {"env": "CartPole-v1"},
        {"policy": SoftmaxPolicy(), "PPO": True, "rollout_steps": 16, "batch": 16, "num_epochs": 2, "num_envs": 2},
    ),
    "DDPG": ({"env": "Pendulum-v1"}, {"noise": OrnsteinUhlenbeckProcess(0.15), "normalise_obs": True, **REPLAY}),
    "SAC": (
        {"env": "Pendulum-v1"},
        {"policy": SquashedGaussianPolicy(), "schedules": {"learning_rate": Linear(1e-2, 1e-3)}, **REPLAY},
    ),
}
QUIET = {"p": 0, "jit_compile": False}


def made(framework, name, seed=3):
    arguments, settings = CASES[name]
    make_agent = getattr(framework.agents, name)
    seed_everything(seed)
    agent = make_agent(hidden_size=(8,), **arguments)
    agent.set(seed=seed, **settings)
    several = isinstance(agent.param[0], (list, tuple))
    optimizer = [framework.optimizers.adam(group, 1e-2) for group in agent.param] if several else None
    return agent, optimizer or framework.optimizers.adam(agent.param, 1e-2)


def state(agent):
    """Everything that save() would write, arrays and head, but for the seconds."""
    snapshot = agent._snapshot(SavingOptions(path=Path("nowhere"))).copy()
    return dict(snapshot.arrays), {**snapshot.head, "seconds": 0.0}


def marks(framework, name):
    """Tracing in Keras is slow."""
    return [pytest.mark.slow] if framework == "keras" and name != "DQN" else []


def without_random_numbers(found):
    """Without those that all agents of the framework share."""
    return {name: values for name, values in found[0].items() if not name.startswith("learner/random")}, found[1]


@pytest.mark.parametrize(
    ("framework", "name", "way"),
    [
        pytest.param(*framework.values, name, way, id=f"{framework.id}-{name}-{way}", marks=marks(framework.id, name))
        for framework in frameworks()
        for name, way in [("DQN", "pickle"), ("PPO", "deepcopy"), ("DDPG", "deepcopy"), ("SAC", "cloudpickle")]
    ],
)
def test_a_trained_agent_is_the_same_afterwards_and_goes_on_the_same(framework, name, way):
    agent, optimizer = made(framework, name)
    agent.train(optimizer=optimizer, total_steps=40, **QUIET)
    other = WAYS[way](agent)
    obs = np.random.default_rng(0).normal(size=(5, 4 if "Cart" in agent.env else 3)).astype(np.float32)
    np.testing.assert_array_equal(other.learner.act(obs), agent.learner.act(obs))
    assert other.evaluate(2).returns.tolist() == agent.evaluate(2).returns.tolist()
    assert (other.num_env_steps, other.num_episodes, other.history) == (
        agent.num_env_steps,
        agent.num_episodes,
        agent.history,
    )
    before = state(agent)
    rest = other.train(total_steps=80, **QUIET)  # with the optimizer that it had
    copied = state(other)
    np.testing.assert_equal(without_random_numbers(state(agent)), without_random_numbers(before))  # nothing is shared
    expected = agent.train(total_steps=80, **QUIET)
    assert (rest.returns, rest.episode_steps) == (expected.returns, expected.episode_steps)
    assert rest.num_gradient_steps == expected.num_gradient_steps > 0
    np.testing.assert_array_equal(rest.losses, expected.losses)
    np.testing.assert_equal(copied, state(agent))


@pytest.mark.slow_in_keras
@BOTH
def test_before_training_too(framework):
    """Trained afterwards with an optimizer made of its own parameters, it learns what the original learns."""
    agent, optimizer = made(framework, "DQN")
    copies = [way(agent) for way in WAYS.values()]
    np.testing.assert_equal([framework.parameters(one) for one in copies], [framework.parameters(agent)] * len(WAYS))
    other = copies[0]
    other.train(optimizer=framework.optimizers.adam(other.param, 1e-2), total_steps=30, **QUIET)
    agent.train(optimizer=optimizer, total_steps=30, **QUIET)
    assert agent.num_gradient_steps > 0
    np.testing.assert_equal(framework.parameters(other), framework.parameters(agent))


@BOTH
def test_functions_that_refer_to_the_agent_refer_to_the_copy(framework):
    agent = framework.agents.DQN(hidden_size=(4,), env=lambda: Counting(5))
    agent.asked = 0

    def adjust():
        agent.asked += 1

    agent.adjust_func = adjust
    agent.set(policy=EpsGreedyQPolicy(0.1), batch=4, num_updates=1, seed=1)
    other = copy.deepcopy(agent)
    other.train(optimizer=framework.optimizers.adam(other.param, 1e-2), episodes=3, **QUIET)
    assert (agent.asked, other.asked) == (0, 3)


@pytest.mark.slow_in_keras
@BOTH
def test_attributes_changed_since_go_along(framework):
    agent, optimizer = made(framework, "DQN")
    agent.gamma, agent.path, agent.notes = 0.5, "model.dat", {"run": [1, 2]}
    agent.optimizer = optimizer
    other = copy.deepcopy(agent)
    assert (other.gamma, other.path, other.notes) == (0.5, "model.dat", {"run": [1, 2]})
    assert other.notes is not agent.notes
    other.path = None
    assert other.train(total_steps=40, **QUIET).num_gradient_steps > 0


@BOTH
def test_what_has_no_pickle_is_refused_with_the_way_out(framework):
    agent = framework.agents.DQN(hidden_size=(4,), env="CartPole-v1")
    agent.open = threading.Lock()
    for way in WAYS.values():
        with pytest.raises(SettingsError, match=r"DQN cannot be pickled or copied: its attribute open .*agent.save\("):
            way(agent)


@BOTH
def test_an_agent_with_a_memory_answers_alike(framework):
    network = partial(framework.module("shared/recurrent").recurrent_network, units=3, hidden_sizes=(4,))
    agent = framework.agents.PPO(env=Counting, network=network)
    obs = np.random.default_rng(0).normal(size=(5, 2)).astype(np.float32)
    answers = agent.learner.act(obs)
    other = copy.deepcopy(agent)
    np.testing.assert_array_equal(other.learner.act(obs), answers)
    assert other.memories.policy is not agent.memories.policy
    assert other.memories.policy is other.actor.memory


def test_a_keras_agent_whose_copy_would_remember_otherwise_is_refused():
    (framework,) = frameworks()[1].values
    network = partial(framework.module("shared/recurrent").recurrent_network, units=3, hidden_sizes=(4,))
    agent = framework.agents.PPO(env=Counting, network=network)
    agent.actor.head.output_layer.kernel.assign(np.ones((3, 2), np.float32) * [1.0, -1.0])
    agent.actor.memory.follow = lambda x, parts, recurrent: tuple(part + 1.0 for part in parts)
    agent.learner.act(np.ones((1, 2), np.float32))
    with pytest.raises(SettingsError, match=r"answers otherwise.*agent.save\(path\)"):
        copy.deepcopy(agent)


def keras_agent(arguments, make):
    import note_rl

    class Own(note_rl.RL):
        def __init__(self, given):
            super().__init__()
            self.env = "CartPole-v1"
            make(self, given)
            self.param = self.net.trainable_variables

        def action(self, s):
            return self.net(s)

        def __call__(self, s, a, next_s, r, d):
            raise NotImplementedError

    return Own(arguments)


def test_a_keras_agent_that_cannot_be_made_again_is_refused():
    import keras

    def net(width=2, activation=None):
        return keras.Sequential([keras.Input((4,)), keras.layers.Dense(width, activation)])

    given = keras_agent(net(), lambda agent, made: setattr(agent, "net", made))
    with pytest.raises(SettingsError, match=r"constructor was given parts of networks.*agent.save\(path\)"):
        copy.deepcopy(given)
    widths = iter([2, 3])
    changing = keras_agent(None, lambda agent, _: setattr(agent, "net", net(next(widths))))
    with pytest.raises(SettingsError, match=r"constructor makes another one .*has the shape.*agent.save\(path\)"):
        copy.deepcopy(changing)
    replaced = keras_agent(None, lambda agent, _: setattr(agent, "net", net()))
    replaced.net = net(2, "tanh")
    replaced.param = replaced.net.trainable_variables
    replaced.learner.act(np.ones((1, 4), np.float32))
    with pytest.raises(SettingsError, match=r"answers otherwise.*agent.save\(path\)"):
        copy.deepcopy(replaced)
