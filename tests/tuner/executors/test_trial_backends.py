"""Trials forked from a server that has imported a framework."""

import subprocess
import sys

import pytest

from tuner.executors.local import LocalExecutor
from tuner.trial import Outcome


@pytest.mark.parametrize(
    ("backend", "modules"),
    [("torch", ["torch"]), pytest.param("keras", ["tensorflow", "keras"], marks=pytest.mark.slow)],
)
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
