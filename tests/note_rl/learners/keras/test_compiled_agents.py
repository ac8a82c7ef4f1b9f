"""Gradient steps of built-in agents that are compiled by XLA are those that TensorFlow takes."""

from functools import partial

import numpy as np
import pytest

from note_rl.agents import keras as agents
from note_rl.agents.shared.keras.networks import MLP
from note_rl.optimizers.keras import sgd
from note_rl.seeding import seed_everything
from tests.note_rl.learners.step_graph.recorded_agents import CHOOSING, EACH, OPTIONS, PARTS, minibatches


def learner_of(name, jit):
    seed_everything(0)
    options = {"env": "CartPole-v1" if name in CHOOSING else "Pendulum-v1", "hidden_size": (8,)}
    if name == "Rainbow":
        options["network"] = partial(MLP, hidden_sizes=(8,), noisy_std=0.5)
    kind = agents.DQN if name in PARTS else getattr(agents, name)
    agent = kind(**options, **PARTS.get(name, {}), **OPTIONS.get(name, {}))
    groups = agent.param if isinstance(agent.param[0], list) else [agent.param]
    optimizers = [sgd(group, 0.05) for group in groups]  # Adam makes steps of what rounding leaves of a gradient
    agent.learner.prepare(optimizers if len(groups) > 1 else optimizers[0], None, (), jit)
    return agent.learner


@pytest.mark.slow  # compiling and tracing take 10 to 30 s
@pytest.mark.parametrize("name", ["SACDiscrete", "CrossQ", "TQC", "QRDQN", "Rainbow", "AlphaZero"])
def test_compiled_steps_are_the_ones_of_tensorflow(name):
    plain, compiled = (learner_of(name, jit) for jit in (False, True))
    before = plain.get_state()
    for seed in range(3):
        batch = minibatches(name, sync=EACH, seed=seed)
        expected, found = plain.update(batch, {}), compiled.update(batch, {})
        np.testing.assert_allclose(found.loss, expected.loss, rtol=1e-5, atol=1e-6)
    after = plain.get_state()
    for key, values in compiled.get_state().items():
        np.testing.assert_allclose(values, after[key], rtol=1e-5, atol=1e-6, err_msg=key)
    moved = [np.abs(after[key] - values).max() for key, values in before.items() if key.startswith("agent/")]
    assert max(moved) > 1e-2
    assert (plain.step_way().way, compiled.step_way().way) == ("traced", "whole")
