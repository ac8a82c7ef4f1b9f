"""Gradient steps as one program: the same numbers as in parts, in every case in which they are taken or not."""

import numpy as np
import pytest
import torch

from note_rl.learners.pytorch.adam import PlainAdam, adam_step
from note_rl.learners.pytorch.step_graph import builder
from note_rl.learners.pytorch.step_graph.compiler import has_compiler
from note_rl.learners.pytorch.step_graph.replay import replay
from note_rl.optimizers.pytorch import adam
from tests.note_rl.learners.step_graph.recorded_agents import (
    EACH,
    NAMES,
    NONE,
    assert_same_state,
    built_in,
    learner_of,
    minibatches,
    stages,
    wholes,
)

MAKERS = {
    "adam": lambda params: torch.optim.Adam(params, 1e-2, (0.8, 0.95), 1e-5, fused=True),
    "decay": lambda params: torch.optim.Adam(params, 1e-2, weight_decay=0.1, fused=True),
    "adamw": lambda params: torch.optim.AdamW(params, 1e-2, weight_decay=0.1, fused=True),
}


@pytest.mark.parametrize("name", MAKERS)
def test_the_arithmetic_is_that_of_the_kernel(name):
    torch.manual_seed(0)
    theirs, mine = ([torch.linspace(-1.0, 1.0, 20).reshape(4, 5).requires_grad_(), torch.ones(3)] for _ in range(2))
    reference, optimizer = MAKERS[name](theirs), MAKERS[name](mine)
    ours = None
    for _ in range(6):
        gradients = [torch.randn(4, 5), torch.randn(3)]
        for parameter, gradient in zip(theirs, gradients, strict=True):
            parameter.grad = gradient
        reference.step()
        if ours is None:
            for parameter, gradient in zip(mine, gradients, strict=True):
                parameter.grad = gradient
            optimizer.step()
            ours = PlainAdam(optimizer, mine)
            slots = ours.slots((0, 1))
            continue
        ours.announce(slots)
        with torch.no_grad():
            adam_step(slots, gradients, ours.numbers, ours.decoupled, torch.tensor(True))
        ours.count(slots)
        for one, other in zip(mine, theirs, strict=True):
            torch.testing.assert_close(one, other, rtol=1e-6, atol=1e-7)
    assert optimizer.state[mine[1]]["step"] == 6
    for slot in ("exp_avg", "exp_avg_sq"):
        torch.testing.assert_close(optimizer.state[mine[0]][slot], reference.state[theirs[0]][slot])


def test_a_step_that_is_not_sound_changes_nothing():
    parameter = torch.ones(3, requires_grad=True)
    optimizer = torch.optim.Adam([parameter], 0.1, fused=True)
    parameter.grad = torch.ones(3)
    optimizer.step()
    ours = PlainAdam(optimizer, [parameter])
    slots = ours.slots((0,))
    before = [tensor.detach().clone() for tensor in (parameter, *slots.first, *slots.second)]
    ours.announce(slots)
    with torch.no_grad():
        adam_step(slots, [torch.full((3,), torch.nan)], ours.numbers, False, torch.tensor(False))
    for tensor, values in zip((parameter, *slots.first, *slots.second), before, strict=True):
        torch.testing.assert_close(tensor.detach(), values, rtol=0, atol=0)


LIKE_OTHERS = ("DuelingDQN", "DoubleDQN", "QRDQN", "DDPG", "TQC", "REDQ")  # DQN has such losses, TD3 such groups


@pytest.mark.parametrize(
    ("name", "clip"),
    [
        *(
            pytest.param(name, 0.5, marks=[pytest.mark.slow] * (name in LIKE_OTHERS))
            for name in (*NAMES, "TQC", "REDQ")
        ),
        ("DQN", None),
    ],
)
def test_whole_steps_are_those_in_parts(programs, name, clip):
    plain, whole = (learner_of(built_in(name), jit, clip=clip) for jit in (False, True))
    for seed in range(4):
        batch = minibatches(name, seed=seed, sync=EACH if name != "TD3" else (False, True, False, True))
        expected, found = plain.update(batch, {}), whole.update(batch, {})
        np.testing.assert_allclose(found.td_error, expected.td_error, rtol=1e-4, atol=1e-5)
        np.testing.assert_allclose(found.loss, expected.loss, rtol=1e-4, atol=1e-5)
        assert set(found.reported) == set(expected.reported)
        for reported in found.reported:
            np.testing.assert_allclose(found.reported[reported], expected.reported[reported], rtol=1e-3, atol=1e-5)
    assert_same_state(whole, plain, rtol=1e-3, atol=1e-5)
    moves = name != "PPO"  # it has no targets, and nobody has declared that doing nothing can be recorded
    assert stages(whole) == {"TD3": {False: 2, True: 3}}.get(name, {True: 3 if moves else 2})
    assert [one.includes.targets for one in wholes(whole)] == ([False, True] if name == "TD3" else [moves])
    assert len(programs) == len(wholes(whole)), "and nothing else was compiled"


@pytest.mark.parametrize("kind", [torch.optim.Adam, torch.optim.AdamW])
def test_weights_decay_as_their_optimizer_has_it(programs, kind):
    def make(params, rate):
        return kind(params, rate, weight_decay=0.3)

    plain, whole, without = (
        learner_of(built_in("DQN"), jit, one) for jit, one in ((False, make), (True, make), (False, adam))
    )
    for seed in range(3):
        for one in (plain, whole, without):
            one.update(minibatches(sync=EACH, seed=seed), {})
    assert_same_state(whole, plain, rtol=1e-3, atol=1e-5)
    assert whole.stages == (0, 3)
    weight, undecayed = (one.groups[0][0].detach().norm() for one in (whole, without))
    assert weight < 0.99 * undecayed


def test_targets_that_move_now_and_then_move_by_themselves(programs):
    plain, whole = (learner_of(built_in("DQN", tau=0.3), jit) for jit in (False, True))
    for seed in range(3):
        batch = minibatches(sync=(False, False, True, False), seed=seed)
        plain.update(batch, {}), whole.update(batch, {})
    assert_same_state(whole, plain, rtol=1e-4, atol=1e-6)
    assert whole.stages == (0, 2)


def test_a_rhythm_of_targets_that_changes_is_followed(programs):
    plain, whole = (learner_of(built_in("DQN", tau=0.3), jit) for jit in (False, True))
    for seed, sync in enumerate((EACH, EACH, NONE, (False, True, False, True))):
        plain.update(minibatches(sync=sync, seed=seed), {}), whole.update(minibatches(sync=sync, seed=seed), {})
        assert stages(whole) == {True: (1, 3, 2, 2)[seed]}
        assert_same_state(whole, plain, rtol=1e-4, atol=1e-6)


def test_rates_and_hyperparameters_change_without_another_program(programs):
    names = ["learning_rate", "gamma"]
    plain, whole = (learner_of(built_in("SAC"), jit, names=names) for jit in (False, True))
    for seed, rate in enumerate((1e-2, 1e-3, 0.0, 5e-2)):
        for one in (plain, whole):
            one.agent.gamma = 0.9 + seed / 100
            one.update(minibatches("SAC", EACH, seed=seed), {"learning_rate": rate, "gamma": one.agent.gamma})
        assert_same_state(whole, plain, rtol=1e-3, atol=1e-5)
    assert len(programs) == 1
    assert whole.stages == (0, 2), "update_param() may depend on what changes"


def test_a_loss_that_is_not_finite_changes_nothing(programs):
    learner = learner_of(built_in("DQN", tau=0.3), True)
    single = [minibatches(sync=(True,), seed=seed) for seed in range(3)]
    for sample in single:
        assert not learner.update(sample, {}).diverged
    assert learner.stages == (0, 3)
    before = learner.get_state()
    single[0].reward[:] = np.inf
    assert learner.update(single[0], {}).diverged
    for key, values in learner.get_state().items():
        np.testing.assert_array_equal(values, before[key], err_msg=key)
    assert not learner.update(single[1], {}).diverged


@pytest.mark.parametrize("num_steps", [1, 4])
def test_state_goes_from_whole_steps_to_plain_ones_and_back(programs, num_steps):
    sync = (True,) * num_steps
    whole, plain, again = (learner_of(built_in("DQN", tau=0.3), jit) for jit in (True, False, True))
    for seed in range(3):
        whole.update(minibatches(sync=sync, seed=seed), {})
    for one in (plain, again):
        one.set_state(whole.get_state())
    again.resume(whole.stages)
    for seed in range(3, 6):
        results = [one.update(minibatches(sync=sync, seed=seed), {}).loss for one in (whole, plain, again)]
        np.testing.assert_allclose(results[1], results[0], rtol=1e-4)
        np.testing.assert_array_equal(results[2], results[0], "the same program from the first step on")
    assert_same_state(plain, whole, rtol=1e-4, atol=1e-6)
    for key, values in again.get_state().items():
        np.testing.assert_array_equal(values, whole.get_state()[key], err_msg=key)
    assert again.stages == (0, 3)


def test_what_was_refused_in_one_process_is_not_tried_in_the_next(programs, monkeypatch):
    """Numbers that differ by rounding may pass a comparison the next time, and a resumed run would be another one."""
    first, again = (learner_of(built_in("DQN", tau=0.3), True) for _ in range(2))
    with monkeypatch.context() as patched:
        patched.setattr(builder, "compiled", lambda *_: refuse())
        for seed in range(3):
            first.update(minibatches(seed=seed), {})
    assert first.stages == (0, 1)
    assert [bool(one) for one in first.refusals] == [True, True]
    again.set_state(first.get_state())
    again.resume(first.stages, first.refusals)
    for seed in range(3, 5):
        again.update(minibatches(seed=seed), {})
    assert again.stages == (0, 1)
    assert not programs, "nothing was compiled"
    assert "other numbers" in str(again.step_way())


def test_what_failed_for_another_reason_is_not_kept_as_refused(programs, monkeypatch):
    """A full disk, or a compiler that is missing."""
    first = learner_of(built_in("DQN", tau=0.3), True)
    with monkeypatch.context() as patched:
        patched.setattr(builder, "compiled", lambda *_: fail())
        for seed in range(3):
            first.update(minibatches(seed=seed), {})
    assert "no space left" in str(first.step_way())
    assert first.refusals == ("", "")


def fail():
    raise OSError("no space left on the device")


def refuse():
    raise ValueError("it gives other numbers")


@pytest.mark.parametrize("num_steps", [1, 4])
def test_a_program_that_fails_halfway_leaves_nothing_behind(monkeypatch, caplog, num_steps):
    fails = []

    def made(recording, inputs, matmul):
        run = replay(recording, inputs)

        def program(*values):
            given = run(*values)
            if fails:
                recording.captured[0].fill_(torch.nan)  # of the numbers that learn
                raise RuntimeError("index 9 is out of bounds")
            return given

        return program

    monkeypatch.setattr(builder, "compiled", made)
    plain, whole, sync = learner_of(built_in("DQN"), False), learner_of(built_in("DQN"), True), (True,) * num_steps
    for seed in range(5):
        batch = minibatches(sync=sync, seed=seed)
        fails += [True] if seed == 4 else []
        assert not whole.update(batch, {}).diverged
        if num_steps > 1 or seed == 4:  # of a single step there is a copy now and then: here, of the beginning
            plain.update(batch, {})
    assert_same_state(whole, plain, rtol=1e-3, atol=1e-5)
    assert whole._steps.traces.given_up
    before = "before this update block" if num_steps > 1 else "4 gradient steps before this update block"
    assert [record.message for record in caplog.records] == [
        "jit_compile: this agent's update runs eagerly, a recorded step failed: index 9 is out of bounds",
        f"a compiled gradient step failed halfway: the agent goes on from the copy of itself made {before}",
    ]


@pytest.mark.slow  # compiling takes 15 s
@pytest.mark.skipif(not has_compiler(), reason="no C++ compiler")
@pytest.mark.parametrize("name", ["DoubleDQN", "PPO", "SACDiscrete", "CrossQ"])
def test_so_they_are_in_compiled_code(name):
    plain, whole = (learner_of(built_in(name), jit) for jit in (False, True))
    for seed in range(5):
        batch = minibatches(name, sync=EACH, seed=seed)
        expected, found = plain.update(batch, {}), whole.update(batch, {})
        np.testing.assert_allclose(found.loss, expected.loss, rtol=1e-3, atol=1e-5)
    assert_same_state(whole, plain, rtol=1e-3, atol=1e-5)
    assert len(wholes(whole)) == 1
