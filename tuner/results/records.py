"""What a study has to show: plain records, written by the study runner and read by verdict, tables and page.

Nothing here computes a judgement; `tuner.results.verdict` and `tuner.results.insights` do. Higher values are better but
where a record says otherwise: in sweeps that minimise, and in further objectives such as time.
"""

import csv
import io
import json
import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, fields
from functools import cached_property
from typing import ClassVar, Final

from note_rl.support.formats import marked, split_mark, why_unreadable
from tuner.results.ablation import Ablation
from tuner.results.encoding import decoded, encoded, json_lines
from tuner.results.scales import ScoreScale
from tuner.trial.messages import JsonDict, Outcome

Scalar = bool | int | float | str | None
"""A parameter value as it stands in a configuration."""

SCREEN: Final = "screen"
EVOLVE: Final = "evolve"
"""In place of screening: a population that is compared, copied and changed while it trains."""
RACE: Final = "race"
CONFIRM: Final = "confirm"
TEST: Final = "test"
ABLATE: Final = "ablate"
"""Behind the study: its runs are no part of the result, and not among those of a summary."""
LATER_STAGES: Final = (RACE, CONFIRM, TEST)
STAGES: Final = (SCREEN, EVOLVE, *LATER_STAGES)


def numbers_among(values: Iterable[Scalar]) -> list[float]:
    """Those of the values that are numbers; true and false are none."""
    return [value for value in values if isinstance(value, int | float) and not isinstance(value, bool)]


_FORMULA_STARTS: Final = ("=", "+", "-", "@", "\t", "\n", "\uff1d", "\uff0b", "\uff0d", "\uff20")
"""As spreadsheets have them; the last four are the wide forms of the first."""


@dataclass(frozen=True)
class Descent:
    """Where a run of a population stands in its tree.

    Attributes:
        member: Counted from 0.
        generation: Counted from 0.
        parent: Number of the run whose state it went on from; None in the first generation.
    """

    member: int
    generation: int
    parent: int | None = None


DESCENT: Final = tuple(field.name for field in fields(Descent))
"""What a table of a population's runs has besides."""


@dataclass(frozen=True)
class RunRecord:
    """One training run of a study: a configuration, a seed, a stage.

    Attributes:
        number: number within its stage, counted from 0.
        stage: one of `STAGES`.
        label: which configuration it runs: "trial 7", or the study's default label.
        seed: the run's seed.
        params: configuration path -> sampled value. Empty for the default configuration.
        outcome: None while it runs.
        value: the study's metric. A run that diverged, ran out of memory or out of time has the value it is told with
            (the score of a random policy if that is known, or the worst one of the study); a crashed one has none.
        reason: one line for anything but a run that used all of its budget.
        curve: (step, value) of each report, in order.
        seconds: wall time.
        folder: where the run's files are.
        scores: further measures of the same run under their names, for instance {"final": 500.0, "auc": 431.2}.
        used: share of its budget, of a run that ended by itself before that did and whose curve is held; None: as far
            as the curve goes.
        host: the machine that it ran on, or ended on, if that was another one than the controller's.
        descent: where it stands in the tree of a population; None elsewhere.
        environment: of a part, the one that it is in.
        parts: of a study of several environments its run in each of them so far, in their order, with returns for
            `curve` and a score on the scale of the environment for `value`; those of the whole are means over them.
        times: (step, seconds of training until then) of each report, of studies in which a score goes by them.
        time_limit: seconds that runs which miss a value are scored by; 0: no score goes by it.
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
        """The folder that tells how it ended; of several environments that of the one which failed, or came last."""
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
    """What is optimised besides the metric.

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
class Interactions:
    """What pairs of parameters do together.

    Attributes:
        pairs: configuration path, configuration path, and the share of the variance of trials' ranks that the two make
            beyond what each of them does alone; the largest first.
        chance: the share that the largest of all pairs reaches by chance alone in one of twenty studies.
    """

    MIN_TRIALS: ClassVar = 30
    """With fewer trials only interactions stronger than any main effect would be found."""
    LEAST_SHARE: ClassVar = 0.05
    """Less is not worth a thought, however sure it is."""

    pairs: tuple[tuple[str, str, float], ...]
    chance: float

    @classmethod
    def of(cls, content: JsonDict) -> "Interactions":
        """As read from JSON."""
        return cls(tuple((first, second, share) for first, second, share in content["pairs"]), content["chance"])

    @property
    def found(self) -> tuple[tuple[str, str, float], ...]:
        """The pairs above chance that are of weight."""
        return tuple(pair for pair in self.pairs if pair[2] > max(self.chance, self.LEAST_SHARE))


@dataclass(frozen=True)
class OwnWinner:
    """The winner of a study of one environment alone, with the same agent and as many steps.

    Attributes:
        study: Its name.
        scores: (seed, return by the metric) of each of its test runs.
    """

    study: str
    scores: tuple[tuple[int, float], ...] = ()


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
        winner_label: label of the configuration the study chose; None while nothing is chosen. With several objectives
            the member of the front with the best score.
        default_label: label of the untuned configuration in the test stage.
        importances: configuration path -> importance, any scale.
        importance_null: configuration path -> the importance, on the same scale, that chance alone may reach.
        importance_over_time: importances for the score after parts of the step budget.
        interactions: which parameters act together; None where that was not worked out.
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
        front: with several objectives, labels of the configurations that no other one beats in all of them.
        is_sweep: jobs of a Hydra sweep, which has no stages: each configuration ran once.
        space: configuration path -> what was drawn from, in words.
        scales: configuration path -> how values were spread, "linear", "log", "one_minus" (the distance to 1 by its
            logarithm) or "category"; nothing for parameters of which that is not known.
        sampler: who drew, with its settings.
        pruner: who could end runs early; empty if nobody.
        starts: label of a configuration that the search was started with -> what it is called.
        baselines: labels of further known configurations in the test stage.
        static_label: of a population, label of the configuration that did not change with which the winner is compared.
        random_score: mean return of a random policy; None where there is no environment to measure one in.
        ablation: what was measured between the default configuration and the winner; None: nothing.
        code: commit of the Git repository it was started in; empty if there was none.
        environments: name -> scale of each environment, of a study of several.
        own_winners: name of an environment -> who won a study of it alone in the same storage.
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
    interactions: Interactions | None = None
    maximised: bool = True
    others: tuple[Objective, ...] = ()
    front: tuple[str, ...] = ()
    is_sweep: bool = False
    space: Mapping[str, str] = field(default_factory=dict)
    scales: Mapping[str, str] = field(default_factory=dict)
    sampler: str = ""
    pruner: str = ""
    code: str = ""
    starts: Mapping[str, str] = field(default_factory=dict)
    static_label: str | None = None
    baselines: tuple[str, ...] = ()
    random_score: float | None = None
    default_command: str = ""
    ablation: Ablation | None = None
    environments: Mapping[str, ScoreScale] = field(default_factory=dict)
    own_winners: Mapping[str, OwnWinner] = field(default_factory=dict)
    metric: str = ""

    @property
    def first_stage(self) -> str:
        """The one in which configurations were drawn."""
        return EVOLVE if self.stage(EVOLVE) else SCREEN

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

    def to_json(self) -> str:
        """The summary as JSON text; `from_json` gives an equal summary back. NaN and infinities survive the trip."""
        content = marked(encoded(self))
        lines = ",\n".join(f"{json.dumps(key)}: {json_lines(value)}" for key, value in content.items())
        return f"{{\n{lines}\n}}\n"

    @classmethod
    def from_json(cls, text: str) -> "StudySummary":
        """Inverse of `to_json`.

        Raises:
            ValueError: not a summary, or written by a later version.
        """
        content = json.loads(text)
        mark, content = split_mark(content if isinstance(content, dict) else {})
        why = why_unreadable(mark)
        if why is not None:
            raise ValueError(f"not a study summary that can be read: {why}")
        content = decoded(content)
        runs = tuple(_run_from(run) for run in content.pop("runs"))
        moments = tuple(Importances(**moment) for moment in content.pop("importance_over_time", ()))
        others = tuple(Objective(**other) for other in content.pop("others", ()))
        lists = {key: tuple(content[key]) for key in ("notes", "front", "baselines") if key in content}
        ablation = None if content.get("ablation") is None else Ablation.of(content["ablation"])
        together = None if content.get("interactions") is None else Interactions.of(content["interactions"])
        environments = {name: ScoreScale(**scale) for name, scale in content.pop("environments", {}).items()}
        made = {
            "runs": runs,
            "importance_over_time": moments,
            "interactions": together,
            "others": others,
            "ablation": ablation,
        }
        own = {
            name: OwnWinner(one["study"], tuple((int(seed), float(score)) for seed, score in one["scores"]))
            for name, one in content.pop("own_winners", {}).items()
        }
        return cls(**{**content, **lists, **made}, environments=environments, own_winners=own)

    def to_csv(self) -> str:
        """All runs as CSV text, one line each; parameters as columns under their configuration paths.

        The machine is named where a run was on another one than the controller's; of several environments, the score in
        each; of a population, whose state a run went on from.
        """
        paths = list(dict.fromkeys(path for run in self.runs for path in run.params))
        names = list(dict.fromkeys(name for run in self.runs for name in run.scores))
        places = ["host"] if any(run.host for run in self.runs) else []
        descent = DESCENT if any(run.descent for run in self.runs) else ()
        fixed_columns = ("stage", "number", "label", "seed", *descent, "outcome", "value", *self.environments)
        text = io.StringIO()
        writer = csv.writer(text, lineterminator="\n")
        rows: list[tuple[Scalar, ...]] = [(*fixed_columns, *names, "seconds", *paths, "reason", "folder", *places)]
        for run in self.runs:
            scores_in = {part.environment: part.value for part in run.parts}
            within = [scores_in.get(name) for name in self.environments]
            origin = [getattr(run.descent, name, None) for name in descent]
            what = (run.stage, run.number, run.label, run.seed, *origin)
            fixed = (*what, run.outcome or "running", run.value, *within)
            scores = [run.scores.get(name) for name in names]
            params = [run.params.get(path) for path in paths]
            rows.append((*fixed, *scores, run.seconds, *params, run.reason, run.folder, *[run.host for _ in places]))
        writer.writerows([cell(value) for value in row] for row in rows)
        return text.getvalue()


def _run_from(content: JsonDict) -> RunRecord:
    """A run from its JSON form; the fields were written by `StudySummary.to_json`."""
    outcome = content["outcome"]
    curve, times = (
        tuple((float(step), float(value)) for step, value in content.get(name, ())) for name in ("curve", "times")
    )
    descent = content.get("descent")
    read = {
        "outcome": None if outcome is None else Outcome(outcome),
        "curve": curve,
        "times": times,
        "descent": None if descent is None else Descent(**descent),
        "parts": tuple(map(_run_from, content.get("parts", ()))),
    }
    return RunRecord(**{**content, **read})


def cell(value: Scalar) -> str:
    """Floats in full precision, nothing for a parameter the run does not have, and text that stays text.

    A spreadsheet takes text with one of these beginnings for a formula, and formulas can send files away; an apostrophe
    before it says that it is none (https://owasp.org/www-community/attacks/CSV_Injection).
    """
    if isinstance(value, str):
        value = value.replace("\r\n", "\n").replace("\r", "\n")  # which Python does not quote, and others end a row at
        return f"'{value}" if value.startswith(_FORMULA_STARTS) else value
    return "" if value is None else repr(value) if isinstance(value, float) else str(value)
