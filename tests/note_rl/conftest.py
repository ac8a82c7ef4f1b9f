"""Fixtures for tests of the training core."""

import importlib
from collections.abc import Callable
from typing import Any

import pytest


@pytest.fixture(scope="session", autouse=True)
def _imported() -> None:
    """A seed does not reach a framework that is imported later: what is tested first would begin with other weights."""
    for name in ("torch", "keras"):
        importlib.import_module(name)
    tensorflow = importlib.import_module("tensorflow")
    tensorflow.config.optimizer.set_experimental_options({"disable_meta_optimizer": True})  # of graphs that run once


@pytest.fixture(autouse=True)
def _without_xla(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    """Compiling takes a second or two per agent: "auto" compiles where a test is marked `xla`, and True always."""
    if request.node.get_closest_marker("xla"):
        return
    from note_rl.learners.keras.xla import Compilation

    plain = Compilation.__init__
    monkeypatch.setattr(Compilation, "__init__", lambda self, asked, *others: plain(self, asked is True, *others))


@pytest.fixture(autouse=True)
def _samples_looked_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """Seeing that samples stand apart takes Keras five untraced gradients: once for each built-in agent will do."""
    from note_rl.learners.keras.learner import KerasLearner

    plain = KerasLearner._check_samples_apart

    def check(self: KerasLearner, sample: Any) -> None:
        kind = type(self.agent)
        if kind in _LOOKED_AT:
            return
        plain(self, sample)
        if kind.__module__.startswith("note_rl.agents."):
            _LOOKED_AT.add(kind)

    monkeypatch.setattr(KerasLearner, "_check_samples_apart", check)


_LOOKED_AT: set[type] = set()


@pytest.fixture(autouse=True)
def _untraced(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    """Tracing an update takes as long as hundreds of its steps: Keras agents take theirs as they are written.

    Tests marked `traced` or `xla` trace them, as for users, and so do the rooms whose subject that is.
    """
    if not any(map(request.node.get_closest_marker, ("traced", "xla"))):
        take_untraced_steps(monkeypatch)


def take_untraced_steps(monkeypatch: pytest.MonkeyPatch) -> None:
    """Has Keras agents call their updates instead of tracing them."""
    from note_rl.learners.keras.update import CompiledUpdate

    def untraced(self: CompiledUpdate, function: Callable[..., Any], *like: Any) -> Callable[..., Any]:
        def update(*arguments: Any) -> Any:
            with self._modes.learning():
                return function(*arguments)

        return update

    monkeypatch.setattr(CompiledUpdate, "_trace", untraced)


@pytest.fixture
def eager_updates(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    """The same for tests in rooms where updates are traced, unless they are marked `xla`."""
    if not request.node.get_closest_marker("xla"):
        take_untraced_steps(monkeypatch)


@pytest.fixture(autouse=True)
def _traced_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """Functions with code of the tests' own are traced once, as built-in agents are.

    The second trace looks for what is read from outside, and listening to that takes longest.
    """
    from note_rl.learners.keras.trace_constants import Constants, Everything

    monkeypatch.setattr(Constants, "_runs_own_code", lambda self: False)
    monkeypatch.setattr(Everything, "has_own_code", property(lambda self: False))
