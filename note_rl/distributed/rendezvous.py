"""How the ranks of a group find each other: the first is called by all others."""

import json
import os
import secrets
import socket
from collections.abc import Callable
from typing import Any

from note_rl.distributed.channel import Line, WhenLost

MOST_ANNOUNCED = 1000
"""Bytes of what is announced."""
_FORMING_S = 60.0
_HELLO_S = 5.0
_HERE = ("127.0.0.1", "localhost")

Announce = Callable[[str | None], str]
"""Called by all ranks at once, by the first with a text: returns that text to all of them."""


def lines_of(rank: int, size: int, host: str, announce: Announce, when_lost: WhenLost | None = None) -> list[Line]:
    """Returns the lines of a rank: those to all others in their order, if it is the first, else the one to the first.

    Args:
        rank: Of this process.
        size: How many there are.
        host: Of rank 0, as the others know it.
        announce: Tells all where to call.
        when_lost: See `Line`.
    """
    if rank:
        return [_line_to_first(rank, announce(None), when_lost)]
    token = secrets.token_hex(16)
    with socket.create_server(("127.0.0.1" if host in _HERE else "", 0)) as server:
        server.settimeout(_FORMING_S)
        announce(json.dumps({"host": host, "port": server.getsockname()[1], "token": token}))
        lines: dict[int, Line] = {}
        while len(lines) < size - 1:
            connection = server.accept()[0]
            hello = _hello(connection)
            if not secrets.compare_digest(str(hello.get("token", "")), token):
                connection.close()
                continue
            name = f"rank {hello['rank']} (process {hello['process']})"
            lines[int(hello["rank"])] = Line(connection, name, when_lost)
    return [lines[other] for other in range(1, size)]


def _hello(connection: socket.socket) -> dict[str, Any]:
    """Returns what a caller says first, a line of JSON; nothing if it says something else."""
    connection.settimeout(_HELLO_S)
    read = b""
    try:
        while not read.endswith(b"\n") and len(read) < MOST_ANNOUNCED:
            byte = connection.recv(1)
            if not byte:
                return {}
            read += byte
        told = json.loads(read)
    except (OSError, ValueError):
        return {}
    connection.settimeout(None)
    return told if isinstance(told, dict) else {}


def _line_to_first(rank: int, announced: str, when_lost: WhenLost | None) -> Line:
    address = json.loads(announced)
    connection = socket.create_connection((address["host"], address["port"]), _FORMING_S)
    connection.settimeout(None)
    hello = {"token": address["token"], "rank": rank, "process": f"{os.getpid()} on {socket.gethostname()}"}
    connection.sendall(json.dumps(hello).encode() + b"\n")
    return Line(connection, "rank 0", when_lost)
