"""The run registry of one stage: which runs there are, which is next, what came of each. It is kept in an Optuna study.

A run is entered before its process starts and closed with one `tell`. What is not closed is found again after any kind
of death and continued under the same number, so nothing is run twice and nothing is forgotten.
"""

import time
from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path

import optuna
from optuna.distributions import BaseDistribution, IntDistribution
from optuna.trial import FrozenTrial, TrialState

from tuner.results.metric import Timing
from tuner.results.records import SCREEN, RunRecord
from tuner.study.definition import LARGEST_NUMBER, Candidate, StudyDefinition
from tuner.study.enqueued import admits
from tuner.study.optuna_internals import ask_anew, begin_loop, enqueued_params, handle_of, is_stopped, suggest
from tuner.study.sampling.stored_values import check_values, sound_schedule
from tuner.study.storage.trial_records import (
    ATTEMPTS_ATTRIBUTE,
    ENDING_ATTRIBUTE,
    LOGGED,
    OUTCOME_ATTRIBUTE,
    RUN_ATTRIBUTE,
    START_ATTRIBUTE,
    TIME_LIMIT,
    TIMES,
    carry_values,
    packed_curve,
    read_records,
    record_of,
)
from tuner.trial.messages import JsonDict, Outcome

_LOOK_AGAIN_S = 1.0


@dataclass
class Run:
    """A run that is not closed yet, as the controller knows it.

    Attributes:
        trial: Optuna's handle.
        stage: Stage it belongs to.
        label: Of its configuration: "trial 7" or "default".
        seed: Its seed.
        values: Searched values by config path, in their own units.
        config: Its whole config.
        folder: Where its files are.
        curve: Its reports: step -> value.
        rungs: Rungs whose scores are in the registry.
        attempts: Earlier ends of its process: crashes and stops.
        error: Found by the controller, such as another value in use than the sampled one; empty if there is none.
        host: The other machine that it runs on, or ran on last; empty on this one.
        environment: Which one it is in, of a part of a run.
        times: Step -> seconds of training until then, where they are known.
        logged: The last value of each metric that it has logged.
        continues: Key of the paused run that it goes on from; empty for none, and for a copy of another one's.
    """

    trial: optuna.Trial
    stage: str
    label: str
    seed: int
    values: JsonDict
    config: JsonDict
    folder: Path
    curve: dict[float, float] = field(default_factory=dict)
    rungs: set[int] = field(default_factory=set)
    attempts: list[JsonDict] = field(default_factory=list)
    error: str = ""
    host: str = ""
    environment: str = ""
    times: dict[float, float] = field(default_factory=dict)
    logged: dict[str, float] = field(default_factory=dict)
    continues: str = ""

    @property
    def number(self) -> int:
        """Its number within its stage."""
        return self.trial.number

    @property
    def key(self) -> str:
        """As executors call it."""
        return f"{self.stage}/{self.number}"

    @property
    def title(self) -> str:
        """As it is shown to people."""
        return f"{self.key} in {self.environment}" if self.environment else self.key

    @property
    def num_crashes(self) -> int:
        """How many of its retries are used up. Stops do not count: they are the controller's doing."""
        return sum(Outcome(attempt["outcome"]).effects.uses_retry for attempt in self.attempts)

    @property
    def last_attempt(self) -> Outcome | None:
        """Outcome of the last failed or stopped attempt; None if there was none."""
        return Outcome(self.attempts[-1]["outcome"]) if self.attempts else None

    @property
    def is_retried(self) -> bool:
        """Whether it goes on after something that may have been the machine's doing, and not after a stop."""
        return self.last_attempt is not None and self.last_attempt.effects.retried

    @property
    def points(self) -> tuple[tuple[float, float], ...]:
        """The curve in order."""
        return tuple(sorted(self.curve.items()))

    @property
    def timing(self) -> Timing:
        """When its points were reached."""
        return Timing(tuple(sorted(self.times.items())))

    def note_attempt(self, outcome: Outcome, reason: str, seconds: float) -> None:
        """Adds how its process ended."""
        attempt = {"outcome": outcome.value, "reason": reason, "seconds": seconds}
        self.attempts.append({**attempt, "host": self.host} if self.host else attempt)


@dataclass(frozen=True)
class RunEnd:
    """The end of a run.

    Attributes:
        outcome: Its kind.
        value: The score; None for a run that has none.
        reason: One line for anything but a run that used all of its budget.
        seconds: Wall time of all its attempts.
        others: Its values of the objectives behind the score.
        used: The share of its budget that it has used, of a run that ended by itself before that did.
        time_limit: Seconds by which runs that miss a value are scored; 0: no score goes by it, or none is known.
    """

    outcome: Outcome
    value: float | None
    reason: str = ""
    seconds: float = 0.0
    others: tuple[float, ...] = ()
    used: float = 1.0
    time_limit: float = 0.0

    def of(self, run: Run) -> JsonDict:
        """Entries that the storage keeps of it beside its outcome and value."""
        ended = {"reason": self.reason, "seconds": round(self.seconds, 3), "curve": packed_curve(run.points)}
        if self.used < 1.0:
            ended["used"] = self.used
        if self.time_limit > 0.0:
            ended[TIME_LIMIT] = self.time_limit
        return {**ended, "host": run.host} if run.host else ended


class RunRegistry(ABC):
    """The runs of one stage. One controller writes it at a time."""

    def __init__(self, study: optuna.Study, stage: str, definition: StudyDefinition) -> None:
        self.study = study
        self.stage = stage
        self._definition = definition

    def open_runs(self) -> list[Run]:
        """Runs that an earlier controller has entered and not closed, oldest first."""
        runs = []
        for trial in self.study.get_trials(deepcopy=False, states=(TrialState.RUNNING,)):
            handle = handle_of(self.study, trial)
            if self._admits(handle):
                run = self._run(handle)
                run.rungs.update(trial.intermediate_values)
                runs.append(run)
        return runs

    def _admits(self, trial: optuna.Trial) -> bool:
        """Whether an entry can be run; one that cannot is closed."""
        del trial
        return True

    @property
    def num_open(self) -> int:
        """Runs entered and not closed."""
        return len(self.study.get_trials(deepcopy=False, states=(TrialState.RUNNING,)))

    @abstractmethod
    def next_run(self) -> Run | None:
        """Enters the next run; None if all are entered."""

    def make_ready(self, run: Run) -> None:  # noqa: B027 - most runs begin with nothing
        """Puts into a run's folder what it begins with; called before each of its attempts."""

    @abstractmethod
    def _run(self, trial: optuna.Trial) -> Run:
        """The run behind an entry; completes an entry that was only half made."""

    def note_attempt(self, run: Run, outcome: Outcome, reason: str, seconds: float) -> None:
        """Writes down that a process of the run ended, but not the run."""
        run.note_attempt(outcome, reason, seconds)
        run.trial.set_user_attr(ATTEMPTS_ATTRIBUTE, run.attempts)

    def report(self, run: Run, point: int, score: float) -> bool:
        """Enters the score at a rung; whether Optuna's pruner would end the run there.

        A rung that is entered already, before a controller died, is passed.
        """
        if point in run.rungs:
            return False
        run.rungs.add(point)
        run.trial.report(score, point)
        return run.trial.should_prune()

    def tell(self, run: Run, ending: RunEnd) -> RunRecord:
        """Closes a run. Everything but the closing itself can be done twice, so a kill in between costs nothing."""
        run.trial.set_user_attr(OUTCOME_ATTRIBUTE, ending.outcome.value)
        times = {TIMES: packed_curve(run.timing.seconds)} if self._definition.keeps_times else {}
        kept = {name: run.logged[name] for name in self._definition.kept_metrics if name in run.logged}
        metrics = {LOGGED: kept} if kept else {}
        run.trial.set_user_attr(ENDING_ATTRIBUTE, {**ending.of(run), **times, **metrics})
        if ending.outcome is Outcome.PRUNED:
            told = self.study.tell(run.trial, state=TrialState.PRUNED)
        elif ending.value is None:
            told = self.study.tell(run.trial, state=TrialState.FAIL)
        else:
            told = self.study.tell(run.trial, [ending.value, *ending.others])
        return self._record(told)

    def whole(self, run: Run, record: RunRecord) -> RunRecord | None:
        """The record of the run that this one is a part of, once that is closed too; its own, if it is no part."""
        del run
        return record

    def records(self) -> tuple[RunRecord, ...]:
        """All runs entered so far, in the order they were started."""
        return read_records(self.study, self.stage, self._definition.study_folder, self._definition.settings.others)

    def _record(self, trial: FrozenTrial) -> RunRecord:
        return record_of(trial, self.stage, self._definition.study_folder, self._definition.settings.others)

    def _folder(self, trial: optuna.Trial) -> Path:
        return self._definition.study_folder / self.stage / str(trial.number)


class ScreenRegistry(RunRegistry):
    """Many configurations, sampled, on one seed.

    Args:
        study: Optuna's.
        definition: The study.
        seed: Of all runs.
        num_distinct: How many different configurations there are; None: without end.
        one_more: Whether there may be one more than this number; once it says no there are no more.
    """

    def __init__(
        self,
        study: optuna.Study,
        definition: StudyDefinition,
        seed: int,
        num_distinct: int | None = None,
        one_more: Callable[[int], bool] = lambda num_entered: True,
    ) -> None:
        super().__init__(study, SCREEN, definition)
        self._one_more = one_more
        num_trials = definition.settings.num_trials
        self._total = num_trials if num_distinct is None else min(num_trials, num_distinct)
        begin_loop(study)  # samplers that have tried everything stop the study
        self._seed = seed
        self._look_again_at = 0.0
        trials = study.get_trials(deepcopy=False)
        self._num_entered = sum(trial.state is not TrialState.WAITING for trial in trials)
        begun = {trial.user_attrs.get(START_ATTRIBUTE) for trial in trials}
        for name, point in definition.starts().items():
            if name not in begun:  # all are, but for the first session and one that died in this very loop
                study.enqueue_trial(point, user_attrs={START_ATTRIBUTE: name})

    @property
    def num_entered(self) -> int:
        """Runs entered so far."""
        return self._num_entered

    @property
    def total(self) -> int:
        """Runs there will be: as many as asked for, or as the sampler has different ones."""
        return self._num_entered if is_stopped(self.study) else max(self._total, self._num_entered)

    def next_run(self) -> Run | None:
        """Samples the next configuration, up to the total."""
        while self._num_entered < self.total:
            if not self._one_more(self._num_entered):
                self._total = self._num_entered
                break
            trial = self._ask()
            self._num_entered += 1
            if self._admits(trial):
                return self._run(trial)
        return None

    def _admits(self, trial: optuna.Trial) -> bool:
        return admits(self.study, trial, self._definition.space)

    def _ask(self) -> optuna.Trial:
        """A trial that waits in the storage, wherever it came from, or else a new one.

        Optuna looks for one that waits each time, and reads all trials that are not over to do so, which with a
        thousand seats takes a fifth of a second. Where none was found, it is looked for again after a second.
        """
        if time.monotonic() >= self._look_again_at:
            trial = self.study.ask()
            if not enqueued_params(self.study, trial):  # none was waiting
                self._look_again_at = time.monotonic() + _LOOK_AGAIN_S
            return trial
        return ask_anew(self.study)

    def _run(self, trial: optuna.Trial) -> Run:
        drawn = self._definition.space.draw(suggest(trial))
        values = self._definition.space.values(drawn, self._definition.config)
        label = f"trial {trial.number}"
        if RUN_ATTRIBUTE not in trial.user_attrs:
            carry_values(trial, values)
            trial.set_user_attr(RUN_ATTRIBUTE, {"seed": self._seed})
        config = self._definition.run_config(values, self._seed)
        attempts = list(trial.user_attrs.get(ATTEMPTS_ATTRIBUTE, []))
        return Run(trial, SCREEN, label, self._seed, values, config, self._folder(trial), attempts=attempts)


class SeedRegistry(RunRegistry):
    """A few configurations, each on the same few seeds.

    Optuna's parameters are the candidate's screening number and the seed. (Labels as a categorical parameter would not
    do: Optuna forbids new choices, and a study that is continued with more trials may have new candidates.)
    """

    def __init__(
        self,
        study: optuna.Study,
        stage: str,
        definition: StudyDefinition,
        candidates: Sequence[Candidate],
        seeds: Sequence[int],
    ) -> None:
        super().__init__(study, stage, definition)
        # seed by seed, so that an interrupted stage has all candidates on the same seeds
        wanted = {(candidate.number, seed): candidate for seed in seeds for candidate in candidates}
        trials = study.get_trials(deepcopy=False)
        self._waiting = sum(trial.state is TrialState.WAITING for trial in trials)
        for trial in trials:
            wanted.pop(_identity(trial), None)
        self._wanted = wanted
        self._total = len(trials) + len(wanted)

    @property
    def total(self) -> int:
        """Runs there will be: those of candidates of earlier sessions count."""
        return self._total

    def next_run(self) -> Run | None:
        """Enters the next pair of configuration and seed that has not run."""
        if self._waiting:  # entered by a controller that died before it could start it
            self._waiting -= 1
        elif self._wanted:
            number, seed = next(iter(self._wanted))
            candidate = self._wanted.pop((number, seed))
            about = {"label": candidate.label, "seed": seed, "values": candidate.values}
            about |= {"schedule": candidate.schedule} if candidate.schedule else {}
            about |= {"baseline": candidate.baseline} if candidate.baseline else {}
            about["config"] = self._config(about)
            shown = {"configuration": candidate.label, **candidate.values}
            self.study.enqueue_trial({"candidate": number, "seed": seed}, user_attrs={**shown, RUN_ATTRIBUTE: about})
        else:
            return None
        return self._run(self.study.ask(_SEED_DISTRIBUTIONS))

    def _run(self, trial: optuna.Trial) -> Run:
        for name, distribution in _SEED_DISTRIBUTIONS.items():
            suggest(trial)(name, distribution)
        about = trial.user_attrs[RUN_ATTRIBUTE]
        attempts = list(trial.user_attrs.get(ATTEMPTS_ATTRIBUTE, []))
        label, seed, values = (about[key] for key in ("label", "seed", "values"))
        check_values(self._definition.space, values)
        config = self._config(about)  # that in the storage may be anybody's
        return Run(trial, self.stage, label, seed, values, config, self._folder(trial), attempts=attempts)

    def _config(self, about: JsonDict) -> JsonDict:
        if name := str(about.get("baseline", "")):
            return self._definition.baseline_config(name, about["seed"])
        return self._definition.run_config(about["values"], about["seed"], sound_schedule(about.get("schedule", {})))


_SEED_DISTRIBUTIONS: dict[str, BaseDistribution] = {
    "candidate": IntDistribution(-LARGEST_NUMBER, LARGEST_NUMBER),
    "seed": IntDistribution(0, LARGEST_NUMBER),
}


def _identity(trial: FrozenTrial) -> tuple[int, int]:
    """Candidate and seed of a run, whether it waits, runs or has ended."""
    drawn = {**trial.system_attrs.get("fixed_params", {}), **trial.params}
    return int(drawn["candidate"]), int(drawn["seed"])
