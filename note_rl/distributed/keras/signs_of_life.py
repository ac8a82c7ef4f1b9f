"""Whether the process at an address is there: those of TensorFlow's clusters say nothing of themselves while idle."""

import socket
from collections.abc import Iterable
from concurrent.futures import ThreadPoolExecutor
from enum import Enum

# HTTP/2, on which gRPC is built: the client's preface and its empty settings, to which a server answers with its own
# (RFC 9113, section 3.4). A process that was stopped takes connections, as the kernel does that, but does not answer.
_HELLO = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n" + bytes([0, 0, 0, 4, 0, 0, 0, 0, 0])
_PATIENCE_S = 3.0


class Sign(Enum):
    """Of life."""

    ANSWERS = "answers"
    SILENT = "silent"
    GONE = "gone"


def sign_of(address: str) -> Sign:
    """Returns whether a gRPC server answers at HOST:PORT; takes seconds where it does not."""
    host, _, port = address.rpartition(":")
    try:
        with socket.create_connection((host.strip("[]"), int(port)), _PATIENCE_S) as connection:
            connection.sendall(_HELLO)
            return Sign.ANSWERS if connection.recv(1) else Sign.GONE
    except (ConnectionRefusedError, ConnectionResetError):
        return Sign.GONE
    except OSError:  # of a network that may be there again soon
        return Sign.SILENT


def signs_of(addresses: Iterable[str]) -> list[Sign]:
    """Returns the same of several, which are asked at once."""
    several = list(addresses)
    with ThreadPoolExecutor(len(several)) as pool:
        return list(pool.map(sign_of, several))
