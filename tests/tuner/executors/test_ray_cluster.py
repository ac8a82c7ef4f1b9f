"""Two machines, simulated: whole studies over Ray, with machines and processes killed. `pytest -m cluster`."""

import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import psutil
import pytest

from tests.tuner.studies import CONFIG, run_study, sqlite
from tuner.executors.base import TrialEnded, TrialReported
from tuner.executors.local import LocalExecutor
from tuner.executors.ray.executor import RayExecutor
from tuner.trial import Limits, Outcome, TrialSpec

pytestmark = [pytest.mark.cluster, pytest.mark.filterwarnings("ignore")]

ROOT = Path(__file__).parents[3]


@pytest.fixture(autouse=True)
def _nothing_left_behind() -> None:
    """Ray keeps descriptors and processes of its own until it is shut down."""


@pytest.fixture(scope="module")
def cluster() -> Iterator[Any]:
    """A head that runs no trials, and two machines of one processor each."""
    with pytest.MonkeyPatch.context() as patch:
        patch.syspath_prepend(str(Path(__file__).parent))
        patch.setenv("RAY_ACCEL_ENV_VAR_OVERRIDE_ON_ZERO", "0")
        patch.setenv("RAY_USAGE_STATS_ENABLED", "0")
        patch.setenv("PYTHONPATH", os.pathsep.join([str(Path(__file__).parent), str(ROOT)]))
        from ray.cluster_utils import Cluster

        cluster = Cluster(initialize_head=True, head_node_args={"num_cpus": 0, "include_dashboard": False})
        for _ in range(2):
            cluster.add_node(num_cpus=1)
        yield cluster
        cluster.shutdown()


@pytest.fixture(params=["pull", "shared"])
def executor(cluster: Any, request: pytest.FixtureRequest) -> Iterator[RayExecutor]:
    limits = Limits(silence_s=2.0, grace_s=1.0)
    with RayExecutor(2, address=cluster.address, limits=limits, files=request.param) as executor:
        yield executor


def run(executor: RayExecutor, folder: Path, entry: str, verdict: str = "continue", **config: object) -> Any:
    spec = TrialSpec("study", "screen", 0, 11, config, entry=f"trial_entries:{entry}")
    executor.start(spec, folder)
    while True:
        for event in executor.wait(60.0):
            if isinstance(event, TrialReported):
                executor.answer(event.key, verdict)  # type: ignore[arg-type]
            if isinstance(event, TrialEnded):
                return event.result


def test_ends_are_what_they_are_on_this_machine(tmp_path: Path, executor: RayExecutor) -> None:
    ends = [
        run(executor, tmp_path / str(number), entry, verdict, learning_rate=0.1, end="exit").outcome
        for number, (entry, verdict) in enumerate(
            [
                ("complete", "continue"),
                ("complete", "prune"),
                ("complete", "stop"),
                ("raise_error", ""),
                ("raise_diverged", ""),
                ("kill_itself", ""),
                ("hang", ""),
            ]
        )
    ]
    assert ends == [
        Outcome.COMPLETE,
        Outcome.PRUNED,
        Outcome.STOPPED,
        Outcome.CRASHED,
        Outcome.DIVERGED,
        Outcome.CRASHED,
        Outcome.HUNG,
    ]


def told(summary: Any) -> list[Any]:
    return [(run.stage, run.number, run.seed, run.params, run.outcome, run.value, run.curve) for run in summary.runs]


SLOW = {**CONFIG, "sleep_s": 0.05}


@pytest.fixture(scope="module")
def undisturbed(tmp_path_factory: pytest.TempPathFactory) -> list[Any]:
    """What a study comes to on this machine."""
    folder = tmp_path_factory.mktemp("local")
    with LocalExecutor(1) as executor:
        return told(run_study(folder, executor, url=sqlite(folder), config=SLOW, num_trials=6))


@pytest.mark.parametrize("kind", ["pull", "shared"])
def test_a_study_over_two_machines_equals_the_local_one(
    tmp_path: Path, cluster: Any, undisturbed: list[Any], kind: Any
) -> None:
    with RayExecutor(1, address=cluster.address, files=kind) as executor:
        summary = run_study(tmp_path, executor, url=sqlite(tmp_path), config=SLOW, num_trials=6)
    assert told(summary) == undisturbed


def test_machines_and_actors_that_die_cost_nothing_but_time(
    tmp_path: Path, cluster: Any, undisturbed: list[Any]
) -> None:
    over = threading.Event()
    done = []

    def disturb() -> None:
        while not over.wait(4.0):
            if len(done) % 2:
                node = cluster.add_node(num_cpus=1)
                cluster.remove_node(cluster.list_all_nodes()[1], allow_graceful=False)
                done.append(node)
            else:
                seats = [process for process in psutil.process_iter() if "ray::Seat" in " ".join(_command(process))]
                for process in seats[:1]:
                    process.kill()
                    done.append(process)

    with RayExecutor(1, address=cluster.address, lost_after_s=5.0) as executor:
        disturber = threading.Thread(target=disturb)
        disturber.start()
        try:
            summary = run_study(tmp_path, executor, url=sqlite(tmp_path), config=SLOW, num_trials=6, retries=0)
        finally:
            over.set()
            disturber.join()
    assert len(done) >= 2
    assert told(summary) == undisturbed


def test_nothing_outlives_a_controller_that_is_killed(tmp_path: Path, cluster: Any) -> None:
    program = (
        "import sys; from pathlib import Path\n"
        "from tests.tuner.studies import CONFIG, run_study, sqlite\n"
        "from tuner.executors.ray.executor import RayExecutor\n"
        "folder = Path(sys.argv[1])\n"
        "with RayExecutor(2, address=sys.argv[2]) as executor:\n"
        "    run_study(folder, executor, url=sqlite(folder), config={**CONFIG, 'sleep_s': 0.5}, num_trials=6)\n"
    )
    command = [sys.executable, "-c", program, str(tmp_path), cluster.address]
    controller = subprocess.Popen(command, cwd=ROOT, env={**os.environ, "PYTHONPATH": str(ROOT)})
    while len(list(tmp_path.glob("studies/study/screen/*/reports.jsonl"))) < 2:
        assert controller.poll() is None
        time.sleep(0.1)
    controller.send_signal(signal.SIGKILL)
    controller.wait()
    deadline = time.monotonic() + 30.0
    while _ours() and time.monotonic() < deadline:
        time.sleep(0.1)
    assert _ours() == []


def _command(process: psutil.Process) -> list[str]:
    try:
        return list(process.cmdline())
    except psutil.Error:
        return []


def _ours() -> list[list[str]]:
    """Seats, fork servers and trials."""
    commands = [_command(process) for process in psutil.process_iter()]
    return [command for command in commands if any("ray::Seat" in part or "tuner.trial" in part for part in command)]
