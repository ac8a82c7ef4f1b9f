"""Ctrl-C before anything has begun: at once, in silence, with the status that shells give it."""

import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from tuner import __main__ as entry
from tuner.support import interrupts

ROOT = Path(__file__).parents[2]


@pytest.fixture
def signals_as_before() -> Iterator[None]:
    before = signal.getsignal(signal.SIGINT)
    yield
    signal.signal(signal.SIGINT, before)


@pytest.mark.parametrize("slow", ["hydra", "numpy", "rich"])
def test_ctrl_c_while_modules_are_imported(tmp_path: Path, slow: str) -> None:
    (tmp_path / "shadow" / slow).mkdir(parents=True)
    (tmp_path / "shadow" / slow / "__init__.py").write_text(
        "import sys, time\nprint('importing', flush=True)\ntry:\n    time.sleep(60)\n"
        "except BaseException as error:\n    raise ImportError('as C extensions have it') from error\n"
    )
    process = subprocess.Popen(
        [sys.executable, "-m", "tuner", "train"],
        cwd=tmp_path,
        env={**os.environ, "PYTHONPATH": f"{tmp_path / 'shadow'}{os.pathsep}{ROOT}"},
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    assert process.stdout is not None
    assert process.stdout.readline() == "importing\n"
    process.send_signal(signal.SIGINT)
    output, errors = process.communicate(timeout=60)
    assert (process.returncode, output, errors) == (130, "", "\nstopped\n")
    assert [path.name for path in tmp_path.iterdir()] == ["shadow"]


@pytest.mark.usefixtures("signals_as_before")
def test_work_is_interrupted_as_usual() -> None:
    signal.signal(signal.SIGINT, interrupts._leave)
    interrupts.begin_work()
    with pytest.raises(KeyboardInterrupt):
        signal.raise_signal(signal.SIGINT)


@pytest.mark.usefixtures("signals_as_before")
def test_an_import_is_not_broken_off_but_by_who_insists() -> None:
    signal.signal(signal.SIGINT, interrupts.interrupt)
    done: list[str] = []

    def work() -> None:
        with interrupts.unbroken():
            with interrupts.unbroken():
                signal.raise_signal(signal.SIGINT)
                done.append("inner")
            done.append("outer")

    with pytest.raises(KeyboardInterrupt):
        work()
    assert done == ["inner", "outer"]
    with interrupts.unbroken():
        signal.raise_signal(signal.SIGINT)
        with pytest.raises(KeyboardInterrupt):
            signal.raise_signal(signal.SIGINT)
    with pytest.raises(KeyboardInterrupt):  # nothing is left over
        signal.raise_signal(signal.SIGINT)


@pytest.mark.usefixtures("signals_as_before")
def test_who_ignores_ctrl_c_goes_on_ignoring_it(monkeypatch: pytest.MonkeyPatch) -> None:
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    monkeypatch.setattr(sys, "argv", ["tuner", "--version"])
    assert entry.main() == 0
    assert signal.getsignal(signal.SIGINT) is signal.SIG_IGN
    interrupts.begin_work()
    assert signal.getsignal(signal.SIGINT) is signal.SIG_IGN


@pytest.mark.usefixtures("signals_as_before")
def test_at_the_end_ctrl_c_leaves_at_once() -> None:
    program = "import signal, atexit; from tuner import __main__ as entry; import tuner.cli; "
    program += "tuner.cli.main = lambda: 0; atexit.register(signal.raise_signal, signal.SIGINT); exit(entry.main())"
    ended = subprocess.run([sys.executable, "-c", program], cwd=ROOT, capture_output=True, text=True)
    assert (ended.returncode, ended.stderr) == (130, "\nstopped\n")
