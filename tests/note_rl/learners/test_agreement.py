"""When answers of NumPy count as those of a framework, and what becomes of workers when they no longer do."""

import numpy as np

from note_rl.agents.shared.value_layers import expected_returns_of
from note_rl.learners.numpy_policy import Actor, agree


class Doubtful:
    """An agent whose layers are not all that it does, which shows later."""

    def __init__(self):
        self.kernel, self.off = np.ones((2, 2), np.float32), 0.0

    def action(self, s):
        return s

    def acting_layers(self):
        return [(self.kernel, np.zeros(2, np.float32), "linear")]


def test_rounding_of_returns_that_cancel_is_no_difference():
    """Means near 0 of returns up to 1,000: two orders of summation differ by some 1e-3."""
    rng, act = np.random.default_rng(0), expected_returns_of(-1000.0, 1000.0, 51)
    logits = (3.0 * rng.normal(size=(4000, 2 * 51))).astype(np.float32)
    logits = (logits.reshape(-1, 2, 51) + logits.reshape(-1, 2, 51)[..., ::-1]).reshape(-1, 102)  # even: the mean is 0
    turned = logits.reshape(-1, 2, 51)[..., ::-1].reshape(-1, 102)
    assert not all(agree(act(one[None]), -act(other[None])) for one, other in zip(logits, turned, strict=True))
    assert all(agree(act(one[None]), -act(other[None]), act.scale) for one, other in zip(logits, turned, strict=True))
    assert not agree(act(logits), act(logits) + 0.1, act.scale)


def test_workers_go_on_by_layers_that_no_longer_agree():
    agent = Doubtful()
    actor = Actor(agent, lambda obs, index: obs @ agent.kernel + agent.off, mirrored=True)
    obs = np.ones((1, 2), np.float32)
    actor(obs)
    assert actor.is_mirrored()
    agent.kernel, agent.off = 2.0 * agent.kernel, 1.0
    actor.parameters_changed()
    assert actor(obs).tolist() == [[5.0, 5.0]]
    assert not actor.is_mirrored()
    assert actor.layers()[0][0].tolist() == [[2.0, 2.0], [2.0, 2.0]]
