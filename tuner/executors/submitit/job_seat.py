"""The program of a job: a seat that answers over a connection to the controller, and ends with it."""

import math
import os
import signal
import socket
from multiprocessing.connection import Client, Connection
from typing import Any, Final

from tuner.errors import UserError
from tuner.executors.remote.exchange import SeatSettings
from tuner.executors.remote.seat import Seat

METHODS: Final = ("hello", "exchange", "close")


def serve(address: tuple[str, int], key: bytes, number: int, lost_after_s: float, settings: SeatSettings) -> None:
    """Answers what the controller asks until it closes the seat or is gone; then the trial ends, and so does the job.

    Args:
        address: Of the controller.
        key: Each side proves to the other one that it has it. What is sent is pickled, so nobody else is listened to.
        number: Of the job, for the controller.
        lost_after_s: How long the controller's machine may be out of reach.
        settings: Of the seat.
    """
    signal.signal(signal.SIGTERM, lambda *_: os._exit(1))  # Slurm ends a job so; what the seat has started ends with it
    connection = Client(address, authkey=key)
    with socket.fromfd(connection.fileno(), socket.AF_INET, socket.SOCK_STREAM) as line:
        notice_loss(line, lost_after_s)
    connection.send_bytes(str(number).encode())
    seat = Seat(settings)
    try:
        _answer_all(connection, seat)
    except (EOFError, OSError):
        return  # the controller is gone, or has given the job up
    finally:  # also when submitit says that the time of the job is over
        connection.close()
        seat.close()


def _answer_all(connection: Connection, seat: Seat) -> None:
    method = ""
    while method != "close":
        method, arguments = connection.recv()
        if method == "close":
            answer: Any = None  # it is closed behind the answer
        else:
            try:
                answer = getattr(seat, method)(*arguments) if method in METHODS else None
            except UserError as error:
                answer = error
        connection.send(answer)


def notice_loss(line: socket.socket, lost_after_s: float) -> None:
    """Makes a connection fail when the other machine has not answered for so long; one that is silent is kept."""
    seconds = max(1, math.ceil(lost_after_s / 3))
    line.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
    line.setsockopt(socket.IPPROTO_TCP, socket.TCP_KEEPIDLE, seconds)
    line.setsockopt(socket.IPPROTO_TCP, socket.TCP_KEEPINTVL, seconds)
    line.setsockopt(socket.IPPROTO_TCP, socket.TCP_KEEPCNT, 2)
    line.setsockopt(socket.IPPROTO_TCP, socket.TCP_USER_TIMEOUT, math.ceil(1000 * lost_after_s))
