"""Values that a loss reads besides tensors are followed, to the last bit."""

import enum
import functools
import gc
import math
import pathlib
import re
from dataclasses import dataclass, field

import numpy as np
import pytest
import torch
from torch import nn

from note_rl.seeding import seed_everything
from tests.note_rl.learners.step_graph.reading_agents import Constants, Numbers, Reading, of_scale, times
from tests.note_rl.learners.step_graph.recorded_agents import assert_same_state, learner_of, minibatches

SCALE = 1.0
collections = 0
TABLE = {"scale": [1.0]}
NETWORK = nn.Linear(4, 1)
WORD, FOLDER, MARK = re.compile("a"), pathlib.Path("a"), object()


class Member(enum.Enum):
    ONE = 1


def tripled(values):
    return 3 * values


def scaled(values, by=1.0, *, shift=0.0):
    return by * (1.0 + shift) * values


def shifted(values, by=1.0, *, shift=0.0):
    return 5.0 * values


CODE = scaled.__code__


def enclosed():
    """Returns a loss that reads a variable of the function around it, and what sets that."""
    scale = 1.0

    def loss(agent, s, r):
        return scale * (s @ agent.w - r).square()

    def change(agent):
        nonlocal scale
        scale = 5.0

    return loss, change


@dataclass
class Made:
    numbers: list[float] = field(default_factory=lambda: [1.0])


def set_global(agent):
    global SCALE
    SCALE = 5.0


def begin_anew():
    global SCALE
    SCALE, TABLE["scale"][:] = 1.0, [1.0]
    Constants.scale = Reading.of_class = scaled.own = Member.ONE.scale = 1.0
    scaled.__code__, scaled.__defaults__, scaled.__kwdefaults__["shift"] = CODE, (1.0,), 0.0
    NETWORK._forward_hooks.clear()
    if "of_base" in vars(Reading):
        del Reading.of_base


FOLLOWED = {
    "tuple": (of_scale(lambda agent: agent.pair[0]), lambda agent: setattr(agent, "pair", (5.0, 2.0))),
    "entry": (of_scale(lambda agent: agent.entries["scale"]), lambda agent: agent.entries.update(scale=5.0)),
    "deep": (of_scale(lambda agent: agent.entries["inner"][0]), lambda agent: agent.entries["inner"].insert(0, 5.0)),
    "dict": (of_scale(lambda agent: agent.entries["scale"]), lambda agent: setattr(agent, "entries", {"scale": 5.0})),
    "list": (of_scale(lambda agent: agent.numbers[0]), lambda agent: agent.numbers.insert(0, 5.0)),
    "array in place": (of_scale(lambda agent: float(agent.array[0])), lambda agent: agent.array.fill(5.0)),
    "array": (of_scale(lambda agent: float(agent.array[0])), lambda agent: setattr(agent, "array", np.full(2, 5.0))),
    "dataclass": (of_scale(lambda agent: agent.constants.scale), lambda agent: setattr(agent.constants, "scale", 5.0)),
    "tensor in a dict": (
        of_scale(lambda agent: agent.tensors["scale"]),
        lambda agent: agent.tensors.update(scale=torch.tensor(5.0)),
    ),
    "function": (
        lambda agent, s, r: agent.function((s @ agent.w - r).square()),
        lambda agent: setattr(agent, "function", tripled),
    ),
    "partial": (
        lambda agent, s, r: agent.partial((s @ agent.w - r).square()),
        lambda agent: setattr(agent, "partial", functools.partial(times, by=5.0)),
    ),
    "keyword of a partial": (
        lambda agent, s, r: agent.partial((s @ agent.w - r).square()),
        lambda agent: agent.partial.keywords.update(by=5.0),
    ),
    "default of a function": (
        lambda agent, s, r: scaled((s @ agent.w - r).square()),
        lambda agent: setattr(scaled, "__defaults__", (5.0,)),
    ),
    "keyword of a function": (
        lambda agent, s, r: scaled((s @ agent.w - r).square()),
        lambda agent: scaled.__kwdefaults__.update(shift=5.0),
    ),
    "code of a function": (
        lambda agent, s, r: scaled((s @ agent.w - r).square()),
        lambda agent: setattr(scaled, "__code__", shifted.__code__),
    ),
    "dictionary with attributes": (
        of_scale(lambda agent: agent.attributed.scale),
        lambda agent: agent.attributed.update(scale=5.0),
    ),
    "attribute of a function": (of_scale(lambda agent: scaled.own), lambda agent: setattr(scaled, "own", 5.0)),
    "class attribute": (of_scale(lambda agent: agent.of_class), lambda agent: setattr(Reading, "of_class", 5.0)),
    "class attribute hidden": (of_scale(lambda agent: agent.of_class), lambda agent: setattr(agent, "of_class", 5.0)),
    "attribute of another class": (
        of_scale(lambda agent: Constants.scale),
        lambda agent: setattr(Constants, "scale", 5.0),
    ),
    "global": (of_scale(lambda agent: SCALE), set_global),
    "global container": (
        of_scale(lambda agent: TABLE["scale"][0]),
        lambda agent: TABLE["scale"].__setitem__(0, 5.0),
    ),
    "global network": (
        lambda agent, s, r: (s @ agent.w - NETWORK(s)[:, 0]).square(),
        lambda agent: NETWORK.register_forward_hook(lambda layer, inputs, output: output + 5.0),
    ),
    "class past the instance": (
        of_scale(lambda agent: type(agent).of_class),
        lambda agent: setattr(Reading, "of_class", 5.0),
    ),
    "class past the instance hidden": (
        of_scale(lambda agent: type(agent).of_base),
        lambda agent: setattr(Reading, "of_base", 5.0),
    ),
    "class past the instance, too": (
        of_scale(lambda agent: agent.__class__.of_class),
        lambda agent: setattr(Reading, "of_class", 5.0),
    ),
    "class that is held": (of_scale(lambda agent: agent.kind.scale), lambda agent: setattr(Constants, "scale", 5.0)),
    "attribute of a member": (
        of_scale(lambda agent: Member.ONE.scale),
        lambda agent: setattr(Member.ONE, "scale", 5.0),
    ),
    "not there": (
        of_scale(lambda agent: getattr(agent, "later", 1.0)),
        lambda agent: setattr(agent, "later", 5.0),
    ),
}


def learned(loss, change, jit):
    begin_anew()
    seed_everything(0)
    learner = learner_of(Reading(loss), jit, clip=None)  # a bound on gradients would undo another scale
    for seed in range(3):
        learner.update(minibatches(seed=seed), {})
        if seed == 0:
            change(learner.agent)
    return learner


@pytest.mark.parametrize(("loss", "change"), FOLLOWED.values(), ids=FOLLOWED)
def test_what_is_read_is_followed(loss, change):
    traced, plain = (learned(loss, change, jit) for jit in ("auto", False))
    assert traced.num_traces == 2
    assert_same_state(plain, traced, rtol=0)
    assert not torch.equal(plain.agent.w, learned(loss, lambda agent: None, False).agent.w), "it changes nothing"


def test_a_variable_of_the_function_around_is_followed():
    traced, plain = (learned(*enclosed(), jit) for jit in ("auto", False))
    assert traced.num_traces == 2
    assert_same_state(plain, traced, rtol=0)


def test_what_stays_is_recorded_once():
    def loss(agent, s, r):
        scale = agent.pair[0] * agent.entries["inner"][0] * agent.array[1].item() * agent.constants.scale * SCALE
        return agent.partial(agent.function(scale * math.pi * (s @ agent.w - r).square()))

    def change(agent):
        agent.pair, agent.constants, agent.numbers = (1.0, 2.0), Numbers(), [7.0]
        agent.space.scale = 5.0

    traced = learned(loss, change, "auto")
    assert traced.num_traces == 1
    assert_same_state(learned(loss, change, False), traced, rtol=0)


def test_what_does_not_change_is_recorded():
    def loss(agent, s, r):
        made = Made().numbers[0] if WORD.match("a") and FOLDER.name and MARK is not None else 5.0
        return made * (s @ agent.w - r).square()

    traced = learned(loss, lambda agent: None, "auto")
    assert traced.num_traces == 1
    assert not traced._steps.traces.given_up


def test_what_garbage_collection_runs_is_not_what_a_loss_does(monkeypatch):
    monkeypatch.setitem(globals(), "collections", 0)
    threshold = gc.get_threshold()
    gc.callbacks.append(count_collections)
    gc.set_threshold(1)
    try:
        traced = learned(lambda agent, s, r: (s @ agent.w - r).square(), lambda agent: None, "auto")
    finally:
        gc.set_threshold(*threshold)
        gc.callbacks.remove(count_collections)
    assert collections > 0
    assert traced.num_traces == 1
    assert not traced._steps.traces.given_up


def count_collections(phase, info):
    global collections
    collections += 1
