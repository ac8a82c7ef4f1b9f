"""What a loss reads besides tensors is followed, or refused by name and evaluated eagerly; to the last bit."""

import enum
import functools
import gc
import itertools
import logging
import math
import os
import pathlib
import random
import re
import threading
import time
import types
from collections import deque
from dataclasses import dataclass, field

import numpy as np
import pytest
import torch
from torch import nn

from note_rl.seeding import seed_everything
from tests.note_rl.learners.step_graph.recorded_agents import Custom, assert_same_state, learner_of, minibatches

SCALE = 1.0
collections = 0
TABLE = {"scale": [1.0]}
NETWORK = nn.Linear(4, 1)
WORD, FOLDER, MARK = re.compile("a"), pathlib.Path("a"), object()
SPACE = types.SimpleNamespace(scale=1.0)


class Constants:
    scale = 1.0


class Member(enum.Enum):
    ONE = 1


@dataclass
class Numbers:
    scale: float = 1.0


def doubled(values):
    return 2 * values


def tripled(values):
    return 3 * values


def times(values, by):
    return by * values


def scaled(values, by=1.0, *, shift=0.0):
    return by * (1.0 + shift) * values


def shifted(values, by=1.0, *, shift=0.0):
    return 5.0 * values


CODE = scaled.__code__


@functools.lru_cache
def kept(by):
    return by * SCALE


def counted():
    yield from (1.0, 2.0, 3.0, 4.0, 5.0, 6.0, 7.0, 8.0, 9.0, 10.0)


def enclosed():
    """Returns a loss that reads a variable of the function around it, and what sets that."""
    scale = 1.0

    def loss(agent, s, r):
        return scale * (s @ agent.w - r).square()

    def change(agent):
        nonlocal scale
        scale = 5.0

    return loss, change


def enclosed_counter():
    count = 0

    def loss(agent, s, r):
        nonlocal count
        count += 1
        return count * (s @ agent.w - r).square()

    return loss


def of_scale(read):
    return lambda agent, s, r: read(agent) * (s @ agent.w - r).square()


class Entries(dict):
    """Knows no other error than that of dictionaries."""

    def __getattr__(self, name):
        return self[name]


class OwnThread(threading.Thread):
    scale = 1.0


@dataclass
class Made:
    numbers: list[float] = field(default_factory=lambda: [1.0])


class Base(Custom):
    of_base = 1.0


class Reading(Base):
    """Has something of each kind that a loss may read."""

    traceable = True
    of_class = 1.0

    def __init__(self, loss):
        super().__init__(loss)
        self.pair, self.entries, self.numbers = (1.0, 2.0), {"scale": 1.0, "inner": [1.0]}, [1.0, 2.0]
        self.array, self.constants = np.array([1.0, 2.0]), Numbers()
        self.function, self.partial = doubled, functools.partial(times, by=1.0)
        self.tensors = {"scale": torch.tensor(1.0)}
        self.space = types.SimpleNamespace(scale=1.0)
        self.queue, self.generator = deque([1.0]), np.random.default_rng(0)
        self.bits, self.of_old = np.random.PCG64(0), np.random.RandomState(0)
        self.attributed, self.thread, self.kind = Entries(scale=1.0), OwnThread(), Constants
        self.counted, self.wrapped = counted(), {"it": itertools.count(1)}


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
    learner = learner_of(Reading(loss), jit)
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


def counting(agent, s, r):
    agent.entries["scale"] += 1.0
    return agent.entries["scale"] * (s @ agent.w - r).square()


def growing(agent, s, r):
    agent.numbers.append(1.0)
    return len(agent.numbers) * (s @ agent.w - r).square()


def counting_in_a_namespace(agent, s, r):
    agent.space.scale += 1.0
    return agent.space.scale * (s @ agent.w - r).square()


def setting_a_global(agent, s, r):
    global SCALE
    SCALE += 1.0
    return SCALE * (s @ agent.w - r).square()


def branching(agent, s, r):
    loss = (s @ agent.w - r).square()
    return loss if loss.detach().numpy().mean() > 1.0 else 2 * loss


REFUSED = {
    "gradient steps": (of_scale(lambda agent: 1 + agent.num_gradient_steps), "self.num_gradient_steps, which changes"),
    "environment steps": (of_scale(lambda agent: 1 + agent.num_env_steps), "self.num_env_steps, which changes"),
    "episodes": (of_scale(lambda agent: 1 + agent.num_episodes), "self.num_episodes, which changes"),
    "returns": (of_scale(lambda agent: 1 + len(agent.reward_list)), "self.reward_list, which changes"),
    "namespace": (of_scale(lambda agent: agent.space.scale), "self.space: SimpleNamespace, which could change unseen"),
    "global namespace": (of_scale(lambda agent: SPACE.scale), "the global SPACE: SimpleNamespace"),
    "queue": (of_scale(lambda agent: agent.queue[0]), "self.queue: deque"),
    "generator": (of_scale(lambda agent: agent.generator.random()), "self.generator: Generator"),
    "numpy.random": (of_scale(lambda agent: np.random.rand()), "np.random"),  # noqa: NPY002
    "random": (of_scale(lambda agent: random.random()), "random.random"),
    "time": (of_scale(lambda agent: time.time() * 1e-9), "time.time"),
    "bits": (of_scale(lambda agent: agent.bits.random_raw() * 1e-19), "self.bits: PCG64"),
    "generator of old": (of_scale(lambda agent: agent.of_old.rand()), "self.of_old: RandomState"),
    "iterator": (of_scale(lambda agent: next(agent.counted)), "reads self.counted, an iterator"),
    "iterator in a dict": (of_scale(lambda agent: next(agent.wrapped["it"])), "reads self.wrapped, an iterator"),
    "own thread": (of_scale(lambda agent: agent.thread.scale), "self.thread: OwnThread"),
    "cache": (of_scale(lambda agent: kept(1.0)), "the global kept: _lru_cache_wrapper"),
    "environment": (of_scale(lambda agent: 1.0 + len(os.environ.get("NOTE_RL_TEST", ""))), "os.environ"),
    "file": (of_scale(lambda agent: 1.0 + len(pathlib.Path(os.devnull).read_text())), "open()"),
    "dir": (of_scale(lambda agent: 1.0 + ("later" in dir(agent))), "dir()"),
    "globals": (of_scale(lambda agent: globals()["SCALE"]), "globals()"),
    "__dict__": (of_scale(lambda agent: agent.__dict__["numbers"][0]), "it reads __dict__"),
    "entry set": (counting, "changes self.entries"),
    "list grown": (growing, "changes self.numbers"),
    "namespace set": (counting_in_a_namespace, "self.space: SimpleNamespace"),
    "global set": (setting_a_global, "sets the global SCALE"),
    "numpy()": (branching, "reads numbers out of a tensor, by .numpy()"),
    "asarray": (of_scale(lambda agent: float(np.asarray(agent.w.detach())[0])), "by .numpy()"),
    "dlpack": (of_scale(lambda agent: float(np.from_dlpack(agent.w.detach())[0])), "by .__dlpack__()"),
    "tolist": (of_scale(lambda agent: agent.w.tolist()[0]), "by .tolist()"),
    "nonzero": (lambda agent, s, r: (s @ agent.w)[torch.nonzero(r > 0)].square().mean(), "what nonzero gives depends"),
    "mask": (lambda agent, s, r: (s @ agent.w)[r > 0].square().mean(), "what index gives depends"),
    "masked_select": (lambda agent, s, r: (s @ agent.w).masked_select(r > 0).square().mean(), "masked_select"),
    "equal": (of_scale(lambda agent: 1.0 + torch.equal(agent.w, agent.w.abs())), "get value out of a tracing tensor"),
}


@pytest.mark.parametrize(("loss", "reason"), REFUSED.values(), ids=REFUSED)
def test_what_cannot_be_seen_is_refused_by_name_and_changes_nothing(loss, reason, caplog):
    states = []
    for jit in (False, "auto"):
        begin_anew()
        random.seed(0)
        seed_everything(0)
        learner = learner_of(Reading(loss), jit)
        with caplog.at_level(logging.WARNING):
            for seed in range(2):
                learner.update(minibatches(seed=seed), {})
        agent = learner.agent
        states.append([agent.entries, agent.numbers, agent.space.scale, SCALE, np.random.rand(), random.random()])  # noqa: NPY002
        states.append(agent.w.tolist() if "time" not in reason else [])
    assert states[:2] == states[2:]
    (line,) = caplog.messages
    assert reason in line


def test_a_variable_of_the_function_around_that_is_set_is_refused(caplog):
    weights = []
    for jit in (False, "auto"):
        learner = learner_of(Custom(enclosed_counter()), jit)
        learner.update(minibatches(), {})
        weights.append(learner.agent.w.tolist())
    assert weights[0] == weights[1]
    assert "sets count, a variable of the function around it" in caplog.text


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
