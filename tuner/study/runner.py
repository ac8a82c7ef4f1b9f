"""One study from beginning to end: screen, confirm, test. Its own crash at any instant costs nothing but time."""

import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import suppress
from functools import partial

import optuna
from optuna.pruners import BasePruner, NopPruner
from optuna.samplers import TPESampler

from tuner.executors.base import Executor
from tuner.features import parts
from tuner.results.features import all_stages, stages_behind
from tuner.results.metric import Rescale, as_it_is
from tuner.results.number_format import counted
from tuner.results.protocol import stage_seeds
from tuner.results.records import (
    CONFIRM,
    LATER_STAGES,
    RACE,
    SCREEN,
    TEST,
    RunRecord,
    StudySummary,
)
from tuner.results.selection import (
    MIN_RACE_SEEDS,
    WinnerSelection,
    rank_entrants,
    survivors,
)
from tuner.study.budget import Allowance, fits_before_test
from tuner.study.control import Interrupts, archive, sole_controller
from tuner.study.definition import Candidate, StudyDefinition, default_in_test
from tuner.study.dispatch import Dispatcher, Judge, Stage
from tuner.study.end_rules import TrialEndRules
from tuner.study.features import Bench, InStudy, Selection, check_definition, rescale_of, why_unpruned
from tuner.study.guard import further_trials
from tuner.study.run_registry import RunRegistry, ScreenRegistry, SeedRegistry
from tuner.study.sampling.pruning import RungJudge, decisions_from_json, decisions_to_json, describe_decisions
from tuner.study.sampling.sampler_factory import SamplerFactory, make_sampler, num_distinct
from tuner.study.score_checks import check_scores
from tuner.study.storage import store as attributes
from tuner.study.storage.ownership import Ownership, refuse_another
from tuner.study.storage.retries import STORAGE_ERRORS, StorageLostError, explained
from tuner.study.storage.store import StudyStore, begin_or_continue, describe, name_objectives
from tuner.study.storage.trial_records import default_trial, read_records
from tuner.study.study_errors import StudyError
from tuner.study.study_probe import PROBE, run_probe
from tuner.study.summary import summarise
from tuner.study.watching.study_listener import Listeners, StudyListener
from tuner.study.watching.version_notes import VersionNotes


class StudyRunner:
    """The one controller of a study.

    Args:
        definition: The study.
        store: Where it is kept; this process is its only writer.
        executor: Runs the trials. Not closed here.
        make_sampler: Makes Optuna's sampler.
        pruner: Optuna's pruner, asked at rungs only; None: no pruning.
        listener: Gets all events.
    """

    def __init__(
        self,
        definition: StudyDefinition,
        store: StudyStore,
        executor: Executor,
        make_sampler: SamplerFactory = TPESampler,
        pruner: BasePruner | None = None,
        listener: StudyListener | None = None,
    ) -> None:
        check_definition(definition)
        self._definition = definition
        self._store = store
        self._executor = executor
        self._make_sampler = make_sampler
        self._pruner = NopPruner() if pruner is None or why_unpruned(describe(definition)) else pruner
        for part in parts(InStudy):
            self._pruner = part.pruner(definition, self._pruner)
        selections = (part.selection(definition) for part in parts(InStudy))
        self._selection: Selection = next(filter(None, selections), WinnerSelection(definition.settings.over_seeds))
        self._listener = listener or StudyListener()
        self._interrupts = Interrupts(store)
        self._began = time.monotonic()
        self._seconds_before = 0.0
        self._rescale: Rescale = as_it_is

    def run(self) -> StudySummary:
        """Runs the study, or what is left of it.

        Returns:
            Its result.

        Raises:
            StudyStopped: Asked to stop; the same call goes on later.
            StudyError: Nothing works, or nothing is left to choose from.
            StorageLostError: The database does not answer, or the disk is full; the same call goes on later.
            UserError: It cannot begin, or not go on as it began.
        """
        refuse_another(self._store, self._definition, watch=True)
        with sole_controller(self._definition.study_folder), self._interrupts.handling_signals():
            try:
                self._run()
            except STORAGE_ERRORS as error:
                raise explained(error) from error
            except KeyError as error:  # of Optuna's storages, for what is there no longer
                if self._store.find(self._definition.name) is not None:
                    raise
                raise StorageLostError(
                    f"study {self._definition.name} was deleted from the storage while it ran. Put back a copy of the "
                    "storage, and the same command goes on; without one, it begins the study anew"
                ) from error
        return summarise(self._store, self._definition.name, self._definition.study_folder)

    def _run(self) -> None:
        self._began = time.monotonic()
        definition = self._definition
        screen = self._store.open(definition.name, SCREEN, pruner=self._pruner, directions=definition.directions)
        ownership = Ownership(screen, definition.study_folder, self._store.file)
        with ownership.lease():
            self._begin(screen)
            versions = VersionNotes(screen, definition.backend, self._listener.on_note)
            self._listener = Listeners(versions, self._listener)
            self._seconds_before = float(screen.user_attrs.get(attributes.SECONDS, 0.0))
            self._run_owned(screen, ownership)

    def _run_owned(self, screen: optuna.Study, ownership: Ownership) -> None:
        try:
            self._run_stages(screen, ownership)
        except (*STORAGE_ERRORS, StorageLostError):
            raise  # nothing can be written down now
        except BaseException:
            with suppress(StorageLostError):
                self._leave(screen)
            raise
        self._leave(screen)

    def _leave(self, screen: optuna.Study) -> None:
        self._note_seconds(screen)
        for part in parts(InStudy):
            part.leave(self._definition, screen)

    def _note_seconds(self, screen: optuna.Study) -> None:
        screen.set_user_attr(attributes.SECONDS, round(self._seconds(), 1))

    def _seconds(self) -> float:
        """The duration of the study so far, over all its sessions."""
        return self._seconds_before + time.monotonic() - self._began

    def _begin(self, study: optuna.Study) -> None:
        definition = self._definition
        new = begin_or_continue(study, definition, self._store.url)
        name_objectives(study, definition.others)
        if new:
            for name in (*all_stages(), *stages_behind(), PROBE):
                if (aside := archive(definition.study_folder / name)) is not None:
                    self._listener.on_note(
                        f"{definition.study_folder / name} is of an earlier study and is now {aside.name}"
                    )
        num_trials = len(study.get_trials(deepcopy=False))
        sampler = make_sampler(self._make_sampler, definition.seed, num_trials, definition.space)
        sampler.before_end = [partial(part.before_end, definition, study) for part in parts(InStudy)]
        study.sampler = sampler

    def _run_stages(self, screen: optuna.Study, ownership: Ownership) -> None:
        settings = self._definition.settings
        for part in parts(InStudy):
            part.prepare(self._definition, screen, self._measure)
        self._rescale = rescale_of(screen)
        end_rules = TrialEndRules(self._definition, self._probe(screen), self._rescale)

        def heartbeat() -> None:
            if ownership.heartbeat():
                self._note_seconds(screen)  # a session that is killed notes nothing in the end

        dispatcher = Dispatcher(end_rules, self._executor, self._interrupts, self._listener, heartbeat)
        earlier = tuple(self._records((self._definition.first_stage, *LATER_STAGES)))
        check_scores(earlier, self._definition.metric, self._definition.others, self._rescale)
        dispatcher.restore(earlier)
        bench = Bench(
            self._definition,
            screen,
            self._listener,
            partial(self._records, LATER_STAGES),
            dispatcher.run_stage,
            partial(self._run_seeds, dispatcher),
            self._open_stage,
            self._in_parts,
            self._nothing_confirmed,
            self._fits,
            lambda: self._closed_at(screen) is not None,
        )
        found = next(filter(None, (part.find(bench) for part in parts(InStudy))), None)
        compared = self._select(bench, dispatcher) if found is None else found
        known = [*map(Candidate.known, settings.baselines)]
        screen.set_user_attr(attributes.BASELINES, [one.label for one in known])
        default = self._default(screen, compared)
        self._run_seeds(dispatcher, TEST, [*compared, *default, *known], settings.num_test_seeds)

    def _fits(self, runs: Sequence[RunRecord]) -> bool:
        """Whether one more run of confirmation leaves the test its share of a budget of time."""
        return fits_before_test(self._definition, self._executor.parallel, self._seconds(), runs)

    def _default(self, screen: optuna.Study, compared: Sequence[Candidate]) -> list[Candidate]:
        """The default configuration, unless it is compared already; one that was tested as a trial stays a trial."""
        started = default_trial(screen)
        labels = {one.label for one in compared}
        if started in labels:
            return []
        label = default_in_test(started, {run.label for run in self._records([TEST])})
        screened = [run for run in self._records([SCREEN]) if run.label == label]
        return self._candidates(screen, screened) or [Candidate.default()]

    def _select(self, bench: Bench, dispatcher: Dispatcher) -> list[Candidate]:
        """Screens, and runs the best again: the winner, or all that the study chooses."""
        screen = bench.study
        screened = self._screen(screen, dispatcher)
        self._entrants(screened)  # refuses where there is nothing to choose from
        decided = next(filter(None, (part.decide(bench, screened) for part in parts(InStudy))), None)
        winners = self._confirm(screen, dispatcher, screened) if decided is None else decided
        if not winners:
            raise self._nothing_confirmed()
        for key, kept in self._selection.kept(winners).items():
            screen.set_user_attr(key, kept)
        screen.set_user_attr(attributes.WINNER, winners[0].label)
        return self._candidates(screen, winners)

    def _confirm(
        self, screen: optuna.Study, dispatcher: Dispatcher, screened: tuple[RunRecord, ...]
    ) -> Sequence[RunRecord]:
        """Races and confirms: what is chosen, the winner first."""
        candidates = self._race(screen, dispatcher, screened)
        num_seeds = self._definition.settings.num_select_seeds
        confirmed = self._run_seeds(dispatcher, CONFIRM, self._candidates(screen, candidates), num_seeds)
        return self._selection.chosen(confirmed, self._eligible(candidates, confirmed), tuple(self._records([RACE])))

    def _eligible(self, candidates: tuple[RunRecord, ...], runs: Sequence[RunRecord]) -> tuple[RunRecord, ...]:
        """Those that may be chosen, given their runs so far."""
        for part in parts(InStudy):
            candidates = part.eligible(self._definition, candidates, runs)
        return candidates

    def _nothing_confirmed(self) -> StudyError:
        return StudyError(
            f"no candidate of study {self._definition.name} finished on another seed; "
            "see the output of the runs of its stage confirm"
        )

    def _race(
        self, screen: optuna.Study, dispatcher: Dispatcher, screened: tuple[RunRecord, ...]
    ) -> tuple[RunRecord, ...]:
        """The runs to be confirmed, best first: the best of the screening stage, after a race if there is to be one."""
        settings = self._definition.settings
        entrants = self._entrants(screened)
        raced: tuple[RunRecord, ...] = ()
        for num_seeds in range(min(MIN_RACE_SEEDS - 1, settings.num_race_seeds), settings.num_race_seeds + 1):
            if len(entrants) > settings.num_candidates:
                raced = self._run_seeds(dispatcher, RACE, self._candidates(screen, entrants), num_seeds)
                entrants = self._eligible(entrants, (*entrants, *raced))
                entrants = survivors(entrants, raced, settings.num_candidates, settings.over_seeds)
        if settings.num_race_seeds and not raced:
            self._listener.on_stage(RACE, 0, ())
        ranked = rank_entrants(entrants, raced, settings.over_seeds) if raced else entrants
        return ranked[: settings.num_candidates]

    def _entrants(self, screened: tuple[RunRecord, ...]) -> tuple[RunRecord, ...]:
        """Those that go on from the screening stage, best first; there is one at least."""
        settings = self._definition.settings
        count = settings.num_entrants if settings.num_race_seeds else settings.num_candidates
        if entrants := self._selection.entrants(self._eligible(screened, screened), count):
            return entrants
        num = len(screened)
        raise StudyError(
            f"none of the {num} trials of study {self._definition.name} came to a good end, "
            "so there is nothing to confirm.\nMend what the output of the trials shows. "
            f"{further_trials(num, num, settings.num_trials)}."
        )

    def _screen(self, study: optuna.Study, dispatcher: Dispatcher) -> tuple[RunRecord, ...]:
        definition = self._definition
        seed = stage_seeds(definition.seed, SCREEN, 1)[0]
        distinct = num_distinct(study.sampler, definition.space)
        allowance = Allowance(definition, self._executor.parallel, self._seconds)
        possible = [number for number in (distinct, self._closed_at(study)) if number is not None]
        registry = ScreenRegistry(
            study, definition, seed, min(possible, default=None), partial(self._one_more, study, allowance)
        )
        runs = self._in_parts(registry)
        if registry.num_open or registry.num_entered < registry.total:
            study.set_user_attr(attributes.WINNER, None)  # more trials may bring another
            for key, nothing in (item for part in parts(InStudy) for item in part.undecided.items()):
                study.set_user_attr(key, nothing)
        self._listener.on_stage(SCREEN, registry.total, (*registry.records(), *self._records(LATER_STAGES)))
        if registry.num_entered > definition.settings.num_trials:
            self._listener.on_note(
                f"{registry.num_entered} trials are there already; "
                f"study.num_trials={definition.settings.num_trials} asks for no further one"
            )
        if distinct is not None and distinct > registry.total:
            self._listener.on_note(
                f"{registry.total} of the {distinct} points of the grid are tried; "
                f"study.num_trials={distinct} tries all of them"
            )
        judge, decide = self._judge(study, registry)

        def after(record: RunRecord) -> None:
            allowance.see(record)
            if decide is not None:
                decide(record)

        for record in registry.records():  # a controller may have died between the last run that was needed and this
            after(record)
        dispatcher.run_stage(Stage(runs, judge, after))
        return registry.records()

    def _closed_at(self, study: optuna.Study) -> int | None:
        """The trials after which an earlier session ended the stage, if the budget is still the same."""
        closed = dict(study.user_attrs.get(attributes.CLOSED, {}))
        num_trials = closed.pop("num_trials", None)
        return num_trials if isinstance(num_trials, int) and closed == self._budget else None

    @property
    def _budget(self) -> dict[str, float | None]:
        settings = self._definition.settings
        return {"budget_s": settings.budget_s, "max_env_steps": settings.max_env_steps}

    def _one_more(self, study: optuna.Study, allowance: Allowance, num_entered: int) -> bool:
        """Whether one more trial fits the budget; if not, that is written down and shown."""
        if allowance.one_more(num_entered):
            return True
        study.set_user_attr(attributes.CLOSED, {"num_trials": num_entered, **self._budget})
        trials = f"{counted(num_entered, 'trial')} {'is' if num_entered == 1 else 'are'}"
        self._listener.on_note(f"{allowance.why_not}, so no more than {trials} screened{allowance.advice}")
        self._listener.on_stage(SCREEN, num_entered, ())
        return False

    def _records(self, stages: Iterable[str]) -> Iterator[RunRecord]:
        """Records of earlier sessions in these stages."""
        definition = self._definition
        for stage in stages:
            kept_in = SCREEN if stage == self._definition.first_stage else stage
            if (study := self._store.find(definition.name, kept_in)) is not None:
                yield from read_records(study, stage, definition.study_folder, definition.settings.others)

    def _judge(
        self, study: optuna.Study, registry: RunRegistry
    ) -> tuple[Judge | None, Callable[[RunRecord], None] | None]:
        if isinstance(self._pruner, NopPruner):
            return None, None
        own = (part.judge(self._definition, study, self._listener.on_note) for part in parts(InStudy))
        if (judged_by := next(filter(None, own), None)) is not None:
            return judged_by, judged_by.see
        pruning = self._definition.settings.pruning
        judge = RungJudge(pruning, self._definition.num_points, self._definition.metric)
        if attributes.RUNGS in study.user_attrs:
            judge.decisions = decisions_from_json(study.user_attrs[attributes.RUNGS]["decisions"])

        def after(record: RunRecord) -> None:
            if judge.decide(record):
                assert judge.decisions is not None
                about = {"num_trials": judge.num_trials, "decisions": decisions_to_json(judge.decisions)}
                study.set_user_attr(attributes.RUNGS, about)
                self._listener.on_note(describe_decisions(judge.decisions, judge.num_trials))

        return judge, after

    def _run_seeds(
        self, dispatcher: Dispatcher, stage: str, candidates: list[Candidate], num_seeds: int
    ) -> tuple[RunRecord, ...]:
        seeds = stage_seeds(self._definition.seed, stage, num_seeds)
        registry = SeedRegistry(self._open_stage(stage), stage, self._definition, candidates, seeds)
        runs = self._in_parts(registry)
        self._listener.on_stage(stage, registry.total, registry.records())
        dispatcher.run_stage(Stage(runs))
        return tuple(run for run in registry.records() if run.seed in seeds)

    def _open_stage(self, stage: str) -> optuna.Study:
        study = self._store.open(self._definition.name, stage, directions=self._definition.directions)
        name_objectives(study, self._definition.others)
        return study

    def _in_parts(self, registry: RunRegistry) -> RunRegistry:
        """The runs of a stage, or what they are made of."""
        made = (part.in_parts(registry, self._definition, self._rescale) for part in parts(InStudy))
        return next(filter(None, made), registry)

    def _candidates(self, screen: optuna.Study, runs: Iterable[RunRecord]) -> list[Candidate]:
        trials = screen.get_trials(deepcopy=False)
        space, config = self._definition.space, self._definition.config
        return [Candidate(run.number, run.label, space.values(trials[run.number].params, config)) for run in runs]

    def _probe(self, study: optuna.Study) -> float | None:
        """Measures a random policy, once; an environment and an agent that do not fit each other are found here."""
        known: float | None = study.user_attrs.get(attributes.RANDOM_SCORE)
        if known is not None or self._definition.probe is None:
            return known
        score = self._measure(self._definition)
        study.set_user_attr(attributes.RANDOM_SCORE, score)
        return score

    def _measure(self, definition: StudyDefinition, number: int = 0) -> float | None:
        return run_probe(definition, self._executor, self._interrupts, number, self._listener.on_note)
