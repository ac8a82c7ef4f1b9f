"""Made-up minibatches, and learners made ready for them."""

import numpy as np

from note_rl.types import Sample


def sample(num_gradient_steps=3, batch_size=4, sync=False, seed=0, weights=None, **extras):
    """K minibatches of B transitions of two numbers each; `extras` names further random arrays [K, B]."""
    rng = np.random.default_rng(seed)
    shape = (num_gradient_steps, batch_size)
    terminated = (rng.random(shape) < 0.3).astype(np.float32)
    return Sample(
        obs=rng.normal(size=(*shape, 2)).astype(np.float32),
        action=rng.integers(2, size=shape).astype(np.int32),
        reward=rng.normal(size=shape).astype(np.float32),
        next_obs=rng.normal(size=(*shape, 2)).astype(np.float32),
        terminated=terminated,
        discount=np.float32(0.9) * (1 - terminated),
        sync=np.full(num_gradient_steps, sync),
        extras={name: rng.normal(size=shape).astype(np.float32) for name in extras},
        weights=weights,
    )


def ready(framework, agent, optimizer=None, clip=None, names=()):
    """The agent's learner, prepared with plain gradient descent if no optimizer is given."""
    agent.learner.prepare(optimizer or framework.optimizers.sgd(agent.param, 0.1), clip, names, "auto")
    return agent.learner


def agent_with(framework, loss, **attributes):
    """Of weights w = (1, 2), with V(s) = w . s as its answer and the given loss(self, s, r, d)."""

    class Agent(framework.base()):
        def __init__(self):
            super().__init__()
            self.w = framework.variable([[1.0], [2.0]])
            self.param = [self.w]
            vars(self).update(attributes)

        def action(self, s):
            return s @ self.w

        def __call__(self, s, a, next_s, r, d):
            return loss(self, s, r, d)

    return Agent()


def part_of(whole, k):
    columns = ("obs", "action", "reward", "next_obs", "terminated", "discount", "sync")
    extras = {name: values[k : k + 1] for name, values in whole.extras.items()}
    return Sample(**{name: getattr(whole, name)[k : k + 1] for name in columns}, extras=extras)
