"""The sections and the plain values of every command's configuration, with their types and ranges.

The fields of each dataclass are the keys there are; `__post_init__` refuses what is out of range. What a run is made
from is in `tuner.config.composition`.
"""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, fields
from typing import Literal

from tuner.errors import UserError, require
from tuner.results.features import check_settings, search_of
from tuner.results.number_format import seconds_of
from tuner.results.objective import make_metric, make_others
from tuner.results.protocol import DEFAULT_BASELINE, Pruning, StudySettings, StudySizes
from tuner.trial.messages import JsonDict


@dataclass(frozen=True)
class StudyPlace:
    """The study that a command reads, or makes for itself."""

    name: str | None = None
    folder: str = "studies"

    def __post_init__(self) -> None:
        """Refuses names that cannot be a folder."""
        name = self.name
        plain = name is None or (name == name.strip() and name.isprintable() and not set(name) & set("/\\"))
        require(
            plain and name != "" and not (name or "").startswith(".") and len(name or "") <= _LONGEST_NAME,
            "study.name",
            repr(name),
            f"a plain name of at most {_LONGEST_NAME} letters, without slashes, as it is a folder too",
        )
        require(bool(self.folder.strip()) and "\0" not in self.folder, "study.folder", repr(self.folder), "a folder")


_LONGEST_NAME = 128


@dataclass(frozen=True)
class StudyConfig(StudySizes):
    """The study to be made, as it is typed."""

    name: str | None = StudyPlace.name
    folder: str = StudyPlace.folder
    size: str = "quick"
    metric: str | Sequence[str] = StudySettings.metric
    baselines: str | Sequence[str] = DEFAULT_BASELINE
    constraints: str | Sequence[str] = ()
    budget: float | str | None = None
    max_env_steps: float | None = None
    pruning: JsonDict = field(default_factory=dict)
    evolution: JsonDict | None = None
    environments: Sequence[str] | None = None
    as_begun: bool = False

    def __post_init__(self) -> None:
        """Refuses names, sizes and metrics that make no study."""
        StudyPlace(self.name, self.folder)
        settings = self.settings()
        make_metric(settings.metric)
        make_others(settings.others, settings.metric)
        check_settings(settings)

    def _baselines(self) -> Sequence[str]:
        found = [self.baselines] if isinstance(self.baselines, str) else self.baselines
        named = all(isinstance(name, str) and name for name in found) and len(set(found)) == len(found)
        require(named, "study.baselines", f"{self.baselines}", "default, experiment or names of experiments, each once")
        return found

    def settings(self) -> StudySettings:
        """What the engine goes by. With several metrics there are no race and no baselines, which go by one score."""
        sizes = {one.name: getattr(self, one.name) for one in fields(StudySizes)}
        metric, *others = [self.metric] if isinstance(self.metric, str) else self.metric or [""]
        return StudySettings(
            metric=metric,
            others=tuple(others),
            baselines=() if others else tuple(name for name in self._baselines() if name != DEFAULT_BASELINE),
            constraints=(self.constraints,) if isinstance(self.constraints, str) else tuple(self.constraints),
            budget_s=None if self.budget is None else seconds_of("study.budget", self.budget),
            max_env_steps=_whole_steps(self.max_env_steps),
            pruning=Pruning(**self.pruning),
            search=search_of(self.evolution),
            **{**sizes, **({"num_race_seeds": 0} if others else {})},
        )


def _whole_steps(value: float | None) -> int | None:
    """5e6 is a number with a point to YAML, and as good a count as 5000000."""
    if value is None:
        return None
    require(math.isfinite(value) and value == int(value), "study.max_env_steps", f"{value}", "a whole number, or null")
    return int(value)


def _require_folder(key: str, value: str | None) -> None:
    require(value is None or (bool(value.strip()) and "\0" not in value), key, repr(value), "the folder of a run")


@dataclass(frozen=True)
class StorageConfig:
    """Where studies are kept. Whether the address makes sense is found out by `tuner.study.storage.open_storage`."""

    url: str


@dataclass(frozen=True, kw_only=True)
class RunValues:
    """At the top of every run's configuration."""

    seed: int
    trust: str | Sequence[str] | None = None
    init: str | None = None

    def __post_init__(self) -> None:
        require(self.seed >= 0, "seed", self.seed, "0 or more")
        told = self.init
        plain = told is None or (bool(told.strip()) and "\0" not in told)
        require(plain, "init", repr(told), "the folder of a run, or a checkpoint file")


@dataclass(frozen=True, kw_only=True)
class TrainValues(RunValues):
    """Of `tuner train`."""

    resume: str | None = None

    def __post_init__(self) -> None:
        """Refuses what names no folder."""
        super().__post_init__()
        _require_folder("resume", self.resume)
        if self.resume is not None and self.init is not None:
            raise UserError(
                f"init={self.init} starts a new run from weights, and resume={self.resume} continues a run as it was: "
                "leave one of them out"
            )


@dataclass(frozen=True, kw_only=True)
class TuneValues(RunValues):
    """Of `tuner tune`. A bare on or off is a truth value in YAML."""

    warm_start: str | bool | Sequence[str] = "off"
    plan: bool = False


@dataclass(frozen=True, kw_only=True)
class CompareValues(RunValues):
    """Of `tuner compare`."""

    num_seeds: int
    margin: float

    def __post_init__(self) -> None:
        """Refuses what compares nothing."""
        super().__post_init__()
        require(self.num_seeds >= 2, "num_seeds", self.num_seeds, "at least 2")
        require(0.0 <= self.margin < 1.0, "margin", self.margin, "in [0, 1)")


@dataclass(frozen=True, kw_only=True)
class OptionsValues(RunValues):
    """Of `tuner options`."""

    json: bool = False


@dataclass(frozen=True, kw_only=True)
class PlayValues:
    """Of `tuner play`."""

    run: str | None
    num_episodes: int
    seed: int
    gif: str | bool | None
    max_frames: int
    mp4: str | bool | None = None
    frames: str | bool | None = None
    every: int = 1
    fps: float | None = None
    render: str | None = None
    deterministic: bool | None = None
    weights: str = "last"
    environment: str | None = None
    trust: str | Sequence[str] | None = None

    def __post_init__(self) -> None:
        _require_folder("run", self.run)
        require(self.num_episodes >= 1, "num_episodes", self.num_episodes, "at least 1")
        require(self.seed >= 0, "seed", self.seed, "0 or more")
        require(self.max_frames >= 1, "max_frames", self.max_frames, "at least 1")
        require(self.weights in ("last", "best"), "weights", self.weights, "last or best")
        require(self.every >= 1, "every", self.every, "at least 1")
        require(self.fps is None or 0 < self.fps < float("inf"), "fps", self.fps, "above 0, or null")
        require(self.render in (None, "human"), "render", repr(self.render), "human, or null for no window")
        for key, what in (("gif", "a file"), ("mp4", "a file"), ("frames", "a folder")):
            name = getattr(self, key)
            plain = not isinstance(name, str) or bool(name.strip("/ \n\0."))
            require(plain, key, repr(name), f"the name of {what}, or null for none")


@dataclass(frozen=True)
class ExportValues:
    """Of `tuner export`."""

    run: str | None
    format: str = "onnx"
    file: str | None = None
    weights: str = "last"
    environment: str | None = None
    trust: str | Sequence[str] | None = None

    def __post_init__(self) -> None:
        """Refuses what is no choice, and empty names."""
        _require_folder("run", self.run)
        require(self.weights in ("last", "best"), "weights", self.weights, "last or best")
        known = ("onnx", "torch", "saved_model")
        require(self.format in known, "format", repr(self.format), "onnx, torch or saved_model")
        named = self.file is None or bool(self.file.strip("/ \n\0."))
        require(named, "file", repr(self.file), "the name of a file, or null")


@dataclass(frozen=True, kw_only=True)
class PlayedEvaluation:
    """How `tuner play` acts; see `tuner.runs.evaluation_policy`. None: as the run was evaluated."""

    policy: Literal["greedy", "sampled", "eps"] | None = None
    eps: float = 0.05

    def __post_init__(self) -> None:
        require(0.0 <= self.eps <= 1.0, "evaluation.eps", self.eps, "from 0 to 1")


@dataclass(frozen=True, kw_only=True)
class PlotValues:
    """Of `tuner plot`."""

    runs: str | Sequence[str]
    file: str
    metric: str
    over: str
    unit: str
    window: int
    group: str
    spread: str
    labels: Sequence[str] | None = None
    trust: str | Sequence[str] | None = None

    def __post_init__(self) -> None:
        """Refuses what is no choice, and empty names."""
        for key, choices in _PLOT_CHOICES.items():
            value = getattr(self, key)
            require(value in choices, key, repr(value), f"{', '.join(choices[:-1])} or {choices[-1]}")
        require(self.window >= 1, "window", self.window, "at least 1")
        require(bool(self.metric.strip()), "metric", repr(self.metric), "eval, train or the name of a logged metric")
        require(bool(self.file.strip("/ \n\0.")), "file", repr(self.file), "the name of a file")
        for place in [self.runs] if isinstance(self.runs, str) else self.runs:
            _require_folder("runs", place)


_PLOT_CHOICES: Mapping[str, Sequence[str]] = {
    "over": ("steps", "episodes", "time"),
    "unit": ("seconds", "minutes", "hours"),
    "group": ("seeds", "none"),
    "spread": ("quartiles", "range"),
}


@dataclass(frozen=True)
class ReportValues:
    """Of `tuner report`."""

    publish: bool | str
    refill: str | None = None

    def __post_init__(self) -> None:
        """Refuses what is no choice."""
        require(self.publish in (False, True, "file"), "publish", self.publish, "true, false or file")


@dataclass(frozen=True)
class DashboardValues:
    """Of `tuner dashboard`."""

    host: str
    port: int
    folder: str

    def __post_init__(self) -> None:
        """Refuses what is no address."""
        require(bool(self.host.strip()) and self.host.isprintable(), "host", repr(self.host), "a name or an address")
        require(1 <= self.port <= _LAST_PORT, "port", self.port, f"from 1 to {_LAST_PORT}")


_LAST_PORT = 65535


@dataclass(frozen=True)
class DoctorValues:
    """Of `tuner doctor`."""

    json: bool = False
    timeout_s: float = 120.0

    def __post_init__(self) -> None:
        """Refuses a time that is none."""
        require(0 < self.timeout_s < float("inf"), "timeout_s", self.timeout_s, "a number of seconds above 0")


@dataclass(frozen=True)
class RateFinder:
    """`tuner find lr`; its ranges are those of `tuner.finders.learning_rate.tests.RateSettings`."""

    kind: str
    mode: str
    start_lr: float
    end_lr: float
    num_steps: int
    num_rates: int | None
    num_seeds: int
    skip_begin: int
    skip_end: int
    group: int | None = None

    def __post_init__(self) -> None:
        """Refuses points left out by less than none."""
        for name in ("skip_begin", "skip_end"):
            require(getattr(self, name) >= 0, f"finder.{name}", getattr(self, name), "0 or more")


@dataclass(frozen=True)
class AgentFinder:
    """`tuner find agent`."""

    kind: str
    candidates: Sequence[str]
    num_seeds: int

    def __post_init__(self) -> None:
        """Refuses what compares nothing."""
        require(self.num_seeds >= 1, "finder.num_seeds", self.num_seeds, "at least 1")
        if len(set(self.candidates)) < max(len(self.candidates), 2):
            raise UserError(
                f"finder.candidates=[{','.join(self.candidates)}] must name at least two different choices of "
                f"{self.kind}"
            )


@dataclass(frozen=True)
class OptimizerFinder(AgentFinder):
    """`tuner find optimizer`."""

    metric: str
    num_gradient_steps: int
    num_rates: int

    def __post_init__(self) -> None:
        super().__post_init__()
        require(self.num_gradient_steps >= 1, "finder.num_gradient_steps", self.num_gradient_steps, "at least 1")
        require(self.num_rates >= 0, "finder.num_rates", self.num_rates, "0 or more")


FINDERS: Mapping[str, type] = {"lr": RateFinder, "optimizer": OptimizerFinder, "agent": AgentFinder}
"""The section `finder`, by its kind."""
