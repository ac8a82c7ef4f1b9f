"""Strategies of tf.distribute under which agents in Keras train: which they are, and what is made within them."""

import signal
import threading
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from typing import Any, Literal

import tensorflow as tf

from note_rl.errors import SettingsError
from note_rl.errors.wording import choice
from note_rl.settings.distributed import Distributed
from note_rl.support.setting_fields import named

_KINDS: dict[Literal["mirrored", "multi_worker", "parameter_server"], Any] = {
    "mirrored": tf.distribute.MirroredStrategy,
    "multi_worker": tf.distribute.MultiWorkerMirroredStrategy,
    "parameter_server": tf.distribute.ParameterServerStrategy,
}


_REPLICAS = named(Distributed, "replicas")


def mirrored(replicas: int) -> Any:
    """Makes a MirroredStrategy over a number of GPUs; where there are none, over as many parts of the CPU.

    Raises:
        SettingsError: This process sees fewer.
    """
    kind = "GPU" if tf.config.list_physical_devices("GPU") else "CPU"
    if kind == "CPU":
        with suppress(RuntimeError):  # TensorFlow has settled what there is
            whole = tf.config.list_physical_devices(kind)[0]
            tf.config.set_logical_device_configuration(whole, [tf.config.LogicalDeviceConfiguration()] * replicas)
    devices = [device.name for device in tf.config.list_logical_devices(kind)]
    if len(devices) < replicas:
        raise SettingsError(
            "strategy mirrored with {}, but TensorFlow has {} {} in this process: use {}, or a process in which it has "
            "done nothing yet",
            *(_REPLICAS.at(replicas), len(devices), kind, _REPLICAS.at(len(devices))),
        )
    exchange = tf.distribute.ReductionToOneDevice() if kind == "CPU" else None
    return tf.distribute.MirroredStrategy(devices[:replicas], cross_device_ops=exchange)


def clustered(cluster: Mapping[str, Sequence[str]], kind: str, index: int, with_gpus: bool) -> Any:
    """Makes the strategy of a cluster in the process that leads, or of one of the workers that mirror each other.

    Args:
        cluster: Addresses by kind; with parameter servers (`ps`), or `worker` alone.
        kind: Of this process.
        index: Of this process among those of its kind.
        with_gpus: Whether this process trains on its GPUs, if it sees any.

    Raises:
        SettingsError: TensorFlow has already worked in this process.
    """
    spec = tf.train.ClusterSpec(dict(cluster))
    resolver = tf.distribute.cluster_resolver.SimpleClusterResolver(
        spec,
        task_type=kind,
        task_id=index,
        num_accelerators={"GPU": len(tf.config.list_physical_devices("GPU")) if with_gpus else 0},
        rpc_layer="grpc",
    )
    with _heeding_sigterm():
        return tf.distribute.ParameterServerStrategy(resolver) if "ps" in cluster else _multi_worker(resolver)


def _multi_worker(resolver: Any) -> Any:
    try:
        return tf.distribute.MultiWorkerMirroredStrategy(resolver)
    except (RuntimeError, ValueError) as error:
        raise SettingsError(
            "strategy multi_worker needs a process in which TensorFlow has done nothing yet: {} ({})",
            *(choice("train in one of its own"), error),
        ) from error


@contextmanager
def _heeding_sigterm() -> Iterator[None]:
    """Has SIGTERM do afterwards what it did before: TensorFlow catches it when it joins a cluster, and does nothing."""
    yield
    handler = signal.getsignal(signal.SIGTERM)
    if handler is not None and threading.current_thread() is threading.main_thread():
        signal.signal(signal.SIGTERM, handler)


def kind_of(strategy: Any) -> Literal["mirrored", "multi_worker", "parameter_server"]:
    """Returns which of those it is that agents in Keras train under; one of a single worker mirrors its devices.

    Raises:
        SettingsError: It is another one, or none.
    """
    for name, kind in _KINDS.items():
        if isinstance(strategy, kind):
            return "mirrored" if name == "multi_worker" and num_workers(strategy) == 1 else name
    known = "tf.distribute.MirroredStrategy(), MultiWorkerMirroredStrategy() or ParameterServerStrategy(...)"
    if isinstance(strategy, tf.distribute.Strategy):
        raise SettingsError(f"strategy: agents do not train under {type(strategy).__name__}; use {known}")
    raise SettingsError(f"strategy must be one of tf.distribute for agents in Keras, {known}; got {strategy!r}")


def num_workers(strategy: Any) -> int:
    """Returns how many processes a MultiWorkerMirroredStrategy consists of: without TF_CONFIG, of this one."""
    cluster = strategy.cluster_resolver.cluster_spec().as_dict()
    return max(sum(len(addresses) for addresses in cluster.values()), 1)
