"""A small environment whose actions are numbers, minibatches of it, and networks in NumPy."""

import gymnasium
import numpy as np
from gymnasium import spaces

from note_rl.seeding import seed_everything
from note_rl.types import Sample

LOW, HIGH = np.array([-2.0, 0.0], np.float32), np.array([4.0, 1.0], np.float32)


CENTRE, SCALE = (LOW + HIGH) / 2, (HIGH - LOW) / 2


class Target(gymnasium.Env):
    """One step: the best action is a linear function of the observation, and being off costs the squared distance."""

    def __init__(self):
        self.observation_space = spaces.Box(-1, 1, (2,), np.float32)
        self.action_space = spaces.Box(LOW, HIGH)

    def reset(self, *, seed=None, options=None):
        super().reset(seed=seed)
        self.shown = self.np_random.uniform(-1, 1, 2).astype(np.float32)
        return self.shown, {}

    def step(self, action):
        wanted = CENTRE + 0.6 * SCALE * self.shown[::-1]
        reward = 1.0 - np.sum(((action - wanted) / SCALE) ** 2)
        return self.shown, float(reward), True, False, {}


def make(framework, name, seed=0, **options):
    seed_everything(seed)
    return getattr(framework.agents, name)(hidden_size=(8,), env=Target, **options)


def ready(agent, optimizer):
    """The agent's learner, not compiled: that would take longer than all there is to do."""
    agent.learner.prepare(optimizer, None, (), False)
    return agent.learner


def sample(agent, num_gradient_steps=1, batch_size=6, seed=0, sync=False):
    rng = np.random.default_rng(seed)
    shape = (num_gradient_steps, batch_size)
    terminated = (rng.random(shape) < 0.3).astype(np.float32)
    noise = {
        name: rng.standard_normal((*shape, *inner), np.float32)
        for name, inner in getattr(agent, "normal_inputs", {}).items()
    }
    return Sample(
        obs=rng.normal(size=(*shape, 2)).astype(np.float32),
        action=rng.uniform(LOW, HIGH, (*shape, 2)).astype(np.float32),
        reward=rng.normal(size=shape).astype(np.float32),
        next_obs=rng.normal(size=(*shape, 2)).astype(np.float32),
        terminated=terminated,
        discount=np.float32(0.9) * (1 - terminated),
        sync=np.full(num_gradient_steps, sync),
        extras=noise,
    )


def losses(framework, agent, batch):
    """Mean loss of each parameter group, nothing trained."""
    learner = ready(agent, [framework.optimizers.sgd(group, 0.0) for group in agent.param])
    return learner.update(batch, {})


def perceptron(layers, x):
    for kernel, bias, activation in layers:
        x = x @ kernel + bias
        if callable(activation):
            x = activation(x)
        x = {"relu": lambda x: np.maximum(x, 0), "tanh": np.tanh}.get(activation, lambda x: x)(x)
    return x


def actor(net, s):
    return perceptron(net.dense_layers(), s)


def q(net, s, a):
    return perceptron(net.net.dense_layers(), np.concatenate([s, (a - CENTRE) / SCALE], axis=1))[:, 0]


def columns(batch):
    return batch.obs[0], batch.action[0], batch.reward[0], batch.next_obs[0], batch.discount[0]
