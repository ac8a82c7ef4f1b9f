"""Messages between the controller and a seat: values only, pickled within one cluster of the user's."""

from dataclasses import dataclass, field

from tuner.executors.base import Event
from tuner.executors.local import Isolation
from tuner.executors.preload import Preload
from tuner.executors.remote.folder_changes import Changes
from tuner.trial.messages import Limits, Verdict


@dataclass(frozen=True)
class SeatSettings:
    """Settings of a seat.

    Attributes:
        preload: Imports of its fork server.
        isolation: How its executor starts trials.
        limits: Of a trial's resources.
        threads: Threads of a trial.
        shared: The trial works in the study's own folder, which every machine has at the same path.
        max_transfer_mb: How much a trial's folder may have changed between two exchanges, in MB (1e6 bytes).
        lease_s: The seat leaves, and its trial with it, when no message of the controller arrives for this long;
            None: never, as nothing that it writes is seen by others.
    """

    preload: Preload
    isolation: Isolation
    limits: Limits
    threads: int
    shared: bool
    max_transfer_mb: float
    lease_s: float | None


@dataclass(frozen=True)
class SeatInfo:
    """Where a seat is, and what it runs with.

    Attributes:
        host: Name of the machine.
        pid: The seat's process.
        versions: Of Python and the packages that results depend on, by name.
    """

    host: str
    pid: int
    versions: dict[str, str]


@dataclass(frozen=True)
class TrialStart:
    """A trial to start.

    Attributes:
        spec: The text of its trial.json.
        folder: The study's folder of it, absolute.
        files: Content of that folder; empty if it is shared.
        function: Cloudpickle of what to call; empty for the spec's entry.
    """

    spec: str
    folder: str
    files: Changes
    function: bytes


@dataclass(frozen=True)
class Order:
    """Instructions for a seat, which it follows before it reports events."""

    start: TrialStart | None = None
    verdict: Verdict | None = None
    stop: bool = False


@dataclass(frozen=True)
class Happened:
    """Events at a seat, and the changes of the trial's folder."""

    events: list[Event] = field(default_factory=list)
    files: Changes = field(default_factory=dict)
