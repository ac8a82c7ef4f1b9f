"""Recorded gradient steps are the ordinary ones: same numbers, nothing frozen that may change, nothing hidden."""

import numpy as np
import pytest
import torch

from note_rl.learners.pytorch.step_graph import choice
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


@pytest.mark.parametrize(
    ("name", "make"),
    [*((name, adam) for name in (*NAMES, "SACDiscrete", "CrossQ", "TQC", "REDQ")), ("DQN", sgd), ("TD3", sgd)],
)
def test_on_and_off_agree(name, make):
    plain, traced = (learner_of(built_in(name), jit, make) for jit in (False, "auto"))
    for seed in range(3):
        batch = minibatches(name, seed=seed)
        expected, found = plain.update(batch, {}), traced.update(batch, {})
        np.testing.assert_allclose(found.td_error, expected.td_error, rtol=1e-5, atol=1e-6)
        np.testing.assert_allclose(found.loss, expected.loss, rtol=1e-5, atol=1e-6)
    assert_same_state(traced, plain, rtol=1e-5, atol=1e-6)
    assert traced.num_traces == (2 if name in ("TD3", "CrossQ") else 1)
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


def test_train_records_where_it_is_long_enough_and_learns_the_same(monkeypatch):
    monkeypatch.setattr(choice, "_WORTH_RECORDING", choice._WORTH_RECORDING // 4)
    learners = []
    for jit, total_steps in ((False, 160), ("auto", 160), ("auto", 48)):
        agent = built_in("DQN")
        agent.set(policy=EpsGreedyQPolicy(0.2), batch=8, train_freq=16, gradient_steps=64, update_batches=50, seed=1)
        agent.train(adam(agent.param, 1e-3), total_steps=total_steps, jit_compile=jit, p=0)
        learners.append(agent.learner)
    assert [learner.num_traces for learner in learners] == [0, 1, 0]
    assert_same_state(*learners[:2], rtol=1e-3, atol=1e-5)


@pytest.mark.slow  # compiling takes 30 s
def test_compiled_steps_agree():
    plain, traced = (learner_of(built_in("TD3"), jit) for jit in (False, True))
    for seed in range(3):
        batch = minibatches("TD3", seed=seed)
        expected, found = plain.update(batch, {}), traced.update(batch, {})
        np.testing.assert_allclose(found.td_error, expected.td_error, rtol=1e-3, atol=1e-5)
    assert_same_state(traced, plain, rtol=1e-3, atol=1e-5)
    assert traced.stages == (2, 3), "targets move after each step in which all groups learn, and no other"
