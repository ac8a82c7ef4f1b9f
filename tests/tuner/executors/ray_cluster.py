"""A Ray cluster of several machines, simulated on this one, and a study over it whose machines die."""

import os
import signal
import uuid
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import psutil
import pytest

from tests.tuner.chaos import STUDY, Chaos

HERE = Path(__file__).parent
ROOT = HERE.parents[2]
KINDS = ("node", "actor", "trial", "controller")
MARK = "CLUSTER_OF_TESTS"
"""Environment variable that everything has which a cluster of this process has started."""


@contextmanager
def simulated_cluster(num_machines: int = 2, processors: int = 1) -> Iterator[Any]:
    """A head that runs no trials, and machines that claim to have `processors` processors each."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("RAY_ACCEL_ENV_VAR_OVERRIDE_ON_ZERO", "0")
        patch.setenv("RAY_USAGE_STATS_ENABLED", "0")
        patch.setenv("RAY_DEDUP_LOGS_SKIP_REGEX", ".")
        patch.setenv("PYTHONPATH", os.pathsep.join([str(HERE), str(ROOT)]))
        patch.setenv(MARK, uuid.uuid4().hex)
        patch.setenv("SPT_NOENV", "1")  # Ray's workers write their names over their arguments, not over the mark
        from ray.cluster_utils import Cluster

        cluster = Cluster()
        try:
            add_machine(cluster, 0, include_dashboard=False)
            for _ in range(num_machines):
                add_machine(cluster, processors)
            yield cluster
        finally:
            cluster.shutdown()


def add_machine(cluster: Any, processors: int = 1, **settings: Any) -> None:
    """Ray gives up on one that takes more than 30 s to start, as it may beside other work; it is tried again."""
    for attempt in range(3):
        try:
            cluster.add_node(num_cpus=processors, **settings)
            return
        except Exception as error:
            if attempt == 2 or "timed out during startup" not in str(error):
                raise


class ClusterChaos(Chaos):
    """A study over a simulated cluster; machines, seats, trials and the controller are killed.

    Args:
        cluster: Where it runs.
        folder: Where the command runs.
        arguments: Of `tuner tune`.
        seed: Of the disturbances.
        tell: Called with a line for each disturbance.
    """

    def __init__(
        self,
        cluster: Any,
        folder: Path,
        arguments: Sequence[str],
        seed: int = 0,
        tell: Callable[[str], None] = lambda line: None,
    ) -> None:
        away = ("executor=ray", f"executor.address={cluster.address}", "executor.lost_after_s=5")
        super().__init__(folder, (*away, *arguments), seed, tell)
        self._cluster = cluster

    def _may_end_so(self, status: int, last: str) -> bool:
        """Ray itself ends a program whose own machine is lost; all machines are this one here, so it may be any."""
        on_a_lost_machine = status == 1 and "raylet because it is dead" in self.output[-2000:]
        return on_a_lost_machine or super()._may_end_so(status, last)

    def _strike(self, process: "Any", kind: str) -> bool:
        if kind == "node":
            machines = list(self._cluster.worker_nodes)
            self._cluster.remove_node(self._dice.choice(machines), allow_graceful=False)
            add_machine(self._cluster)
            return True
        victims = {"actor": seats(), "trial": self._trials(), "controller": [psutil.Process(process.pid)]}[kind]
        if victims:
            victims[0].send_signal(signal.SIGKILL)
        return bool(victims)

    def _trials(self) -> list[psutil.Process]:
        begun = ((self.folder / "studies" / STUDY).glob(f"{stage}/*") for stage in ("screen", "evolve"))
        if not any(map(any, begun)):
            return []  # what runs is the probe
        found = [trial for seat in seats() for server in _children(seat) for trial in _children(server)]
        self._dice.shuffle(found)
        return found

    def _living(self) -> list[psutil.Process]:
        return [*super()._living(), *seats(), *self._trials()]


def seats() -> list[psutil.Process]:
    """The actors that hold executors."""
    return [process for process in living() if "ray::Seat" in " ".join(command_of(process))]


def living() -> list[psutil.Process]:
    """Processes that run because of the cluster: also trials, whose seat may be gone."""
    mark, found = os.environ[MARK], []
    for process in psutil.process_iter():
        try:
            if process.environ().get(MARK) == mark and process.status() != psutil.STATUS_ZOMBIE:
                found.append(process)
        except psutil.Error:
            continue
    return found


def command_of(process: psutil.Process) -> list[str]:
    """How it was started; empty for one that has ended."""
    try:
        return list(process.cmdline())
    except psutil.Error:
        return []


def _children(process: psutil.Process) -> list[psutil.Process]:
    try:
        return [child for child in process.children() if "tuner.trial.warden" not in command_of(child)]
    except psutil.Error:
        return []
