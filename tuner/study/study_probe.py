"""The first thing a new study does: one short process that builds everything and measures a random policy.

It finds out whether environment and agent fit each other before anything is searched, in a process like those of the
trials, so the controller never imports a framework.
"""

import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from tuner.errors import UserError
from tuner.executors.base import Event, Executor, TrialEnded, TrialReported
from tuner.study.control import Interrupts
from tuner.study.definition import StudyDefinition
from tuner.study.study_errors import StudyStopped
from tuner.trial import folder as files
from tuner.trial.messages import Outcome, TrialResult, TrialSpec

PROBE = "probe"
SPEED = "speed"
POLL_S = 0.5
_MEASURED_STEPS = 4000
_TRIED_AGAIN = (Outcome.CRASHED, Outcome.LOST)  # one that hangs has taken its time


def run_probe(
    definition: StudyDefinition,
    executor: Executor,
    interrupts: Interrupts,
    number: int = 0,
    note: Callable[[str], object] = lambda text: None,
) -> float:
    """Mean return of a random policy.

    Args:
        definition: The study, of one environment.
        executor: Runs the process.
        interrupts: Asks to stop.
        number: Of its folder.
        note: Called with what is wrong with the environment, though it does not end the study.

    Raises:
        UserError: The default configuration cannot be built, with the reason.
        StudyStopped: Asked to stop.
    """
    assert definition.probe is not None
    folder = definition.study_folder / PROBE / str(number)
    config = definition.run_config({}, definition.seed)
    spec = TrialSpec(definition.name, PROBE, number, definition.seed, config, definition.probe)
    executor.reclaim(spec, folder)
    executor.start(spec, folder)
    scores: list[float] = []
    retries = definition.settings.retries
    while True:
        for event in executor.wait(POLL_S):
            result = _take(event, executor, scores)
            if result is not None:
                if result.outcome is Outcome.STOPPED:
                    raise StudyStopped(0, interrupts.reason)
                effects = result.outcome.effects
                again = result.outcome in _TRIED_AGAIN and not result.deterministic and not interrupts.requested
                if again and (retries or not effects.uses_retry):
                    retries -= effects.uses_retry  # as for any other run: it may have been killed, or its machine lost
                    executor.start(spec, folder)
                    continue
                if result.outcome is Outcome.COMPLETE and result.reason:
                    note(f"Warning: {result.reason}")
                return _judge(result, scores, folder)
        if interrupts.requested:
            executor.stop_all()


@dataclass(frozen=True)
class Pace:
    """Speed of a short run.

    Attributes:
        steps_per_second: Environment steps, over its second half: in the first, many agents only collect.
        start_s: Seconds of the whole run beyond its steps at that speed: building, compiling, leaving; imports, too,
            where each run makes its own.
    """

    steps_per_second: float
    start_s: float


def measure_pace(definition: StudyDefinition, executor: Executor, folder: Path) -> Pace | None:
    """How fast the default configuration is, over a few thousand steps; None if that is not found out.

    Args:
        definition: The study.
        executor: Runs the one trial.
        folder: For the trial; can be thrown away.

    Raises:
        UserError: It cannot run, with the reason.
    """
    config = definition.run_config({}, definition.seed)
    num_steps = min(int(config["training"]["total_steps"]), _MEASURED_STEPS)
    config["training"] = {**config["training"], "total_steps": num_steps}
    config["evaluation"] = {**config["evaluation"], "num_points": 2}
    executor.start(TrialSpec(definition.name, SPEED, 0, definition.seed, config, definition.entry), folder)
    times: list[float] = []
    scores: list[float] = []
    while True:
        for event in executor.wait(POLL_S):
            if isinstance(event, TrialReported):
                times.append(time.monotonic())
            result = _take(event, executor, scores)
            if result is not None:
                if result.outcome is Outcome.CRASHED:
                    raise UserError(_cannot_run(result))
                if len(times) < 2:
                    return None
                steps_s = 2 * (times[1] - times[0])
                return Pace(num_steps / steps_s, max(0.0, result.seconds - steps_s))


def _take(event: Event, executor: Executor, scores: list[float]) -> TrialResult | None:
    if isinstance(event, TrialReported):
        scores.append(event.value)
        executor.answer(event.key, "continue")
    return event.result if isinstance(event, TrialEnded) else None


def _judge(result: TrialResult, scores: list[float], folder: Path) -> float:
    if result.outcome is Outcome.COMPLETE and scores:
        return scores[-1]
    raise UserError(f"{_cannot_run(result)}\nMore is in {files.explanation_in(folder)}")


def _cannot_run(result: TrialResult) -> str:
    # "EnvironmentMismatchError: DQN needs ..." is for the user without the name of the class
    kind, _, message = result.reason.partition(": ")
    reason = message if kind.isidentifier() and message else result.reason or str(result.outcome)
    return f"the default configuration of this study cannot run: {reason}"
