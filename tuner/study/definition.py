"""Definition of a study: the search, the configuration it varies, its size, and the names of its runs."""

import copy
import zlib
from collections.abc import Callable, Container, Iterable, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, Literal

from tuner.errors import UserError
from tuner.results.features import kept_metrics
from tuner.results.metric import SECONDS, Metric, make_metric, make_others, missing_points
from tuner.results.number_format import describe_subject, join_words
from tuner.results.protocol import Decider, Search, StagePlan, StudySettings, plan_stages
from tuner.results.records import SCREEN, Objective, RunRecord, Scalar
from tuner.study.schedule_text import Schedule, as_setting
from tuner.study.space.space import Space
from tuner.trial.messages import JsonDict

DEFAULT_LABEL = "default"
DEFAULT_CANDIDATE = -1
"""Stands for the default configuration where other candidates are known by their screening number."""
BASELINE_PREFIX = "experiment "
"""Before the names of further known configurations, where they stand beside trials."""
LARGEST_NUMBER = 2**31 - 1
"""Of candidates and seeds."""
TRAINING_ENTRY = "tuner.runs.training:run_trial"
"""Entry point of the process of a trial that trains an agent."""

_LONGEST_NAME = 200
_UNJUDGED = ("checkpoint", "tracker", "seed")
"""Parts of a run config that do not change what a run scores (the study's own seed is compared apart)."""


def judged_part(config: JsonDict) -> JsonDict:
    """A run config without what does not change a score."""
    return {key: value for key, value in config.items() if key not in _UNJUDGED}


@dataclass(frozen=True)
class StudyEnvironment:
    """One of several environments that a study finds a configuration for.

    Attributes:
        name: Of the choice of group env.
        config: The default configuration there, which may differ from that of other environments.
        good: Return that has score 1.
        random: Return that has score 0; None: it is measured before the study begins.
        configure: As of a definition, there.
    """

    name: str
    config: JsonDict
    good: float
    random: float | None = None
    configure: Callable[[JsonDict], JsonDict] | None = None


@dataclass(frozen=True)
class StudyDefinition:
    """One study, complete.

    Attributes:
        name: The same name continues the same study.
        config: The composed run config, resolved: the default configuration that the winner must beat.
        space: The search space.
        settings: How much, and how it is judged.
        search: The method that draws configurations in place of screening; None: screening does.
        decision: The rule that chooses the winner in place of the scores on the seeds of confirmation; None: these do.
        seed: Root of all randomness of the study.
        agent: Name of the algorithm, for people.
        folder: Where the folders of its runs go; a sub-folder of the study's name is made in it.
        configure: From values by config path to the config with these values, in which what refers to a value follows
            it. Without one, values are put in place and nothing follows.
        entry: Entry point of a trial process, as "module:function".
        function: Called instead of the entry; travels to the process by value (bytes are its cloudpickle).
        probe: Entry that measures a random policy and finds out whether environment and agent fit; None: no such thing.
        warm_start: Configurations that are tried first, by what they are called.
        known: Configs of the known configurations, by their names in `settings.baselines`.
        facts: Anything else worth keeping with the study, such as the command line it was started with.
        features: Settings of features, by their group; kept with the study, where a `Fact` of that key finds them.
        environments: Several, in each of which a configuration has a run on each of its seeds; `config` and `configure`
            are then those of the first one. None: there is one, and it is in `config`.
    """

    name: str
    config: JsonDict
    space: Space
    settings: StudySettings
    search: Search | None = None
    decision: Decider | None = None
    seed: int = 0
    agent: str = ""
    folder: Path = Path("studies")
    configure: Callable[[JsonDict], JsonDict] | None = None
    entry: str = TRAINING_ENTRY
    function: Callable[..., Any] | bytes | None = None
    probe: str | None = "tuner.runs.probe:run_probe"
    warm_start: Mapping[str, JsonDict] = field(default_factory=dict)
    known: Mapping[str, JsonDict] = field(default_factory=dict)
    facts: Mapping[str, Scalar] = field(default_factory=dict)
    environments: tuple[StudyEnvironment, ...] = ()
    features: Mapping[str, JsonDict] = field(default_factory=dict)

    def __post_init__(self) -> None:
        """Refuses names that cannot be a folder, unknown ways to start, and a start outside the space."""
        if not self.name or "/" in self.name or self.name.startswith(".") or not self.name.isprintable():
            raise UserError(f"study.name={self.name!r} must be a plain name without slashes, as it is a folder too")
        if len(self.name.encode()) > _LONGEST_NAME:
            raise UserError(f"study.name={self.name[:20]}... is too long for a folder: {_LONGEST_NAME} bytes at most")
        if self.search is not None:
            self.search.check(self.settings)
        if self.decision is not None:
            self.decision.check(self.settings, self.search)
        if missing := set(self.settings.baselines) - set(self.known):
            raise UserError(f"study.baselines={min(missing)}: there is no configuration of that name")
        self.starts()

    def starts(self) -> dict[str, dict[str, Scalar]]:
        """The points of the space that are tried first, by what they are called.

        Raises:
            UserError: One of them lies outside.
        """
        points = {}
        for name, config in self.warm_start.items():
            try:
                points[name] = self.space.drawn(config)
            except UserError as error:
                raise UserError(f"warm_start={name}: {error}") from error
        return points

    @property
    def study_folder(self) -> Path:
        """Where everything of this study lies."""
        return self.folder / self.name

    @property
    def metric(self) -> Metric:
        """How a curve becomes a score."""
        return make_metric(self.settings.first_metric)

    @property
    def timed(self) -> bool:
        """Whether an objective goes by seconds of training until a point of the curve."""
        names = [name for name in (self.settings.first_metric, *self.settings.others) if name != SECONDS]
        return any(make_metric(name).timed for name in names)

    @property
    def keeps_times(self) -> bool:
        """Whether it is kept of a run when the points of its curve were reached."""
        return self.timed or SECONDS in self.settings.others

    @property
    def kept_metrics(self) -> tuple[str, ...]:
        """The metrics that runs log whose last values are kept with their ends."""
        return kept_metrics(self.settings)

    @property
    def others(self) -> tuple[Objective, ...]:
        """Objectives besides the metric."""
        return make_others(self.settings.others, self.settings.first_metric)

    @property
    def directions(self) -> tuple[Literal["minimize", "maximize"], ...]:
        """Of all objectives, as Optuna calls them."""
        return ("maximize", *("maximize" if other.maximised else "minimize" for other in self.others))

    @property
    def num_points(self) -> int:
        """Evaluations of a run: the grid on which runs report."""
        return int(self.config.get("evaluation", {}).get("num_points", 9))

    def missing_evaluations(self, config: JsonDict, steps: Iterable[float]) -> list[float]:
        """Fractions of the budget at which a run with this config should have reported besides these.

        Agents report on a grid; when anything else does is its own business.
        """
        if self.function is not None or self.entry != TRAINING_ENTRY:
            return []
        num_points = int(config["evaluation"]["num_points"])
        return [point / num_points for point in missing_points(steps, num_points)]

    @property
    def part_names(self) -> tuple[str, ...]:
        """Of the environments in each of which a run has a part; none: it has no parts."""
        return tuple(one.name for one in self.environments)

    def within(self, environment: str) -> "StudyDefinition":
        """The same study of one of its environments; of no name, itself."""
        if not environment:
            return self
        found = next(one for one in self.environments if one.name == environment)
        return replace(self, config=found.config, configure=found.configure, environments=())

    @property
    def total_steps(self) -> int:
        """Environment steps of a run; of several environments, of a run in each."""
        configs = [one.config for one in self.environments] or [self.config]
        return sum(int(config.get("training", {}).get("total_steps", 0)) for config in configs)

    @property
    def env_id(self) -> str:
        """The environment, for people."""
        if self.environments:
            return join_words(one.name for one in self.environments)
        return str(self.config.get("env", {}).get("id", ""))

    @property
    def subject(self) -> str:
        """The subject of tuning, for people."""
        return describe_subject(self.agent, self.env_id)

    @property
    def backend(self) -> str:
        """The framework, for people."""
        return str(self.config.get("backend", {}).get("name", ""))

    @property
    def first_stage(self) -> str:
        """That which draws configurations."""
        return SCREEN if self.search is None else self.search.stage

    def plan(self, num_screened: float = 0.0) -> tuple[StagePlan, ...]:
        """Stages of the study.

        Args:
            num_screened: Whole runs that screening takes, a pruned one counted by its share. Within a budget, more of
                them may mean more runs behind them.
        """
        make = plan_stages if self.search is None else self.search.plan
        stages = make(self.settings, self.seed, self.total_steps)
        if self.decision is None:
            return stages
        return self.decision.planned(stages, num_screened if self.settings.is_bounded else 0.0)

    def run_config(self, values: JsonDict, seed: int, schedule: Schedule | None = None) -> JsonDict:
        """The config of one run: these values in place, how they change, and its own seed."""
        if schedule:
            values = {**values, **as_setting(schedule, self.config)}
        config = copy.deepcopy(self.configure(values)) if self.configure else self.space.apply(self.config, values)
        return {**config, "seed": seed}

    def baseline_config(self, name: str, seed: int) -> JsonDict:
        """The config of one run of a known configuration.

        Raises:
            UserError: There is none of that name, any more.
        """
        if name not in self.known:
            raise UserError(f"study {self.name} has begun to test study.baselines={name}: name it again")
        return {**copy.deepcopy(self.known[name]), "seed": seed}

    def judged_config(self) -> JsonDict:
        """The default configuration without what does not change a score."""
        return judged_part(self.config)


@dataclass(frozen=True)
class Candidate:
    """A configuration of a later stage: a screening run's, the default one, or a baseline.

    Attributes:
        number: Of the run that it was drawn for.
        label: Its name.
        values: By config path.
        schedule: How some of them change while training goes on.
        baseline: Which known configuration it is; empty: the default one with these values.
    """

    number: int
    label: str
    values: JsonDict
    schedule: Schedule = field(default_factory=dict)
    baseline: str = ""

    @classmethod
    def of(cls, screened: RunRecord, values: JsonDict) -> "Candidate":
        """The configuration of a screening run."""
        return cls(screened.number, screened.label, values)

    @classmethod
    def default(cls) -> "Candidate":
        """The default configuration."""
        return cls(DEFAULT_CANDIDATE, DEFAULT_LABEL, {})

    @classmethod
    def known(cls, name: str) -> "Candidate":
        """A baseline. Its number follows from its name, as the list of them may change from session to session."""
        number = DEFAULT_CANDIDATE - 1 - zlib.crc32(name.encode()) % (LARGEST_NUMBER - 1)
        return cls(number, f"{BASELINE_PREFIX}{name}", {}, baseline=name)


def default_in_test(started: str | None, tested: Container[str]) -> str:
    """The label of the default configuration in the test stage, so that it runs there under one label only.

    Args:
        started: The screening trial that has it, if any.
        tested: Labels that have runs in the test stage, or are to have some.
    """
    return started if started is not None and started in tested and DEFAULT_LABEL not in tested else DEFAULT_LABEL
