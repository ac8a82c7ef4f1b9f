"""A seat as the controller sees it, with the trial that runs there."""

import time
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from tuner.executors.ray.cluster import RemoteSeat
from tuner.executors.ray.exchange import Order, SeatInfo


@dataclass(eq=False)
class Place:
    """A seat and its trial.

    Attributes:
        seat: The actor.
        greeting: The question where it is.
        info: The answer; None while it looks for room.
        key: Of its trial; empty without one.
        folder: The trial's folder on this side.
        number: Of the last order.
        order: The last order, to be repeated if its answer is lost.
        question: What it has been asked and not answered; None without a trial and while a verdict is waited for.
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
