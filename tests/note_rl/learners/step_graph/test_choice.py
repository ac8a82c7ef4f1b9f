"""Recorded gradient steps are the ordinary ones: same numbers, nothing frozen that may change, nothing hidden."""

import ctypes
import logging
import subprocess

import numpy as np
import pytest
import torch

from note_rl.agents import pytorch as agents
from note_rl.optimizers.pytorch import adam, sgd
from note_rl.policy import EpsGreedyQPolicy
from note_rl.replay.experience import Clock
from note_rl.seeding import seed_everything
from note_rl.types import Sample
from tests.note_rl.learners.step_graph.recorded_agents import (
    LONG,
    NAMES,
    Custom,
    assert_same_state,
    built_in,
    learner_of,
    minibatches,
)


@pytest.mark.parametrize("make", [adam, sgd])
@pytest.mark.parametrize("name", NAMES)
def test_on_and_off_agree(name, make):
    plain, traced = (learner_of(built_in(name), jit, make) for jit in (False, "auto"))
    for seed in range(3):
        batch = minibatches(name, seed=seed)
        expected, found = plain.update(batch, {}), traced.update(batch, {})
        np.testing.assert_allclose(found.td_error, expected.td_error, rtol=1e-5, atol=1e-6)
        np.testing.assert_allclose(found.loss, expected.loss, rtol=1e-5, atol=1e-6)
    assert_same_state(traced, plain, rtol=1e-5, atol=1e-6)
    assert traced.num_traces == (2 if name == "TD3" else 1)
    assert plain.num_traces == 0


def test_what_only_a_group_that_waits_needs_is_not_worked_out():
    learner = learner_of(built_in("TD3"), "auto")
    learner.update(minibatches("TD3"), {})
    calls = {due: trace.replayed.recording.num_calls for (_, due), trace in learner._steps.traces._known.items()}
    assert calls[False] < 0.75 * calls[True]


def test_hyperparameters_change_without_recording_again():
    seed_everything(0)
    learner = learner_of(built_in("PPO"), "auto", names=["learning_rate", "clip", "entropy_coef"])
    plain = learner_of(built_in("PPO"), False, names=["learning_rate", "clip", "entropy_coef"])
    for rate, clip, coefficient in ((1e-2, 0.2, 0.0), (1e-3, 0.01, 0.3), (0.0, 0.5, 0.1)):
        values = {"learning_rate": rate, "clip": clip, "entropy_coef": coefficient}
        for one in (learner, plain):
            one.agent.clip, one.agent.entropy_coef = clip, coefficient
        batch = minibatches("PPO")
        np.testing.assert_allclose(learner.update(batch, values).loss, plain.update(batch, values).loss, rtol=1e-5)
        assert learner.agent.clip == clip
    assert_same_state(learner, plain, rtol=1e-5, atol=1e-6)
    assert learner.num_traces == 1


def test_a_number_of_the_agent_that_changed_makes_a_new_trace():
    learner, plain = (learner_of(built_in("PPO"), jit, names=["clip"]) for jit in ("auto", False))
    for coefficient, num_traces in ((0.5, 1), (0.5, 1), (0.1, 2), (0.5, 3)):
        learner.agent.value_coef = plain.agent.value_coef = coefficient
        losses = [one.update(minibatches("PPO"), {"clip": 0.2}).loss for one in (learner, plain)]
        np.testing.assert_allclose(*losses, rtol=1e-5)
        assert learner.num_traces == num_traces


def test_every_size_of_minibatch_has_its_own_trace():
    learner = learner_of(built_in("DQN"), "auto")
    for size in (4, 6, 4, 6):
        assert learner.update(minibatches(batch_size=size), {}).td_error.shape == (5, size)
    assert learner.num_traces == 2


def test_preparing_again_keeps_what_was_recorded_unless_something_is_new():
    agent = built_in("DQN")
    optimizer = adam(agent.param, 1e-2)
    for clip, num_traces in ((0.5, 1), (0.5, 1), (None, 2)):
        agent.learner.prepare(optimizer, clip, [], "auto")
        agent.learner.expect(LONG)
        agent.learner.update(minibatches(), {})
        assert agent.learner.num_traces == num_traces


def test_targets_that_are_exchanged_are_followed():
    class Exchanging(agents.DQN):
        traceable = True

        def update_param(self):
            self.target_q_net = type(self.q_net)((4,), 2, (8,)).requires_grad_(False)
            self.target_q_net.load_state_dict(self.q_net.state_dict())

    learners = []
    for jit in (False, "auto"):
        seed_everything(0)
        learners.append(learner_of(Exchanging(hidden_size=(8,)), jit))
    plain, traced = learners
    for seed in range(3):
        losses = [one.update(minibatches(seed=seed), {}).loss for one in (plain, traced)]
        np.testing.assert_allclose(*losses, rtol=1e-5)
    assert traced.num_traces == 3


def test_short_training_and_agents_that_do_not_declare_it_stay_eager():
    assert not learner_is_recorded(built_in("DQN"), expected=100)

    class Further(agents.DQN):
        """Whatever it overrides may read what a recording would freeze."""

    assert not learner_is_recorded(Further(hidden_size=(8,)))

    class Unknown(torch.nn.Linear):
        pass

    assert not learner_is_recorded(agents.DQN(network=lambda shape, outputs: Unknown(*shape, outputs)))
    assert learner_is_recorded(agents.DQN(network=lambda shape, outputs: torch.nn.Linear(*shape, outputs)))


def learner_is_recorded(agent, expected=LONG):
    learner = learner_of(agent, "auto", expected=expected)
    learner.update(minibatches(), {})
    return learner.num_traces > 0


def counting(agent, s, r):
    agent.count += 1
    return agent.count * (s @ agent.w - r).square()


def through_numpy(agent, s, r):
    scale = float(r.square().sum().numpy())  # frozen by a recording, which shows on other minibatches only
    return scale * (s @ agent.w - r).square()


def differently(agent, s, r):
    scale = ctypes.c_float.from_address(r.data_ptr()).value  # past all that tells of reading
    return scale * (s @ agent.w - r).square()


@pytest.mark.parametrize(
    ("loss", "reason"),
    [
        (lambda agent, s, r: (s @ agent.w - r).square() * r.abs().max().item(), "get value out of a tracing tensor"),
        (
            lambda agent, s, r: (s @ agent.w).abs() if float(agent.w.detach().sum()) > 0 else s @ agent.w,
            "get value out",
        ),
        (counting, "sets self.count"),
        (through_numpy, "reads numbers out of a tensor, by .numpy()"),
        (differently, "other numbers"),
    ],
)
def test_what_cannot_be_recorded_runs_eagerly_after_one_warning(loss, reason, caplog):
    learners = [learner_of(Custom(loss), jit) for jit in (False, "auto")]
    with caplog.at_level(logging.WARNING):
        for seed in range(2):
            losses = [one.update(minibatches(seed=seed), {}).loss for one in learners]
            np.testing.assert_array_equal(*losses)
    assert len(caplog.records) == 1
    assert reason in caplog.text
    assert_same_state(*learners, rtol=0)


def test_random_numbers_in_a_loss_are_drawn_anew_in_every_step():
    def loss(agent, s, r):
        return (s @ agent.w - r - torch.randn(len(r))).square()

    plain, traced = (learner_of(Custom(loss), jit) for jit in (False, "auto"))
    one = minibatches(sync=(False,))
    same = Sample(**{name: np.repeat(getattr(one, name), 4, 0) for name in Sample.__slots__[:7]})
    losses = []
    for learner in (plain, traced):
        learner.agent.learner.prepare(sgd(learner.agent.param, 0.0), None, [], "auto" if learner is traced else False)
        torch.manual_seed(5)
        losses.append(learner.update(same, {}).loss[:, 0])
    assert len(set(losses[1])) == 4
    np.testing.assert_allclose(losses[1], losses[0], rtol=1e-5)
    assert traced.num_traces == 1


def test_what_is_changed_in_place_is_changed_in_every_step():
    class Counting(Custom):
        traceable = True

        def __init__(self):
            super().__init__(None)
            self.seen = torch.zeros(1)

        def __call__(self, s, a, next_s, r, d):
            self.seen += 1
            half = torch.zeros_like(s)
            half[:, :2] = s[:, :2]
            return self.seen * (half @ self.w - r).square()

    plain, traced = (learner_of(Counting(), jit) for jit in (False, "auto"))
    for learner in (plain, traced):
        learner.update(minibatches(), {})
        assert float(learner.agent.seen) == 5
    assert_same_state(plain, traced, rtol=1e-5)
    assert traced.num_traces == 1


def test_state_goes_from_recorded_to_plain_steps_and_back():
    first, second = (learner_of(built_in("SAC"), jit) for jit in ("auto", False))
    for seed in range(2):
        first.update(minibatches("SAC", seed=seed), {})
        second.set_state({name: values.copy() for name, values in first.get_state().items()})
        batch = minibatches("SAC", seed=9)
        np.testing.assert_allclose(first.update(batch, {}).loss, second.update(batch, {}).loss, rtol=1e-5, atol=1e-6)
        first.set_state(second.get_state())
    assert first.num_traces == 1


def test_gradient_steps_to_come_are_those_so_far_times_what_is_left():
    beginning = Clock(num_gradient_steps=100, progress=0.5)
    assert Clock(num_gradient_steps=300, progress=0.6).gradient_steps_to_come(beginning) == pytest.approx(200 * 4)
    assert Clock(num_gradient_steps=300, progress=0.5).gradient_steps_to_come(beginning) == 0
    assert Clock(num_gradient_steps=300, progress=1.0).gradient_steps_to_come(beginning) == 0


def test_train_records_where_it_is_long_enough_and_learns_the_same():
    learners = []
    for jit, total_steps in ((False, 640), ("auto", 640), ("auto", 160)):
        agent = built_in("DQN")
        agent.set(policy=EpsGreedyQPolicy(0.2), batch=8, train_freq=16, gradient_steps=64, update_batches=50, seed=1)
        agent.train(adam(agent.param, 1e-3), total_steps=total_steps, jit_compile=jit, p=0)
        learners.append(agent.learner)
    assert [learner.num_traces for learner in learners] == [0, 1, 0]
    assert_same_state(*learners[:2], rtol=1e-3, atol=1e-5)


def test_without_a_compiler_steps_are_replayed_after_one_warning(monkeypatch, caplog):
    monkeypatch.setattr("note_rl.learners.pytorch.step_graph.compiler.has_compiler", lambda: False)
    reason = "no C++ compiler is installed (g++, clang++ or the one named by CXX)"
    assert_replayed(caplog, reason)


@pytest.mark.parametrize(
    "error", [OSError("no space left"), subprocess.CalledProcessError(1, "ld"), AssertionError("strides")]
)
def test_so_they_are_whatever_goes_wrong_while_they_are_compiled(monkeypatch, caplog, error):
    def fails(recording, inputs):
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


@pytest.mark.slow  # compiling takes 30 s
def test_compiled_steps_agree():
    plain, traced = (learner_of(built_in("TD3"), jit) for jit in (False, True))
    for seed in range(3):
        batch = minibatches("TD3", seed=seed)
        expected, found = plain.update(batch, {}), traced.update(batch, {})
        np.testing.assert_allclose(found.td_error, expected.td_error, rtol=1e-3, atol=1e-5)
    assert_same_state(traced, plain, rtol=1e-3, atol=1e-5)
    assert traced.stages == (2, 3), "targets move after each step in which all groups learn, and no other"
