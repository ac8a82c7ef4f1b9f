"""Records of a study: plain values, written by the study runner and read by verdict, tables and page.

Nothing here computes a judgement; `tuner.results.verdict` and `tuner.results.insights` do. Higher values are better but
where a record says otherwise: in sweeps that minimise, and in further objectives such as time.
"""

import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, fields
from functools import cached_property
from typing import Any, Final, Generic, TypeVar, cast

from tuner.support.decoding import decode
from tuner.trial.messages import Outcome

Scalar = bool | int | float | str | None
"""A parameter value as it stands in a configuration."""

T = TypeVar("T")

SCREEN: Final = "screen"
RACE: Final = "race"
CONFIRM: Final = "confirm"
TEST: Final = "test"
LATER_STAGES: Final = (RACE, CONFIRM, TEST)


def numbers_among(values: Iterable[Scalar]) -> list[float]:
    """Those of the values that are numbers; true and false are none."""
    return [value for value in values if isinstance(value, int | float) and not isinstance(value, bool)]


EARLIER_STUDY: Final = "study:"
"""In front of the names of configurations that another study has found."""
ONE_CHANGED: Final = "default with "
"""In front of what is changed: `default with network.activation=tanh`."""
PRIORS: Final = "prior"
"""The name of the configuration of all values that are expected to be good."""


@dataclass(frozen=True)
class Descent:
    """Where a run stands in the tree of those that go on from one another.

    Attributes:
        member: Counted from 0.
        generation: Counted from 0.
        parent: Number of the run whose state it went on from; None in the first generation.
    """

    member: int
    generation: int
    parent: int | None = None


DESCENT: Final = tuple(field.name for field in fields(Descent))
"""Names of its fields."""


@dataclass(frozen=True)
class RunRecord:
    """One training run of a study: a configuration, a seed, a stage.

    Attributes:
        number: number within its stage, counted from 0.
        stage: in which it is run.
        label: which configuration it runs: "trial 7", or the study's default label.
        seed: the run's seed.
        params: configuration path -> sampled value. Empty for the default configuration.
        outcome: None while it runs.
        value: the study's metric. A run that diverged, ran out of memory or out of time has the value that the sampler
            gets (the score of a random policy if that is known, or the worst one of the study); a crashed one has none.
        reason: one line for anything but a run that used all of its budget.
        curve: (step, value) of each report, in order.
        seconds: wall time.
        folder: where the run's files are.
        scores: further measures of the same run under their names, for instance {"final": 500.0, "auc": 431.2}.
        used: share of its budget, of a run that ended by itself before that did and whose curve is held; None: as far
            as the curve goes.
        host: the machine that it ran on, or ended on, if that was another one than the controller's.
        descent: where it stands in the tree of those that go on from one another; None: it begins from nothing.
        environment: of a part, the one that it is in.
        parts: of a run in more than one environment those so far, in their order, with returns for `curve` and a score
            on the scale of the environment for `value`; those of the whole are means over them.
        times: (step, seconds of training until then) of each report, of studies in which a score goes by them.
        time_limit: seconds that runs which miss a value are scored by; 0: no score goes by it.
        feasible: whether it may be chosen, as far as the storage says.
    """

    number: int
    stage: str
    label: str
    seed: int
    params: Mapping[str, Scalar]
    outcome: Outcome | None
    value: float | None
    reason: str = ""
    curve: tuple[tuple[float, float], ...] = ()
    seconds: float = 0.0
    folder: str = ""
    scores: Mapping[str, float] = field(default_factory=dict)
    used: float | None = None
    host: str = ""
    descent: Descent | None = None
    environment: str = ""
    parts: tuple["RunRecord", ...] = ()
    times: tuple[tuple[float, float], ...] = ()
    time_limit: float = 0.0
    feasible: bool = True

    def objectives(self, others: Sequence["Objective"]) -> tuple[float, ...] | None:
        """The score and its values of these further objectives; None if one is missing."""
        values = (self.score, *(self.scores.get(other.name) for other in others))
        known = tuple(value for value in values if value is not None)
        return known if len(known) == len(values) else None

    @property
    def complete(self) -> bool:
        """It ran to its end and has a usable value."""
        return self.outcome is Outcome.COMPLETE and self.score is not None

    @property
    def failed(self) -> bool:
        """It ended because something was wrong with it."""
        return self.outcome is not None and self.outcome.effects.failed

    @property
    def place(self) -> str:
        """The folder that tells how it ended; of several parts that of the one which failed, or came last."""
        telling = next((part for part in self.parts if part.failed), self.parts[-1] if self.parts else self)
        return telling.folder

    @property
    def score(self) -> float | None:
        """The value where it may enter a statistic: the run has ended on its own and the value is finite.

        Failed runs that carry a value count: without its diverged seeds an unstable configuration would look good.
        """
        ended = self.outcome is Outcome.COMPLETE or self.failed
        return self.value if ended and self.value is not None and math.isfinite(self.value) else None


@dataclass(frozen=True)
class Objective:
    """An objective besides the metric.

    Attributes:
        name: its name among the scores of a run.
        label: in words.
        maximised: whether higher values are better.
    """

    name: str
    label: str
    maximised: bool = False


@dataclass(frozen=True)
class Importances:
    """How much each parameter matters.

    Attributes:
        shares: configuration path -> its share in what makes a run good; the most important first.
        null: configuration path -> the share that chance alone reaches in one of twenty cases.
        fraction: of the step budget after which runs are judged.
    """

    shares: Mapping[str, float] = field(default_factory=dict)
    null: Mapping[str, float] = field(default_factory=dict)
    fraction: float = 1.0


@dataclass(frozen=True)
class StudySummary:
    """Everything the tables, the verdict and the page know about a study.

    Attributes:
        name: of the study.
        metric_name: what `RunRecord.value` measures, in words ("mean of area under the curve and final return").
        metric: what is typed for it, such as "steps_to_475"; empty in sweeps.
        env_id: of the environment.
        agent: name of the algorithm.
        backend: torch or keras.
        runs: of all stages, in the order they were started.
        winner_label: label of the configuration the study chose, of more than one that with the best score; None while
            nothing is chosen.
        default_label: label of the untuned configuration in the test stage.
        importances: configuration path -> importance, any scale.
        importance_null: configuration path -> the importance, on the same scale, that chance alone may reach.
        importance_over_time: importances for the score after parts of the step budget.
        notes: sentences for the reader (pruning off and why, ...).
        versions: package -> version.
        retrain_command: command line that trains the winner again.
        default_command: command line that trains the default configuration, as the study compared with it.
        seconds: wall time of the study over all its sessions.
        seed: of the study; all run seeds derive from it.
        budget: what was allowed, in words -> value ("screening trials" -> 20, "environment steps per run" -> 50000).
        study_command: command line that the study was started with.
        maximised: whether higher values of the metric are better.
        others: what is optimised besides the metric.
        is_sweep: jobs of a Hydra sweep, which has no stages: each configuration ran once.
        space: configuration path -> what was drawn from, in words.
        scales: configuration path -> how values were spread, "linear", "log", "one_minus" (the distance to 1 by its
            logarithm) or "category"; nothing for parameters of which that is not known.
        sampler: who drew, with its settings.
        pruner: who could end runs early; empty if nobody.
        starts: label of a configuration that the search was started with -> what it is called.
        baselines: labels of further known configurations in the test stage.
        random_score: mean return of a random policy; None where there is no environment to measure one in.
        code: commit of the Git repository it was started in; empty if there was none.
        facts: what is known by its features, by the key of a `Fact`; nothing where that is what there is by default.
    """

    name: str
    metric_name: str
    env_id: str
    agent: str
    backend: str
    runs: tuple[RunRecord, ...] = ()
    winner_label: str | None = None
    default_label: str = "default"
    importances: Mapping[str, float] = field(default_factory=dict)
    notes: tuple[str, ...] = ()
    versions: Mapping[str, str] = field(default_factory=dict)
    retrain_command: str = ""
    seconds: float = 0.0
    seed: int | None = None
    budget: Mapping[str, Scalar] = field(default_factory=dict)
    study_command: str = ""
    importance_null: Mapping[str, float] = field(default_factory=dict)
    importance_over_time: tuple[Importances, ...] = ()
    maximised: bool = True
    others: tuple[Objective, ...] = ()
    is_sweep: bool = False
    space: Mapping[str, str] = field(default_factory=dict)
    scales: Mapping[str, str] = field(default_factory=dict)
    sampler: str = ""
    pruner: str = ""
    code: str = ""
    starts: Mapping[str, str] = field(default_factory=dict)
    baselines: tuple[str, ...] = ()
    random_score: float | None = None
    default_command: str = ""
    metric: str = ""
    facts: Mapping[str, object] = field(default_factory=dict)

    @property
    def first_stage(self) -> str:
        """The one in which configurations were drawn."""
        return next((run.stage for run in self.runs if run.stage not in LATER_STAGES), SCREEN)

    @property
    def part_names(self) -> tuple[str, ...]:
        """The environments of runs that have parts, in their order; none where a run is in one."""
        return tuple(dict.fromkeys(part.environment for run in self.runs for part in run.parts))

    @property
    def weights(self) -> Mapping[str, float]:
        """Importances to put parameters in order by: none where chance alone explains all, as their order is noise."""
        told = any(share > self.importance_null.get(path, 0.0) for path, share in self.importances.items())
        return self.importances if told else {}

    def merit(self, run: RunRecord) -> float | None:
        """The score of a run turned so that higher is better; None if it has none."""
        return None if run.score is None else run.score if self.maximised else -run.score

    def stage(self, name: str, label: str | None = None) -> tuple[RunRecord, ...]:
        """Runs of one stage, of one label if given."""
        return tuple(self._by_stage.get((name, label), ()))

    @cached_property
    def _by_stage(self) -> dict[tuple[str, str | None], list[RunRecord]]:
        found: dict[tuple[str, str | None], list[RunRecord]] = {}
        for run in self.runs:
            found.setdefault((run.stage, None), []).append(run)
            found.setdefault((run.stage, run.label), []).append(run)
        return found

    def params_of(self, label: str) -> Mapping[str, Scalar]:
        """Sampled parameters of a configuration; empty for the default one or an unknown label."""
        return next((run.params for run in self.runs if run.label == label and run.params), {})


@dataclass(frozen=True)
class Fact(Generic[T]):
    """A fact that a feature contributes to a study: part of its summary and of report.json.

    Attributes:
        key: Its key in the storage and in report.json; its place in `StudySummary.facts`.
        default: Its value where nothing is kept.
        kind: Its type where something is kept, see `tuner.support.decoding`.
        check: Refuses what makes no sense by a `UserError`: a storage may be damaged.
        stage: In which it is kept; None: nowhere, it is worked out anew from the trials.
        kept_as: Its key in the storage, where that is another one.
        is_tracked: Whether it is sent to trackers at the end of the study.
    """

    key: str
    default: T
    kind: Any
    check: Callable[[T], None] = lambda found: None
    stage: str | None = SCREEN
    kept_as: str = ""
    is_tracked: bool = False

    @property
    def key_kept(self) -> str:
        """Its key in the storage."""
        return self.kept_as or self.key

    def read(self, kept: object) -> T:
        """Decodes the fact from its JSON form.

        Raises:
            ValueError: It is something else.
        """
        found: T = decode(self.kind, kept, self.key, nan=self.stage is None)
        self.check(found)
        return found

    def of(self, summary: StudySummary) -> T:
        """The value of the fact in a summary."""
        return cast(T, summary.facts.get(self.key, self.default))
