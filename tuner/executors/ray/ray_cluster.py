"""Seats as actors of Ray, and how a lost actor is recognised."""

import logging
import os
import signal
import tempfile
import time
from collections.abc import Mapping, Sequence
from importlib.util import find_spec
from pathlib import Path
from typing import Any, Final

from tuner.errors import UserError
from tuner.executors.remote.cluster import SeatLostError, SeatUnreachableError
from tuner.executors.remote.exchange import SeatSettings
from tuner.executors.remote.seat import Seat
from tuner.support.plain_text import plain
from tuner.trial.messages import JsonDict

_MAX_REASON = 200
_MOST_LINES = 6
_MOST_LINES_OF_A_LOG = 2
_LOGS: Final = ("gcs_server.err", "gcs_server.out", "raylet.err", "raylet.out")
_SHIPPED: Final = ("note_rl", "tuner")
_LEFT_AT_HOME: Final = (
    *("*.safetensors", "*.jsonl", "*.log", "*.parquet", "*.db", "*.db-*", "*.journal", "*.wandb", "*.mp4", "*.gif"),
    *(".git", ".venv", "venv", "__pycache__"),
)
"""Files that studies and runs write, as patterns of a .gitignore; names of folders would match in packages, too."""


class RayCluster:
    """A connection to Ray, and the seats made through it: what `Cluster` asks for.

    Args:
        address: "auto", "host:port", or None to start Ray on this machine alone.
        ship: Sends this project and the working directory to the machines.
        settings: Of a seat.
        resources: Reserved by a seat: "CPU", "GPU" and the cluster's own.

    Raises:
        UserError: Ray is not installed, or not reached.
    """

    def __init__(self, address: str | None, ship: bool, settings: SeatSettings, resources: Mapping[str, float]) -> None:
        self._settings = settings
        self._resources = dict(resources)
        self._is_ours = _connect(address, _luggage() if ship else {})

    def new_seat(self) -> Any:
        """Asks for a seat; it comes when there is room. The handle is Ray's of the actor."""
        import ray

        others = {name: value for name, value in self._resources.items() if name not in {"CPU", "GPU"}}
        actor = ray.remote(Seat).options(
            num_cpus=self._resources["CPU"],
            num_gpus=self._resources.get("GPU", 0.0),
            resources=others,
            max_restarts=0,
            scheduling_strategy="SPREAD",
            runtime_env={"env_vars": {"TF_FORCE_GPU_ALLOW_GROWTH": "true"}},
        )
        return actor.remote(self._settings)

    def ask(self, seat: Any, method: str, *arguments: Any) -> Any:
        """Has a method of the actor called; the question is Ray's reference to what it returns."""
        return getattr(seat, method).remote(*arguments)

    def kill(self, seat: Any) -> None:
        """Ends the actor's process, if it is within reach."""
        import ray

        ray.kill(seat, no_restart=True)

    def ready(self, asked: Sequence[Any], timeout_s: float) -> list[Any]:
        """See `Cluster.ready`."""
        import ray

        if not asked:
            time.sleep(timeout_s)
            return []
        if not ray.wait(list(asked), num_returns=1, timeout=timeout_s)[0]:
            return []
        answered: list[Any] = ray.wait(list(asked), num_returns=len(asked), timeout=0)[0]
        return answered

    def answer(self, asked: Any) -> Any:
        """See `Cluster.answer`."""
        import ray
        from ray import exceptions as told

        try:
            return ray.get(asked)
        except told.ActorUnavailableError as error:
            raise SeatUnreachableError(_first_sentence(error)) from error
        except (told.RayActorError, told.ObjectLostError) as error:  # the latter: it answered, and died with the answer
            raise SeatLostError(_first_sentence(error)) from error
        except (told.RuntimeEnvSetupError, told.ActorUnschedulableError) as error:
            why = _first_sentence(error.error_message)
            raise UserError(f"no machine of the cluster can take a seat as asked for: {why}") from error
        except told.LocalRayletDiedError as error:
            raise UserError(
                f"Ray on this machine has ended ({_first_sentence(error)}): start it again; the same command goes on"
            ) from error
        except told.RayTaskError as error:
            if isinstance(error.cause, UserError):
                raise UserError(str(error.cause)) from error
            raise

    def shortage(self, num_seats: int, of_free: bool) -> str:
        """See `Cluster.shortage`."""
        import ray

        free, whole = ray.available_resources(), ray.cluster_resources()
        return ", ".join(
            f"{value:g} {name} each ({free.get(name, 0.0):g} free of {whole.get(name, 0.0):g})"
            for name, value in self._resources.items()
            if whole.get(name, 0.0) < value * num_seats or (of_free and free.get(name, 0.0) < value)
        )

    def close(self) -> None:
        """Leaves the cluster; one that was started here ends."""
        import ray

        if self._is_ours:
            ray.shutdown()


def reserved(threads: int, gpus: float, resources: Mapping[str, float] | None) -> dict[str, float]:
    """Resources of the cluster that a seat reserves, by Ray's names."""
    return {"CPU": threads, "GPU": gpus, **(resources or {})}


def check_installed() -> None:
    """Refuses to go on without Ray.

    Raises:
        UserError: It is not installed.
    """
    if find_spec("ray") is None:
        raise UserError("executor=ray needs Ray, which is not installed: pip install 'note-rl[ray]'")


def count_room(address: str | None, resources: Mapping[str, float]) -> tuple[int, str]:
    """How many seats the machines of a cluster have room for when nobody else uses them, and what it is called.

    Args:
        address: As of `RayCluster`; of this machine alone nothing is started.
        resources: Reserved by a seat.
    """
    check_installed()
    if address is None:
        return int((os.cpu_count() or 1) // resources["CPU"]), "Ray on this machine alone"
    is_ours = _connect(address)
    import ray

    try:
        machines = [node["Resources"] for node in ray.nodes() if node["Alive"]]
    finally:
        if is_ours:
            ray.shutdown()
    wanted = {name: value for name, value in resources.items() if value}
    found = sum(int(min(machine.get(name, 0.0) // value for name, value in wanted.items())) for machine in machines)
    return found, f"{len(machines)} machine{'s' if len(machines) != 1 else ''} of the Ray cluster"


def _luggage() -> JsonDict:
    """Files that Ray sends to the machines: this project, and the working directory without output of studies."""
    root = Path(__file__).parents[3]
    return {
        "working_dir": str(Path.cwd()),
        "py_modules": [str(root / name) for name in _SHIPPED],
        "excludes": list(_LEFT_AT_HOME),
    }


def _connect(address: str | None, luggage: JsonDict | None = None) -> bool:
    """Whether the connection was made here, and was not there already."""
    check_installed()
    os.environ.setdefault("RAY_USAGE_STATS_ENABLED", "0")
    os.environ.setdefault("RAY_ACCEL_ENV_VAR_OVERRIDE_ON_ZERO", "0")  # the announced default: GPUs are not hidden
    os.environ.setdefault("RAY_DEDUP_LOGS_SKIP_REGEX", ".")  # its paragraphs on dead workers: the loss is reported here
    import ray

    if ray.is_initialized():
        if luggage:
            raise UserError(
                "executor.ship=true sends code along when Ray is connected to, and this program has connected to it "
                "already: call ray.init(runtime_env=...) yourself, or leave executor.ship out"
            )
        return False
    handler, began = signal.getsignal(signal.SIGTERM), time.time()
    try:
        ray.init(
            address=address,
            runtime_env=luggage or None,
            log_to_driver=False,
            logging_level=logging.ERROR,
            include_dashboard=None,
        )
    except Exception as error:  # Ray raises no narrower class where its processes do not come up
        if address is None:
            raise _not_started(error, began) from error
        if not isinstance(error, ConnectionError | ValueError | RuntimeError):
            raise
        raise UserError(
            f"no Ray cluster is reached at executor.address={address}: {_first_sentence(error)}.\n"
            "Start one with `ray start --head` here and `ray start --address=HOST:6379` on the other machines, or let "
            "executor.address=null start Ray on this machine alone."
        ) from error
    finally:
        signal.signal(signal.SIGTERM, handler)  # Ray sets one of its own, and a study has its own
    return True


def _not_started(error: Exception, began: float) -> UserError:
    """Why Ray did not start on this machine: what it says, and the last lines of the logs of this start.

    Args:
        error: Raised by Ray.
        began: When it was to start, by `time.time()`.
    """
    logs = Path(os.environ.get("RAY_TMPDIR") or tempfile.gettempdir()) / "ray" / "session_latest" / "logs"
    found = [line for name in _LOGS for line in _last_lines(logs / name, began)]
    said = found or [line.strip() for line in str(error).splitlines() if line.strip()][1:]
    listed = "".join(f"\n  {plain(line, _MAX_REASON)}" for line in said[-_MOST_LINES:])
    more = f"\nMore is in {logs}." if found else ""
    return UserError(
        f"Ray did not start on this machine (executor.address=null): {_first_sentence(error)}.{listed}{more}\n"
        "Without Ray, executor=local runs trials side by side on this machine."
    )


def _last_lines(log: Path, began: float) -> list[str]:
    """The last lines of a log, if it was written since."""
    try:
        if log.stat().st_mtime < began - 1.0:  # clocks of file systems are coarse
            return []
        lines = log.read_text(encoding="utf-8", errors="replace").splitlines()
    except OSError:
        return []
    return [line.strip() for line in lines if line.strip()][-_MOST_LINES_OF_A_LOG:]


def _first_sentence(error: BaseException | str) -> str:
    line = next((line.strip() for line in str(error).splitlines() if line.strip()), type(error).__name__)
    return line.partition(". ")[0].rstrip(".:")[:_MAX_REASON]
