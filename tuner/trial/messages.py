"""Messages between a controller and a trial: values and their JSON form.

Standard library only, as the fork server loads this before anything else. Everything that crosses the pipe is one
line of JSON; the same values, written to the trial's folder, outlive both processes.

This is the border between the two: a trial runs foreign code and may send or leave anything. What is read here has the
types it claims, finite numbers, and texts that are short and plain; all else is a ValueError.
"""

import json
import math
from collections.abc import Callable
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any, Final, Literal, TypeAlias, get_args

from note_rl.support.formats import marked
from tuner.support.decoding import decode
from tuner.support.plain_text import MAX_NAME, MAX_REASON, MAX_TRACEBACK, plain
from tuner.trial.foreign import parse_marked
from tuner.trial.outcomes import Outcome as Outcome  # an outcome is among what they say

JsonDict: TypeAlias = dict[str, Any]
"""A JSON object: strings to None, bool, int, float, str, lists and objects of these. The form of a composed config."""

Verdict: TypeAlias = Literal["continue", "prune", "pause", "stop"]
"""The controller's answer to a report."""

VERDICTS: tuple[str, ...] = get_args(Verdict)

OUTPUT_FILE: Final = "output.log"
"""Where all that a trial printed is, and the whole of a traceback that is kept in part."""

MAX_COUNT: Final = 2**31 - 1
"""Of steps, as databases store whole numbers."""


class TrialInterrupted(BaseException):
    """Raised inside a trial that has to end early: checkpoint if that is of use, then let it go on.

    Not an `Exception`, as `KeyboardInterrupt` is not: an `except Exception` around a training step must not swallow it.

    Attributes:
        outcome: PRUNED, PAUSED, STOPPED or DIVERGED.
        reason: One sentence for the user.
        wait: Of a pause behind which this process may go on. Called once a checkpoint is written, it ends the trial in
            its folder, waits, and returns the folder of the trial that goes on from it; where none does, the process
            ends. None: the trial ends as every other.
    """

    def __init__(self, outcome: Outcome, reason: str = "", wait: Callable[[], Path] | None = None) -> None:
        super().__init__(f"{outcome}: {reason}" if reason else str(outcome))
        self.outcome = outcome
        self.reason = reason
        self.wait = wait


@dataclass(frozen=True)
class TrialSpec:
    """One run: a configuration, a seed and a stage of a study.

    Attributes:
        study: Name of the study.
        stage: Part of the study, such as "screen" or "test".
        number: Number of the run within its stage.
        seed: Seed of everything random in the run.
        config: The composed config.
        entry: The function that the child calls with its `TrialContext`, as "module:function".
        threads: Threads that the numerical libraries may use.
        continues: Key of the paused trial whose files were put into the folder, and whose process may go on with this
            one if it has waited; empty for none.
    """

    study: str
    stage: str
    number: int
    seed: int
    config: JsonDict
    entry: str = "tuner.runs.training:run_trial"
    threads: int = 1
    continues: str = ""

    @property
    def key(self) -> str:
        """Name of the run within its study, "stage/number"."""
        return f"{self.stage}/{self.number}"

    def to_json(self) -> str:
        """Returns the text of a trial.json."""
        return json.dumps(marked(asdict(self)), indent=2)

    @classmethod
    def from_json(cls, text: str | bytes) -> "TrialSpec":
        """Reads the text of a trial.json.

        Raises:
            ValueError: The text is not a trial's.
        """
        return decode(cls, parse_marked(text))


@dataclass(frozen=True)
class TrialResult:
    """How a trial ended and why.

    Its texts are made plain.

    Attributes:
        outcome: The kind of end.
        reason: One sentence for the user, empty where there is nothing to say.
        traceback: The traceback of an exception, or the last lines of the output of a child that was killed. Of a long
            one the beginning and the end.
        seconds: Wall time of the trial.
        deterministic: Whether it would end so again, being a mistake in what was asked for.
        used: The share of its budget that a run has used which ended by itself before that did.
        steps: Which way its last gradient steps were taken, and why not a quicker one; empty: not known.
    """

    outcome: Outcome
    reason: str = ""
    traceback: str = ""
    seconds: float = 0.0
    deterministic: bool = False
    used: float = 1.0
    steps: str = ""

    def __post_init__(self) -> None:
        if not 0.0 <= self.used <= 1.0:
            raise ValueError(f"a result cannot have used {self.used} of its budget")
        if not math.isfinite(self.seconds):
            raise ValueError(f"a result cannot have taken {self.seconds} s")
        object.__setattr__(self, "reason", plain(self.reason, MAX_REASON, OUTPUT_FILE))
        object.__setattr__(self, "steps", plain(self.steps, MAX_REASON, OUTPUT_FILE))
        object.__setattr__(self, "traceback", plain(self.traceback, MAX_TRACEBACK, OUTPUT_FILE))

    def to_json(self) -> str:
        """Returns the text of a result.json."""
        return json.dumps(marked(asdict(self)), indent=2)

    @classmethod
    def from_json(cls, text: str | bytes) -> "TrialResult":
        """Reads the text of a result.json.

        Raises:
            ValueError: The text is not a result's.
        """
        return decode(cls, parse_marked(text))


@dataclass(frozen=True)
class Limits:
    """Limits of a trial's resources. None means no limit.

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
    """The child holds the folder's lock and is about to call its entry.

    Attributes:
        pid: Its process, on its machine.
        host: Name of that machine.

    Raises:
        ValueError: A number that no child can have: signals are sent to it.
    """

    pid: int
    host: str = ""

    def __post_init__(self) -> None:
        if not 1 < self.pid <= MAX_COUNT:
            raise ValueError(f"{self.pid} is not the number of a trial's process")
        object.__setattr__(self, "host", plain(self.host, MAX_NAME))


@dataclass(frozen=True)
class Refused:
    """The child could not have the folder, because another process runs this trial."""

    reason: str

    def __post_init__(self) -> None:
        object.__setattr__(self, "reason", plain(self.reason, MAX_REASON))


@dataclass(frozen=True)
class Idle:
    """The trial is over, its result is written and its folder free; its process waits for a trial that goes on."""


@dataclass(frozen=True)
class Built:
    """The objects of the run exist: seconds since the fork, and the config that was really used."""

    seconds: float
    config: JsonDict


@dataclass(frozen=True)
class Report:
    """An intermediate value. The child waits for the verdict.

    Attributes:
        step: Where in the run.
        value: The measured value.
        seconds: Wall time of training until then, over all attempts; None: not known.

    Raises:
        ValueError: A number that is not finite, seconds below 0, or a step that no database can store.
    """

    step: float
    value: float
    seconds: float | None = field(default=None, compare=False, repr=False)  # which are never the same twice

    def __post_init__(self) -> None:
        if self.seconds is not None and not 0.0 <= self.seconds < math.inf:
            raise ValueError(f"report() needs seconds of 0 or more, not {self.seconds}")
        for name, number in (("step", self.step), ("value", self.value)):
            if not math.isfinite(number):
                raise ValueError(f"report() needs a finite {name}, not {number}")
        if abs(self.step) > MAX_COUNT:
            raise ValueError(f"report() needs a step of at most {MAX_COUNT:,}, not {self.step:g}")


@dataclass(frozen=True)
class Log:
    """Metrics to track, their names made plain; nothing is answered.

    Raises:
        ValueError: A step that no database can store.
    """

    step: int
    metrics: dict[str, float]

    def __post_init__(self) -> None:
        if abs(self.step) > MAX_COUNT:
            raise ValueError(f"log() needs a step of at most {MAX_COUNT:,}")
        plainly = {plain(name, MAX_NAME): float(value) for name, value in self.metrics.items()}
        object.__setattr__(self, "metrics", plainly)


@dataclass(frozen=True)
class Alive:
    """A sign of life, with the done part of the work, kept to [0, 1]."""

    progress: float

    def __post_init__(self) -> None:
        object.__setattr__(self, "progress", min(max(0.0, self.progress), 1.0))  # not a number counts as nothing done


Message: TypeAlias = Started | Refused | Idle | Built | Report | Log | Alive
