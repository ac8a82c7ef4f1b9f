"""The lines between a controller and a trial: each is one JSON object.

Standard library only, as the fork server loads this before anything else.
"""

import json
from collections.abc import Callable
from dataclasses import asdict, dataclass, field
from typing import Final

from tuner.support import decoding
from tuner.trial.foreign import parse_object
from tuner.trial.messages import VERDICTS, Alive, Built, Idle, Log, Message, Refused, Report, Started, Verdict

MAX_LINE_BYTES: Final = 4_000_000
"""Of one message: far more than any configuration or set of metrics takes."""

_KINDS: dict[str, Callable[..., Message]] = {
    kind.__name__.lower(): kind for kind in (Started, Refused, Idle, Built, Report, Log, Alive)
}


@dataclass(frozen=True)
class Launch:
    """First line from the controller to a child: where to work. The bytes of the function, if any, follow it.

    Attributes:
        folder: The trial's folder, absolute.
        cwd: Working directory.
        path: `sys.path` of the controller.
        environment: The whole environment of the child.
        asked_at: `time.monotonic()` of the controller when it asked for the child.
        function_size: Bytes of a pickled function to call in place of the spec's entry, 0 for none.
        may_wait: Whether the process may wait, behind a pause, for a trial that goes on.
    """

    folder: str
    cwd: str
    path: list[str]
    environment: dict[str, str] = field(repr=False)
    asked_at: float
    function_size: int = 0
    may_wait: bool = False

    def encode(self) -> bytes:
        """Returns the line, newline included."""
        return json.dumps(asdict(self)).encode() + b"\n"

    @classmethod
    def decode(cls, line: bytes) -> "Launch":
        """Reads a line made by `encode`."""
        return decoding.decode(cls, parse_object(line))


def encode(message: Message) -> bytes:
    """Returns a message as one line of JSON, newline included.

    Raises:
        ValueError: It is longer than `MAX_LINE_BYTES`.
    """
    kind = type(message).__name__.lower()
    line = json.dumps({"kind": kind, **asdict(message)}).encode() + b"\n"
    if len(line) > MAX_LINE_BYTES:
        raise ValueError(f"what {kind} is to tell takes {len(line):,} bytes; at most {MAX_LINE_BYTES:,} are sent")
    return line


def decode(line: bytes) -> Message:
    """Reads a line made by `encode`.

    Raises:
        ValueError: The line is not a message.
    """
    content = parse_object(line)
    kind = _KINDS.get(str(content.pop("kind", "")))
    if kind is None:
        raise ValueError(f"not a message of a trial: {line[:200]!r}")
    return decoding.decode(kind, content)


def encode_verdict(verdict: Verdict) -> bytes:
    """Returns a verdict as one line of JSON, newline included."""
    return json.dumps({"verdict": verdict}).encode() + b"\n"


def decode_verdict(line: bytes) -> Verdict:
    """Reads a line made by `encode_verdict`."""
    verdict: Verdict = json.loads(line)["verdict"]
    assert verdict in VERDICTS, verdict
    return verdict
