"""Processes that train together under a MultiWorkerMirroredStrategy, as TF_CONFIG tells each of them."""

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any

import numpy as np
import tensorflow as tf

from note_rl.distributed.channel import Line
from note_rl.distributed.rendezvous import MOST_ANNOUNCED, lines_of
from note_rl.errors import SettingsError
from note_rl.learners.keras.tensorflow_internals import abort_collectives


class Workers:
    """The processes of a strategy; see `note_rl.distributed.rank_messages.Ranks`.

    Args:
        rank: Of this process.
        lines: Of this rank.
        size: How many there are.
    """

    def __init__(self, rank: int, lines: Sequence[Line], size: int) -> None:
        self.rank = rank
        self.size = size
        self.lines = list(lines)

    def mean(self, tensors: Sequence[Any]) -> list[Any]:
        """Returns what it is given: replicas average where the step is traced, see `InReplicas`."""
        return list(tensors)

    def reseed(self, seed: int) -> None:
        """Changes nothing: layers that draw numbers hold their generators, which are the same on all ranks."""


@contextmanager
def joined(strategy: Any) -> Iterator[Workers]:
    """The processes of a strategy of several workers, in which this one has its rank.

    Raises:
        SettingsError: There are others than workers.
    """
    cluster = strategy.cluster_resolver.cluster_spec().as_dict()
    if set(cluster) != {"worker"}:
        raise SettingsError(
            f"strategy: the cluster in TF_CONFIG must consist of workers alone, got {', '.join(sorted(cluster))}"
        )
    rank, size = strategy.cluster_resolver.task_id, len(cluster["worker"])
    host = cluster["worker"][0].rpartition(":")[0]
    lines = lines_of(rank, size, host, lambda text: _announced(strategy, text), abort_collectives)
    try:
        yield Workers(rank, lines, size)
    finally:
        for line in lines:
            line.close()


def _announced(strategy: Any, text: str | None) -> str:
    """Returns what rank 0 says to all: the sum of what all say, and the others say nothing."""
    said = np.zeros(MOST_ANNOUNCED, np.int32)
    if text is not None:
        said[: len(text)] = np.frombuffer(text.encode(), np.uint8)
    replica = strategy.experimental_local_results

    def total() -> Any:
        first = tf.distribute.get_replica_context().replica_id_in_sync_group == 0
        mine = tf.where(first, tf.constant(said), tf.zeros_like(said))
        return tf.distribute.get_replica_context().all_reduce(tf.distribute.ReduceOp.SUM, mine)

    heard = replica(tf.function(lambda: strategy.run(total))())[0].numpy()
    return bytes(heard.astype(np.uint8)).rstrip(b"\0").decode()
