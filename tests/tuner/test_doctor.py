"""`tuner doctor`: true to what is there, whatever of it is broken, and without secrets."""

import importlib
import json
import os
import subprocess
import sys
from collections.abc import Mapping
from importlib import metadata
from pathlib import Path

import pytest

from note_rl.support.programs import clear_caches
from tests.tuner.command_line import CommandLine
from tests.tuner.studies import journal, run_study
from tuner import doctor

ROOT = Path(__file__).parents[2]


@pytest.fixture(scope="session")
def distributions() -> Mapping[str, list[str]]:
    """Installed distributions, by the names that they are imported as; to find that out takes seconds."""
    return metadata.packages_distributions()


@pytest.fixture
def few(monkeypatch: pytest.MonkeyPatch, distributions: Mapping[str, list[str]]) -> None:
    """Only what imports quickly is tried."""
    monkeypatch.setattr(doctor, "_IMPORTS", ("numpy", "rich", "no_such_package"))
    monkeypatch.setattr(doctor.metadata, "packages_distributions", lambda: distributions)


@pytest.mark.usefixtures("few")
def test_versions_extras_and_what_there_is_to_run_on(tuner: CommandLine, monkeypatch: pytest.MonkeyPatch) -> None:
    caches = made_caches(tuner.folder, monkeypatch)
    answer = tuner("doctor", "executor.threads=3", "executor.parallel=7")
    assert answer.status == 0
    assert answer.errors == "each package is imported in a process of its own; that takes up to a minute\n"
    for line in (
        f"  numpy            {metadata.version('numpy')}",
        "  no_such_package  missing",
        "trials: 7 at a time (executor.parallel), 3 thread(s) each (executor.threads)",
        f"cores: {len(os.sched_getaffinity(0))} of {os.cpu_count()}",
        "storage: sqlite:///studies.db: nothing there yet",
    ):
        assert line in answer.output
    for section in ("tuner: ", "python: 3.", "memory: ", "disk:", "wandb: ", "devices:"):
        assert f"\n{section}" in f"\n{answer.output}"
    assert list(tuner.folder.iterdir()) == [caches], "it leaves nothing behind"
    assert (caches / "note-rl").exists()


@pytest.fixture
def no_storage(monkeypatch: pytest.MonkeyPatch) -> None:
    """Leaves out the look at the storage; to find out its state, a process imports Optuna."""
    monkeypatch.setattr(doctor, "_STORAGE", """print('{"state": "not looked at"}')""")


@pytest.mark.usefixtures("few", "no_storage")
def test_the_same_as_json_after_caches_are_cleared_and_nothing_else(
    tuner: CommandLine, monkeypatch: pytest.MonkeyPatch
) -> None:
    caches = made_caches(tuner.folder, monkeypatch)
    answer = tuner("doctor", "caches=clear", "json=true")
    assert answer.errors.startswith(f"1.5 MB of compiled training steps deleted: {caches / 'note-rl'}\n")
    assert list(caches.iterdir()) == [caches / "others"]
    report = json.loads(answer.output)
    assert report["packages"]["numpy"] == metadata.version("numpy")
    assert report["extras"]["base"] == "there"
    assert doctor.is_sound(report)


def made_caches(folder: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    caches = folder / "caches"
    (caches / "note-rl" / "torch" / "1").mkdir(parents=True)
    (caches / "note-rl" / "torch" / "1" / "step.so").write_bytes(bytes(1_500_000))
    (caches / "others").mkdir()
    monkeypatch.setenv("XDG_CACHE_HOME", str(caches))
    return caches


def test_a_cache_that_is_a_link_is_left_alone(tmp_path: Path) -> None:
    (tmp_path / "theirs").mkdir()
    (tmp_path / "theirs" / "file").write_text("x")
    (tmp_path / "note-rl").symlink_to(tmp_path / "theirs")
    assert clear_caches({"XDG_CACHE_HOME": str(tmp_path)}) == 0
    assert (tmp_path / "theirs" / "file").exists()


def test_what_is_no_choice_for_caches_is_refused(tuner: CommandLine) -> None:
    assert "caches=gone is not possible: it must be one of keep, clear" in tuner.refused("doctor", "caches=gone")


def test_a_missing_extra_is_named_with_what_to_type(monkeypatch: pytest.MonkeyPatch) -> None:
    fine, poor = "here>=1; extra == 'fine'", "gone[deep]>=2 ; extra == 'poor'"
    needs = {
        "note-rl": ["numpy>=1", fine, poor, "note-rl[fine]; extra == 'all'"],
        "gone": ["deeper; extra == 'deep'", "unasked; extra == 'other'"],
    }
    versions = {"note-rl": "1", "numpy": "2", "here": "3", "gone": "4"}
    monkeypatch.setattr(doctor.metadata, "requires", needs.get)
    monkeypatch.setattr(doctor, "_version", lambda name: versions.get(name, ""))
    assert dict(doctor._extras()) == {
        "base": "there",
        "fine": "there",
        "poor": "missing deeper",
        "to add": "pip install 'note-rl[poor]'",
    }


def test_what_is_there_under_another_name_or_not_for_this_python_is_not_missing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    needs = {
        "note-rl": ["gym[box2d]; extra == 'box2d'"],
        "gym": [
            "box2d==2.3.10; python_version < '9.9' and extra == 'box2d'",
            'swig==4.*; python_version >= "9.9" and extra == "box2d"',
            "pygame-ce>=2; extra == 'box2d'",
        ],
    }
    monkeypatch.setattr(doctor.metadata, "requires", needs.get)
    monkeypatch.setattr(doctor, "_version", lambda name: {"note-rl": "1", "gym": "1"}.get(name, ""))
    (tmp_path / "Box2D").mkdir()
    (tmp_path / "Box2D" / "__init__.py").touch()
    (tmp_path / "pygame").mkdir()  # a folder, and no package
    monkeypatch.setattr(sys, "path", [str(tmp_path)])
    monkeypatch.delitem(sys.modules, "pygame", raising=False)  # of another test in this process
    assert dict(doctor._extras())["box2d"] == "missing pygame-ce"
    (tmp_path / "pygame" / "__init__.py").touch()
    importlib.invalidate_caches()
    assert dict(doctor._extras())["box2d"] == "there"


BROKEN = {
    "raises": "raise ImportError('libcudart.so.12: cannot open shared object file')",
    "crashes": "import os; os.abort()",
    "hangs": "import time; time.sleep(600)",
    "talks": "print('hello from an import')",
}


@pytest.mark.usefixtures("few", "no_storage")
def test_what_is_broken_is_a_line_and_no_error(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for name, source in BROKEN.items():
        (tmp_path / f"{name}.py").write_text(source)
    monkeypatch.syspath_prepend(str(tmp_path))
    monkeypatch.setattr(doctor, "_IMPORTS", tuple(BROKEN))
    report = doctor.examine("memory", timeout_s=5.0)
    assert report["packages"] == {
        "raises": "version unknown, broken: ImportError: libcudart.so.12: cannot open shared object file",
        "crashes": "version unknown, broken: its process ended with status -6",
        "hangs": "version unknown, slow: no answer within 5 s; this machine may be busy (timeout_s gives it longer)",
        "talks": "version unknown",
    }
    assert not doctor.is_sound(report)
    for name in ("raises", "crashes"):
        del report["packages"][name]
    assert doctor.is_sound(report), "slow is not broken"


@pytest.mark.usefixtures("few")
def test_a_storage_is_opened_and_a_damaged_one_is_said(tmp_path: Path) -> None:
    run_study(tmp_path, num_trials=1, num_candidates=1)
    assert doctor.storage_state(journal(tmp_path)).endswith("studies.journal: opens, 1 studies")
    (tmp_path / "bad.db").write_text("no database at all")
    report = doctor.examine(f"sqlite:///{tmp_path}/bad.db")
    assert report["storage"].startswith("broken: the storage file")
    assert not doctor.is_sound(report)


@pytest.mark.usefixtures("few")
def test_no_secret_and_no_home_is_shown(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in doctor._VARIABLES:
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.setenv("WANDB_API_KEY", "k3y" * 13)
    monkeypatch.setenv("WANDB_MODE", "offline")
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", f"{tmp_path}/x")
    report = doctor.examine("postgresql+psycopg://me:hunter2@127.0.0.1:1/x", timeout_s=60.0)
    text = doctor.as_text(report)
    assert "hunter2" not in text
    assert "k3y" not in text
    assert str(tmp_path) not in text
    assert report["variables"] == {"CUDA_VISIBLE_DEVICES": "~/x", "WANDB_MODE": "offline"}
    assert report["storage"].startswith("broken: storage.url=postgresql+psycopg://me:***@127.0.0.1:1/x does not answer")
    assert report["wandb"].startswith("logged in")


def test_it_runs_where_hydra_is_broken_and_imports_no_framework(tmp_path: Path) -> None:
    (tmp_path / "hydra.py").write_text("raise ImportError('half an upgrade')")
    program = (
        "import sys; sys.path.insert(0, sys.argv[1]); from tuner import doctor;"
        "doctor._IMPORTS = ('hydra',); print(doctor.as_text(doctor.examine('memory')));"
        "print('in here:', sorted({'torch', 'tensorflow', 'keras', 'optuna', 'hydra', 'numpy'} & set(sys.modules)))"
    )
    environment = {**os.environ, "PYTHONPATH": str(ROOT)}
    done = subprocess.run(
        [sys.executable, "-c", program, str(tmp_path)], env=environment, capture_output=True, text=True, timeout=300
    )
    assert "broken: ImportError: half an upgrade" in done.stdout, done.stderr
    assert "in here: []" in done.stdout
