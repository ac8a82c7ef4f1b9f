"""The machines of a Ray cluster: what is typed, and how many seats there is room for."""

from collections.abc import Mapping
from typing import Any

from tuner.errors import UserError
from tuner.executors.base import Seats
from tuner.executors.local import Isolation
from tuner.executors.preload import Backend, Preload
from tuner.executors.ray.ray_cluster import RayCluster, check_installed, count_room, reserved
from tuner.executors.remote.remote_executor import Files, RemoteExecutor
from tuner.trial.messages import Limits


class RayExecutor(RemoteExecutor):
    """Runs trials on the machines of a Ray cluster, from one of which it is used; see `RemoteExecutor`.

    Args:
        parallel: How many seats, each for one trial at a time.
        backend: The framework that each seat imports once, "none" for none; or a `Preload`.
        isolation: "forkserver", or "spawn" for a fresh interpreter per trial (seconds each).
        limits: Of a trial's resources, on its machine.
        threads: Processors that a seat reserves, and threads of its trials.
        gpus: GPUs that a seat reserves, or a part of one.
        resources: Further resources of the cluster's own that a seat reserves, by name.
        address: Of the cluster: "auto" for the one this machine belongs to, "host:port", or None to start Ray on this
            machine alone.
        files: "pull", or "shared" where every machine has the study's folder at the same path.
        ship: Sends this project and the working directory to the machines, which need not have them installed.
        lost_after_s: How long a seat may be out of reach before it counts as lost, in seconds.
        max_lost: How many seats a run may lose before it is given up.
        max_transfer_mb: How much a trial's folder may change between two answers, in MB (1e6 bytes).

    Raises:
        UserError: Ray is not installed or not reached, the machines have other versions of what results depend on, or a
            value is out of range.
    """

    def __init__(
        self,
        parallel: int = 1,
        backend: Backend | Preload | None = None,
        isolation: Isolation = "forkserver",
        limits: Limits | None = None,
        threads: int = 1,
        gpus: float = 0.0,
        resources: Mapping[str, float] | None = None,
        address: str | None = "auto",
        files: Files = "pull",
        ship: bool = False,
        lost_after_s: float = 30.0,
        max_lost: int = 10,
        max_transfer_mb: float = 64.0,
    ) -> None:
        self.check(
            *(parallel, backend, isolation, limits, threads, gpus, resources, address, files, ship),
            *(lost_after_s, max_lost, max_transfer_mb),
        )
        taken = reserved(threads, gpus, resources)
        super().__init__(
            lambda settings: RayCluster(address, ship, settings, taken),
            *(parallel, backend, isolation, limits, threads, files, lost_after_s, max_lost, max_transfer_mb),
        )

    @staticmethod
    def check(
        parallel: int = 1,
        backend: Backend | Preload | None = None,
        isolation: Isolation = "forkserver",
        limits: Limits | None = None,
        threads: int = 1,
        gpus: float = 0.0,
        resources: Mapping[str, float] | None = None,
        address: str | None = "auto",
        files: Files = "pull",
        ship: bool = False,
        lost_after_s: float = 30.0,
        max_lost: int = 10,
        max_transfer_mb: float = 64.0,
    ) -> None:
        """Refuses what the constructor refuses, as far as that is known without the cluster.

        Raises:
            UserError: As the class says.
        """
        RemoteExecutor.check_remote(
            *(parallel, backend, isolation, limits, threads, files, lost_after_s, max_lost, max_transfer_mb)
        )
        if address is not None and not (address in {"auto", "local"} or ":" in address):
            raise UserError(f"executor.address must be auto, null or HOST:PORT, not {address!r}")
        if not isinstance(ship, bool):
            raise UserError(f"executor.ship must be true or false, not {ship!r}")
        if not gpus >= 0:
            raise UserError(f"executor.gpus must be at least 0, not {gpus}")
        wrong = {name: value for name, value in (resources or {}).items() if not value > 0 or name in {"CPU", "GPU"}}
        if wrong:
            raise UserError(
                f"executor.resources names amounts greater than 0 of the cluster's own resources, not {wrong}: "
                "processors are executor.threads, GPUs executor.gpus"
            )
        check_installed()

    @staticmethod
    def count_seats(
        parallel: int = 1,
        threads: int = 1,
        gpus: float = 0.0,
        resources: Mapping[str, float] | None = None,
        address: str | None = "auto",
        **_others: Any,
    ) -> Seats:
        """How many of the seats the cluster has room for, leaving out what others use of it; arguments as of the class.

        Raises:
            UserError: Ray is not installed, or not reached.
        """
        taken = reserved(threads, gpus, resources)
        found, where = count_room(address, taken)
        if found >= parallel:
            return Seats(parallel, f"{where}: room for {found}, of which {parallel} are used (executor.parallel)")
        if found:
            return Seats(found, f"{where}: room for {found} of the {parallel} of executor.parallel")
        wanted = ", ".join(f"{value:g} {name}" for name, value in taken.items() if value)
        return Seats(parallel, f"{where}: no machine has the {wanted} that one trial reserves; it would wait for one")
