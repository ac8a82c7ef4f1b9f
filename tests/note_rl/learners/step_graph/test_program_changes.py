"""Whole steps in one program follow what changes around them, and give way to eager ones where they fail."""

from dataclasses import replace

import numpy as np
import pytest
import torch
from torch import nn

from note_rl.agents.pytorch import DQN
from note_rl.learners.pytorch.step_graph import builder
from note_rl.learners.pytorch.step_graph.replay import replay
from note_rl.seeding import seed_everything
from tests.note_rl.learners.step_graph.recorded_agents import assert_same_state, learner_of, minibatches

EACH = (True, True, True)


@pytest.fixture(autouse=True)
def programs(monkeypatch):
    """Stands in for the compiler: what would be compiled is replayed."""
    monkeypatch.setattr(builder, "compiled", replay)


class Moving(DQN):
    """A target that follows by a share that stands in a dict, or waits for a number of the agent's life."""

    traceable = True
    waits = False

    def __init__(self):
        super().__init__(network=lambda shape, outputs: nn.Sequential(nn.Linear(*shape, 6), nn.ReLU(), nn.Linear(6, 2)))
        self.shares = {"target": 0.5}

    def update_param(self):
        if self.waits and self.num_gradient_steps > 3:
            return
        for mine, theirs in zip(self.target_q_net.parameters(), self.q_net.parameters(), strict=True):
            mine.lerp_(theirs, self.shares["target"])


CHANGES = {
    "layer": lambda agent: agent.q_net.__setitem__(1, nn.Tanh()),
    "slope": lambda agent: agent.target_q_net.__setitem__(1, nn.LeakyReLU(5.0)),
    "share": lambda agent: agent.shares.update(target=0.1),
}


def learned(jit, change, make=Moving):
    seed_everything(0)
    learner = learner_of(make(), jit)
    for seed in range(4):
        learner.update(minibatches(sync=EACH, seed=seed), {})
        if seed == 1:
            change(learner)
    return learner


@pytest.mark.parametrize("change", CHANGES.values(), ids=CHANGES)
def test_a_change_is_followed_by_a_program(change):
    plain, traced = (learned(jit, lambda learner: change(learner.agent)) for jit in (False, True))
    assert traced.stages == (0, 3)
    assert traced.num_traces == 2
    assert_same_state(plain, traced, rtol=1e-4, atol=1e-5)
    unchanged = learned(False, lambda learner: None).agent.target_q_net[0].weight
    assert (unchanged - plain.agent.target_q_net[0].weight).abs().max() > 1e-3


def test_a_frozen_layer_stays_and_the_others_learn_in_parts():
    plain, traced = (
        learned(jit, lambda learner: learner.agent.q_net[0].requires_grad_(False)) for jit in (False, True)
    )
    assert traced.stages == (0, 2)
    assert_same_state(plain, traced, rtol=1e-4, atol=1e-5)


def test_update_param_that_reads_what_training_counts_stays_outside_the_program():
    class Waiting(Moving):
        traceable = True
        waits = True

    assert learned(True, lambda learner: None, Waiting).stages == (0, 2)


def test_a_program_that_fails_gives_way_to_eager_steps(caplog):
    def fail(learner):
        def failing(*values):
            raise RuntimeError("expected another stride")

        for trace in learner._steps.traces._known.values():
            trace.program = replace(trace.program, run=failing)

    traced = learned(True, fail)
    assert_same_state(learned(False, lambda learner: None), traced, rtol=1e-4, atol=1e-5)
    assert caplog.text.count("a recorded step failed: expected another stride") == 1
    assert np.isfinite(traced.update(minibatches(sync=EACH), {}).loss).all()
    assert torch.isfinite(traced.agent.q_net[0].weight).all()
