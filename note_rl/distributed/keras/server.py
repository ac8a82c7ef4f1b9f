"""Processes that are at the service of another one, the chief, which trains under a ParameterServerStrategy.

A parameter server holds variables, a worker takes gradient steps. Neither needs the agent: what they compute, the chief
sends them.
"""

import time
from collections.abc import Mapping, Sequence

import tensorflow as tf

from note_rl.distributed.channel import SILENCE_S
from note_rl.distributed.keras.signs_of_life import Sign, sign_of
from note_rl.errors import PeerError, SettingsError
from note_rl.settings.distributed import ClusterTask

Cluster = Mapping[str, Sequence[str]]
"""HOST:PORT of each task, by kind: one `chief`, several `ps` and `worker`."""
_STARTING_S = 600.0  # in which the chief must be there
_LOOK_S = 1.0


def serve() -> bool:
    """Serves the chief until it has ended, if TF_CONFIG names this process a parameter server or a worker.

    The same program can so be started everywhere: `if serve(): sys.exit()` comes before its strategy is made.

    Returns:
        Whether it has served; False: this process is the chief, or there is no TF_CONFIG.

    Raises:
        SettingsError: TF_CONFIG is no such cluster.
        PeerError: The chief was not there within ten minutes.
    """
    task = ClusterTask.of_environment()
    if task is None or task.kind not in ("ps", "worker") or "ps" not in task.cluster:
        return False
    serve_as(task.cluster, task.kind, task.index)
    return True


def serve_as(cluster: Cluster, kind: str, index: int) -> None:
    """Serves the chief of a cluster until it has ended; see `serve`.

    Args:
        cluster: All processes.
        kind: Of this one: "ps" or "worker".
        index: Of this one among those of its kind.
    """
    check_cluster(cluster)
    spec, threads = tf.train.ClusterSpec(dict(cluster)), tf.compat.v1.ConfigProto()
    threads.inter_op_parallelism_threads = len(cluster["worker"]) + 1  # or they wait for each other where cores are few
    server = tf.distribute.Server(spec, job_name=kind, task_index=index, protocol="grpc", config=threads)
    chief = cluster["chief"][0]
    _wait_for(chief)
    _wait_while_there(chief)
    del server


def check_cluster(cluster: Cluster) -> None:
    """Refuses clusters without one chief, parameter servers and workers (SettingsError)."""
    if len(cluster.get("chief", ())) != 1 or not cluster.get("ps") or not cluster.get("worker"):
        raise SettingsError(
            "a ParameterServerStrategy needs one chief, one ps or more and one worker or more in its cluster "
            f"(TF_CONFIG), got {dict(cluster)}"
        )


def _wait_for(chief: str) -> None:
    deadline = time.monotonic() + _STARTING_S
    while sign_of(chief) is not Sign.ANSWERS:
        if time.monotonic() > deadline:
            raise PeerError(f"the chief ({chief}) was not there within {_STARTING_S:.0f} s")
        time.sleep(_LOOK_S)


def _wait_while_there(chief: str) -> None:
    """Until the chief has ended, or has been silent for long: who hangs cannot be served."""
    heard = time.monotonic()
    while time.monotonic() - heard < SILENCE_S:
        time.sleep(_LOOK_S)
        sign = sign_of(chief)
        if sign is Sign.ANSWERS:
            heard = time.monotonic()
        elif sign is Sign.GONE:
            return
