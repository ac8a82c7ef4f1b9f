"""Changes inside layers after a step was recorded are followed, to the last bit."""

import logging
from functools import cache

import numpy as np
import pytest
import torch
from torch import nn
from torch.nn.utils import parametrize

from note_rl.agents.pytorch import DQN
from note_rl.learners.pytorch.step_graph.layer_guards import Layers
from note_rl.seeding import seed_everything
from tests.note_rl.learners.step_graph.recorded_agents import Custom, assert_same_state, learner_of, minibatches


def network(shape, outputs):
    return nn.Sequential(
        nn.Linear(*shape, 8), nn.BatchNorm1d(8), nn.Dropout(0.5), nn.LeakyReLU(0.1), nn.Linear(8, outputs)
    )


class Half(nn.Module):
    def forward(self, weight):
        return 0.5 * weight


def other_layout(agent):
    agent.q_net[0].weight.data = agent.q_net[0].weight.data.t().contiguous().t()


def other_target(agent):
    agent.target_q_net[4].weight = nn.Parameter(torch.ones(2, 8), requires_grad=False)


def parametrized(agent):
    for one in (agent.q_net, agent.target_q_net):
        parametrize.register_parametrization(one[0], "weight", Half())


CHANGES = {
    "p": lambda agent: setattr(agent.q_net[2], "p", 0.0),
    "dropout.eval": lambda agent: agent.q_net[2].eval(),
    "norm.eval": lambda agent: agent.q_net[1].eval(),
    "norm.momentum": lambda agent: setattr(agent.q_net[1], "momentum", 0.9),
    "norm.eps": lambda agent: setattr(agent.q_net[1], "eps", 0.5),
    "slope": lambda agent: setattr(agent.q_net[3], "negative_slope", 2.0),
    "frozen": lambda agent: agent.q_net[0].requires_grad_(False),
    "bias frozen": lambda agent: agent.q_net[4].bias.requires_grad_(False),
    "layer replaced": lambda agent: agent.q_net.__setitem__(3, nn.Tanh()),
    "parameter of the target replaced": other_target,
    "buffer replaced": lambda agent: setattr(agent.target_q_net[1], "running_mean", torch.full((8,), 3.0)),
    "hook on a layer": lambda agent: agent.q_net[3].register_forward_hook(lambda layer, inputs, output: 2 * output),
    "hook on a weight": lambda agent: agent.q_net[4].weight.register_hook(lambda gradient: -gradient),
    "own forward": lambda agent: setattr(agent.q_net[3], "forward", torch.sin),
    "parametrized": parametrized,
}


def learned(jit, change, again=False, **options):
    """Returns a learner whose agent was changed between two update blocks, or two calls of train()."""
    seed_everything(0)
    learner = learner_of(DQN(network=network), jit, **options)
    learner.update(minibatches(), {})
    change(learner.agent)
    if again:
        learner.prepare(None, 0.5, (), jit)
    for seed in (1, 2):
        learner.update(minibatches(seed=seed), {})
    return learner


@cache
def unchanged():
    return learned(False, lambda agent: None).get_state()


AGAIN = ("p", "norm.eval", "frozen", "hook on a layer")


@pytest.mark.parametrize(("name", "again"), [*((name, False) for name in CHANGES), *((name, True) for name in AGAIN)])
def test_a_change_within_a_layer_is_followed(name, again):
    change = CHANGES[name]
    plain, traced = (learned(jit, change, again) for jit in (False, "auto"))
    moved = [name for name, values in plain.get_state().items() if not np.array_equal(values, unchanged().get(name))]
    assert moved, "the change changes nothing"
    assert_same_state(plain, traced, rtol=0)
    assert traced.num_traces == (1 if not eligible(traced.agent) else 2)


def eligible(agent):
    """Whether what is left are layers of torch.nn that do nothing besides."""
    layers = [*agent.q_net.modules(), *agent.target_q_net.modules()]
    return all(
        type(layer).__module__.startswith("torch.nn.modules.")
        and not layer._forward_hooks
        and "forward" not in vars(layer)
        for layer in layers
    )


def test_a_layout_that_changed_is_followed():
    assert_same_state(*(learned(jit, other_layout) for jit in (False, "auto")), rtol=0)


def test_equal_numbers_are_no_change():
    def change(agent):
        agent.q_net[2].p, agent.q_net[1].eps = float("0.5"), float("1e-5")
        agent.q_net.eval()  # as a whole: losses are evaluated in train mode all the same
        agent.q_net[0].note = "of mine"

    traced = learned("auto", change)
    assert traced.num_traces == 1
    assert_same_state(learned(False, change), traced, rtol=0)


def test_a_frozen_layer_stays_as_it_is_while_others_learn():
    for jit in (False, "auto"):
        kept = []

        def freeze(agent, kept=kept):
            agent.q_net[0].requires_grad_(False)
            kept.append({name: value.clone() for name, value in agent.q_net.state_dict().items()})

        after = learned(jit, freeze).agent.q_net.state_dict()
        assert torch.equal(after["0.weight"], kept[0]["0.weight"])
        assert torch.equal(after["0.bias"], kept[0]["0.bias"])
        assert not torch.equal(after["4.weight"], kept[0]["4.weight"])


def test_a_layer_that_is_frozen_and_let_go_again_learns_again():
    learners = []
    for jit in (False, "auto"):
        learner = learned(jit, lambda agent: agent.q_net[0].requires_grad_(False))
        before = learner.agent.q_net[0].weight.detach().clone()
        learner.agent.q_net[0].requires_grad_()
        learner.update(minibatches(seed=3), {})
        assert not torch.equal(learner.agent.q_net[0].weight, before)
        learners.append(learner)
    assert_same_state(*learners, rtol=0)


def test_layers_in_a_list_of_networks_are_looked_at_too():
    class Twins(DQN):
        traceable = True

        def __init__(self):
            super().__init__(network=network)
            self.twins = [self.q_net]

        def __call__(self, s, a, next_s, r, d):
            return (self.twins[0](s).sum(1) - r).square()

    learners = []
    for jit in (False, "auto"):
        seed_everything(0)
        learner = learner_of(Twins(), jit)
        for seed in range(3):
            learner.update(minibatches(seed=seed), {})
            if seed == 0:
                learner.agent.twins[0] = nn.Sequential(*learner.agent.q_net[:2], *learner.agent.q_net[3:])
            if seed == 1:
                learner.agent.twins[0][1].eval()
        learners.append(learner)
    assert learners[1].num_traces == 3
    assert_same_state(*learners, rtol=0)


def test_what_changes_all_the_time_goes_on_eagerly_after_one_line(caplog, monkeypatch):
    monkeypatch.setattr("note_rl.learners.pytorch.step_graph.choice._MAX_TRACES", 6)
    seed_everything(0)
    learner = learner_of(DQN(network=network), "auto")
    with caplog.at_level(logging.WARNING):
        for turn in range(9):
            learner.agent.q_net[2].p = 0.01 * turn
            learner.update(minibatches(sync=(False,)), {})
    assert learner.num_traces == 6
    (line,) = caplog.messages
    assert "recorded 6 times" in line


@pytest.mark.parametrize(
    ("layer", "name", "value"),
    [
        (nn.Conv2d(1, 1, 3), "stride", (2, 2)),
        (nn.LayerNorm(4), "normalized_shape", (2, 2)),
        (nn.TransformerEncoderLayer(4, 2), "activation", torch.tanh),
    ],
)
def test_tuples_and_functions_of_layers_are_looked_at(layer, name, value):
    layers = Layers([layer], [])
    assert layers.are_unchanged()
    before = getattr(layer, name)
    setattr(layer, name, value)
    assert not layers.are_unchanged()
    setattr(layer, name, before)
    assert layers.are_unchanged()


class OfLayers(Custom):
    traceable = True

    def __init__(self, loss):
        super().__init__(loss)
        self.net = nn.Sequential(nn.Linear(4, 1))
        self.net.table = {"scale": [1.0]}


@pytest.mark.parametrize(
    ("loss", "change"),
    [
        (
            lambda agent, s, r: (5.0 if hasattr(agent.net, "later") else 1.0) * (s @ agent.w - r).square(),
            lambda agent: setattr(agent.net, "later", True),
        ),
        (
            lambda agent, s, r: getattr(agent.net[0], "scale", 1.0) * (s @ agent.w - r).square(),
            lambda agent: setattr(agent.net[0], "scale", 5.0),
        ),
        (
            lambda agent, s, r: agent.net.table["scale"][0] * (s @ agent.w - r).square(),
            lambda agent: agent.net.table["scale"].insert(0, 5.0),
        ),
    ],
    ids=["hasattr", "getattr", "in a dict"],
)
def test_what_is_read_of_layers_of_torch_is_followed(loss, change):
    learners = []
    for jit in ("auto", False):
        seed_everything(0)
        learner = learner_of(OfLayers(loss), jit)
        for seed in range(3):
            learner.update(minibatches(seed=seed), {})
            if seed == 1:
                learner.agent.net[0].note = "of mine"  # nobody reads it
                change(learner.agent)
        learners.append(learner)
    traced, plain = learners
    assert traced.num_traces == 2
    assert_same_state(plain, traced, rtol=0)
