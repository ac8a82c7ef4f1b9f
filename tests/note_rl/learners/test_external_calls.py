"""Reads from outside of the program are noted where they decide, and nowhere else; no framework is needed."""

import contextvars
import cProfile
import datetime
import enum
import hashlib
import logging
import os
import pathlib
import random
import re
import sys
import threading
import time
import uuid
import weakref
from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping
from dataclasses import MISSING
from typing import Generic, NamedTuple, TypeVar

import pytest

from note_rl.learners.captured_values import ABSENT, PLAIN
from note_rl.learners.external_calls import is_installed, reads_from_outside
from note_rl.learners.python_objects import contents_of, is_fixed, iterator_named_by


@pytest.mark.parametrize(
    ("read", "name"),
    [
        (lambda: time.perf_counter_ns(), "time.perf_counter_ns()"),
        (lambda: datetime.datetime.now(datetime.UTC), "datetime.now()"),
        (lambda: datetime.date.today(), "date.today()"),
        (lambda: os.getpid(), "os.getpid()"),
        (lambda: os.environ.get("HOME"), "os.environ"),
        (lambda: open(os.devnull).close(), "open()"),
        (lambda: uuid.uuid4(), "os.urandom()"),
        (lambda: random.Random(), "random numbers without a seed"),
        (lambda: globals(), "globals()"),
    ],
)
def test_what_is_read(read: Callable[[], object], name: str) -> None:
    with reads_from_outside(()) as found:
        read()
    assert set(found) == {name}


def test_what_decides_nothing_is_not_heard_of() -> None:
    with reads_from_outside(()) as found:
        logging.getLogger("note_rl.test").error("the time is in the line")
        random.Random(1).random()
        datetime.datetime(2020, 1, 1, tzinfo=datetime.UTC).isoformat()
        import note_rl.learners  # noqa: F401
    assert found == []


@pytest.mark.parametrize(
    ("path", "installed"),
    [
        ("/home/me/.venv/lib/python3.11/site-packages/tool/reading.py", True),
        ("/usr/lib/python3/dist-packages/tool.py", True),
        ("/home/me/site-packages.py", False),
        ("<string>", False),
    ],
)
def test_code_of_installed_packages_is_known_in_whatever_environment(path: str, installed: bool) -> None:
    assert is_installed(path) is installed


def test_a_profiler_of_somebody_else_s_goes_on() -> None:
    heard: list[str] = []
    sys.setprofile(lambda frame, event, called: heard.append(event))
    try:
        with reads_from_outside(()):
            pass
        before = len(heard)
        len("a")
        assert len(heard) > before
    finally:
        sys.setprofile(None)


def test_cprofile_goes_on() -> None:
    profiler = cProfile.Profile()
    profiler.enable()
    try:
        with reads_from_outside(()) as found:
            time.time()
        uuid.UUID(int=1)
    finally:
        profiler.disable()
    assert found == ["time.time()"]
    assert any("__init__" in str(entry.code) and "uuid" in str(entry.code) for entry in profiler.getstats())


class Owner:
    def __init__(self, held: object) -> None:
        self.held, self.other = held, iter([1])

    def __call__(self) -> object:
        return self.inner()

    def inner(self) -> object:
        return self.held

    def elsewhere(self) -> object:
        return self.other


def test_iterators_that_are_named_on_the_way() -> None:
    assert iterator_named_by(Owner(iter([1])), ["__call__"]) == "self.held"
    assert iterator_named_by(Owner([iter([1])]), ["__call__"]) == "self.held"
    assert iterator_named_by(Owner(lambda: HELD), ["__call__"]) == "global HELD"
    assert iterator_named_by(Owner([1]), ["__call__"]) is None
    assert iterator_named_by(Owner([1]), ["elsewhere"]) == "self.other"


HELD = iter([1])
SCALE_OF_THE_CONTEXT = contextvars.ContextVar("SCALE_OF_THE_CONTEXT", default=2.0)
NOT_SET: contextvars.ContextVar[float] = contextvars.ContextVar("NOT_SET")
Kind = TypeVar("Kind")


class Pair(NamedTuple):
    first: int
    second: int


class Colour(enum.Enum):
    RED = 1


def test_objects_without_contents_and_those_that_change_unseen() -> None:
    for fixed in (object(), datetime.date(2020, 1, 1), range(3), logging.getLogger("a"), int, len.__class__):
        assert contents_of(fixed) is None
    with open(os.devnull) as file:
        for unseen in (HELD, file):
            with pytest.raises(TypeError, match="another answer each time"):
                contents_of(unseen)
    with pytest.raises(TypeError, match="HASH, which changes unseen"):
        contents_of(hashlib.sha256())


def test_what_belongs_to_classes_decides_nothing() -> None:
    class Abstract(ABC, Generic[Kind]):
        @abstractmethod
        def of(self) -> Kind: ...

    for kind in (Abstract, Pair, Colour):
        for value in vars(kind).values():
            if not isinstance(value, (*PLAIN, tuple, list, frozenset, Mapping)):
                contents_of(value)  # raises nothing


class OwnThread(threading.Thread):
    """Its attributes may change, unlike what a thread of Python's own is asked for."""

    scale = 1.0


@pytest.mark.parametrize("value", [object(), MISSING, re.compile("a"), pathlib.Path("a"), Colour.RED, Owner])
def test_what_does_not_change_within(value: object) -> None:
    assert is_fixed(value)


@pytest.mark.parametrize("value", [OwnThread(), Owner(1), [1], weakref.ref(Owner), SCALE_OF_THE_CONTEXT])
def test_what_may_change_within(value: object) -> None:
    assert not is_fixed(value)


def test_variables_of_contexts_and_weak_references_hold_what_they_give() -> None:
    owner = Owner(1)
    for value, given in ((weakref.ref(owner), owner), (SCALE_OF_THE_CONTEXT, 2.0), (NOT_SET, ABSENT)):
        read = contents_of(value)
        assert read is not None
        assert read() == [given]


class Unhelpful(dict[str, object]):
    """A dictionary whose entries can be written as attributes, and that knows no other error than its own."""

    def __getattr__(self, name: str) -> object:
        return self[name]


def test_objects_are_not_asked_for_attributes_that_they_may_not_have() -> None:
    assert iterator_named_by(Owner(Unhelpful(scale=1.0)), ["__call__"]) is None
    assert iterator_named_by(Owner(Unhelpful(held=iter([1]))), ["__call__"]) == "self.held"


def test_an_attribute_of_a_module_is_not_that_of_the_agent() -> None:
    class Logging(Owner):
        def elsewhere(self) -> object:
            return pathlib.Path.other  # type: ignore[attr-defined]

    assert iterator_named_by(Logging([1]), ["elsewhere"]) is None
    assert iterator_named_by(Owner([1]), ["elsewhere"]) == "self.other"
