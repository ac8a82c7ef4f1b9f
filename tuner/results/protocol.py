"""The stages of a study and the rules that keep its result honest. Nothing runs here.

Screen wide with one seed; race the promising on a few more, the same for all; confirm the best few on seeds they were
not chosen by; test the winner and the default configuration on held-out seeds. A score that was used
to choose is too good by construction: only the test scores are printed as the result.
"""

import math
import zlib
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from statistics import median_high, median_low
from typing import Any, Protocol

import numpy as np

from note_rl.errors import SettingsError
from note_rl.errors.wording import Name, out_of_range
from note_rl.support.setting_fields import setting
from note_rl.support.value_kinds import POSITIVE, Count, Number, OneOf, described
from tuner.config.section_base import Section
from tuner.errors import UserError
from tuner.results.metric import Metric, Timing, make_metric, make_others
from tuner.results.number_format import seconds_of
from tuner.results.records import CONFIRM, RACE, SCREEN, TEST, RunRecord
from tuner.results.selection import AGGREGATES
from tuner.results.statistics import spearman, spearman_bound

DEFAULT_BASELINE = "default"
"""Names the default configuration among the baselines; it is always one of them."""
STREAMS = ("tune", "select", "test")
"""The seed streams: of screening and race, confirmation, and test."""

_STREAM_OF_STAGE = {CONFIRM: "select", TEST: "test"}
"""All others have the seeds that configurations are tuned on."""
_MOST_RACED = 8
_SAMPLER_KEY = len(STREAMS)
_COMPARISON_KEY = len(STREAMS) + 2  # the one between belongs to a feature
DRAWS = 2**29
"""Seeds of the streams are below `len(STREAMS)` times this."""

_FURTHEST = 100.0
_LARGEST_SCORE = 3.4e38
"""Of single precision, in which rewards are kept: beyond it is no score but an overflow. NaN is not below it."""


def seed_stream(study_seed: int, stream: str, count: int) -> tuple[int, ...]:
    """The first seeds of one of the three streams of a study.

    Streams are disjoint by construction, not by luck: a seed of stream i leaves the remainder i when divided by 3.
    Asking for more gives the same ones first. All are below 2**31, as frameworks want.

    Raises:
        UserError: A negative study seed.
    """
    _check_seed(study_seed)
    index = STREAMS.index(stream)
    return tuple(len(STREAMS) * draw + index for draw in _draws(study_seed, index, count))


def _check_seed(seed: int) -> None:
    if seed < 0:
        raise UserError(f"seed={seed} must not be negative")


def _draws(seed: int, key: int, count: int) -> Iterable[int]:
    """Distinct numbers below `DRAWS`, the same ones first if more are asked for."""
    rng = np.random.default_rng(np.random.SeedSequence(seed, spawn_key=(key,)))
    draws: dict[int, None] = {}
    while len(draws) < count:
        draws[int(rng.integers(DRAWS))] = None
    return draws


def comparison_seeds(seed: int, count: int) -> tuple[int, ...]:
    """The seeds on which `tuner bench` and `tuner compare` train: none of a study's, whichever seed that has.

    All are in the fourth quarter of what is below 2**31, and the streams of studies end below it. So a winner that was
    lucky on its test seeds is not tried on the same ones again. Asking for more gives the same ones first.

    Raises:
        UserError: A negative seed.
    """
    _check_seed(seed)
    return tuple(len(STREAMS) * DRAWS + draw for draw in _draws(seed, _COMPARISON_KEY, count))


def stage_seeds(study_seed: int, stage: str, count: int) -> tuple[int, ...]:
    """The seeds on which a stage runs each configuration; the race takes those that follow the screening seed."""
    num_before = 1 if stage == RACE else 0
    return seed_stream(study_seed, _STREAM_OF_STAGE.get(stage, "tune"), num_before + count)[num_before:]


def sampler_seed(study_seed: int, num_trials: int, name: str = "") -> int:
    """Seed of a sampler that draws, or goes on to draw, when a study already has a number of trials.

    A study that is continued must not draw its first points again, so the count is part of the seed.

    Args:
        study_seed: Root of all randomness of the study.
        num_trials: Trials there are.
        name: Of the one parameter that is drawn; empty: all together.
    """
    key = (_SAMPLER_KEY, num_trials, *([zlib.crc32(name.encode())] if name else []))
    return int(np.random.SeedSequence(study_seed, spawn_key=key).generate_state(1)[0])


@described("a fraction of the step budget above 0 and below 1, or a list of them")
def _rungs(name: Name, value: Any) -> tuple[float, ...]:
    return tuple(Number(0.0, 1.0, above=True, below=True)(name, rung) for rung in value)


@dataclass(frozen=True)
class Pruning(Section, path="study.pruning"):
    """When a run may be ended early.

    Attributes:
        rungs: Fractions of the step budget at which runs are compared; each stands for the nearest evaluation.
        min_trials: Complete runs without pruning before it is decided which rungs to use.
        min_rank_agreement: Spearman correlation of rung score and final score over these runs that a rung needs.
        min_rank_bound: Its bound that a rung needs as well: reached by 90 % of bootstrap resamples of these runs, as a
            correlation over so few may be luck.
    """

    rungs: tuple[float, ...] = setting((1 / 9, 1 / 3), _rungs)
    min_trials: int = setting(8, Count(3, hint=": ranks of fewer runs say nothing"))
    min_rank_agreement: float = setting(0.6, Number(-1.0, 1.0))
    min_rank_bound: float = setting(0.3, Number(-1.0, 1.0))

    def points(self, num_points: int) -> tuple[int, ...]:
        """The evaluations, counted from 1, at which runs are compared; the last evaluation is none of them."""
        points = {max(1, round(rung * num_points)) for rung in self.rungs}
        return tuple(sorted(point for point in points if point < num_points))


_NO_RACE = "; study.num_race_seeds=0 for no race, study.num_race=null for as many as suit num_trials"


@described("a duration such as 45s, 90min or 2h, or a number of seconds above 0")
def _duration(name: Name, value: Any) -> Any:
    Number(0.0, above=True, hint=", or null for no such bound")(name, seconds_of("study.budget", value))
    return value


@described("default, experiment or names of experiments, each once")
def _baselines(name: Name, value: Any) -> tuple[str, ...]:
    found = [value] if isinstance(value, str) else value
    if not all(isinstance(one, str) and one for one in found) or len(set(found)) < len(found):
        raise SettingsError(out_of_range(name, f"be {_baselines.range}", value))
    return tuple(one for one in found if one != DEFAULT_BASELINE)


@described("a list of inequalities, each as NAME OP NUMBER in quotation marks")
def _constraints(name: Name, value: Any) -> tuple[str, ...]:
    del name
    return (value,) if isinstance(value, str) else tuple(value)


@described("a group of settings")
def _pruning(name: Name, value: Any) -> Pruning:
    del name
    return value if isinstance(value, Pruning) else Pruning(**value)


@dataclass(frozen=True)
class StudySettings(Section, path="study"):
    """How large a study is and how it judges.

    Attributes:
        metric: Name of the metric, see `tuner.results.metric`; or a list of it and of further objectives. With
            any, there are no race and no baselines, which go by one score.
        baselines: Names of known configurations that the winner is compared with besides the default one.
        constraints: Conditions that a configuration must hold to be chosen, as `seconds<600`.
        budget: How long the study may take, in seconds or as "2h"; None: as long as it takes. Screening ends when no
            more than what must follow it still fits.
        max_env_steps: Environment steps that all its runs may take, likewise.
        pruning: When a run may be ended early.
        num_trials: Configurations screened: a total, not more on top of what there is.
        num_race: Best configurations that are raced; None: the square root of their number, but no more than 8 and no
            fewer than are confirmed.
        num_race_seeds: Further tune seeds on which they are; 0: no race.
        num_candidates: Best configurations that are confirmed.
        num_select_seeds: Fresh seeds on which each candidate is confirmed.
        num_test_seeds: Untouched seeds on which the winner, the default configuration and baselines are compared.
        over_seeds: How scores over seeds decide in race and confirmation: mean, or worst (the worst seed counts).
        retries: How often a run that crashed is continued from its last checkpoint.
        max_failures: Failures in a row that end the study.
        edited_code: Whether a study goes on with files of the user's own that were edited since it began.
        steps_per_second: Environment steps of one run per second that `plan=true` reckons with; None: as measured.
    """

    metric: str | Sequence[str] = "mixed"
    baselines: str | Sequence[str] = setting((), _baselines)
    constraints: str | Sequence[str] = setting((), _constraints)
    budget: float | str | None = setting(None, _duration)
    max_env_steps: int | None = setting(None, Count(hint=", or null for no such bound"))
    pruning: Pruning = setting(Pruning(), _pruning)
    num_trials: int = setting(24, Count())
    num_race: int | None = setting(None, Count(2, hint=_NO_RACE))
    num_race_seeds: int = setting(0, Count(0))
    num_candidates: int = setting(3, Count())
    num_select_seeds: int = setting(2, Count())
    num_test_seeds: int = setting(5, Count())
    over_seeds: str = setting("mean", OneOf(tuple(AGGREGATES)))
    retries: int = setting(1, Count(0))
    max_failures: int = setting(5, Count())
    edited_code: bool = False
    steps_per_second: float | None = setting(None, POSITIVE)

    def __post_init__(self) -> None:
        """Refuses metrics and sizes that make no study."""
        super().__post_init__()
        make_metric(self.first_metric)
        make_others(self.others, self.first_metric)
        if self.others:
            object.__setattr__(self, "num_race_seeds", 0)
            object.__setattr__(self, "baselines", ())
        if self.num_race is not None and self.num_race_seeds and self.num_race < self.num_candidates:
            raise UserError(
                f"study.num_race={self.num_race} must not be below study.num_candidates={self.num_candidates}: "
                "the confirmed configurations are the best of the race"
            )

    @property
    def first_metric(self) -> str:
        """The name of what scores runs."""
        return self.metric if isinstance(self.metric, str) else next(iter(self.metric), "")

    @property
    def others(self) -> tuple[str, ...]:
        """The names of further objectives."""
        return () if isinstance(self.metric, str) else tuple(self.metric[1:])

    @property
    def budget_s(self) -> float | None:
        """Seconds that the study may take; None: as long as it takes."""
        return None if self.budget is None else seconds_of("study.budget", self.budget)

    @property
    def is_bounded(self) -> bool:
        """Whether a budget of time or of environment steps says when screening ends."""
        return self.budget is not None or self.max_env_steps is not None

    @property
    def num_entrants(self) -> int:
        """Configurations in the race, if that many have come to a good end."""
        asked = math.ceil(math.sqrt(self.num_trials)) if self.num_race is None else self.num_race
        most = _MOST_RACED if self.num_race is None else asked
        return min(max(min(asked, most), self.num_candidates), self.num_trials)

    @property
    def num_raced(self) -> int:
        """Configurations that are raced; 0: none, as there is no race or all of them would be confirmed anyway."""
        return self.num_entrants if self.num_race_seeds and self.num_entrants > self.num_candidates else 0


@dataclass(frozen=True)
class RungDecision:
    """Whether pruning is used at one rung, and why.

    Attributes:
        point: The evaluation, counted from 1.
        fraction: Its share of the step budget.
        agreement: Spearman correlation of scores there and final scores; NaN if one of them is constant.
        bound: Lower bound of the agreement, at 90 % confidence.
        enabled: Whether runs may be pruned there.
    """

    point: int
    fraction: float
    agreement: float
    bound: float
    enabled: bool


def decide_rungs(
    pruning: Pruning, num_points: int, metric: Metric, screened: Sequence[RunRecord]
) -> tuple[RungDecision, ...] | None:
    """Which rungs predict the end well enough to prune there; None while too few runs are complete.

    A rung at which all runs still score the same predicts nothing and is not used.
    """
    complete = [run for run in screened if run.complete and run.curve]
    if len(complete) < pruning.min_trials:
        return None
    final = [run.score for run in complete if run.score is not None]
    limit = next((run.time_limit for run in complete if run.time_limit), 0.0)
    decisions = []
    for point in pruning.points(num_points):
        fraction = point / num_points
        agreement = bound = math.nan
        if all(run.curve[0][0] <= fraction + 1e-9 for run in complete):
            there = [metric.partial(run.curve, fraction, Timing(run.times, limit)) for run in complete]
            agreement, bound = spearman(there, final), spearman_bound(there, final)
        enabled = agreement >= pruning.min_rank_agreement and bound >= pruning.min_rank_bound
        decisions.append(RungDecision(point, fraction, agreement, bound, enabled))
    return tuple(decisions)


@dataclass(frozen=True)
class StagePlan:
    """Size and cost of one stage.

    Attributes:
        stage: Its name.
        num_configurations: Different configurations.
        seeds: Seeds each of them runs on.
        env_steps: Environment steps in all, if nothing is pruned.
        what: Is run in it, in words; empty: as a stage of that name always is.
        shared_runs: Runs in all, where these are shared out among the configurations; None: each runs on each seed.
    """

    stage: str
    num_configurations: int
    seeds: tuple[int, ...]
    env_steps: int
    what: str = ""
    shared_runs: int | None = None

    @property
    def num_runs(self) -> int:
        """Runs in all."""
        return self.num_configurations * len(self.seeds) if self.shared_runs is None else self.shared_runs


class Search(Protocol):
    """A method that draws the configurations of a study in place of screening."""

    @property
    def stage(self) -> str:
        """In which it does."""
        ...

    @property
    def name(self) -> str:
        """As people call it."""
        ...

    def check(self, settings: StudySettings) -> None:
        """Refuses sizes of a study that it has no use for, by a `UserError`."""
        ...

    def sizes(self, num_trials: int) -> dict[str, int]:
        """Its sizes, as the storage keeps them."""
        ...

    def plan(self, settings: StudySettings, study_seed: int, total_steps: int) -> tuple[StagePlan, ...]:
        """Stages of the study."""
        ...


class Decider(Protocol):
    """A rule that chooses the winner in place of the scores on the seeds of confirmation."""

    @property
    def name(self) -> str:
        """As it is typed."""
        ...

    def check(self, settings: StudySettings, search: Search | None) -> None:
        """Refuses studies that it cannot decide, by a `UserError`."""
        ...

    def planned(self, stages: tuple[StagePlan, ...], num_screened: float) -> tuple[StagePlan, ...]:
        """The stages of a study, given those that it would have without this.

        Args:
            stages: The latter.
            num_screened: Whole runs of screening, where a budget says how many; else 0.
        """
        ...


def plan_stages(settings: StudySettings, study_seed: int, total_steps: int) -> tuple[StagePlan, ...]:
    """Stages of a study that screens."""
    confirmed = min(settings.num_candidates, settings.num_trials)
    sizes = {
        SCREEN: (settings.num_trials, 1),
        **({RACE: (settings.num_raced, settings.num_race_seeds)} if settings.num_raced else {}),
        CONFIRM: (confirmed, settings.num_select_seeds),
        TEST: (1 + (confirmed if settings.others else 1) + len(settings.baselines), settings.num_test_seeds),
    }
    return tuple(
        StagePlan(stage, configurations, stage_seeds(study_seed, stage, seeds), configurations * seeds * total_steps)
        for stage, (configurations, seeds) in sizes.items()
    )


def penalty(random_score: float | None, finished: Sequence[float], seen: Sequence[float] = ()) -> float | None:
    """The score of a run whose end is penalised: a random policy's, or the worst seen if that is lower.

    None if there is nothing to compare with.

    Args:
        random_score: Score of a random policy, if it is known.
        finished: Scores of runs that came to their end; these say what is usual.
        seen: Any others: what failed runs had reported before.
    """
    usual = [*finished, *([] if random_score is None else [random_score])]
    return robust_worst(usual or seen, [*usual, *seen])


def robust_worst(usual: Sequence[float], seen: Sequence[float]) -> float | None:
    """The lowest score seen, but not one that lies absurdly far below what is usual; None if there is none at all.

    A single -1.7e308, or the -1e30 of a policy on its way to infinity, would else be the score of every failed run
    with: no sampler tells apart anything above that. The bound lies 100 deviations below the median: where scores are
    as they should be, nothing is ever moved there.

    Args:
        usual: Scores to judge by. The deviation is the median one from their median, and no less than that itself or 1.
        seen: Scores to find the lowest of.
    """
    usual, seen = ([score for score in scores if abs(score) <= _LARGEST_SCORE] for scores in (usual, seen))
    if not seen:
        return None
    middle = median_high(usual or seen)  # of two, the better one: which is absurd is not asked of the absurd
    spread = median_low(abs(score - middle) for score in usual or seen)
    return max(min(seen), middle - _FURTHEST * max(spread, abs(middle), 1.0))
