"""Gradient steps along sequences: however they are taken, each is the one that the loss says."""

from functools import partial

import numpy as np
import pytest

from note_rl.learners.pytorch.step_graph.compiler import has_compiler
from note_rl.replay.experience.experience_factory import agent_view
from note_rl.replay.whole_sequences import SequencedRollout
from note_rl.types import EPISODE_START
from tests.note_rl.agents.test_memory_agents import LENGTHS, collect, made, ready
from tests.note_rl.frameworks import Framework
from tests.note_rl.small_environments import Counting

needs_compiler = pytest.mark.skipif(not has_compiler(), reason="no C++ compiler")
NUM_STEPS, LENGTH = 8, 4
ENOUGH = 3_000  # gradient steps to come: a recording pays, and with jit_compile=True a program
COLUMNS = ("obs", "action", "next_obs", "reward", "terminated")
WAYS = [
    ("pytorch", False, "eager", 1e-6),
    ("pytorch", "auto", "replayed", 1e-6),
    ("pytorch", True, "compiled", 1e-4),
    ("keras", False, "traced", 1e-6),
    ("keras", True, "whole", 1e-4),
]
KINDS = [("PPO", "lstm", False), ("A2C", "gru", True)]
SLOW = (("PPO", "traced"), ("A2C", "whole"))  # in Keras; the other two have both cells and both ways


def cases():
    for way in WAYS:
        for kind in KINDS:
            slow = [pytest.mark.slow] * ("compiled" in way or (kind[0], way[2]) in SLOW)
            yield pytest.param(*way, *kind, marks=[*slow, *[needs_compiler] * ("compiled" in way)])


def sample_of(agent):
    """One minibatch of all sequences; most begin within episodes, and episodes end within most."""
    steps = collect(agent, agent.env, None, NUM_STEPS)
    rollout = SequencedRollout(steps, 0.9, None, LENGTH)
    view = agent_view(agent, agent.learner, ready(agent).settings, None, None)
    rollout.add_advantages(view.value_from, 0.9, False)
    sample = rollout.sample(1, len(rollout), np.random.default_rng(0))
    starts = sample.extras[EPISODE_START].reshape(-1, LENGTH)
    assert (starts[:, 1:].any(1).mean(), (starts[:, 0] == 0).mean()) >= (0.5, 0.5)
    return sample


def gradients(framework, agent, sample):
    """Of the mean loss, by calling it as it is and letting the framework follow."""
    if framework.package == "pytorch":
        import torch as tensors

        as_tensor = tensors.from_numpy
    else:
        import tensorflow as tensors

        as_tensor = tensors.constant
    for name, values in sample.extras.items():
        setattr(agent, name, as_tensor(values[0]))
    arguments = [as_tensor(getattr(sample, name)[0]) for name in COLUMNS]
    parameters = [parameter for group in agent.param for parameter in group]
    agent.prioritized_replay.begin(len(sample.obs[0]))
    agent._reports.begin()
    try:
        if framework.package == "pytorch":
            found = tensors.autograd.grad(agent(*arguments).mean(), parameters)
        else:
            with tensors.GradientTape() as tape:
                loss = tensors.reduce_mean(agent(*arguments))
            found = tape.gradient(loss, parameters)
    finally:
        agent.prioritized_replay.take()
        agent._reports.take()
    return [framework.array(one) for one in found]


@pytest.mark.parametrize(("package", "jit", "way", "tolerance", "kind", "cell", "shared"), list(cases()))
def test_a_step_goes_along_the_gradient(package, jit, way, tolerance, kind, cell, shared):
    framework = Framework(package)
    agent = made(framework, [partial(Counting, length) for length in LENGTHS], kind, cell=cell, shared=shared)
    sample = sample_of(agent)
    agent.learner.prepare(framework.optimizers.sgd(agent.param, 1.0), None, [], jit)
    agent.learner.expect(ENOUGH)
    for _ in range(3):
        expected, before = gradients(framework, agent, sample), framework.parameters(agent)
        agent.learner.update(sample, {})
        largest = max(np.abs(one).max() for one in expected)
        assert largest > 0.01
        for old, new, along in zip(before, framework.parameters(agent), expected, strict=True):
            np.testing.assert_allclose(old - new, along, rtol=0.0, atol=tolerance * max(largest, 1.0))
    assert agent.learner.step_way().way == way
