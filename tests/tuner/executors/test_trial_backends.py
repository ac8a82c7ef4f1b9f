"""Trials forked from a server that has imported a framework."""

import subprocess
import sys
from dataclasses import replace

import pytest

from tuner.executors.local import LocalExecutor
from tuner.trial import Outcome

ASKS = """
import os, sys
from trial_entries import complete

def ask(context):
    assert sys.modules["made_before"].PID != os.getpid()
    return complete(context)
"""


def test_child_finds_what_the_server_has_imported(driver, tmp_path, monkeypatch):
    (tmp_path / "made_before.py").write_text("import os\nPID = os.getpid()\n")
    (tmp_path / "asks_for_it.py").write_text(ASKS)
    monkeypatch.syspath_prepend(str(tmp_path))
    monkeypatch.setattr("tuner.executors.preload._PRELOAD", {"torch": ("made_before",)})
    monkeypatch.setattr("tuner.executors.preload._PRELOAD_ALWAYS", ())
    with LocalExecutor(parallel=2, backend="torch") as executor:
        for number in (0, 1):
            spec = replace(driver.spec("complete", number), entry="asks_for_it:ask")
            executor.start(spec, driver.folder / str(number))
        results = driver.finish(executor)
    assert [result.outcome for result in results.values()] == [Outcome.COMPLETE] * 2, results


@pytest.mark.slow  # what is imported beforehand is found: the one above
@pytest.mark.parametrize(("backend", "modules"), [("torch", ["torch"]), ("keras", ["tensorflow", "keras"])])
def test_child_finds_the_framework_loaded_and_works_with_it(driver, backend, modules):
    with LocalExecutor(parallel=2, backend=backend) as executor:
        for number in (0, 1):
            driver.start(executor, "count_loaded", number=number)
        results = driver.finish(executor)
    assert [result.outcome for result in results.values()] == [Outcome.COMPLETE] * 2
    for number in (0, 1):
        note = driver.note(number)
        assert note["loaded"] == modules  # and neither the other framework nor optuna nor wandb
        assert note["late"] == []  # the first config and the first optimizer have been made
        assert note["num_threads"] == 1
        assert note["total"] == 1_000_000


def test_server_that_is_not_single_threaded_is_not_forked(driver, tmp_path, monkeypatch, caplog):
    (tmp_path / "starts_a_thread.py").write_text(
        "import threading, time\nthreading.Thread(target=time.sleep, args=(1000,), daemon=True).start()\n"
    )
    monkeypatch.syspath_prepend(str(tmp_path))
    monkeypatch.setattr("tuner.executors.preload._PRELOAD", {"torch": ("starts_a_thread",)})
    monkeypatch.setattr("tuner.executors.preload._PRELOAD_ALWAYS", ())
    with LocalExecutor(backend="torch") as executor:
        for number in (0, 1):
            assert driver.run(executor, "complete", number=number).outcome is Outcome.COMPLETE
        assert executor.server_pid is None
    assert "importing starts_a_thread has started threads" in caplog.text
    assert "fresh interpreter" in caplog.text


def test_importing_the_executor_loads_no_framework():
    loaded = (
        "import sys, tuner.executors.local; print([m for m in ('torch', 'tensorflow', 'optuna') if m in sys.modules])"
    )
    done = subprocess.run([sys.executable, "-c", loaded], capture_output=True, text=True, check=True, timeout=60)
    assert done.stdout.strip() == "[]"
