"""Which GPU a trial sees. Needs none: what is dealt out is the variable that CUDA reads."""

import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from tuner.errors import UserError
from tuner.executors import gpus
from tuner.executors.base import TrialReported
from tuner.executors.gpus import choose_gpus, gpu_variables
from tuner.executors.local import LocalExecutor
from tuner.executors.preload import Preload

VISIBLE, GROWTH = "CUDA_VISIBLE_DEVICES", "TF_FORCE_GPU_ALLOW_GROWTH"


@pytest.fixture(autouse=True)
def _no_variables(monkeypatch):
    monkeypatch.delenv(VISIBLE, raising=False)
    monkeypatch.delenv(GROWTH, raising=False)


@pytest.fixture
def machine(tmp_path: Path, monkeypatch):
    """Calling it makes this machine one whose driver lists `num_listed` GPUs, `num_devices` of them with a device."""

    def build(num_listed: int, num_devices: int) -> None:
        listed = [tmp_path / "gpus" / f"0000:0{number}:00.0" for number in range(num_listed)]
        devices = [tmp_path / "dev" / f"nvidia{name}" for name in ("ctl", "-uvm", *range(num_devices))]
        for path in (*listed, *devices):
            path.mkdir(parents=True)
        monkeypatch.setattr(gpus, "_DRIVER", tmp_path / "gpus")
        monkeypatch.setattr(gpus, "_DEVICES", tmp_path / "dev")

    return build


def start(driver, executor, *numbers):
    """Start trials and wait until each of them waits for its verdict; return what they see."""
    keys = {f"screen/{number}" for number in numbers}
    for number in numbers:
        driver.start(executor, "show_gpu", number)
    while not keys <= {event.key for event in driver.events if isinstance(event, TrialReported)}:
        assert not driver.attend(executor, executor.wait(30), verdict="")
    return [driver.note(number)["gpu"] for number in numbers]


@pytest.mark.parametrize("isolation", ["forkserver", "spawn"])
def test_a_trial_sees_one_gpu_and_that_of_a_killed_one_is_free_again(driver, monkeypatch, isolation):
    monkeypatch.setenv(VISIBLE, "3,GPU-abc")
    with LocalExecutor(parallel=2, isolation=isolation) as executor:
        assert start(driver, executor, 0, 1) == [["3", "true"], ["GPU-abc", "true"]]
        os.kill(driver.note(0)["pid"], signal.SIGKILL)
        while executor.free_slots == 0:
            executor.wait(30)
        assert start(driver, executor, 2) == [["3", "true"]]
        executor.answer("screen/1", "continue")
        while executor.free_slots == 0:
            executor.wait(30)
        assert start(driver, executor, 3) == [["GPU-abc", "true"]]


def test_more_trials_than_gpus_share_them_evenly(driver, machine, monkeypatch):
    machine(num_listed=2, num_devices=2)
    monkeypatch.setenv(GROWTH, "false")
    with LocalExecutor(parallel=4) as executor:
        seen = start(driver, executor, 0, 1, 2, 3)
    assert seen == [["0", "false"], ["1", "false"], ["0", "false"], ["1", "false"]]  # growth as the user has it


def test_a_trial_may_be_given_several_which_others_use_least():
    running = [{VISIBLE: "0,1"}, {VISIBLE: "2"}, {VISIBLE: "0"}]
    assert gpu_variables(("0", "1", "2", "3"), running, 2)[VISIBLE] == "3,1"
    assert gpu_variables(("0", "1", "2", "3"), [], 3)[VISIBLE] == "0,1,2"


@pytest.mark.parametrize("per_trial", [0, 3])
def test_no_more_for_each_trial_than_there_are(monkeypatch, per_trial):
    monkeypatch.setenv(VISIBLE, "3,4")
    with pytest.raises(
        UserError, match=rf"executor.gpus_per_trial={per_trial} must be at least 1.*executor.gpus leaves 2"
    ):
        LocalExecutor.check(gpus_per_trial=per_trial)


def test_a_trial_that_could_not_be_started_holds_none(driver, tmp_path, monkeypatch):
    monkeypatch.setenv(VISIBLE, "0,1")
    (tmp_path / "file").touch()
    with LocalExecutor(parallel=2) as executor:
        with pytest.raises(UserError, match="cannot be written"):
            executor.start(driver.spec("show_gpu"), tmp_path / "file" / "trial")
        assert start(driver, executor, 0) == [["0", "true"]]


@pytest.mark.parametrize(
    ("controller", "choice", "seen"),
    [
        (None, "auto", [None, None]),  # no GPU: as if there were no such thing
        ("", "auto", ["", None]),
        ("-1", "auto", ["-1", None]),
        ("3,4", None, ["3,4", None]),  # left alone
        ("3,4", 0, ["", None]),
        ("3,4", [], ["", None]),
        ("3,4", 1, ["3", "true"]),
        ("3,4", [4], ["4", "true"]),
    ],
)
def test_what_a_trial_sees(driver, machine, monkeypatch, controller, choice, seen):
    machine(num_listed=0, num_devices=0)
    if controller is not None:
        monkeypatch.setenv(VISIBLE, controller)
    with LocalExecutor(gpus=choice) as executor:
        assert start(driver, executor, 0) == [seen]


@pytest.mark.parametrize(
    ("controller", "found"),
    [("2, 0", ("2", "0")), ("0,-1,1", ("0",)), ("1,1", ("1",)), ("MIG-a,GPU-b", ("MIG-a", "GPU-b")), ("", None)],
)
def test_the_controllers_own_variable_says_which_there_are(machine, monkeypatch, controller, found):
    machine(num_listed=8, num_devices=8)
    monkeypatch.setenv(VISIBLE, controller)
    assert choose_gpus("auto") == found


@pytest.mark.parametrize(
    ("num_listed", "num_devices", "found"),
    [(0, 0, None), (3, 3, ("0", "1", "2")), (8, 1, ("0",)), (2, 0, ("0", "1"))],  # 8 listed: a container with one
)
def test_without_it_the_driver_does(machine, num_listed, num_devices, found):
    machine(num_listed, num_devices)
    assert choose_gpus("auto") == found


MAY_SEE = "this process may see 5, 7 (set CUDA_VISIBLE_DEVICES for others)"


@pytest.mark.parametrize(
    ("choice", "message"),
    [
        (3, f"executor.gpus=3 must be a number of GPUs from 0 to 2: {MAY_SEE}"),
        (-1, f"executor.gpus=-1 must be a number of GPUs from 0 to 2: {MAY_SEE}"),
        ([5, 0], f"executor.gpus=[5,0] must not name GPU 0: {MAY_SEE}"),
        ([-1], f"executor.gpus=[-1] must not name GPU -1: {MAY_SEE}"),
        ([5, "5"], "executor.gpus=[5,5] must name GPU 5 once: it is shared where executor.parallel asks for that"),
        ("all", "executor.gpus=all must be auto, a number of GPUs, a list of them such as [0,1], or null"),
        (True, "executor.gpus=True must be auto"),
        (1.5, "executor.gpus=1.5 must be auto"),
    ],
)
def test_choices_that_are_refused(monkeypatch, choice, message):
    monkeypatch.setenv(VISIBLE, "5,7")
    with pytest.raises(UserError) as raised:
        LocalExecutor(gpus=choice)
    assert str(raised.value).startswith(message)


ASKS_FOR_NO_GPUS = """
import importlib, sys, torch

def refuse(*_):
    raise AssertionError("asked for the GPUs before the trial could be given one")

torch.cuda.is_available = torch.cuda.device_count = torch.cuda._lazy_init = refuse
for module in sys.argv[1:]:
    importlib.import_module(module)
"""


@pytest.mark.slow
def test_what_the_fork_server_imports_for_torch_asks_for_no_gpus():
    program = [sys.executable, "-c", ASKS_FOR_NO_GPUS, *Preload("torch").modules]
    done = subprocess.run(program, capture_output=True, text=True, timeout=120, check=False)
    assert (done.returncode, done.stderr) == (0, "")
