"""The sections and the plain values of every command's configuration, with their types and ranges.

The fields of each dataclass are the keys there are. What a run is made from is in `tuner.config.composition`.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, Final, Literal

from note_rl.errors import SettingsError
from note_rl.errors.wording import Name, out_of_range
from note_rl.support.near_names import nearest
from note_rl.support.setting_fields import like, setting
from note_rl.support.value_kinds import POSITIVE, SHARE_BELOW_1, Count, Number, OneOf, described
from tuner.checking.step_counts import step_counts
from tuner.config.composition import EvaluationConfig
from tuner.config.section_base import Named, Section
from tuner.errors import UserError
from tuner.results.features import AUTO, decider_of, decisions, search_of
from tuner.results.protocol import Decider, Search, StudySettings
from tuner.support.names import one_of
from tuner.trial.messages import JsonDict

_LONGEST_NAME: Final = 128
_NO_FILE: Final = "/ \n."
_TO_COPY: Final = "tuner import study name="
_A_RUN: Final = Named("the folder of a run")
_FILE_OR_NONE: Final = Named("the name of a file, or null for none", _NO_FILE)


@described(f"a plain name of at most {_LONGEST_NAME} letters, without slashes, as it is a folder too")
def _study_name(name: Name, value: Any) -> str:
    plain = value == value.strip() and value.isprintable() and not value.startswith(".") and not set(value) & set("/\\")
    if not plain or not 0 < len(value) <= _LONGEST_NAME:
        strange = f"; a study of another program has to be copied first: {_TO_COPY}{value}" if "/" in value else ""
        raise SettingsError(out_of_range(name, f"be {_study_name.range}", value, strange))
    return str(value)


@dataclass(frozen=True)
class StudyPlace(Section, path="study"):
    """The study that a command reads, or makes for itself."""

    name: str | None = setting(None, _study_name)
    folder: str = setting("studies", Named("a folder"))


class _Decision:
    """A name of what chooses the winner; features bring them."""

    @property
    def range(self) -> str:
        """The names."""
        return OneOf(self._names).range

    @property
    def _names(self) -> tuple[str, ...]:
        return (AUTO, *decisions())

    def __call__(self, name: Name, value: Any) -> Any:
        """The name."""
        if value not in self._names:
            near = one_of(nearest(value, self._names, 1))
            raise SettingsError(out_of_range(name, f"be {self.range}", value, near))
        return value


@dataclass(frozen=True)
class StudyConfig(StudySettings):
    """The study to be made."""

    name: str | None = like(StudyPlace, "name")
    folder: str = like(StudyPlace, "folder")
    size: str = "quick"
    evolution: JsonDict | None = None
    decision: str = setting(AUTO, _Decision())
    environments: Sequence[str] | None = None
    budgets: Sequence[int | float | str] | None = setting(None, step_counts)
    as_begun: bool = False

    @property
    def search(self) -> Search | None:
        """The method that draws configurations in place of screening; None: screening does."""
        return search_of(self.evolution)

    def decider(self, begun: Callable[[], JsonDict | None]) -> Decider | None:
        """The rule that chooses the winner in place of the scores on the seeds of confirmation; None: these do.

        Args:
            begun: Gives what the storage knows of the study; None: it has not been begun.
        """
        return decider_of(self.decision, self, self.search, begun)


@dataclass(frozen=True)
class StorageConfig:
    """Where studies are kept. Whether the address makes sense is found out by `tuner.study.storage.open_storage`."""

    url: str


@dataclass(frozen=True, kw_only=True)
class RunValues(Section):
    """At the top of every run's configuration."""

    seed: int = setting(kind=Count(0))
    trust: str | Sequence[str] | None = None
    init: str | None = setting(None, Named("the folder of a run, or a checkpoint file"))


@dataclass(frozen=True, kw_only=True)
class TrainValues(RunValues):
    """Of `tuner train`."""

    resume: str | None = setting(None, _A_RUN)

    def __post_init__(self) -> None:
        """Refuses what names no folder."""
        super().__post_init__()
        if self.resume is not None and self.init is not None:
            raise UserError(
                f"init={self.init} starts a new run from weights, and resume={self.resume} continues a run as it was: "
                "leave one of them out"
            )


@dataclass(frozen=True, kw_only=True)
class TuneValues(RunValues):
    """Of `tuner tune`. A bare on or off is a truth value in YAML."""

    warm_start: str | bool | Sequence[str] = "auto"
    plan: bool = False


@dataclass(frozen=True, kw_only=True)
class CompareValues(RunValues):
    """Of `tuner compare`."""

    num_seeds: int = setting(kind=Count(2))
    margin: float = setting(kind=SHARE_BELOW_1)
    settings: Sequence[str] | None = setting(None, Named("settings as they are typed"))


@dataclass(frozen=True, kw_only=True)
class OptionsValues(RunValues):
    """Of `tuner options`."""

    group: str | None = None
    json: bool = False


@dataclass(frozen=True, kw_only=True)
class RecordedRun(Section):
    """A run whose agent is built again."""

    run: str | None = setting(kind=_A_RUN)
    weights: str = setting("last", OneOf(("last", "best")))
    environment: str | None = None
    trust: str | Sequence[str] | None = None


@dataclass(frozen=True, kw_only=True)
class PlayValues(RecordedRun):
    """Of `tuner play`."""

    num_episodes: int = setting(kind=Count())
    seed: int = setting(kind=Count(0))
    gif: str | bool | None = setting(kind=_FILE_OR_NONE)
    max_frames: int = setting(kind=Count())
    mp4: str | bool | None = setting(None, _FILE_OR_NONE)
    frames: str | bool | None = setting(None, Named("the name of a folder, or null for none", _NO_FILE))
    every: int = setting(1, Count())
    fps: float | None = setting(None, Number(0.0, above=True, hint=", or null for the speed of the environment"))
    render: str | None = setting(None, OneOf(("human",), hint=", or null for no window"))
    deterministic: bool | None = None


@dataclass(frozen=True, kw_only=True)
class ExportValues(RecordedRun):
    """Of `tuner export`."""

    format: str = setting("onnx", OneOf(("onnx", "torch", "saved_model")))
    file: str | None = setting(None, _FILE_OR_NONE)


@dataclass(frozen=True, kw_only=True)
class PlayedEvaluation(Section, path="evaluation"):
    """How `tuner play` acts; see `tuner.runs.evaluation_policy`. None: as the run was evaluated."""

    policy: Literal["greedy", "sampled", "eps"] | None = None
    eps: float = like(EvaluationConfig, "eps")


@dataclass(frozen=True, kw_only=True)
class PlotValues(Section):
    """Of `tuner plot`."""

    runs: str | Sequence[str] = setting(kind=_A_RUN)
    file: str = setting(kind=Named("the name of a file", _NO_FILE))
    metric: str = setting(kind=Named("eval, train or the name of a logged metric"))
    over: str = setting(kind=OneOf(("steps", "episodes", "time")))
    unit: str = setting(kind=OneOf(("seconds", "minutes", "hours")))
    window: int = setting(kind=Count())
    group: str = setting(kind=OneOf(("seeds", "none")))
    spread: str = setting(kind=OneOf(("quartiles", "range")))
    labels: Sequence[str] | None = None
    trust: str | Sequence[str] | None = None


@dataclass(frozen=True)
class ReportValues:
    """Of `tuner report`."""

    publish: bool | Literal["file"]
    refill: str | None = None


@dataclass(frozen=True, kw_only=True)
class DashboardValues(Section):
    """Of `tuner dashboard`."""

    host: str = setting(kind=Named("a name or an address"))
    port: int = setting(kind=Count(1, 65535))
    folder: str
    artifacts: bool = False


@dataclass(frozen=True)
class GuideValues(Section):
    """Of `tuner guide`."""

    topic: str | None = None
    path: bool = False


@dataclass(frozen=True)
class DoctorValues(Section):
    """Of `tuner doctor`."""

    caches: str = setting("keep", OneOf(("keep", "clear")))
    json: bool = False
    timeout_s: float = setting(120.0, POSITIVE)
