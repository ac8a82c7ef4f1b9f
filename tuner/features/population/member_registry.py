"""The runs of a population: one for each member and generation, each an Optuna trial that names its parent.

What a member does next follows from the scores of its generation and the study's seed alone, so the storage is all
that a controller needs to go on where another one was killed.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import optuna
from optuna.trial import FrozenTrial, TrialState

from tuner.features.population.evolution import Evolution
from tuner.features.population.exploit_explore import Breeding, Standing, Succession
from tuner.features.population.facts import EVOLVE
from tuner.features.population.gains import TrainedPart
from tuner.features.population.initial_state import drop_state, inherit
from tuner.features.population.knobs import knobs, schedule_of
from tuner.results.protocol import stage_seeds
from tuner.results.records import DESCENT, RunRecord
from tuner.study.definition import Candidate, StudyDefinition
from tuner.study.enqueued import close
from tuner.study.optuna_internals import suggest
from tuner.study.run_registry import Run, RunEnd, RunRegistry
from tuner.study.schedule_text import Schedule
from tuner.study.storage.trial_records import (
    ATTEMPTS_ATTRIBUTE,
    OUTCOME_ATTRIBUTE,
    RUN_ATTRIBUTE,
    carry_values,
    descent_of,
)
from tuner.study.study_errors import StudyError
from tuner.trial.folder import read_reports, read_times
from tuner.trial.messages import JsonDict, Outcome, Verdict

_ON_GRID = 1e-6


@dataclass(frozen=True)
class Node:
    """A run in the tree.

    Attributes:
        number: Of its trial.
        member: Which.
        parent: The run whose state it went on from; None in the first generation.
        standing: Its point of the space, and its score if it has ended well.
        is_over: Whether it has ended.
    """

    number: int
    member: int
    parent: int | None
    standing: Standing
    is_over: bool


class PopulationRegistry(RunRegistry):
    """A population in a stage of its own.

    Args:
        study: Optuna's.
        definition: With settings of an evolution.
    """

    def __init__(self, study: optuna.Study, definition: StudyDefinition) -> None:
        super().__init__(study, EVOLVE, definition)
        assert isinstance(definition.search, Evolution)
        self.evolution = definition.search
        self._num_members = definition.settings.num_trials
        self._seeds = stage_seeds(definition.seed, EVOLVE, self._num_members)
        space = definition.space
        evolving = tuple(knobs(space, definition.config).values())
        self._breeding = Breeding(space, evolving, self.evolution, definition.seed)
        self._successions: dict[int, list[Succession]] = {}
        self._tree: dict[int, dict[int, Node]] = {number: {} for number in range(self.evolution.generations)}
        trials = study.get_trials(deepcopy=False)
        entered = [trial for trial in trials if descent_of(trial.user_attrs) is not None]
        self._waiting = sum(trial.state is TrialState.WAITING for trial in entered)
        for trial in entered:
            self._take(trial)

    @property
    def total(self) -> int:
        """Runs there will be."""
        return self._num_members * self.evolution.generations

    @property
    def num_entered(self) -> int:
        """Runs entered so far."""
        return sum(map(len, self._tree.values()))

    def until(self, run: Run) -> float:
        """The fraction of its budget at which a run is paused; 1: it goes on to the end."""
        return (self._generation(run.number) + 1) / self.evolution.generations

    def next_run(self) -> Run | None:
        """Enters the next member; of a generation only once all of the one before have ended."""
        if self._waiting:  # entered by a controller that died before it could start it
            self._waiting -= 1
            return self._run(self._ask())
        for generation, nodes in self._tree.items():
            if len(nodes) < self._num_members:
                member = next(number for number in range(self._num_members) if number not in nodes)
                return self._enter(generation, member)
            if not all(node.is_over for node in nodes.values()):
                return None
        return None

    def make_ready(self, run: Run) -> None:
        """Gives a run the state that it goes on from."""
        node = self._node(run.number)
        if node.parent is not None:
            source = self._node(node.parent)
            is_copy = source.member != node.member
            inherit(run.folder, self._folder_of(source), is_copy=is_copy)
            run.continues = "" if is_copy else f"{self.stage}/{source.number}"
            run.curve, run.times = dict(read_reports(run.folder)), read_times(run.folder)

    def tell(self, run: Run, ending: RunEnd) -> RunRecord:
        """Closes a run; what only the generation before was needed for is removed once all of its own are closed."""
        generation = self._generation(run.number)
        share = RunEnd(
            ending.outcome,
            ending.value,
            ending.reason,
            ending.seconds,
            used=1.0 / self.evolution.generations,
            time_limit=ending.time_limit,
        )
        record = super().tell(run, share)
        self._take(self.study.get_trials(deepcopy=False)[run.number])
        nodes = self._tree[generation].values()
        if generation and len(nodes) == self._num_members and all(node.is_over for node in nodes):
            for node in self._tree[generation - 1].values():
                drop_state(self._folder_of(node))
        return record

    def schedules(self) -> list[Candidate]:
        """The histories of the last generation that have changed anything, best first; of equal ones the best."""
        found: dict[str, Candidate] = {}
        for node in self._ranked(self.evolution.generations - 1):
            candidate = self._candidate(node)
            if candidate.schedule:
                found.setdefault(repr((candidate.values, candidate.schedule)), candidate)
        return list(found.values())

    def statics(self) -> list[Candidate]:
        """Configurations of the first generation: those kept unchanged for longest first, by their scores then.

        The later a score, the more it says of the end: after the first generation alone, fast starters would lead.
        """
        unchanged = [
            self._line(node.number)[0]
            for generation in reversed(range(self.evolution.generations))
            for node in self._ranked(generation)
            if not self._candidate(node).schedule
        ]
        return [self._candidate(self._node(number)) for number in dict.fromkeys(unchanged)]

    def _ranked(self, generation: int) -> list[Node]:
        nodes = [node for node in self._tree[generation].values() if node.standing.score is not None]
        return sorted(nodes, key=lambda node: (-(node.standing.score or 0.0), node.number))

    def _candidate(self, node: Node) -> Candidate:
        line = self._line(node.number)
        return Candidate(node.number, f"trial {node.number}", self._values(line[0]), self._schedule(line))

    def _enter(self, generation: int, member: int) -> Run:
        if generation == 0:
            begun, parent = Succession(member, member, self._first(member)), None
        else:
            before = self._tree[generation - 1]
            standings = [before[number].standing for number in range(self._num_members)]
            if all(standing.score is None for standing in standings):
                raise StudyError(
                    f"no member of generation {generation - 1} of study {self._definition.name} came to its end, so "
                    "there is nothing to go on from.\nMend what the output of the runs shows, and begin another study "
                    "with another study.name"
                )
            if generation not in self._successions:
                self._successions[generation] = self._breeding.next(generation, standings, self._past(generation))
            begun = self._successions[generation][member]
            parent = before[begun.parent].number
        about = dict(zip(DESCENT, (member, generation, parent), strict=True))
        self.study.enqueue_trial(dict(begun.drawn), user_attrs={**about, RUN_ATTRIBUTE: {"seed": self._seeds[member]}})
        return self._run(self._ask())

    def _ask(self) -> optuna.Trial:
        """The entry that waits; those of others are closed."""
        while not self._admits(trial := self.study.ask()):
            pass
        return trial

    def _admits(self, trial: optuna.Trial) -> bool:
        is_member = descent_of(trial.user_attrs) is not None
        if not is_member:
            close(self.study, trial, "it was enqueued by somebody, and a population has its own members only")
        return is_member

    def _past(self, until: int) -> list[TrainedPart]:
        """Gain of each part of training before a generation, without those of failed members."""
        found = []
        for generation in range(until):
            for _, node in sorted(self._tree[generation].items()):
                before = 0.0 if node.parent is None else self._node(node.parent).standing.score
                if node.standing.score is not None and before is not None:
                    found.append(TrainedPart(generation, node.standing.drawn, node.standing.score - before))
        return found

    def _first(self, member: int) -> JsonDict:
        """Known configurations come first, where the search is to begin with any."""
        starts = list(self._definition.starts().values())
        return dict(starts[member]) if member < len(starts) else self._breeding.founder(member)

    def _run(self, trial: optuna.Trial) -> Run:
        space, definition = self._definition.space, self._definition
        drawn = space.draw(suggest(trial))
        if space.paths and not any(path in trial.user_attrs for path in space.paths):
            carry_values(trial, space.values(drawn, definition.config))
        self._take(self.study.get_trials(deepcopy=False)[trial.number])
        line = self._line(trial.number)
        values, seed = self._values(line[0]), int(trial.user_attrs[RUN_ATTRIBUTE]["seed"])
        config = definition.run_config(values, seed, self._schedule(line))
        attempts = list(trial.user_attrs.get(ATTEMPTS_ATTRIBUTE, []))
        label = f"trial {trial.number}"
        return Run(trial, EVOLVE, label, seed, values, config, self._folder(trial), attempts=attempts)

    def _take(self, trial: FrozenTrial) -> None:
        """Puts a trial into the tree, or what has become of it."""
        descent = descent_of(trial.user_attrs)
        assert descent is not None, "a population has a study of its own"
        drawn = {**trial.system_attrs.get("fixed_params", {}), **trial.params}
        outcome = trial.user_attrs.get(OUTCOME_ATTRIBUTE)
        good = trial.state is TrialState.COMPLETE and outcome is not None and Outcome(outcome).effects.scored
        self._tree[descent.generation][descent.member] = Node(
            trial.number,
            descent.member,
            descent.parent,
            Standing(drawn, trial.value if good else None),
            trial.state.is_finished(),
        )

    def _generation(self, number: int) -> int:
        return next(
            generation
            for generation, nodes in self._tree.items()
            if any(node.number == number for node in nodes.values())
        )

    def _node(self, number: int) -> Node:
        nodes = self._tree[self._generation(number)].values()
        return next(node for node in nodes if node.number == number)

    def _folder_of(self, node: Node) -> Path:
        return self._definition.study_folder / self.stage / str(node.number)

    def _line(self, number: int | None) -> list[int]:
        """The runs from the first generation to this one."""
        line: list[int] = []
        while number is not None:
            line.insert(0, number)
            number = self._node(number).parent
        return line

    def _values(self, number: int) -> JsonDict:
        space = self._definition.space
        return space.values(self._node(number).standing.drawn, self._definition.config)

    def _schedule(self, line: Sequence[int]) -> Schedule:
        history = [self._values(number) for number in line]
        return schedule_of(history, self._definition.space, self._definition.config, self.evolution.generations)


class SegmentJudge:
    """Pauses each run at the end of its generation."""

    def __init__(self, population: PopulationRegistry) -> None:
        self._population = population

    def answer(self, registry: RunRegistry, run: Run, step: float) -> Verdict:
        """The verdict on a run that has just reported at this step."""
        del registry
        until = self._population.until(run)
        return "pause" if until - _ON_GRID <= step and until < 1.0 else "continue"

    def catch_up(self, registry: RunRegistry, run: Run) -> None:
        """There is nothing to enter: a run tells its last report again when it goes on."""
