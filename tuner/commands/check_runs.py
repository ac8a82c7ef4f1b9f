"""Runs the tasks of `tuner check`, by whatever executor, several at a time."""

import logging
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from tempfile import TemporaryDirectory

from tuner.config.composition import run_config_of
from tuner.errors import UserError
from tuner.executors.base import Event, Executor, TrialEnded, TrialLogged, TrialReported
from tuner.executors.executor_factory import make_executor, runs_in_this_process, warm_up
from tuner.runs.agent_check import (
    ENTRY,
    Answer,
    Attempt,
    Task,
    attempt,
    attempt_logged,
    config_on,
    longer,
    seeds_of,
    tasks_for,
    tried_out,
)
from tuner.support.interrupts import ending_as_by_ctrl_c
from tuner.trial.messages import JsonDict, Outcome, TrialResult, TrialSpec

_STUDY = "check"
_log = logging.getLogger("note_rl")


def check_agent(config: JsonDict, before: Callable[[Task], None] = lambda task: None) -> Iterator[Answer]:
    """Trains an agent on each task that agents of its kind can learn; gives the answers in the order of the tasks.

    A task that is not learned with the first seed is tried with more, unless one before it is not learned either: that
    one is where to begin.

    Args:
        config: Of a run and its executor, resolved; its environment is replaced.
        before: Called with each task before its answer is waited for.

    Raises:
        UserError, note_rl.errors.NoteRLError: The agent cannot be built, or acts in neither kind of environment.
    """
    run, executor_config = run_config_of(config), config["executor"]
    with (
        ending_as_by_ctrl_c(),
        TemporaryDirectory(prefix="tuner-check-") as folder,
        make_executor(executor_config) as executor,
    ):
        warm_up(executor)
        continuous, remembers = tried_out(run)
        tasks = [_Tried(task, config_on(run, task, continuous), seeds_of(run)) for task in tasks_for(remembers)]
        check = _Check(tasks, executor, Path(folder), says_warnings=not runs_in_this_process(executor_config))
        for number, tried in enumerate(tasks):
            before(tried.task)
            while not check.is_decided(number):
                check.go_on()
            yield tried.answer


@dataclass
class _Tried:
    """One task, and what is known of it.

    Attributes:
        task: Which one.
        config: Of its runs.
        seeds: Of its runs, the first one and those of more.
        num_begun: How many have begun.
        attempts: Those that have ended, by their place among the seeds.
    """

    task: Task
    config: JsonDict
    seeds: list[int]
    num_begun: int = 0
    attempts: dict[int, Attempt] = field(default_factory=dict)

    @property
    def answer(self) -> Answer:
        """By what is known now."""
        return Answer(self.task, tuple(self.attempts[place] for place in sorted(self.attempts)))

    def config_at(self, place: int) -> JsonDict:
        """Of the run with the seed at this place."""
        return longer(self.config) if place and self.attempts[0].is_slow else self.config

    @property
    def first_failed(self) -> bool:
        """Whether the first seed has failed."""
        return 0 in self.attempts and not self.attempts[0].learned


class _Check:
    """Tasks under way.

    Args:
        tasks: In their order.
        executor: Runs the attempts.
        folder: Of their folders; can be thrown away.
        says_warnings: Whether to log what other processes have warned of.
    """

    def __init__(self, tasks: list[_Tried], executor: Executor, folder: Path, *, says_warnings: bool) -> None:
        self._tasks, self._executor, self._folder = tasks, executor, folder
        self._active: dict[str, tuple[_Tried, int]] = {}
        self._logged: dict[str, Attempt] = {}
        self._said: set[str] | None = set() if says_warnings else None

    def is_decided(self, number: int) -> bool:
        """Whether the answer of a task is known."""
        tried = self._tasks[number]
        return len(tried.attempts) == self._num_wanted(number) if 0 in tried.attempts else False

    def _num_wanted(self, number: int) -> int:
        """How many attempts a task gets, as far as that is known: more of them once all before it are learned."""
        tried, before = self._tasks[number], self._tasks[:number]
        if not tried.first_failed:
            return 1
        for earlier in range(len(before)):
            if not self.is_decided(earlier):
                return 0  # not known yet
            if not self._tasks[earlier].answer.passed:
                return 1
        return len(tried.seeds)

    def go_on(self) -> None:
        """Begins what there is room for, then waits for something to happen."""
        while self._executor.free_slots > 0 and (tried := self._next()) is not None:
            place, tried.num_begun = tried.num_begun, tried.num_begun + 1
            spec = TrialSpec(_STUDY, tried.task.kind, place, tried.seeds[place], tried.config_at(place), ENTRY)
            self._active[spec.key] = tried, place
            self._executor.start(spec, self._folder / spec.key)
        for event in self._executor.wait():
            self._take(event)

    def _next(self) -> _Tried | None:
        wanted = ((tried, self._num_wanted(number)) for number, tried in enumerate(self._tasks))
        return next((tried for tried, num_wanted in wanted if tried.num_begun < num_wanted), None)

    def _take(self, event: Event) -> None:
        if isinstance(event, TrialReported):
            self._executor.answer(event.key, "continue")
        elif isinstance(event, TrialLogged):
            self._logged[event.key] = attempt_logged(event.step, event.metrics)
        elif isinstance(event, TrialEnded):
            tried, place = self._active.pop(event.key)
            tried.attempts[place] = self._ended(tried, place, self._logged.pop(event.key, None), event.result)

    def _ended(self, tried: _Tried, place: int, logged: Attempt | None, result: TrialResult) -> Attempt:
        """The result of an attempt. An error is raised again by the same attempt in this process."""
        if self._said is not None and result.reason and logged is not None and result.reason not in self._said:
            self._said.add(result.reason)
            _log.warning("%s", result.reason)
        if logged is not None:
            return logged
        if result.outcome is Outcome.CRASHED and result.traceback:
            return attempt({**tried.config_at(place), "seed": tried.seeds[place]})
        raise UserError(f"the training of a task came to no end ({tried.task.asks}): {result.reason or result.outcome}")
