"""A seat as the controller sees it, with the trial that runs there."""

import time
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from tuner.executors.remote.cluster import Cluster
from tuner.executors.remote.exchange import Order, SeatInfo


class RemoteSeat:
    """A seat somewhere in a cluster, asked for by making this; each question is answered by the cluster.

    Args:
        cluster: Where it is.
    """

    def __init__(self, cluster: Cluster) -> None:
        self._cluster = cluster
        self._handle = cluster.new_seat()

    def hello(self) -> Any:
        """Asks where it is; it answers once it has a place."""
        return self._cluster.ask(self._handle, "hello")

    def exchange(self, number: int, order: Order, timeout_s: float) -> Any:
        """Asks what has happened; see `Seat.exchange`."""
        return self._cluster.ask(self._handle, "exchange", number, order, timeout_s)

    def close(self) -> Any:
        """Asks it to end its trial and to leave nothing behind."""
        return self._cluster.ask(self._handle, "close")

    def kill(self) -> None:
        """Ends its process, if it is within reach."""
        self._cluster.kill(self._handle)


@dataclass(eq=False)
class Place:
    """A seat and its trial.

    Attributes:
        seat: Its seat.
        greeting: The question where it is.
        info: The answer; None while it looks for room.
        key: Of its trial; empty without one.
        folder: The trial's folder on this side.
        number: Of the last order.
        order: The last order, to be repeated if its answer is lost.
        question: The open question, sent and not answered; None without a trial and while a verdict is waited for.
        is_stopping: Its trial has been asked to stop.
        unreachable_since: When it first did not answer.
        in_touch_at: When it last was given an order, or answered one.
        made_at: When it was asked for.
    """

    seat: RemoteSeat
    greeting: Any = None
    info: SeatInfo | None = None
    key: str = ""
    folder: Path = field(default_factory=Path)
    number: int = 0
    order: Order = field(default_factory=Order)
    question: Any = None
    is_stopping: bool = False
    unreachable_since: float | None = None
    in_touch_at: float = field(default_factory=lambda: time.monotonic())
    made_at: float = field(default_factory=lambda: time.monotonic())

    def __post_init__(self) -> None:
        self.greeting = self.seat.hello()
