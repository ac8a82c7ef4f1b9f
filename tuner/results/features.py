"""Contributions of a feature to the results of a study."""

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from enum import Enum, Flag, auto
from typing import Any, Final

from tuner.features import nothing, parts
from tuner.results.findings import Estimate, Verdict
from tuner.results.protocol import Decider, Search, StudySettings
from tuner.results.records import LATER_STAGES, SCREEN, Fact, RunRecord, Scalar, StudySummary
from tuner.trial.messages import JsonDict


class ShownIn(Flag):
    """The tables of runs."""

    FILE = auto()
    """trials.csv, and `rows` in Python: everything."""
    PAGE = auto()
    TRACKER = auto()
    """The table of a study in Weights & Biases."""


class Cells(Enum):
    """Kinds of content of a column's cells, which decide how they are drawn."""

    PLAIN = auto()
    """A score, or a text."""
    PARAMETER = auto()
    TRIAL = auto()
    """The number of a run."""
    OUTCOME = auto()
    DURATION = auto()


@dataclass(frozen=True)
class RunColumn:
    """A column of the tables of runs.

    Attributes:
        name: In trials.csv.
        value: Its value for a run; None: nothing.
        shown_in: Those that have it.
        title: Its name where people read it; empty: the same.
        cells: Kind of content of its cells.
        says_which: Whether it says which run it is, and so stands before the outcome.
    """

    name: str
    value: Callable[[RunRecord], Scalar]
    shown_in: ShownIn = ~ShownIn(0)
    title: str = ""
    cells: Cells = Cells.PLAIN
    says_which: bool = False

    @property
    def heading(self) -> str:
        """The title above the column where people read it."""
        return self.title or self.name


@dataclass(frozen=True)
class Choice:
    """The configurations chosen by a study, and the words for them in texts.

    Attributes:
        labels: Of configurations, the winner first; none while nothing is chosen.
        name: All of it.
        mark: The meaning of a mark on one of them.
        member: One of them.
        best: The winner among them.
        remark: About the winner, behind which its command line stands; empty: there is nothing to say.
    """

    labels: tuple[str, ...]
    name: str = "the winner"
    mark: str = "the winner"
    member: str = "The winner of the study."
    best: str = "the winner"
    remark: str = ""


@dataclass(frozen=True)
class InResults:
    """Contributions of a feature to the results of a study.

    Attributes:
        facts: Facts that it adds to a study.
        search: Makes what draws configurations in place of screening, of settings of the study that say so.
        decisions: Names of what chooses the winner, as typed: what is made of it; None: nothing is needed.
        preferred_decision: Which of them is taken where nothing is typed, by the settings of a study, and by what the
            storage knows of it if it was begun.
        tuning: The score that a configuration was chosen by, where that is not the one on the seeds of its last stage.
        first_stages: In place of screening.
        sizes: Of a study, by what they are called: what the storage calls them.
        stages: Of runs behind the study, which are no part of its result.
        experiments: Labels of configurations that are written down beside the winner, by the name of the file.
        columns: Of the tables of runs, behind the score.
        preface: Sentences before the details of any verdict.
        sentences: Among the details of the verdict on the winner.
        warnings: Sentences behind that of the verdict on the winner, or on several.
        kept_metrics: Names of the metrics that runs log whose last values are kept, among the scores of a run.
        choice: The chosen configurations of a study, where that is not one winner.
        verdict: In place of that on a winner, where the study is of another kind.
        special: The kind of a study without one winner for one environment by one score, in words; empty: it has one.
        excludes: Whether a configuration, given by its label, cannot be chosen whatever its scores are.
    """

    facts: tuple[Fact[Any], ...] = ()
    search: Callable[[JsonDict], Search | None] = nothing
    decisions: Mapping[str, Decider | None] = field(default_factory=dict)
    preferred_decision: Callable[[StudySettings, Search | None, JsonDict | None], str | None] = nothing
    tuning: Callable[[StudySummary, str], Estimate | None] = nothing
    first_stages: tuple[str, ...] = ()
    sizes: Mapping[str, str] = field(default_factory=dict)
    stages: tuple[str, ...] = ()
    experiments: Callable[[StudySummary], Mapping[str, str]] = nothing
    columns: Callable[[StudySummary], Iterable[RunColumn]] = nothing
    preface: Callable[[StudySummary], Iterable[str]] = nothing
    sentences: Callable[[StudySummary], Iterable[str]] = nothing
    warnings: Callable[[StudySummary], Iterable[str]] = nothing
    kept_metrics: Callable[[StudySettings], Iterable[str]] = nothing
    choice: Callable[[StudySummary], Choice | None] = nothing
    verdict: Callable[[StudySummary], Verdict | None] = nothing
    special: Callable[[StudySummary], str] = nothing
    excludes: Callable[[StudySummary, str], bool | None] = nothing


def first_stages() -> tuple[str, ...]:
    """The stages in which configurations are drawn."""
    return (SCREEN, *(stage for part in parts(InResults) for stage in part.first_stages))


def all_stages() -> tuple[str, ...]:
    """The stages of studies, in their order."""
    return (*first_stages(), *LATER_STAGES)


def search_of(settings: JsonDict | None) -> Search | None:
    """The method that draws configurations in place of screening; None: screening does."""
    return next(filter(None, (part.search(settings) for part in parts(InResults) if settings is not None)), None)


AUTO: Final = "auto"
"""Typed for a decision: that which suits the study."""


def decisions() -> dict[str, Decider | None]:
    """Rules that can choose the winner of a study, by their names in the settings."""
    return {name: made for part in parts(InResults) for name, made in part.decisions.items()}


def decider_of(
    name: str, settings: StudySettings, search: Search | None, begun: Callable[[], JsonDict | None]
) -> Decider | None:
    """The rule with this name; of "auto", the one that suits the study, which may have been begun already."""
    if name == AUTO:
        known = begun()
        name = next(filter(None, (part.preferred_decision(settings, search, known) for part in parts(InResults))))
    return decisions().get(name)


def all_facts() -> Iterator[Fact[Any]]:
    """The facts of all features."""
    return (fact for part in parts(InResults) for fact in part.facts)


def stages_behind() -> tuple[str, ...]:
    """The stages behind a study, of all features."""
    return tuple(stage for part in parts(InResults) for stage in part.stages)


def kept_metrics(settings: StudySettings) -> tuple[str, ...]:
    """The metrics that runs log whose last values are kept."""
    return tuple(dict.fromkeys(name for part in parts(InResults) for name in part.kept_metrics(settings)))


def chosen(summary: StudySummary) -> Choice:
    """The configurations chosen by a study."""
    found = next(filter(None, (part.choice(summary) for part in parts(InResults))), None)
    return found or Choice(() if summary.winner_label is None else (summary.winner_label,))


def is_excluded(summary: StudySummary, label: str) -> bool:
    """Whether a configuration cannot be chosen whatever its scores are."""
    return any(part.excludes(summary, label) for part in parts(InResults))


def warnings_of_features(summary: StudySummary) -> list[str]:
    """Sentences behind that of the verdict."""
    return [sentence for part in parts(InResults) for sentence in part.warnings(summary)]


def special(summary: StudySummary) -> str:
    """Why a study has no one winner for one environment by one score; empty: it has one, if it has come so far."""
    return next(filter(None, (part.special(summary) for part in parts(InResults))), "")
