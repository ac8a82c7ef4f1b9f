"""Trials as jobs: submitit's local ones, which are processes of this machine."""

import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import psutil
import pytest

from tests.tuner.executors import fake_slurm
from tests.tuner.studies import ROOT
from tuner.errors import UserError
from tuner.executors.base import Executor, TrialEnded, TrialReported
from tuner.executors.submitit.submitit_executor import SubmititExecutor
from tuner.testing import ExecutorContract
from tuner.testing.trial_programs import __name__ as PROGRAMS
from tuner.trial import Limits, Outcome, TrialSpec

PATIENCE_S = 120.0


@pytest.fixture(autouse=True)
def _nothing_left_behind() -> None:
    """The executor of a class of tests is there until the last one of them."""


@pytest.fixture
def place(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """Where submitit writes; nothing is left there, nor any job."""
    place = tmp_path_factory.mktemp("jobs")
    yield place / ".submitit"
    assert list(place.iterdir()) == []
    assert jobs(place) == []


def jobs(place: Path) -> list[psutil.Process]:
    """Processes of the seats that were submitted in a folder."""
    commands = {one: " ".join(command_of(one)) for one in psutil.process_iter()}
    return [one for one, command in commands.items() if f"submitit.core._submit {place}" in command]


def command_of(process: psutil.Process) -> list[str]:
    try:
        return process.cmdline()
    except psutil.Error:
        return []


def start(executor: Executor, folder: Path, program: str = "work_on") -> None:
    """Until its first report."""
    executor.start(TrialSpec("study", "screen", 0, 11, {}, entry=f"{PROGRAMS}:{program}"), folder)
    while not any(isinstance(event, TrialReported) for event in executor.wait(PATIENCE_S)):
        pass


@pytest.mark.slow  # the tests below need one job each; this is for who changes the channel
class TestContract(ExecutorContract):
    def make(self, parallel: int, limits: Limits) -> Executor:
        return SubmititExecutor(parallel, limits=limits, cluster="local", folder=self.folder)

    @pytest.fixture(autouse=True, scope="class")
    @classmethod
    def in_a_folder(cls, tmp_path_factory: pytest.TempPathFactory) -> None:
        cls.folder = str(tmp_path_factory.mktemp("jobs") / ".submitit")


def test_a_trial_whose_job_is_killed_goes_on_in_another_one(place: Path, tmp_path: Path) -> None:
    with SubmititExecutor(1, cluster="local", folder=str(place)) as executor:
        start(executor, tmp_path, "go_on")
        (job,) = jobs(place)
        job.kill()
        executor.answer("screen/0", "continue")
        (ended,) = executor.wait(PATIENCE_S)
        assert isinstance(ended, TrialEnded)
        assert ended.result.outcome is Outcome.LOST
        assert "its job has ended" in ended.result.reason
        start(executor, tmp_path, "go_on")
        assert (tmp_path / "note.json").read_text() == "[[0.5, 100.0]]", "what had come is known to the next job"


def test_nothing_outlives_a_controller_that_is_killed(tmp_path: Path) -> None:
    program = (
        "import sys; from pathlib import Path\n"
        "from tests.tuner.executors.test_submitit import SubmititExecutor, start\n"
        "executor = SubmititExecutor(1, cluster='local', folder=sys.argv[1])\n"
        "start(executor, Path(sys.argv[1], 'trial'))\n"
        "executor.answer('screen/0', 'continue'); print('works', flush=True)\n"
        "while True: executor.wait()\n"
    )
    environment = {**os.environ, "PYTHONPATH": str(ROOT)}
    command = [sys.executable, "-c", program, str(tmp_path)]
    with subprocess.Popen(command, env=environment, stdout=subprocess.PIPE, text=True) as controller:
        assert controller.stdout is not None
        assert controller.stdout.readline() == "works\n"
        (job,) = jobs(tmp_path)
        started = [job, *job.children(recursive=True)]
        assert len(started) >= 3, "the fork server and the trial"
        controller.send_signal(signal.SIGKILL)
    assert psutil.wait_procs(started, timeout=PATIENCE_S)[1] == []


def test_a_job_that_slurm_preempts_and_starts_again_is_not_listened_to(
    place: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its trial goes on in a new job, and the second life of the old one ends; that there is one seat stays true."""
    programs = fake_slurm.install(tmp_path / "slurm")
    queue = tmp_path / "slurm" / "jobs"
    monkeypatch.setenv("PATH", f"{programs}{os.pathsep}{os.environ['PATH']}")
    monkeypatch.setenv("FAKE_SLURM", str(queue))
    folder = tmp_path / "trial"
    with SubmititExecutor(1, folder=str(place), address="127.0.0.1", slurm={"partition": "spot"}) as executor:
        start(executor, folder, "go_on")
        assert "#SBATCH --partition=spot" in (queue / "1" / "script").read_text()
        fake_slurm.end_job(queue, "1")
        again = fake_slurm.run_job(queue, "1")
        executor.answer("screen/0", "continue")
        (ended,) = executor.wait(PATIENCE_S)
        assert isinstance(ended, TrialEnded)
        assert ended.result.outcome is Outcome.LOST
        start(executor, folder, "go_on")
        assert (folder / "note.json").read_text() == "[[0.5, 100.0]]"
        assert again.wait(PATIENCE_S) in (0, -signal.SIGTERM), "by itself, or since it was cancelled meanwhile"
        (job,) = jobs(place.parent)
        assert job.environ()["SLURM_JOB_ID"] == "2"


def test_jobs_that_cannot_begin_end_the_study(place: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("tuner.executors.submitit.job_cluster._LOOK_S", 0.1)
    monkeypatch.setattr("tuner.executors.submitit.job_cluster._MOST_STILLBORN", 1)
    monkeypatch.setattr("tuner.executors.submitit.job_cluster.serve", no_seat)
    executor = SubmititExecutor(1, cluster="local", folder=str(place))
    executor.start(TrialSpec("study", "screen", 0, 11, {}), tmp_path)
    with pytest.raises(UserError, match=r"1 jobs in a row .*: .*the disk is full.\nTheir output is in"):
        executor.wait(PATIENCE_S)
    executor.close()
    (kept,) = place.iterdir()
    assert "the disk is full" in next(kept.glob("*.err")).read_text()
    with SubmititExecutor(1, cluster="local", folder=str(place)):
        assert not kept.exists(), "what others have left is removed"


def no_seat(*arguments: Any) -> None:
    raise OSError("the disk is full")


@pytest.mark.parametrize(
    ("settings", "complaint"),
    [
        ({"gpus": 0.5}, "executor.gpus must be a whole number, at least 0, not 0.5"),
        ({"timeout_min": 0}, "executor.timeout_min must be a whole number, at least 1, not 0"),
        ({"memory_gb": 0}, "executor.memory_gb must be greater than 0, or null, not 0"),
        ({"cluster": "debug"}, "executor.cluster must be auto, slurm, local, not 'debug'"),
        ({"slurm": {"partitoin": "gpu"}, "cluster": "local"}, "Unknown argument 'partitoin'"),
        ({"cluster": "slurm"}, "executor.cluster=slurm cannot be used"),
    ],
)
def test_bad_settings_are_refused(settings: dict[str, Any], complaint: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", "")  # there is no Slurm
    with pytest.raises(UserError) as refused:
        SubmititExecutor.check(**settings)
    assert complaint in str(refused.value)


def test_a_folder_that_cannot_be_used_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "file").touch()
    (tmp_path / "closed").mkdir()
    folder = tmp_path / "file" / "jobs"
    for refused in (SubmititExecutor.check, SubmititExecutor):
        with pytest.raises(UserError, match=rf"executor\.folder={folder} cannot be used: {tmp_path}/file is a file"):
            refused(cluster="local", folder=str(folder))
    monkeypatch.setattr("os.access", lambda place, mode: place != tmp_path / "closed")
    with pytest.raises(UserError, match=rf"you may not write in {tmp_path}/closed"):
        SubmititExecutor.check(cluster="local", folder=str(tmp_path / "closed" / "jobs"))
    full = OSError(28, "No space left on device")
    monkeypatch.setattr("tuner.executors.submitit.job_cluster.own_folder", lambda *_: raise_it(full))
    with pytest.raises(UserError, match="cannot be used: No space left on device"):
        SubmititExecutor(cluster="local", folder=str(tmp_path / "jobs"))


def raise_it(error: Exception) -> None:
    raise error


def test_without_submitit_the_extra_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("tuner.executors.submitit.job_cluster.find_spec", lambda name: None)
    with pytest.raises(UserError, match=r"pip install 'note-rl\[submitit\]'"):
        SubmititExecutor.check()
