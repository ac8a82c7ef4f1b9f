"""What a controller and a trial say to each other: values and their JSON form.

Standard library only, as the fork server loads this before anything else. Everything that crosses the pipe is one
line of JSON; the same values, written to the trial's folder, outlive both processes.
"""

import json
from collections.abc import Callable
from dataclasses import asdict, dataclass, field
from enum import StrEnum
from typing import Any, Literal, TypeAlias, TypeVar, get_args

from tuner.files import parse_json

JsonDict: TypeAlias = dict[str, Any]
"""A JSON object: strings to None, bool, int, float, str, lists and objects of these. The form of a composed config."""

Verdict: TypeAlias = Literal["continue", "prune", "stop"]
"""The controller's answer to a report."""

VERDICTS: tuple[str, ...] = get_args(Verdict)


class Outcome(StrEnum):
    """How a trial ended."""

    COMPLETE = "complete"
    PRUNED = "pruned"
    CRASHED = "crashed"
    DIVERGED = "diverged"
    OUT_OF_MEMORY = "out_of_memory"
    TIMED_OUT = "timed_out"
    HUNG = "hung"
    STOPPED = "stopped"


class TrialInterrupted(BaseException):
    """Raised inside a trial that has to end early: checkpoint if that is of use, then let it go on.

    Not an `Exception`, as `KeyboardInterrupt` is not: an `except Exception` around a training step must not swallow it.

    Attributes:
        outcome: PRUNED, STOPPED or DIVERGED.
        reason: One sentence for the user.
    """

    def __init__(self, outcome: Outcome, reason: str = "") -> None:
        super().__init__(f"{outcome}: {reason}" if reason else str(outcome))
        self.outcome = outcome
        self.reason = reason


@dataclass(frozen=True)
class TrialSpec:
    """One run: a configuration, a seed and a stage of a study.

    Attributes:
        study: Name of the study.
        stage: Part of the study, such as "screen" or "test".
        number: Number of the run within its stage.
        seed: Seed of everything random in the run.
        config: The composed config.
        entry: What the child calls with its `TrialContext`, as "module:function".
        threads: Threads that the numerical libraries may use.
    """

    study: str
    stage: str
    number: int
    seed: int
    config: JsonDict
    entry: str = "tuner.training:run_trial"
    threads: int = 1

    @property
    def key(self) -> str:
        """Name of the run within its study, "stage/number"."""
        return f"{self.stage}/{self.number}"

    def to_json(self) -> str:
        """Return the text of a trial.json."""
        return json.dumps(asdict(self), indent=2)

    @classmethod
    def from_json(cls, text: str) -> "TrialSpec":
        """Read the text of a trial.json.

        Raises:
            ValueError: The text is not a trial's.
        """
        return _build(cls, parse_json(text))


@dataclass(frozen=True)
class TrialResult:
    """How a trial ended and why.

    Attributes:
        outcome: The kind of end.
        reason: One sentence for the user, empty where there is nothing to say.
        traceback: The traceback of an exception, or the last lines of the output of a child that was killed.
        seconds: Wall time of the trial.
        deterministic: Whether it would end so again, being a mistake in what was asked for.
    """

    outcome: Outcome
    reason: str = ""
    traceback: str = ""
    seconds: float = 0.0
    deterministic: bool = False

    def to_json(self) -> str:
        """Return the text of a result.json."""
        return json.dumps(asdict(self), indent=2)

    @classmethod
    def from_json(cls, text: str) -> "TrialResult":
        """Read the text of a result.json.

        Raises:
            ValueError: The text is not a result's.
        """
        fields = parse_json(text)
        if not isinstance(fields, dict):
            raise ValueError(f"a result is a JSON object, not {text!r}")
        return _build(cls, fields | {"outcome": Outcome(str(fields.get("outcome")))})


@dataclass(frozen=True)
class Limits:
    """What a trial may use. None means no limit.

    Attributes:
        wall_s: Wall time in seconds, from the fork on.
        memory_mb: Resident memory of the trial's process group in MB (1e6 bytes). Pages shared with the fork server
            (the imported framework: about 300 MB for PyTorch, 650 MB for TensorFlow) count, once per process.
        silence_s: Seconds without any message (`report`, `log`, `alive`). Waiting for a verdict is not silence.
        grace_s: Seconds between asking a trial to stop, SIGTERM, and SIGKILL.

    Raises:
        ValueError: A limit that is not positive.
    """

    wall_s: float | None = None
    memory_mb: float | None = None
    silence_s: float | None = None
    grace_s: float = 10.0

    def __post_init__(self) -> None:
        for name, value in asdict(self).items():
            if value is not None and not value > 0:
                raise ValueError(
                    f"limits.{name} must be greater than 0, not {value!r}; leave it out (null) for no limit"
                )


@dataclass(frozen=True)
class Started:
    """The child holds the folder's lock and is about to call its entry."""

    pid: int


@dataclass(frozen=True)
class Refused:
    """The child could not have the folder, because another process runs this trial."""

    reason: str


@dataclass(frozen=True)
class Built:
    """The objects of the run exist: seconds since the fork, and the config that was really used."""

    seconds: float
    config: JsonDict


@dataclass(frozen=True)
class Report:
    """An intermediate value. The child waits for the verdict."""

    step: float
    value: float


@dataclass(frozen=True)
class Log:
    """Metrics to track; nothing is answered."""

    step: int
    metrics: dict[str, float]


@dataclass(frozen=True)
class Alive:
    """A sign of life, with the done part of the work in [0, 1]."""

    progress: float


Message: TypeAlias = Started | Refused | Built | Report | Log | Alive
_T = TypeVar("_T")
_KINDS: dict[str, Callable[..., Message]] = {
    kind.__name__.lower(): kind for kind in (Started, Refused, Built, Report, Log, Alive)
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
    """

    folder: str
    cwd: str
    path: list[str]
    environment: dict[str, str] = field(repr=False)
    asked_at: float
    function_size: int = 0

    def encode(self) -> bytes:
        """Return the line, newline included."""
        return json.dumps(asdict(self)).encode() + b"\n"

    @classmethod
    def decode(cls, line: bytes) -> "Launch":
        """Read a line made by `encode`."""
        return _build(cls, json.loads(line))


def encode(message: Message) -> bytes:
    """Return a message as one line of JSON, newline included."""
    return json.dumps({"kind": type(message).__name__.lower(), **asdict(message)}).encode() + b"\n"


def decode(line: bytes) -> Message:
    """Read a line made by `encode`.

    Raises:
        ValueError: The line is not a message.
    """
    fields = json.loads(line)
    kind = _KINDS.get(fields.pop("kind", "")) if isinstance(fields, dict) else None
    if kind is None:
        raise ValueError(f"not a message of a trial: {line[:200]!r}")
    return _build(kind, fields)


def encode_verdict(verdict: Verdict) -> bytes:
    """Return a verdict as one line of JSON, newline included."""
    return json.dumps({"verdict": verdict}).encode() + b"\n"


def decode_verdict(line: bytes) -> Verdict:
    """Read a line made by `encode_verdict`."""
    verdict: Verdict = json.loads(line)["verdict"]
    assert verdict in VERDICTS, verdict
    return verdict


def _build(kind: Callable[..., _T], fields: object) -> _T:
    """Call a dataclass with decoded fields; anything that does not fit is a ValueError."""
    if not isinstance(fields, dict):
        raise ValueError(f"expected a JSON object, not {fields!r}")
    try:
        return kind(**fields)
    except TypeError as error:
        raise ValueError(str(error)) from error
