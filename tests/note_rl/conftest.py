"""What holds for tests of the training core."""

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


@pytest.fixture
def eager_updates(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    """For tests of what losses are: Keras agents take their few steps untraced, unless the test is marked `xla`."""
    if request.node.get_closest_marker("xla"):
        return
    from note_rl.learners.keras.update import CompiledUpdate

    def untraced(self: CompiledUpdate, function: Callable[..., Any], *like: Any) -> Callable[..., Any]:
        def update(*arguments: Any) -> Any:
            with self._modes.learning():
                return function(*arguments)

        return update

    monkeypatch.setattr(CompiledUpdate, "_trace", untraced)
