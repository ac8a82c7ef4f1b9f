"""Losses that read or do what cannot be seen: refused by name and evaluated eagerly, with the same numbers."""

import functools
import logging
import os
import pathlib
import random
import time
import types

import numpy as np
import pytest
import torch

from note_rl.seeding import seed_everything
from tests.note_rl.learners.step_graph.reading_agents import Reading, of_scale
from tests.note_rl.learners.step_graph.recorded_agents import Custom, learner_of, minibatches

SCALE = 1.0
SPACE = types.SimpleNamespace(scale=1.0)


@functools.lru_cache
def kept(by):
    return by * SCALE


def enclosed_counter():
    count = 0

    def loss(agent, s, r):
        nonlocal count
        count += 1
        return count * (s @ agent.w - r).square()

    return loss


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
def test_what_cannot_be_seen_is_refused_by_name_and_changes_nothing(loss, reason, caplog, monkeypatch):
    states = []
    for jit in (False, "auto"):
        monkeypatch.setitem(globals(), "SCALE", 1.0)
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
