"""A recorded step that fails is taken eagerly, from where it began, and so are all that follow."""

import logging
from dataclasses import replace

import pytest
import torch
from torch import nn

from note_rl.agents.pytorch import DQN
from note_rl.learners.pytorch.step_graph.record import recorded
from note_rl.learners.pytorch.step_graph.replay_failures import Beginning
from note_rl.seeding import seed_everything
from tests.note_rl.learners.step_graph.recorded_agents import EACH, assert_same_state, built_in, learner_of, minibatches


def network(shape, outputs):
    return nn.Sequential(nn.Linear(*shape, 8), nn.Dropout(0.5), nn.BatchNorm1d(8), nn.Linear(8, outputs))


@pytest.mark.parametrize("error", [RuntimeError("out of memory"), IndexError("index 7 is out of bounds")])
def test_a_replay_that_fails_goes_on_eagerly_after_one_line(error, caplog):
    learners = []
    for jit in (False, "auto"):
        seed_everything(0)
        learner = learner_of(DQN(network=network), jit)
        learner.update(minibatches(), {})
        learners.append(learner)
    (trace,) = learner._steps.traces._known.values()
    runs, run = [], trace.program.run

    def failing(*values):
        runs.append(run(*values))  # all has been changed by then
        if len(runs) == 3:
            raise error
        return runs[-1]

    trace.program = replace(trace.program, run=failing)
    with caplog.at_level(logging.WARNING):
        for seed in (1, 2):
            for one in learners:
                torch.manual_seed(seed)
                one.update(minibatches(seed=seed), {})
    assert len(runs) == 3
    assert caplog.messages == [f"jit_compile: this agent's update runs eagerly, a recorded step failed: {error}"]
    assert_same_state(*learners, rtol=0)


def test_what_a_step_changes_is_put_back():
    seen, other = torch.zeros(4, 2), torch.ones(4)

    def function(x, y):
        seen[1:3, 0].add_(1.0)
        x.view(2, 2).mul_(2.0)
        fresh = other + y
        fresh.mul_(torch.rand(4))
        return [fresh + seen[:, 0], x]

    inputs = [torch.arange(4.0), torch.ones(4)]
    recording = recorded(function, [seen, other], [value.clone() for value in inputs])
    seen.zero_()
    everything = [*recording.captured, *inputs]
    assert [id(everything[index]) for index in recording.written] == [id(seen), id(inputs[0])]
    torch.manual_seed(3)
    beginning = Beginning(recording, inputs)
    function(*inputs)
    assert seen.sum() == 2
    beginning.put_back()
    assert seen.sum() == 0
    assert inputs[0].tolist() == [0, 1, 2, 3]
    drawn = torch.rand(2)
    torch.manual_seed(3)
    assert torch.equal(drawn, torch.rand(2))


def test_a_program_that_fails_gives_way_to_eager_steps(programs, caplog):
    def failing(*values):
        raise RuntimeError("expected another stride")

    plain, whole = (learner_of(built_in("DQN"), jit) for jit in (False, True))
    for seed in range(4):
        if seed == 2:
            (trace,) = whole._steps.traces._known.values()
            assert trace.program.includes.targets
            trace.program = replace(trace.program, run=failing)
        for one in (plain, whole):
            one.update(minibatches(sync=EACH, seed=seed), {})
    assert_same_state(plain, whole, rtol=1e-4, atol=1e-5)
    assert caplog.text.count("a recorded step failed: expected another stride") == 1
