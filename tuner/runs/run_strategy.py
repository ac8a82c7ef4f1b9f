"""Distribution of a run's gradient steps: over devices, or over processes that are started here or elsewhere."""

import json
import os
import select
import socket
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, nullcontext, suppress
from dataclasses import asdict, dataclass, replace
from itertools import islice
from typing import Any

from note_rl.errors import PeerError, SettingsError
from note_rl.settings import Distributed
from note_rl.settings.distributed import ClusterTask
from tuner.config.composition import RunConfig
from tuner.errors import UserError
from tuner.runs.build import Sharing, build_distributed, import_framework
from tuner.trial.messages import JsonDict

_TORCHRUN = ("RANK", "WORLD_SIZE", "MASTER_ADDR", "MASTER_PORT")
_COMPANION = (
    "import json, sys; sys.path[:] = json.loads(sys.argv[1]); from tuner.runs.subprocess_ranks import main; main()"
)
_PATIENCE_S = 10.0  # until a process that does not end is killed
_PORTS = range(15_000, 31_000)  # below those that systems give on request
_LOOK_S = 0.2  # between two looks whether the run is to end
_LONGEST_START_S = 300.0  # TensorFlow is imported in some 5 s, over a busy network file system in a minute or two
FIRST_OF_ALL = ("multi_worker", "parameter_server")
"""Strategies that TensorFlow settles before it does anything else, or not."""


@dataclass(frozen=True)
class Role:
    """Which of the processes this one is, where all of them have been started by somebody else.

    Attributes:
        leads: Whether it keeps the run, and the others train along.
        name: For people.
        cluster: Addresses by kind, as tf.distribute has it; empty: torch.distributed knows them.
        size: How many share each minibatch.
        kind, index: Of this process in it.
    """

    leads: bool
    name: str
    cluster: Mapping[str, Sequence[str]]
    size: int
    kind: str = ""
    index: int = 0


def role_of(shared: Distributed | None) -> Role | None:
    """Returns the role of this process as torchrun, TF_CONFIG or `hosts` say it; None: others are started here.

    Raises:
        SettingsError: TF_CONFIG is none, or of another strategy; or what torchrun sets is no rank.
    """
    if shared is None or shared.strategy == "mirrored":
        return None
    if shared.strategy == "ddp":
        if all(name in os.environ for name in _TORCHRUN):
            return _ranked(*_told_by_torchrun())
        return None if shared.hosts is None else _ranked(shared.rank or 0, len(shared.hosts))
    task = ClusterTask.of_environment()
    if task is not None:
        kinds = {"worker"} if shared.strategy == "multi_worker" else {"chief", "ps", "worker"}
        if set(task.cluster) != kinds:
            raise SettingsError(
                f"strategy={shared.strategy}, but TF_CONFIG names processes of the kinds "
                f"{', '.join(sorted(task.cluster))}: they must be {', '.join(sorted(kinds))}"
            )
        if shared.strategy == "multi_worker" and len(task.cluster["worker"]) < 2:
            raise SettingsError(
                f"TF_CONFIG names one process, {task.cluster['worker'][0]}, and strategy=multi_worker needs two or "
                "more: name them all, or train with strategy=none"
            )
        return _task(task.cluster, task.kind, task.index)
    if shared.hosts is None:
        return None
    return _role(shared.cluster(shared.hosts), shared.rank or 0)


def size_of(shared: Distributed) -> int:
    """Returns how many share each minibatch, as torchrun or TF_CONFIG say it where they do."""
    role = role_of(shared)
    return shared.size if role is None else role.size


def check_trials(config: RunConfig, in_this_process: bool) -> None:
    """Refuses what trials cannot share their steps with.

    Args:
        config: Of a trial.
        in_this_process: Whether trials run in the controller's own, one after the other.

    Raises:
        UserError: With processes that somebody else has started, or where TensorFlow has done something already.
    """
    shared = build_distributed(config)
    if in_this_process and shared is not None and shared.strategy in FIRST_OF_ALL:
        raise UserError(
            f"strategy={shared.strategy} is settled before TensorFlow does anything, and with executor=inline all "
            "trials share one process: use executor=local"
        )
    if role_of(shared) is not None:
        where = (
            "strategy.hosts" if shared is not None and shared.hosts is not None else "TF_CONFIG, or what torchrun sets,"
        )
        raise UserError(
            f"{where} names processes that are started by hand, and those of a trial are started on its machine: leave "
            "it out, or train one run with tuner train"
        )


def _told_by_torchrun() -> tuple[int, int]:
    """The rank of this process, and of how many."""
    rank, size = os.environ["RANK"], os.environ["WORLD_SIZE"]
    if not (rank.isdecimal() and size.isdecimal() and int(rank) < int(size)):
        raise SettingsError(
            f"RANK={rank} and WORLD_SIZE={size}, which torchrun sets, must say which of how many processes this one "
            "is, counted from 0: start them all with torchrun, or unset both"
        )
    return int(rank), int(size)


def _ranked(rank: int, size: int) -> Role:
    return Role(rank == 0, f"rank {rank} of {size}", {}, size)


def _role(cluster: Mapping[str, Sequence[str]], rank: int) -> Role:
    """Returns the role of a rank among the processes of a cluster in their order."""
    tasks = [(kind, index) for kind, addresses in cluster.items() for index in range(len(addresses))]
    return _task(cluster, *tasks[rank])


def _task(cluster: Mapping[str, Sequence[str]], kind: str, index: int) -> Role:
    leads = index == 0 and kind == ("chief" if "chief" in cluster else "worker")
    size = 1 if "ps" in cluster else len(cluster["worker"])  # of parameter servers, each worker takes whole ones
    return Role(leads, f"{kind} {index}", cluster, size, kind, index)


def _goes_on() -> None:
    """Never ends a run."""


@contextmanager
def together(config: RunConfig, check: Callable[[], None] = _goes_on) -> Iterator[Sharing]:
    """The sharing of gradient steps for a run of this process; processes that it starts exist within the block.

    Args:
        config: Of the run.
        check: Called while others start, which may take minutes; raises where the run is to end before it began.

    Raises:
        note_rl.errors.SettingsError: There are fewer devices.
    """
    shared = build_distributed(config)
    if shared is None:
        yield Sharing({}, nullcontext)
    elif shared.strategy == "ddp":
        with _as_by_torchrun(shared):
            replicas = shared.replicas if role_of(shared) is None else None
            yield Sharing({"strategy": "ddp", "replicas": replicas}, nullcontext)
    else:
        import_framework(config.backend)
        check()
        with _strategy(shared, config, check) as strategy:
            yield Sharing({"strategy": strategy}, strategy.scope)


@contextmanager
def _as_by_torchrun(shared: Distributed) -> Iterator[None]:
    """Tells torch.distributed by its usual variables what `hosts` say, unless they are set already."""
    told: dict[str, str] = {}
    if shared.hosts is not None and not all(name in os.environ for name in _TORCHRUN):
        host, _, port = shared.hosts[0].rpartition(":")
        told = dict(zip(_TORCHRUN, (str(shared.rank), str(len(shared.hosts)), host, port), strict=True))
    os.environ.update(told)
    try:
        yield
    finally:
        for name in told:
            del os.environ[name]


@contextmanager
def _strategy(shared: Distributed, config: RunConfig, check: Callable[[], None]) -> Iterator[Any]:
    """The strategy of tf.distribute, with its processes."""
    from note_rl.distributed.keras.strategies import clustered, mirrored  # which imports TensorFlow

    if shared.strategy == "mirrored":
        yield mirrored(shared.replicas)
        return
    role = role_of(shared)
    if role is not None:
        yield clustered(role.cluster, role.kind, role.index, with_gpus=config.backend.device != "cpu")
        return
    if config.backend.device == "cuda":
        raise SettingsError(
            f"strategy={shared.strategy} starts its processes on CPUs of this machine: for GPUs use "
            "strategy=mirrored for those of one machine, or strategy.hosts with processes that see a GPU each"
        )
    others = shared.replicas - 1 if shared.strategy == "multi_worker" else shared.replicas + shared.parameter_servers
    cluster = shared.cluster(_free_addresses(1 + others))
    roles = [_role(cluster, rank) for rank in range(1 + others)]
    with _started([_orders(one, rank, shared, config) for rank, one in enumerate(roles) if rank]) as processes:
        _wait_until_ready(processes, check)
        yield clustered(cluster, roles[0].kind, roles[0].index, with_gpus=False)


def _orders(role: Role, rank: int, shared: Distributed, config: RunConfig) -> JsonDict:
    """Orders for a process that is started here; see `tuner.runs.subprocess_ranks`."""
    if shared.strategy == "parameter_server":
        return {"do": "serve", "cluster": role.cluster, "kind": role.kind, "index": role.index}
    addresses = [address for several in role.cluster.values() for address in several]
    strategy = {**config.strategy, "hosts": addresses, "rank": rank}
    return {"do": "follow", "config": asdict(replace(config, strategy=strategy))}


def _free_addresses(number: int) -> list[str]:
    """Addresses of this machine that are free now and, in all likelihood, when TensorFlow comes to listen there.

    It takes seconds until it does. So they are not those that the system gives on request, and each
    process looks where no other one begins to.
    """
    first = os.getpid() * number % len(_PORTS)
    free = (port for port in (*_PORTS[first:], *_PORTS[:first]) if _is_free(port))
    return [f"127.0.0.1:{port}" for port in islice(free, number)]


def _is_free(port: int) -> bool:
    with socket.socket() as one:
        one.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)  # what was used a moment ago is free
        try:
            one.bind(("127.0.0.1", port))
        except OSError:
            return False
        return True


def _wait_until_ready(processes: Sequence["subprocess.Popen[str]"], check: Callable[[], None] = _goes_on) -> None:
    """Waits until each has imported what it needs: TensorFlow itself would wait for ever for one that has ended.

    Where that comes to nothing they are killed: they hold nothing yet, and imports do not end when they are asked to.

    Raises:
        note_rl.errors.PeerError: One has ended before, or does not begin.
    """
    try:
        _hear_from_all(processes, check)
    except BaseException:
        for process in processes:
            process.kill()
        raise


def _hear_from_all(processes: Sequence["subprocess.Popen[str]"], check: Callable[[], None]) -> None:
    until = time.monotonic() + _LONGEST_START_S
    for rank, process in enumerate(processes, 1):
        assert process.stdout is not None
        while not select.select([process.stdout], [], [], _LOOK_S)[0]:
            check()
            if time.monotonic() > until:
                raise PeerError(f"rank {rank} has not begun within {_LONGEST_START_S:g} s: it hangs in its imports")
        if not process.stdout.readline():
            raise PeerError(f"rank {rank} has ended with exit code {process.wait()} before training began")


@contextmanager
def _started(orders: Sequence[JsonDict]) -> Iterator[list["subprocess.Popen[str]"]]:
    """Processes of this process group that follow orders; none is left afterwards."""
    paths = json.dumps([str(path) for path in sys.path])
    environment = {name: value for name, value in os.environ.items() if name != "TF_CONFIG"}
    environment["CUDA_VISIBLE_DEVICES"] = "-1"  # each would take all memory of all GPUs
    command = [sys.executable, "-c", _COMPANION, paths]
    processes = [
        subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, env=environment)
        for _ in orders
    ]
    try:
        for process, told in zip(processes, orders, strict=True):
            assert process.stdin is not None
            with suppress(BrokenPipeError):  # it has died, and is missed soon
                process.stdin.write(json.dumps(told) + "\n")
                process.stdin.flush()
        yield processes
    finally:
        for process in processes:
            assert process.stdin is not None
            with suppress(BrokenPipeError):
                process.stdin.close()  # upon which it ends
        until = time.monotonic() + _PATIENCE_S
        for process in processes:
            with suppress(subprocess.TimeoutExpired):
                process.wait(max(until - time.monotonic(), 0.0))
            process.kill()
            process.wait()
            assert process.stdout is not None
            process.stdout.close()
