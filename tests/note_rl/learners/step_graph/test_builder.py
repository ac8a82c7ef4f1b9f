"""Programs include as much as can be compiled, and are used where they agree with the eager way."""

import logging
import subprocess

import numpy as np
import pytest
import torch

from note_rl import RL_pytorch
from note_rl.learners.pytorch.step_graph import builder
from note_rl.learners.pytorch.step_graph.replay import replay
from note_rl.optimizers.pytorch import adam, sgd
from tests.note_rl.learners.step_graph.recorded_agents import (
    EACH,
    assert_same_state,
    built_in,
    learner_of,
    minibatches,
    stages,
    wholes,
)


def test_slots_that_were_exchanged_are_followed(programs):
    plain, whole = (learner_of(built_in("DQN"), jit) for jit in (False, True))
    for seed in range(4):
        for one in (plain, whole):
            if seed == 3:
                ((optimizer, _),) = one._optimizers
                optimizer.load_state_dict(optimizer.state_dict())
                optimizer.state[one.groups[0][0]]["exp_avg"] = torch.ones(8, 4)
            one.update(minibatches(sync=EACH, seed=seed), {})
    assert_same_state(whole, plain, rtol=1e-3, atol=1e-5)
    assert len(programs) == 2


def test_an_optimizer_that_is_watched_from_now_on_takes_its_steps_itself(programs):
    plain, whole = (learner_of(built_in("DQN"), jit) for jit in (False, True))
    heard = []
    for seed in range(4):
        for one in (plain, whole):
            if seed == 2:
                ((optimizer, _),) = one._optimizers
                optimizer.register_step_post_hook(lambda *_: heard.append(1))
            one.update(minibatches(sync=EACH, seed=seed), {})
    assert len(heard) == 16
    assert_same_state(whole, plain, rtol=1e-3, atol=1e-5)
    assert wholes(whole) == []
    assert whole.stages == (0, 2)


def one_optimizer_for_groups_that_wait():
    agent = built_in("TD3")
    learner = agent.learner
    learner.prepare(adam([one for group in agent.param for one in group], 1e-2), None, (), True)
    return learner, minibatches("TD3", (False, True, False, True))


def large_network():
    learner = learner_of(built_in("DQN"), True)
    agent = type(learner.agent)(hidden_size=(256, 128), env="CartPole-v1")
    return learner_of(agent, True), minibatches(sync=EACH)


@pytest.mark.parametrize(
    "make",
    [
        lambda: (learner_of(built_in("DQN"), True, sgd), minibatches(sync=EACH)),
        one_optimizer_for_groups_that_wait,
        large_network,
    ],
)
def test_other_steps_are_compiled_in_parts(programs, make):
    learner, batch = make()
    for _ in range(4):
        learner.update(batch, {})
    assert wholes(learner) == []
    assert set(stages(learner).values()) == {2}


class CountsTargets(RL_pytorch):
    """Has an update_param() with side effects that nobody can know from outside."""

    on_policy = False

    def __init__(self):
        super().__init__()
        torch.manual_seed(0)
        self.net = torch.nn.Linear(4, 2)
        self.target = torch.nn.Linear(4, 2).requires_grad_(False)
        self.param = list(self.net.parameters())
        self.updates = 0

    def __call__(self, s, a, next_s, r, d):
        return (self.net(s).mean(1) - self.target(next_s).mean(1) - r).square()

    def update_param(self):
        self.updates += 1
        if self.updates % 3 == 0:
            self.target.load_state_dict(self.net.state_dict())


def test_target_updates_of_others_are_called(programs):
    plain, whole = (learner_of(CountsTargets(), jit) for jit in (False, True))
    for seed in range(4):
        for one in (plain, whole):
            one.update(minibatches(sync=EACH, seed=seed), {})
    assert whole.agent.updates == 16
    assert [one.includes.targets for one in wholes(whole)] == [False]
    assert_same_state(whole, plain, rtol=1e-4, atol=1e-6)


def test_a_program_that_gives_something_else_is_not_used(monkeypatch, caplog):
    def wrong(recording, inputs, matmul):
        run = replay(recording, inputs)
        if recording.pure:  # losses and gradients alone
            return run

        def spoiled(*values):
            given = run(*values)
            with torch.no_grad():
                recording.captured[0].mul_(1.01)
            return given

        return spoiled

    monkeypatch.setattr(builder, "compiled", wrong)
    plain, whole = (learner_of(built_in("DQN"), jit) for jit in (False, True))
    with caplog.at_level(logging.DEBUG, "note_rl"):
        for seed in range(3):
            for one in (plain, whole):
                one.update(minibatches(sync=EACH, seed=seed), {})
    assert_same_state(whole, plain, rtol=1e-4, atol=1e-6)
    assert wholes(whole) == []
    assert whole.stages == (0, 2)
    assert [record.message for record in caplog.records if "compiled without" in record.message] == [
        "losses and gradients are compiled without the optimizer's step: the recorded step gives other numbers than "
        "the loss itself"
    ]


def test_without_a_compiler_steps_are_replayed_after_one_warning(monkeypatch, caplog):
    monkeypatch.setattr("note_rl.learners.pytorch.step_graph.compiler.has_compiler", lambda: False)
    reason = "no C++ compiler is installed (g++, clang++ or the one named by CXX)"
    assert_replayed(caplog, reason)


@pytest.mark.parametrize(
    "error", [OSError("no space left"), subprocess.CalledProcessError(1, "ld"), AssertionError("strides")]
)
def test_so_they_are_whatever_goes_wrong_while_they_are_compiled(monkeypatch, caplog, error):
    def fails(recording, inputs, matmul):
        raise error

    monkeypatch.setattr("note_rl.learners.pytorch.step_graph.builder.compiled", fails)
    assert_replayed(caplog, str(error))


def assert_replayed(caplog, reason):
    plain, traced = (learner_of(built_in("DQN"), jit) for jit in (False, True))
    with caplog.at_level(logging.WARNING):
        losses = [one.update(minibatches(), {}).loss for one in (plain, traced, traced)]
    np.testing.assert_allclose(losses[0], losses[1], rtol=1e-5)
    assert traced.stages == (0, 1)
    assert [record.message for record in caplog.records] == [
        f"the update cannot be compiled, it is replayed instead: {reason}"
    ]
