"""Which way gradient steps are taken, and why not a quicker one: each reason, and that it is said where it costs."""

import logging
from dataclasses import replace

import keras
import numpy as np
import pytest
import torch

from note_rl.agents import keras as keras_agents
from note_rl.agents.pytorch import DQN, PPO, TRPO
from note_rl.learners.pytorch.step_graph import builder
from note_rl.learners.pytorch.step_graph import compiler as compiled_module
from note_rl.learners.pytorch.step_graph.replay import replay
from note_rl.optimizers.pytorch import adam, sgd
from note_rl.policy import SoftmaxPolicy
from tests.note_rl.learners.step_graph.recorded_agents import built_in, learner_of, minibatches
from tests.note_rl.samples import sample

MANY = 50_000


class Mine(DQN):
    pass


@pytest.fixture
def stand_in(monkeypatch):
    """A compiler that takes no time."""
    monkeypatch.setattr(builder, "compiled", replay)


def way_after_steps(agent, expected=MANY, jit="auto", make=adam, blocks=2):
    learner = learner_of(agent, jit, make)
    learner.expect(expected)
    for seed in range(blocks):
        learner.update(minibatches(sync=(True,) * 4, seed=seed), {})
    return learner.step_way()


def test_before_the_first_step_there_is_none():
    assert str(learner_of(built_in("DQN"), "auto").step_way()) == "eager: no gradient step was taken yet"


def test_a_subclass_that_does_not_declare_to_be_traceable_is_named_once(caplog):
    with caplog.at_level(logging.WARNING):
        ways = [way_after_steps(Mine(env="CartPole-v1", hidden_size=(8,))) for _ in range(2)]
    assert [str(way) for way in ways] == ["eager: Mine does not declare `traceable = True`"] * 2
    (said,) = [record.message for record in caplog.records if "traceable" in record.message]
    assert said.startswith("Mine does not declare `traceable = True`: its gradient steps are taken eagerly; with `tra")


def test_at_the_end_of_a_run_the_reason_is_still_that_of_its_steps():
    agent = Mine(env="CartPole-v1", hidden_size=(8,))
    learner = learner_of(agent, "auto")
    for left in (MANY, 1_000):
        learner.expect(left)
        learner.update(minibatches(sync=(True,) * 4), {})
    assert str(learner.step_way()) == "eager: Mine does not declare `traceable = True`"


def test_where_few_steps_are_to_come_nothing_is_said(caplog):
    with caplog.at_level(logging.WARNING):
        way = way_after_steps(Mine(env="CartPole-v1", hidden_size=(8,)), expected=1_999)
    assert str(way).startswith("eager: fewer than 2,000 gradient steps were to come")
    assert caplog.text == ""


class Foreign(torch.nn.Linear):
    __module__ = "elsewhere"


@pytest.mark.parametrize(
    ("change", "reason"),
    [
        (lambda net: net.register_forward_hook(lambda *_: None), "DQN has a layer Linear, which has hooks"),
        (lambda net: setattr(net, "__class__", Foreign), "DQN has a layer Foreign, which is not one of torch.nn"),
    ],
    ids=["hook", "own layer"],
)
def test_a_layer_that_may_do_anything_is_named(change, reason, caplog):
    agent = DQN(env="CartPole-v1", hidden_size=(8,))
    change(next(layer for layer in agent.q_net.modules() if isinstance(layer, torch.nn.Linear)))
    with caplog.at_level(logging.WARNING):
        assert str(way_after_steps(agent)) == f"eager: {reason}"
    assert f"{reason}: its gradient steps are taken eagerly; with jit_compile=True they" in caplog.text


def test_a_class_with_a_layer_of_its_own_need_not_declare_anything(caplog):
    agent = Mine(env="CartPole-v1", hidden_size=(8,))
    next(layer for layer in agent.q_net.modules() if isinstance(layer, torch.nn.Linear)).__class__ = Foreign
    with caplog.at_level(logging.WARNING):
        assert str(way_after_steps(agent)) == "eager: Mine has a layer Foreign, which is not one of torch.nn"
    assert "traceable" not in caplog.text


def test_without_being_asked_for_nothing_is_recorded():
    assert str(way_after_steps(built_in("DQN"), jit=False)) == "eager: jit_compile=False"


def test_a_step_is_replayed_where_compiling_takes_longer_than_it_saves():
    way = way_after_steps(built_in("DQN"), expected=2_000)
    assert (way.way, way.reason.partition(";")[0]) == (
        "replayed",
        "compiling takes longer than it saves in the gradient steps to come",
    )


def test_a_missing_compiler_is_named_where_it_would_pay(monkeypatch, caplog):
    monkeypatch.setattr(compiled_module, "has_compiler", lambda: False)
    with caplog.at_level(logging.WARNING):
        way = way_after_steps(built_in("DQN"), expected=10**8)
    assert str(way) == f"replayed: {compiled_module.NO_COMPILER}"
    assert f"the update is replayed rather than compiled: {compiled_module.NO_COMPILER}" in caplog.text


def test_a_step_that_cannot_be_recorded_says_why(monkeypatch):
    def refuse(*_):
        raise ValueError("it does not want to")

    monkeypatch.setattr(builder, "recorded", refuse)
    way = way_after_steps(built_in("DQN"))
    assert str(way) == "eager: it cannot be recorded: it does not want to"


def test_a_step_that_cannot_be_compiled_says_why(monkeypatch):
    def refuse(*_):
        raise RuntimeError("no room")

    monkeypatch.setattr(builder, "compiled", refuse)
    assert str(way_after_steps(built_in("DQN"), jit=True)) == "replayed: it cannot be compiled: no room"


@pytest.mark.parametrize(
    ("make", "largest", "expected"),
    [
        (adam, 30_000, "whole"),
        (adam, 10, "compiled: of 58 parameters, more than 10, the optimizer's step is as quick by torch"),
        (sgd, 30_000, "compiled: the step of SGD is not compiled"),
    ],
    ids=["whole", "large", "sgd"],
)
def test_compiled_steps_say_what_is_not_a_part_of_them(stand_in, monkeypatch, make, largest, expected):
    monkeypatch.setattr(builder, "_LARGEST", largest)
    assert str(way_after_steps(built_in("DQN"), jit=True, make=make, blocks=3)) == expected


def test_a_whole_step_that_fails_is_said(stand_in, monkeypatch, caplog):
    def refuse(recording, inputs, matmul):
        if not recording.pure:
            raise RuntimeError("too wide")
        return replay(recording, inputs)

    monkeypatch.setattr(builder, "compiled", refuse)
    with caplog.at_level(logging.INFO):
        way = way_after_steps(built_in("DQN"), jit=True, blocks=3)
    assert str(way) == "compiled: the optimizer's step cannot be a part of the program: too wide"
    assert "losses and gradients are compiled without the optimizer's step: too wide" in caplog.text


def test_an_update_of_its_own_is_not_recorded():
    way = TRPO(env="CartPole-v1", hidden_size=(8,)).how_steps_are_taken()
    assert str(way) == "eager: update() may branch on what it measures, so it is not recorded"


def test_a_trained_agent_says_it():
    agent = PPO(env="CartPole-v1", hidden_size=(8,))
    agent.set(policy=SoftmaxPolicy(), PPO=True, rollout_steps=16, batch=8, num_epochs=1)
    agent.train(adam(agent.param, 1e-3), total_steps=16, p=0)
    assert agent.how_steps_are_taken().reason.startswith("fewer than 2,000 gradient steps were to come")


class Clocked(keras_agents.DQN):
    def __call__(self, s, a, next_s, r, d):
        self.count = getattr(self, "count", 0) + 1
        return super().__call__(s, a, next_s, r, d) * float(self.count)


@pytest.mark.parametrize(
    ("kind", "jit", "expected"),
    [
        pytest.param(keras_agents.DQN, True, "whole", marks=pytest.mark.slow),  # keras/test_xla.py
        (keras_agents.DQN, False, "traced: jit_compile=False, or a strategy of tf.distribute"),
        (Clocked, True, "eager: Clocked changes self.count"),
    ],
    ids=["xla", "traced", "untraced"],
)
def test_agents_in_keras_say_it(kind, jit, expected):
    agent = kind(env="CartPole-v1", hidden_size=(8,))
    agent.learner.prepare(keras.optimizers.SGD(0.1), None, (), jit)
    assert str(agent.how_steps_are_taken()) == "eager: no gradient step was taken yet"
    agent.learner.update(four_numbers(sample(1, 4)), {})
    assert str(agent.how_steps_are_taken()) == expected


def four_numbers(given):
    return replace(given, obs=np.tile(given.obs, 2), next_obs=np.tile(given.next_obs, 2))
