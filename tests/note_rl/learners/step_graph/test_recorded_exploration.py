"""Recorded and compiled steps of agents with state-dependent exploration are the eager ones."""

import numpy as np
import pytest

from note_rl.learners.pytorch.step_graph.compiler import has_compiler
from note_rl.settings import GSDE
from tests.note_rl.learners.step_graph.recorded_agents import (
    assert_same_state,
    learner_of,
    minibatches,
)

needs_compiler = pytest.mark.skipif(not has_compiler(), reason="no C++ compiler")
WAYS = [("auto", "replayed"), pytest.param(True, "whole", marks=[pytest.mark.slow, needs_compiler])]
ROLLOUT = ("log_prob_old", "advantage", "return_", "value_old")


def batches(name, seed):
    """Of Pendulum, with what the loss reads."""
    batch = minibatches("SAC", sync=(False, True), seed=seed)
    if name == "SAC":
        return batch
    rng = np.random.default_rng(seed)
    extras = {key: rng.normal(size=batch.reward.shape).astype(np.float32) for key in ROLLOUT}
    columns = (batch.obs, batch.action, batch.reward, batch.next_obs, batch.terminated, batch.discount, batch.sync)
    return type(batch)(*columns, extras)


@pytest.mark.parametrize("settings", [{}, {"use_expln": True, "learn_features": True, "clip_mean": 0.01}])
@pytest.mark.parametrize("name", ["A2C", "PPO", "SAC"])
@pytest.mark.parametrize(("jit", "way"), WAYS)
def test_they_are_the_eager_ones(name, jit, way, settings):
    options = {"gsde": GSDE(**settings), "initial_log_std": 0.2, "env": "Pendulum-v1"}
    recorded, plain = (learner_of(_made(name, options), asked) for asked in (jit, False))
    for seed in range(2):
        batch = batches(name, seed)
        found, expected = recorded.update(batch, {}), plain.update(batch, {})
        np.testing.assert_allclose(found.loss, expected.loss, rtol=1e-5, atol=1e-6)
    assert recorded.num_traces == 1
    assert plain.num_traces == 0
    assert recorded.step_way().way == way
    assert_same_state(recorded, plain, rtol=1e-5, atol=1e-6)


def _made(name, options):
    from note_rl.agents import pytorch as agents
    from note_rl.seeding import seed_everything

    seed_everything(0)
    return getattr(agents, name)(hidden_size=(8,), **options)
