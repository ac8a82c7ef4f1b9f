"""Has the runs of an ablation done: the same processes, storage and seeds by stream as those of the study.

Which runs there are follows from the scores of those before, and from nothing else. After any kind of death the same
call comes to the same place again, with the runs that have ended.
"""

import json
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, replace

import optuna

from tuner.executors.base import Executor
from tuner.features.ablation.blocks import Between, Changed
from tuner.features.ablation.facts import ABLATE, ABLATION, Ablation, CheckedRange
from tuner.features.ablation.found_ranges import allowed_loss
from tuner.features.ablation.path import NONE_CHANGED, AblationPath, Scores
from tuner.features.ablation.range_search import Moved, RangeSearch, axes_of
from tuner.features.ablation.settings import AblationSettings
from tuner.results.number_format import join_words
from tuner.results.records import LATER_STAGES, SCREEN, RunRecord
from tuner.study.control import Interrupts, sole_controller
from tuner.study.definition import DEFAULT_CANDIDATE, Candidate, StudyDefinition
from tuner.study.dispatch import Dispatcher, Stage
from tuner.study.end_rules import TrialEndRules
from tuner.study.importance import judged_trials
from tuner.study.run_registry import SeedRegistry
from tuner.study.space.space import Parameter
from tuner.study.storage import store as attributes
from tuner.study.storage.ownership import Ownership, refuse_another
from tuner.study.storage.retries import STORAGE_ERRORS, explained
from tuner.study.storage.store import StudyStore, name_objectives
from tuner.study.storage.trial_records import RUN_ATTRIBUTE, read_records
from tuner.study.study_errors import StudyError
from tuner.study.watching.study_listener import StudyListener
from tuner.trial.messages import JsonDict


@dataclass(frozen=True)
class AblationTask:
    """The measurements that an ablation has to make.

    Attributes:
        definition: The study.
        between: The differences of its default configuration and its winner.
        settings: On how many seeds.
        is_possible: Whether there can be a run with this config.
        moved: Parameters of which it is asked how far they may move.
    """

    definition: StudyDefinition
    between: Between
    settings: AblationSettings
    is_possible: Callable[[JsonDict], bool] = lambda config: True
    moved: tuple[Parameter, ...] = ()

    def config(self, changed: Changed, moved: Moved | None = None) -> JsonDict:
        """Of a run with these changes, and with another value of one parameter."""
        return self.definition.run_config(self.values(changed, moved), self.definition.seed)

    def values(self, changed: Changed, moved: Moved | None = None) -> JsonDict:
        """By config path, what such a run has in place of the default configuration's."""
        return {**self.between.values(changed), **({} if moved is None else dict([moved]))}

    def name(self, changed: Changed, moved: Moved | None = None) -> str:
        """Label of such a configuration; no other one of the study has it."""
        return self.between.name(changed) + ("" if moved is None else f" with {moved[0]} {moved[1]!r}")


class AblationRunner:
    """The one controller of an ablation, and of its study meanwhile.

    Args:
        task: The measurements to make.
        store: Where the study is kept.
        executor: Runs the trials. Not closed here.
        listener: Gets all events.
    """

    def __init__(
        self, task: AblationTask, store: StudyStore, executor: Executor, listener: StudyListener | None = None
    ) -> None:
        self._task = task
        self._store = store
        self._executor = executor
        self._listener = listener or StudyListener()
        self._interrupts = Interrupts(store)

    def run(self) -> Ablation:
        """Runs the ablation, or what is left of it, and keeps with the study what it found.

        Raises:
            StudyStopped: Asked to stop; the same call goes on later.
            StudyError: Nothing works.
            StorageLostError: The database does not answer, or the disk is full; the same call goes on later.
            UserError: The study is run by another controller, or has become another one.
        """
        definition = self._task.definition
        refuse_another(self._store, definition, watch=True)
        with sole_controller(definition.study_folder), self._interrupts.handling_signals():
            try:
                screen = self._store.require(definition.name)
                ownership = Ownership(screen, definition.study_folder, self._store.file)
                with ownership.lease():
                    return self._run(screen, ownership)
            except STORAGE_ERRORS as error:
                raise explained(error) from error

    def _run(self, screen: optuna.Study, ownership: Ownership) -> Ablation:
        definition, between = self._task.definition, self._task.between
        end_rules = TrialEndRules(definition, screen.user_attrs.get(attributes.RANDOM_SCORE))
        dispatcher = Dispatcher(end_rules, self._executor, self._interrupts, self._listener, ownership.heartbeat)
        dispatcher.restore(self._earlier())
        study = self._store.open(definition.name, ABLATE)
        name_objectives(study, ())
        runs = _AblationRuns(self._task, study, dispatcher, self._listener)
        path = AblationPath(
            between,
            self._task.settings,
            definition.seed,
            runs.of_path,
            lambda changed: self._task.is_possible(self._task.config(changed)),
            self._announce,
        )
        found = path.walk()
        found = self._keep(study, runs.with_costs(replace(found, ranges=_ranges_of_before(study, found))))
        if self._task.moved:
            found = self._keep(study, runs.with_costs(self._with_ranges(found, screen, runs)))
        return found

    def _keep(self, study: optuna.Study, found: Ablation) -> Ablation:
        study.set_user_attr(ABLATION.key, json.loads(json.dumps(asdict(found))))
        return found

    def _with_ranges(self, found: Ablation, screen: optuna.Study, runs: "_AblationRuns") -> Ablation:
        task, goal = self._task, self._task.between.all
        self._listener.on_note(
            f"next, how far {join_words(one.path for one in task.moved)} may move from the winner's value"
        )
        trials = judged_trials(screen)
        number = next((one.number for one in trials if f"trial {one.number}" == task.between.label), -1)
        axes = axes_of(task.moved, task.config(goal), trials, number, allowed_loss(found))
        search = RangeSearch(
            found,
            axes,
            task.settings.num_checks,
            runs.of_ranges,
            lambda moved: task.is_possible(task.config(goal, moved)),
        )
        return search.walk()

    def _earlier(self) -> Iterator[RunRecord]:
        """Records of the study, and of earlier sessions of this ablation."""
        definition = self._task.definition
        for stage in (SCREEN, *LATER_STAGES, ABLATE):
            if (study := self._store.find(definition.name, stage)) is not None:
                yield from read_records(study, stage, definition.study_folder)

    def _announce(self, before: Changed, after: Changed) -> None:
        changes = [one for index in sorted(after - before) for one in self._task.between.blocks[index].changes]
        moved = join_words(change.words for change in changes)
        self._listener.on_note(f"next on the path: {moved}")


class _AblationRuns:
    """The runs of an ablation, kept in an Optuna study of their own; a configuration is known by its name."""

    def __init__(
        self, task: AblationTask, study: optuna.Study, dispatcher: Dispatcher, listener: StudyListener
    ) -> None:
        self._task = task
        self._study = study
        self._dispatcher = dispatcher
        self._listener = listener
        self._used: set[tuple[str, int]] = set()

    def of_path(self, configurations: Sequence[Changed], seeds: Sequence[int], to_come: int) -> dict[Changed, Scores]:
        """Runs what has not run yet; see `tuner.features.ablation.path.Measure`."""
        named = {one: (self._task.name(one), self._task.values(one)) for one in configurations}
        found = self._measure(dict(named.values()), seeds, to_come)
        return {one: found[name] for one, (name, _) in named.items()}

    def of_ranges(self, moved: Sequence[Moved], seeds: Sequence[int], to_come: int) -> dict[Moved, Scores]:
        """The same of the winner with other values; see `tuner.features.ablation.range_search.Measure`.

        The default configuration, which has run there, is measured with them: a run that fails counts with the worst.
        """
        task, goal = self._task, self._task.between.all
        named = {one: (task.name(goal, one), task.values(goal, one)) for one in moved}
        found = self._measure({task.name(NONE_CHANGED): {}, **dict(named.values())}, seeds, to_come)
        return {one: found[name] for one, (name, _) in named.items()}

    def _measure(self, configurations: Mapping[str, JsonDict], seeds: Sequence[int], to_come: int) -> dict[str, Scores]:
        """Scores of configurations, which are given as values by name."""
        numbers = self._numbers(configurations)
        candidates = [Candidate(numbers[name], name, values) for name, values in configurations.items()]
        registry = SeedRegistry(self._study, ABLATE, self._task.definition, candidates, seeds)
        self._listener.on_stage(ABLATE, registry.total + to_come, registry.records())
        self._dispatcher.run_stage(Stage(registry))
        self._used.update((candidate.label, seed) for candidate in candidates for seed in seeds)
        asked = [run for run in registry.records() if run.label in configurations and run.seed in seeds]
        found = _scores_by_label(asked)
        worst = min((score for scores in found.values() for score in scores.values()), default=None)
        if worst is None:
            raise StudyError(
                f"no run of the ablation of study {self._task.definition.name} came to a good end; see the output of "
                f"its runs in {self._task.definition.study_folder / ABLATE}"
            )
        return {name: {seed: found.get(name, {}).get(seed, worst) for seed in seeds} for name in configurations}

    def with_costs(self, ablation: Ablation) -> Ablation:
        """The same with the number of runs that it is made of, and their time."""
        records = read_records(self._study, ABLATE, self._task.definition.study_folder)
        own = [run for run in records if (run.label, run.seed) in self._used]
        seconds = round(sum(run.seconds for run in own), 1)
        return replace(ablation, num_runs=len(own), num_failed=sum(run.failed for run in own), seconds=seconds)

    def _numbers(self, names: Iterable[str]) -> dict[str, int]:
        """Candidate numbers by name, as they were given out before, and new ones."""
        known = {self._task.between.name(frozenset()): DEFAULT_CANDIDATE}
        for trial in self._study.get_trials(deepcopy=False):
            drawn = {**trial.system_attrs.get("fixed_params", {}), **trial.params}
            known[str(trial.user_attrs[RUN_ATTRIBUTE]["label"])] = int(drawn["candidate"])
        for name in names:
            known.setdefault(name, max(known.values()) + 1)
        return known


def _scores_by_label(records: Sequence[RunRecord]) -> Mapping[str, Mapping[int, float]]:
    found: dict[str, dict[int, float]] = {}
    for run in records:
        if run.score is not None:
            found.setdefault(run.label, {})[run.seed] = run.score
    return found


def _ranges_of_before(study: optuna.Study, found: Ablation) -> tuple[CheckedRange, ...]:
    """Ranges from an earlier session for the same configuration and seeds, where this one does not check ranges."""
    kept = study.user_attrs.get(ABLATION.key)
    before = None if kept is None else ABLATION.read(kept)
    if before is None or (before.winner, before.skipped) != (found.winner, found.skipped):
        return ()
    shared = min(len(before.seeds), len(found.seeds))
    same = before.seeds[:shared] == found.seeds[:shared]
    few = all(len(one.scores) <= shared for each in before.ranges for one in each.checked)
    return before.ranges if same and few else ()
