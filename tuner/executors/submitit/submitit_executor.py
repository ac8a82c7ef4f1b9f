"""Jobs of Slurm: what is typed."""

import tempfile
from collections.abc import Mapping
from pathlib import Path
from typing import Any, get_args

from tuner.errors import UserError
from tuner.executors.local import Isolation
from tuner.executors.preload import Backend, Preload
from tuner.executors.remote.remote_executor import Files, RemoteExecutor
from tuner.executors.submitit.job_cluster import JobCluster, Kind, check_folder, check_installed, make_submitter
from tuner.trial.messages import Limits


class SubmititExecutor(RemoteExecutor):
    """Runs trials in jobs, each of which runs one trial after the other; see `RemoteExecutor`.

    Args:
        parallel: How many jobs, each for one trial at a time.
        backend: The framework that each job imports once, "none" for none; or a `Preload`.
        isolation: "forkserver", or "spawn" for a fresh interpreter per trial (seconds each).
        limits: Of a trial's resources, on its machine.
        threads: Processors that a job reserves, and threads of its trials.
        gpus: GPUs that a job reserves.
        memory_gb: Memory that a job reserves; None: what Slurm gives.
        timeout_min: Minutes after which a job ends; its trial goes on in a new one.
        slurm: Further settings of a job, in submitit's words without the prefix: {"partition": "gpu"}.
        cluster: "slurm", "local" for processes of this machine, or "auto" for Slurm where it is.
        folder: Where submitit writes while the study runs; every machine sees it at the same path.
        address: The name under which jobs reach this machine; None: its own full name.
        files: "pull", or "shared" where every machine has the study's folder at the same path.
        lost_after_s: How long a machine may be out of reach before its job counts as lost, in seconds.
        max_lost: How many jobs a run may lose before it is given up.
        max_transfer_mb: How much a trial's folder may change between two answers, in MB (1e6 bytes).

    Raises:
        UserError: submitit is not installed, Slurm is not there, its folder cannot be used, the machines have other
            versions of what results depend on, or a value is out of range.
    """

    def __init__(
        self,
        parallel: int = 1,
        backend: Backend | Preload | None = None,
        isolation: Isolation = "forkserver",
        limits: Limits | None = None,
        threads: int = 1,
        gpus: int = 0,
        memory_gb: float | None = None,
        timeout_min: int = 1440,
        slurm: Mapping[str, Any] | None = None,
        cluster: Kind = "auto",
        folder: str = ".submitit",
        address: str | None = None,
        files: Files = "pull",
        lost_after_s: float = 30.0,
        max_lost: int = 10,
        max_transfer_mb: float = 64.0,
    ) -> None:
        self.check(
            *(parallel, backend, isolation, limits, threads, gpus, memory_gb, timeout_min, slurm, cluster, folder),
            *(address, files, lost_after_s, max_lost, max_transfer_mb),
        )
        reserved = _reserved(threads, gpus, memory_gb, timeout_min, slurm)
        super().__init__(
            lambda settings: JobCluster(cluster, folder, address, reserved, lost_after_s, settings),
            *(parallel, backend, isolation, limits, threads, files, lost_after_s, max_lost, max_transfer_mb),
        )

    @staticmethod
    def check(
        parallel: int = 1,
        backend: Backend | Preload | None = None,
        isolation: Isolation = "forkserver",
        limits: Limits | None = None,
        threads: int = 1,
        gpus: int = 0,
        memory_gb: float | None = None,
        timeout_min: int = 1440,
        slurm: Mapping[str, Any] | None = None,
        cluster: Kind = "auto",
        folder: str = ".submitit",
        address: str | None = None,
        files: Files = "pull",
        lost_after_s: float = 30.0,
        max_lost: int = 10,
        max_transfer_mb: float = 64.0,
    ) -> None:
        """Refuses what the constructor refuses, and submits nothing.

        Raises:
            UserError: As the class says.
        """
        del address
        RemoteExecutor.check_remote(
            *(parallel, backend, isolation, limits, threads, files, lost_after_s, max_lost, max_transfer_mb)
        )
        for name, value, least in (("gpus", gpus, 0), ("timeout_min", timeout_min, 1)):
            if isinstance(value, bool) or not isinstance(value, int) or value < least:
                raise UserError(f"executor.{name} must be a whole number, at least {least}, not {value}")
        if memory_gb is not None and not memory_gb > 0:
            raise UserError(f"executor.memory_gb must be greater than 0, or null, not {memory_gb}")
        if cluster not in get_args(Kind):
            raise UserError(f"executor.cluster must be {', '.join(get_args(Kind))}, not {cluster!r}")
        check_folder(folder)
        check_installed()
        with tempfile.TemporaryDirectory() as nowhere:
            make_submitter(cluster, Path(nowhere), _reserved(threads, gpus, memory_gb, timeout_min, slurm))


def _reserved(
    threads: int, gpus: int, memory_gb: float | None, timeout_min: int, slurm: Mapping[str, Any] | None
) -> dict[str, Any]:
    """Resources that a job reserves, by submitit's names."""
    shared = {"cpus_per_task": threads, "gpus_per_node": gpus, "mem_gb": memory_gb, "timeout_min": timeout_min}
    return {**shared, "name": "tuner", **{f"slurm_{name}": value for name, value in (slurm or {}).items()}}
