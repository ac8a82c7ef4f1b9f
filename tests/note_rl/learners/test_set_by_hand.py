"""Callbacks set weights by hand, in each way that a framework has: the next phase acts by them and learns from them."""

from functools import partial
from typing import Any

import gymnasium
import numpy as np
import pytest
from gymnasium import spaces

from note_rl.noise import GaussianWhiteNoiseProcess
from note_rl.policy import GaussianPolicy, GreedyQPolicy, SoftmaxPolicy, SquashedGaussianPolicy
from note_rl.seeding import seed_everything
from note_rl.training.callbacks import Callback, LambdaCallback
from tests.note_rl.frameworks import frameworks

BOTH = pytest.mark.parametrize("framework", frameworks())
SHOWN = np.linspace(-1.0, 1.0, 3, dtype=np.float32)


class Still(gymnasium.Env[np.ndarray, Any]):
    """Shows the same numbers for ever; actions are numbers or one of two, whose number is the reward."""

    def __init__(self, bounded=False, length=5):
        self.observation_space = spaces.Box(-1.0, 1.0, (3,), np.float32)
        self.action_space = spaces.Box(-1.0, 1.0, (2,), np.float32) if bounded else spaces.Discrete(2)
        self.actions = []
        self._steps, self._length = 0, length

    def reset(self, *, seed=None, options=None):
        super().reset(seed=seed)
        return SHOWN.copy(), {}

    def step(self, action):
        self.actions.append(action)
        self._steps += 1
        return SHOWN.copy(), float(np.sum(action)), False, self._steps % self._length == 0, {}


REPLAY = {"pool_size": 100, "batch": 4, "train_freq": 2, "num_updates": 1, "learning_starts": 8, "seed": 1}
ROLLOUT = {"PPO": True, "rollout_steps": 4, "batch": 4, "num_epochs": 1, "seed": 1}
VALUES = {"policy": GreedyQPolicy(), **REPLAY}
NUMBERS = {"noise": GaussianWhiteNoiseProcess(sigma=0.1), **REPLAY}
AGENTS = {  # by name: of what its action() consists, whether actions are numbers, how it is set
    "DQN": ("q_net", False, VALUES),
    "DoubleDQN": ("q_net", False, VALUES),
    "DuelingDQN": ("q_net", False, VALUES),
    "PPO": ("actor", False, {"policy": SoftmaxPolicy(), **ROLLOUT}),
    "A2C": ("actor", True, {"policy": GaussianPolicy(), **ROLLOUT}),
    "SAC": ("actor", True, {"policy": SquashedGaussianPolicy(), **REPLAY}),
    "SACDiscrete": ("actor", False, {"policy": SoftmaxPolicy(), **REPLAY}),
    "TD3": ("actor", True, NUMBERS),
    "DDPG": ("actor", True, NUMBERS),
}


def made(framework, name, bounded):
    seed_everything(4)
    return getattr(framework.agents, name)(hidden_size=(8,), env=Still(bounded))


def optimizers_of(framework, agent):
    from note_rl.learners.base import parameter_groups

    return [framework.optimizers.adam(group, 0.01) for group in parameter_groups(agent.param)]


def set_weights(framework, network, values, way, folder):
    """Brings new values into a network, in one of the ways that people know."""
    if framework.package == "pytorch":
        import torch

        tensors = [torch.as_tensor(value) for value in values]
        if way == 0:
            network.load_state_dict(dict(zip(network.state_dict(), tensors, strict=True)))
        for parameter, tensor in zip(network.state_dict(keep_vars=True).values(), tensors, strict=True):
            if way == 1:
                parameter.data = tensor
            elif way == 2:
                with torch.no_grad():
                    parameter.copy_(tensor)
        return
    if way == 0:
        network.set_weights(values)
    elif way == 1:
        for weight, value in zip(network.weights, values, strict=True):
            weight.assign(value)
    else:
        before = network.get_weights()
        network.set_weights(values)
        network.save_weights(folder / "x.weights.h5")
        network.set_weights(before)
        network.load_weights(folder / "x.weights.h5")


def weights_of(framework, network):
    if framework.package == "keras":
        return network.get_weights()
    return [tensor.numpy().copy() for tensor in network.state_dict().values()]


class SetsWeights(Callback):
    """Sets all weights anew at the end of each phase, and notes what the agent answers before and after."""

    def __init__(self, framework, name, folder):
        self.framework, self.folder = framework, folder
        self.network_name = name
        self.rng = np.random.default_rng(0)
        self.expected = []

    def on_phase_end(self, phase, logs):
        network = getattr(self.agent, self.network_name)
        now = weights_of(self.framework, network)
        values = [self.rng.normal(size=weight.shape).astype(np.float32) for weight in now]
        set_weights(self.framework, network, values, phase % 3, self.folder)
        self.expected.append(self.agent.learner._framework_act(SHOWN[None]))


@pytest.mark.filterwarnings("ignore:__array__ implementation doesn't accept:DeprecationWarning")  # Keras's own files
@pytest.mark.parametrize(  # in Keras one of values and one of probabilities; DuelingDQN acts in test_keras_acting.py
    ("framework", "name"),
    [
        pytest.param(*framework.values, name, id=f"{framework.id}-{name}")
        for framework in frameworks()
        for name in (AGENTS if framework.id == "pytorch" else ("DQN", "PPO"))
    ],
)
def test_the_next_phase_acts_by_weights_that_a_callback_has_set(framework, name, tmp_path, eager_updates):
    network, bounded, settings = AGENTS[name]
    agent = made(framework, name, bounded)
    agent.set(**settings)
    act, answers, first = agent.learner.act, [], []
    setter = SetsWeights(framework, network, tmp_path)

    def watched(obs):
        answers.append(act(obs))
        if len(first) < len(setter.expected):
            first.append(answers[-1])  # the first of the phase after a change
        return answers[-1]

    agent.learner.act = watched
    agent.train(optimizer=optimizers_of(framework, agent), total_steps=20, p=0, jit_compile=False, callbacks=setter)
    assert len(first) >= 4
    np.testing.assert_allclose(first, setter.expected[: len(first)], rtol=1e-5, atol=1e-5)
    assert agent.num_gradient_steps > 0


@BOTH
def test_actions_are_those_of_weights_set_when_an_episode_ends_between_two_rounds(framework, eager_updates):
    """Phase by phase two rounds are collected; hooks run between them."""
    agent = made(framework, "DQN", False)
    agent.set(**{**VALUES, "train_freq": 5})
    zero = [0.0 * weight for weight in weights_of(framework, agent.q_net)]

    def change(episode, logs):
        zero[-1] = np.array([5.0, 0.0] if episode % 2 else [0.0, 5.0], np.float32)
        set_weights(framework, agent.q_net, zero, 0, None)

    optimizer = framework.optimizers.sgd(agent.param, 1e-6)
    hooks = LambdaCallback(on_episode_end=change)
    agent.train(optimizer=optimizer, total_steps=30, p=0, jit_compile=False, callbacks=hooks, num_store=2)
    assert agent.env.actions[5:] == [1] * 5 + [0] * 5 + [1] * 5 + [0] * 5 + [1] * 5


@BOTH
def test_adjust_func_sets_weights_as_well(framework, eager_updates):
    class Resetting(framework.agents.DQN):
        def adjust_func(self):
            zero = [0.0 * weight for weight in weights_of(framework, self.q_net)]
            zero[-1] = np.array([5.0, 0.0] if self.num_env_steps % 4 else [0.0, 5.0], np.float32)
            set_weights(framework, self.q_net, zero, 0, None)

    agent = Resetting(hidden_size=(8,), env=Still())
    agent.set(**{**VALUES, "learning_starts": 4})
    optimizer = framework.optimizers.sgd(agent.param, 1e-6)
    agent.train(optimizer=optimizer, total_steps=16, p=0, jit_compile=False)
    assert agent.env.actions[4:] == [1, 1, 0, 0, 1, 1, 0, 0, 1, 1, 0, 0]


@pytest.mark.slow_in_keras  # as the next phase does, above
@BOTH
def test_workers_act_by_weights_that_a_callback_has_set(framework, eager_updates):
    agent = made(framework, "DQN", False)
    agent.env = partial(Still, length=4)  # each worker makes its own
    agent.set(**{**VALUES, "train_freq": 8, "num_envs": 2})
    zero = [0.0 * weight for weight in weights_of(framework, agent.q_net)]

    def change(phase, logs):
        zero[-1] = np.array([5.0, 0.0] if phase % 2 else [0.0, 5.0], np.float32)
        set_weights(framework, agent.q_net, zero, 0, None)

    options = {"pool_network": True, "processes": 2, "parallel_store_and_training": False, "jit_compile": False}
    optimizer = framework.optimizers.sgd(agent.param, 1e-6)
    hooks = LambdaCallback(on_phase_end=change)
    result = agent.train(optimizer=optimizer, total_steps=40, p=0, callbacks=hooks, **options)
    assert result.returns[2:] == [0.0, 0.0, 4.0, 4.0, 0.0, 0.0, 4.0, 4.0]


@BOTH
def test_restoring_in_a_callback_brings_back_what_is_acted_by(framework, tmp_path, eager_updates):
    agent = made(framework, "DQN", False)
    agent.set(**{**VALUES, "train_freq": 5})
    zero = [0.0 * weight for weight in weights_of(framework, agent.q_net)]

    def change(phase, logs):
        zero[-1] = np.array([5.0, 0.0] if phase == 2 else [0.0, 5.0], np.float32)
        if phase < 4:
            set_weights(framework, agent.q_net, zero, 0, None)
        if phase == 2:
            agent.save_param(tmp_path / "param")
        if phase == 4:
            agent.restore_param(tmp_path / "param")

    optimizer = framework.optimizers.sgd(agent.param, 1e-6)
    agent.train(
        optimizer=optimizer, total_steps=25, p=0, jit_compile=False, callbacks=LambdaCallback(on_phase_end=change)
    )
    assert agent.env.actions[5:] == [1] * 5 + [0] * 5 + [1] * 5 + [0] * 5


@BOTH
def test_targets_and_slots_of_optimizers_set_by_hand_are_learned_from(framework):
    """One step of momentum: v <- 0.9 v - 0.1 g, w <- w + v (PyTorch: v <- 0.9 v + g, w <- w - 0.1 v), g = w - t."""
    agent = momentum_agent(framework)
    optimizer = with_momentum(framework, agent)
    agent.set(**{**VALUES, "train_freq": 1, "learning_starts": 4})

    def change(phase, logs):
        if phase == 8:
            assign(framework, agent.target, [10.0])
            assign(framework, slot(framework, optimizer, agent.w), [2.0])

    w, v, target, sign = 1.0, 0.0, 0.0, 1.0 if framework.package == "pytorch" else -0.1
    agent.train(
        optimizer=optimizer, total_steps=12, p=0, jit_compile=False, callbacks=LambdaCallback(on_phase_end=change)
    )
    num_steps = agent.num_gradient_steps
    for step in range(num_steps):
        if step == num_steps - 4:
            target, v = 10.0, 2.0
        v = 0.9 * v + sign * (w - target)
        w += -0.1 * v if framework.package == "pytorch" else v
    np.testing.assert_allclose(framework.array(agent.w), [w], rtol=1e-4)


def momentum_agent(framework):
    class Agent(framework.base()):
        def __init__(self):
            super().__init__()
            self.env = Still()
            self.w = framework.variable([1.0])
            self.target = framework.variable([0.0])
            self.param = [self.w]

        def action(self, s):
            return s[:, :2] * self.w

        def __call__(self, s, a, next_s, r, d):
            return 0.5 * framework.mean((self.w - framework.stop(self.target)) ** 2)

        def update_param(self):
            pass

    return Agent()


def with_momentum(framework, agent):
    if framework.package == "pytorch":
        import torch

        return torch.optim.SGD(agent.param, 0.1, momentum=0.9)
    import keras

    return keras.optimizers.SGD(0.1, momentum=0.9)


def slot(framework, optimizer, parameter):
    if framework.package == "pytorch":
        return optimizer.state[parameter]["momentum_buffer"]
    return optimizer.momentums[0]


def assign(framework, variable, values):
    if framework.package == "pytorch":
        import torch

        with torch.no_grad():
            variable.copy_(torch.tensor(values))
    else:
        variable.assign(values)
