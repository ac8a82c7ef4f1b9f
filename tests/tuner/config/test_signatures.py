"""Signatures are read from the source, without an import."""

import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from tuner.config import sources
from tuner.config.signatures import Argument, class_constants, class_methods, class_named_in, signature_of
from tuner.config.sources import locate
from tuner.errors import UserError


@pytest.fixture
def package(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """A package that must never be imported."""
    folder = tmp_path / "heavy"
    folder.mkdir()
    (folder / "__init__.py").write_text("from heavy.nets import Net as Alias, make\nraise ImportError('imported')\n")
    monkeypatch.syspath_prepend(tmp_path)
    yield folder
    assert "heavy" not in sys.modules


def test_signatures_are_read_without_importing(package: Path) -> None:
    (package / "nets.py").write_text(
        "from dataclasses import dataclass, field\n"
        "class Base:\n    def __init__(self, width: int, *, depth: int | None = None, **rest): ...\n"
        "class Net(Base):\n    pass\n"
        "@dataclass\nclass Plain:\n    a: float\n    b: str = 'x'\n    c: int = field(init=False)\n"
        "@dataclass\nclass Derived(Plain):\n    d: bool = True\n"
        "def make(x, y=1): ...\n"
    )
    net = signature_of("heavy.Alias")
    assert net is not None
    assert net.is_open
    assert net.parameters == {"width": Argument("int", True), "depth": Argument("int | None", False)}
    derived = signature_of("heavy.nets.Derived")
    assert derived is not None
    assert list(derived.parameters) == ["a", "b", "d"]
    made = signature_of("heavy.make")
    assert made is not None
    assert made.parameters == {"x": Argument(None, True), "y": Argument(None, False)}


def test_signatures_in_folders_that_are_no_packages(package: Path) -> None:
    (package / "inner" / "deep").mkdir(parents=True)
    (package / "inner" / "deep" / "nets.py").write_text("class Net:\n    def __init__(self, width: int): ...\n")
    net = signature_of("heavy.inner.deep.nets.Net")
    assert net is not None
    assert net.parameters == {"width": Argument("int", True)}


def test_constants_of_classes_are_read_without_importing(package: Path) -> None:
    (package / "base.py").write_text(
        "class First:\n    a, b = 1, 2\n    c = d = ('x', 'y')\n    e: int = 5\n    f = 6\n    g: int\n    h = None\n"
        "class Second:\n    e = 7\n    i = -1.5\n"
    )
    (package / "nets.py").write_text(
        "from heavy import base as bases\nimport heavy.base as others\nimport elsewhere\n"
        "class Net(bases.First, others.Second, elsewhere.Third):\n    d = 'mine'\n    f = 2 * 3\n    def e(self): ...\n"
        "def make(): ...\n"
    )
    assert class_constants("heavy.Alias") == {"c": ("x", "y"), "d": "mine", "h": None, "i": -1.5}
    assert class_methods("heavy.Alias") == {"e"}
    assert class_constants("heavy.base.First") == {"c": ("x", "y"), "d": ("x", "y"), "e": 5, "f": 6, "h": None}
    assert class_constants("heavy.make") == class_constants("heavy.nothing") == {}


@pytest.mark.parametrize(
    ("target", "message"),
    [
        ("heavy.nets.Nett", "heavy.nets has no 'Nett'; did you mean Net"),
        ("heavy.net.Net", "no module named 'heavy.net'"),
        ("nowhere.Net", "no module named 'nowhere'"),
        ("heavy.nets", "is a module"),
    ],
)
def test_targets_that_do_not_exist(package: Path, target: str, message: str) -> None:
    (package / "nets.py").write_text("class Net: ...\n")
    with pytest.raises(UserError) as caught:
        signature_of(target)
    assert message in str(caught.value)


@pytest.mark.parametrize("target", ["gymnasium.wrappers.FrameStackObservation", "optuna.samplers.TPESampler"])
def test_signatures_of_installed_packages(target: str) -> None:
    signature = signature_of(target)
    assert signature is not None
    assert {"gymnasium": "stack_size", "optuna": "multivariate"}[target.partition(".")[0]] in signature.parameters


def test_another_name_of_a_class_has_its_signature(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.syspath_prepend(str(tmp_path))
    (tmp_path / "policies_of_a_test.py").write_text(
        "class Policy:\n    def __init__(self, size: int): ...\n\nShort = Policy\nItself = Itself\n"
    )
    (tmp_path / "algorithm_of_a_test.py").write_text(
        "from policies_of_a_test import Short\n"
        "class Base:\n    known: dict = {'short': Short}\n"
        "class Algorithm(Base): ...\n"
    )
    algorithm = "algorithm_of_a_test.Algorithm"
    named = class_named_in(algorithm, "known", "short")
    assert named == "algorithm_of_a_test.Short"
    found = signature_of(named)
    assert found is not None
    assert found.parameters == {"size": Argument("int", True)}
    assert signature_of("policies_of_a_test.Itself") is None
    assert class_named_in(algorithm, "known", "long") is None
    assert class_named_in(algorithm, "unknown", "short") is None


def test_what_this_project_defines_is_looked_for_once(monkeypatch: pytest.MonkeyPatch) -> None:
    ours, theirs = "note_rl.settings.ReplaySettings", "optuna.samplers.TPESampler"
    found = [locate(ours), locate(theirs)]
    looked_for, find = [], sources.find_deepest
    monkeypatch.setattr(sources, "find_deepest", lambda parts: looked_for.append(".".join(parts)) or find(parts))
    assert [locate(ours), locate(theirs)] == found
    assert (ours in looked_for, theirs in looked_for) == (False, True), "files of others may change"
