"""The cluster of a ParameterServerStrategy, as the chief sees it: what is to be done, and who is lost."""

import logging
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any

import tensorflow as tf

from note_rl.distributed.channel import SILENCE_S
from note_rl.distributed.keras.server import check_cluster
from note_rl.distributed.keras.signs_of_life import Sign, signs_of
from note_rl.errors import PeerError, say_once
from note_rl.learners.keras.tensorflow_internals import cluster_of

_log = logging.getLogger(__name__)
_POLL_S = 0.001
_LOOK_S = 2.0
_OF_A_LOST_TASK = (tf.errors.UnavailableError, tf.errors.AbortedError, tf.errors.InternalError)
_NAMES = {"ps": "parameter server", "worker": "worker"}


class Coordinator:
    """Has workers compute what is scheduled, and names who is lost.

    A worker that has ended is done without: TensorFlow gives what it was at to another. A parameter server cannot be,
    as the parameters were there; nor a worker that hangs, as what it is at may still be done.

    Args:
        strategy: A `tf.distribute.ParameterServerStrategy`.

    Raises:
        SettingsError: Its cluster has no chief.
    """

    def __init__(self, strategy: Any) -> None:
        cluster = cluster_of(strategy)
        check_cluster({"chief": [""], **cluster})  # a chief that nobody else has to find needs no address
        self.num_workers = len(cluster["worker"])
        self._tasks = [(kind, index, address) for kind in _NAMES for index, address in enumerate(cluster[kind])]
        self._coordinator = tf.distribute.coordinator.ClusterCoordinator(strategy)
        self._heard: dict[str, float] = {}  # when a task has last answered, by address
        self._looked = 0.0

    def schedule(self, function: Any, arguments: Sequence[Any]) -> Any:
        """Has one of the workers call a tf.function; returns a promise, whose `fetch()` gives what came of it."""
        return self._coordinator.schedule(function, args=tuple(arguments))

    def join(self) -> None:
        """Waits until all that was scheduled is done.

        Raises:
            PeerError: A parameter server is lost, a worker hangs, or no worker is left.
        """
        self._heard = dict.fromkeys(self._heard, time.monotonic())
        while not self._coordinator.done():
            time.sleep(_POLL_S)
            if time.monotonic() - self._looked > _LOOK_S:
                self._look()

    @contextmanager
    def naming_the_lost(self) -> Iterator[None]:
        """Around what reads or computes over there: what fails because a task is lost is a PeerError that names it."""
        try:
            yield
        except _OF_A_LOST_TASK as error:
            if not self._look() and not isinstance(error, tf.errors.UnavailableError):
                raise  # everybody is there: it is the agent's own
            first = str(error).strip().partition("\n")[0]
            raise PeerError(f"a process of the ParameterServerStrategy does not answer: {first}") from error

    def _look(self) -> bool:
        """Asks all tasks for a sign of life; returns whether one of them gives none."""
        signs = signs_of(address for _, _, address in self._tasks)
        self._looked = time.monotonic()
        for (kind, index, address), sign in zip(self._tasks, signs, strict=True):
            name = f"{_NAMES[kind]} {index} ({address})"
            if sign is Sign.ANSWERS:
                self._heard[address] = self._looked
            silent = self._looked - self._heard.setdefault(address, self._looked)
            if sign is Sign.GONE and kind == "ps":
                raise PeerError(f"{name} has ended, and with it the parameters that it held: restore a saved agent")
            if sign is Sign.GONE:
                say_once(_log, f"{name} has ended; the others take its steps, and it may come back")
            elif silent > SILENCE_S:
                raise PeerError(f"{name} has not been heard of for {silent:.0f} s: it hangs, or cannot be reached")
        workers = [address for kind, _, address in self._tasks if kind == "worker"]
        if all(self._looked - self._heard[address] > SILENCE_S for address in workers):
            raise PeerError(f"no worker is left of {', '.join(workers)}")
        return any(sign is not Sign.ANSWERS for sign in signs)
