"""Numbers that change are followed wherever they are held."""

import contextvars
import weakref
from array import array
from collections import UserList, deque
from queue import Queue

import keras
import numpy as np
import pytest

from tests.note_rl.learners.keras import changing_agents
from tests.note_rl.learners.keras.changing_agents import OfNumbers, set_to, trained
from tests.note_rl.learners.keras.moved_agents import Agent
from tests.note_rl.learners.keras.noted import assert_followed
from tests.note_rl.samples import sample


def change_enclosed(agent):
    agent.factored.__closure__[0].cell_contents = 3.0


def change_global(agent):
    changing_agents.SCALE = 3.0


def change_class(agent):
    OfNumbers.margin = 3.0


NUMBERS = {
    "namespace": set_to("config.scale", 3.0),
    "list in a dictionary in a namespace": set_to("config.inner['list'][0]", 3.0),
    "slots": set_to("slots.scale", 3.0),
    "array in place": set_to("array[0]", 3.0),
    "another array": set_to("array", np.full(1, 3.0, np.float32)),
    "dictionary in a dictionary": set_to("nested['a']['b']", 3.0),
    "another function": set_to("factored", lambda w: 3.0 * w),
    "another method": set_to("scale", lambda: 3.0),
    "enclosed variable": change_enclosed,
    "global of a function that is called": change_global,
    "attribute of the class": change_class,
}


@pytest.fixture(autouse=True)
def _as_before(monkeypatch):
    monkeypatch.setattr(OfNumbers, "margin", 1.0)
    monkeypatch.setattr(changing_agents, "SCALE", 1.0)


@pytest.mark.parametrize("what", NUMBERS)
def test_numbers_that_change_are_followed_wherever_they_are_held(what):
    assert_followed(OfNumbers(), NUMBERS[what])


@pytest.mark.parametrize("what", ["list in a dictionary in a namespace", "another function", "enclosed variable"])
def test_traced_steps_use_numbers_that_have_changed(what):
    agent = trained(OfNumbers, NUMBERS[what])
    np.testing.assert_allclose(agent.w, [1.0 + 3.0])
    assert agent.learner.num_traces == 2
    agent.learner.update(sample(1, 4), {})
    assert agent.learner.num_traces == 2


class Entries(dict):
    """Knows no other error than that of dictionaries."""

    def __getattr__(self, name):
        return self[name]


def of_one():
    held = Queue()
    held.put(1.0)
    return held


def attributed():
    def held():
        pass

    held.scale = 1.0
    return held


KEPT: list[Entries] = []


def referred():
    KEPT[:] = [Entries(scale=1.0)]
    return weakref.ref(KEPT[0])


READ = {
    "deque": (lambda: deque([1.0]), lambda held: held[0], lambda held: held.__setitem__(0, 3.0)),
    "bytearray": (lambda: bytearray([1]), lambda held: float(held[0]), lambda held: held.__setitem__(0, 3)),
    "array of Python": (lambda: array("d", [1.0]), lambda held: held[0], lambda held: held.__setitem__(0, 3.0)),
    "memoryview": (
        lambda: memoryview(bytearray([1])),
        lambda held: float(held[0]),
        lambda held: held.__setitem__(0, 3),
    ),
    "UserList": (lambda: UserList([1.0]), lambda held: held[0], lambda held: held.__setitem__(0, 3.0)),
    "length of a queue": (of_one, lambda held: float(held.qsize()), lambda held: [held.put(1.0), held.put(1.0)]),
    "method of a list": (lambda: [1.0].__getitem__, lambda held: held(0), lambda held: held.__self__.insert(0, 3.0)),
    "order of a dictionary": (
        lambda: {"a": 1.0, "b": 3.0},
        lambda held: list(held.values())[0],  # noqa: RUF015
        lambda held: held.update(a=held.pop("a")),
    ),
    "array of objects": (
        lambda: np.array([1.0, "a"], object),
        lambda held: held[0],
        lambda held: held.__setitem__(0, 3.0),
    ),
    "large array": (lambda: np.ones(2**17), lambda held: float(held[-1]), lambda held: held.__setitem__(-1, 3.0)),
    "weak reference": (referred, lambda held: held()["scale"], lambda held: held().update(scale=3.0)),
    "variable of a context": (
        lambda: contextvars.ContextVar("scale", default=1.0),
        lambda held: held.get(),
        lambda held: held.set(3.0),
    ),
    "dictionary with attributes": (
        lambda: Entries(scale=1.0),
        lambda held: held.scale,
        lambda held: held.update(scale=3.0),
    ),
    "attribute of a function": (attributed, lambda held: held.scale, lambda held: setattr(held, "scale", 3.0)),
}


@pytest.mark.parametrize("what", READ)
def test_what_objects_of_python_and_numpy_hold_is_followed(what):
    make, read, change = READ[what]
    agent = OfNumbers(make(), read)
    assert_followed(agent, lambda agent: change(agent.held))
    assert read(agent.held) == 3.0


@pytest.mark.usefixtures("said_anew")
def test_arrays_that_are_too_large_to_be_compared_are_refused_unless_nobody_writes_into_them(caplog, monkeypatch):
    monkeypatch.setattr("note_rl.learners.keras.holders.MOST_BYTES", 2**10)
    for writeable in (False, True):
        agent = Agent(lambda agent, r: float(agent.large[0]))
        agent.large = np.ones(2**10, np.float32)
        agent.large.flags.writeable = writeable
        agent.learner.prepare(keras.optimizers.SGD(1.0), None, (), False)
        agent.learner.update(sample(1, 4), {})
        assert agent.learner._update.compilation.untraced is writeable
        agent.large = np.full(2**10, 3.0, np.float32)
        agent.learner.update(sample(1, 4), {})
        assert float(agent.w[0]) == 1.0 + 3.0
    assert "reads large: an array of more than 1,024 bytes" in caplog.text
    assert "array.flags.writeable = False" in caplog.text
