"""The parts of an agent are compared before each update block, and recorded anew where they have changed."""

import functools

import numpy as np
import pytest
import torch
from torch import nn

from note_rl.agents import pytorch as agents
from note_rl.agents.pytorch import DQN
from note_rl.seeding import seed_everything
from tests.note_rl.learners.step_graph.recorded_agents import (
    EACH,
    LONG,
    assert_same_state,
    built_in,
    learner_of,
    minibatches,
)


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


@pytest.mark.usefixtures("programs")
@pytest.mark.parametrize("change", CHANGES.values(), ids=CHANGES)
def test_a_change_is_followed_by_a_program(change):
    plain, traced = (learned(jit, lambda learner: change(learner.agent)) for jit in (False, True))
    assert traced.stages == (0, 3)
    assert traced.num_traces == 2
    assert_same_state(plain, traced, rtol=1e-4, atol=1e-5)
    unchanged = learned(False, lambda learner: None).agent.target_q_net[0].weight
    assert (unchanged - plain.agent.target_q_net[0].weight).abs().max() > 1e-3


@pytest.mark.usefixtures("programs")
def test_a_frozen_layer_stays_and_the_others_learn_in_parts():
    plain, traced = (
        learned(jit, lambda learner: learner.agent.q_net[0].requires_grad_(False)) for jit in (False, True)
    )
    assert traced.stages == (0, 2)
    assert_same_state(plain, traced, rtol=1e-4, atol=1e-5)


@pytest.mark.usefixtures("programs")
def test_update_param_that_reads_what_training_counts_stays_outside_the_program():
    class Waiting(Moving):
        traceable = True
        waits = True

    assert learned(True, lambda learner: None, Waiting).stages == (0, 2)


def test_a_number_of_the_agent_that_changed_makes_a_new_trace():
    learner, plain = (learner_of(built_in("PPO"), jit, names=["clip"]) for jit in ("auto", False))
    for coefficient, num_traces in ((0.5, 1), (0.5, 1), (0.1, 2), (0.5, 3)):
        learner.agent.value_coef = plain.agent.value_coef = coefficient
        losses = [one.update(minibatches("PPO"), {"clip": 0.2}).loss for one in (learner, plain)]
        np.testing.assert_allclose(*losses, rtol=1e-5)
        assert learner.num_traces == num_traces


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


class Tempered(nn.Module):
    """A layer with numbers of its own, one of which it may count up."""

    def __init__(self, shape, outputs, counts=False):
        super().__init__()
        self.linear, self.temperature, self.options = nn.Linear(*shape, outputs), 1.0, {"shift": 0.0}
        self.counts, self.calls, self.hidden = counts, 0, torch.zeros(())

    def forward(self, x):
        if self.counts == "calls":
            self.calls += 1
        y = self.linear(x) * self.temperature + self.options["shift"] + self.calls
        if self.counts == "hidden":
            y = y + self.hidden
            self.hidden = y.detach().mean()
        return y


@pytest.mark.parametrize(
    "change",
    [
        lambda agent: setattr(agent.q_net, "temperature", 3.0),
        lambda agent: agent.q_net.options.update(shift=3.0),
        lambda agent: setattr(agent.q_net, "linear", nn.Sequential(agent.q_net.linear, nn.Tanh())),
        lambda agent: agent.target_q_net.register_forward_hook(lambda layer, inputs, output: 3 * output),
    ],
    ids=["number", "entry", "layer", "hook"],
)
def test_numbers_of_own_layers_are_followed(change, replayed):
    learners = []
    for jit in (False, True):
        seed_everything(0)
        learner = learner_of(DQN(network=Tempered), jit)
        for seed in range(3):
            learner.update(minibatches(seed=seed, sync=(False, True)), {})
            if seed == 0:
                change(learner.agent)
        learners.append(learner)
    assert learners[1].num_traces == 2
    assert_same_state(*learners, rtol=0)


@pytest.mark.parametrize(("counts", "reason"), [("calls", "Tempered.calls"), ("hidden", "Tempered.hidden")])
def test_a_layer_that_counts_is_evaluated_eagerly(counts, reason, replayed, caplog):
    learners = []
    for jit in (False, True):
        seed_everything(0)
        learner = learner_of(DQN(network=functools.partial(Tempered, counts=counts)), jit)
        learner.update(minibatches(), {})
        learners.append(learner)
    assert learners[0].agent.q_net.calls == learners[1].agent.q_net.calls
    assert_same_state(*learners, rtol=0)
    assert f"changes {reason}" in caplog.text


@pytest.fixture
def replayed(monkeypatch):
    """Without a compiler jit_compile=True replays."""
    monkeypatch.setattr("note_rl.learners.pytorch.step_graph.compiler.has_compiler", lambda: False)
    monkeypatch.setattr("note_rl.learners.pytorch.step_graph.builder.Builder.compile", lambda *_: None)
