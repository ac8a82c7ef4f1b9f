"""Processes of this machine that train along with the one that has started them."""

import json
import os
import pickle
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress

from note_rl.errors import PeerError

_PROGRAM = (
    "import json, sys; sys.path[:] = json.loads(sys.argv[1]); from note_rl.distributed.replicas import main; "
    "main(**json.loads(sys.argv[2]))"
)
_LOOK_S = 1.0
_PATIENCE_S = 5.0  # until a process that does not end is killed


@contextmanager
def started(content: bytes, size: int, port: int) -> Iterator[list["subprocess.Popen[bytes]"]]:
    """Processes of the ranks 1 to `size` - 1 are there within; none is left afterwards, whatever has happened.

    Args:
        content: A pickled agent, with its optimizer.
        size: How many ranks there are, this one included.
        port: Where they find each other.

    Raises:
        PeerError: As the block raises it, with how processes have ended.
    """
    processes: list[subprocess.Popen[bytes]] = []
    try:
        for rank in range(1, size):
            arguments = json.dumps({"rank": rank, "size": size, "port": port, "starter": os.getpid()})
            paths = json.dumps([str(path) for path in sys.path])
            command = [sys.executable, "-c", _PROGRAM, paths, arguments]
            processes.append(subprocess.Popen(command, stdin=subprocess.PIPE))
        for process in processes:
            assert process.stdin is not None
            with suppress(BrokenPipeError), process.stdin as theirs:  # one that has died is found when it is waited for
                theirs.write(content)
        yield processes
    except PeerError as error:
        raise type(error)(f"{error}{_ends(processes)}") from error
    finally:
        for process in processes:
            try:
                process.wait(_PATIENCE_S)
            except subprocess.TimeoutExpired:
                process.kill()
                process.wait()


def _ends(processes: list["subprocess.Popen[bytes]"]) -> str:
    """Returns which processes were ended by signals, in words."""
    codes = [(rank, process.poll()) for rank, process in enumerate(processes, 1)]
    killed = [f"rank {rank} was ended by {signal.Signals(-code).name}" for rank, code in codes if code and code < 0]
    return f" ({', '.join(killed)})" if killed else ""


def main(rank: int, size: int, port: int, starter: int) -> None:
    """Trains along, as a process that `started` has started; the agent comes from there."""
    for asked_to_end in (signal.SIGINT, signal.SIGTERM):  # rank 0 decides when to end, and batch systems tell all
        signal.signal(asked_to_end, signal.SIG_IGN)
    threading.Thread(target=_end_with, args=(starter,), daemon=True).start()
    agent = pickle.loads(sys.stdin.buffer.read())
    with suppress(PeerError):  # rank 0 says what has happened
        agent._follow(rank, size, port)


def _end_with(starter: int) -> None:
    """Ends this process some time after the one that has started it, even if an environment hangs."""
    while os.getppid() == starter:
        time.sleep(_LOOK_S)
    time.sleep(_PATIENCE_S)
    os._exit(1)
