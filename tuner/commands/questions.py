"""The questions of `tuner find`, and how each is answered."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, fields, replace
from functools import partial
from pathlib import Path
from typing import Literal

from omegaconf import DictConfig, OmegaConf

from note_rl.learners.adjustable import LEARNING_RATE
from note_rl.settings import RolloutSettings
from note_rl.support.setting_fields import like, setting
from note_rl.support.value_kinds import Count
from tuner.checking.sections import check_section
from tuner.commands.preflight import check_command
from tuner.config.annotations import written
from tuner.config.composition import RunConfig, run_config_of
from tuner.config.section_base import Section
from tuner.errors import UserError
from tuner.finders.comparison.candidates import CandidateBudget, Metric
from tuner.finders.comparison.comparison_study import ComparisonResult, ComparisonSettings, run_comparison
from tuner.finders.comparison.rate_trials import RateCandidate, rates_around, run_at_best_rates
from tuner.finders.comparison.verdicts import FEWEST_FOR_INTERVAL, Rank
from tuner.finders.finder_study import FinderPlace
from tuner.finders.learning_rate.loss_curves import Suggestion
from tuner.finders.learning_rate.search import RateSearch, chosen_mode, search_rates
from tuner.finders.learning_rate.tests import RateRange, RateSettings
from tuner.finders.subjects import ConfiguredSubject
from tuner.results.number_format import format_number
from tuner.runs.build import build_settings
from tuner.runs.config_checks import declared, resolve
from tuner.runs.functions import is_function
from tuner.runs.pixels import has_memory

_METRICS: Mapping[str, Metric] = {"reward": "reward", "loss": "frozen_loss"}


@dataclass(frozen=True)
class RateFinder(RateRange, path="finder"):
    """The section of `tuner find lr`."""

    kind: str = "lr"


@dataclass(frozen=True)
class AgentFinder(Section, path="finder"):
    """That of `tuner find agent`."""

    kind: str
    candidates: Sequence[str]
    num_seeds: int = like(ComparisonSettings, "num_seeds")

    def __post_init__(self) -> None:
        """Refuses what compares nothing."""
        super().__post_init__()
        if len(set(self.candidates)) < max(len(self.candidates), 2):
            raise UserError(
                f"finder.candidates=[{','.join(self.candidates)}] must name at least two different choices of "
                f"{self.kind}"
            )


@dataclass(frozen=True)
class OptimizerFinder(AgentFinder):
    """That of `tuner find optimizer`."""

    metric: Literal["reward", "loss"] = "reward"
    num_gradient_steps: int = like(CandidateBudget, "num_gradient_steps")
    num_rates: int = setting(0, Count(0))


FINDERS: Mapping[str, type[RateFinder] | type[AgentFinder]] = {
    "lr": RateFinder,
    "optimizer": OptimizerFinder,
    "agent": AgentFinder,
}


@dataclass(frozen=True)
class Found:
    """The answer of a finder.

    Attributes:
        sentences: The verdict.
        config: Composed, with the answer in it; None: there is no answer.
        suggestion: Of a learning rate.
        choice: The override that chooses the answer, where that is a choice of a group.
        folder: Of the study.
    """

    sentences: tuple[str, ...]
    config: DictConfig | None
    suggestion: Suggestion | None
    folder: Path
    choice: str | None = None


def question(
    config: DictConfig, overrides: Sequence[str], config_dir: str | Path | None
) -> "RateQuestion | ComparisonQuestion":
    """The question in a configuration, everything checked.

    Raises:
        UserError: A setting of the question is wrong.
    """
    resolved = resolve(config)
    run_config = run_config_of(resolved)
    if is_function(run_config):
        raise UserError("tuner find tries agents, and this is a function; `tuner tune` searches its arguments")
    finder = _checked(resolved["finder"])
    seed = int(resolved["seed"])
    if isinstance(finder, RateFinder):
        searched = {one.name: getattr(finder, one.name) for one in fields(RateRange)}
        settings, run = RateSettings(**searched, seed=seed), RunConfig.from_json(run_config)
        experience = build_settings(run).experience
        mode = chosen_mode(settings.mode, experience, declared(run), has_memory(run.network))
        if mode == "return":
            settings = replace(settings, total_steps=resolved["training"]["total_steps"])
        if mode == "kl" and not isinstance(experience, RolloutSettings):
            raise UserError("finder.mode=kl is for agents that learn from rollouts; use finder.mode=loss")
        of_a_rate = RateQuestion(config, mode, settings)
        of_a_rate.refuse_rates_without_effect()
        return of_a_rate
    known = finder if isinstance(finder, OptimizerFinder) else OptimizerFinder(**vars(finder), num_gradient_steps=1)
    budget = CandidateBudget(None, resolved["training"]["total_steps"], known.num_gradient_steps)
    comparison = ComparisonSettings(budget, _METRICS[known.metric], seed=seed, num_seeds=known.num_seeds)
    candidates = _candidates(known.kind, known.candidates, overrides, config_dir)
    of_several = ComparisonQuestion(known.kind, candidates, comparison, known.num_rates)
    of_several.refuse_rates()
    return of_several


def _checked(finder: object) -> RateFinder | AgentFinder:
    """The section `finder`, compared with what its kind takes."""
    kind = finder.get("kind") if isinstance(finder, dict) else finder
    section = FINDERS.get(kind) if isinstance(kind, str) else None
    if not isinstance(finder, dict) or section is None:
        raise UserError(f"finder.kind={written(kind)} must be {' or '.join(FINDERS)}: choose finder=lr, for example")
    corrected = {path.removeprefix("finder."): value for path, value in check_section("finder", finder, section)}
    return section(**{**finder, **corrected})


def _candidates(
    group: str, names: Sequence[str], overrides: Sequence[str], config_dir: str | Path | None
) -> dict[str, DictConfig]:
    """The config of each candidate: all that was typed, with another choice of the group."""
    typed = [word for word in overrides if not word.startswith(f"{group}=")]
    if len(typed) < len(overrides):
        raise UserError(f"{group}= cannot be typed here: what is compared stands in finder.candidates")
    return {name: check_command("find", [*typed, f"{group}={name}"], config_dir).config for name in map(str, names)}


@dataclass(frozen=True)
class RateQuestion:
    """Which learning rate."""

    config: DictConfig
    mode: str
    settings: RateSettings

    def refuse_rates_without_effect(self) -> None:
        """An optimizer may have no rate to set; a schedule that does not begin at it would have the last word."""
        if LEARNING_RATE not in self.config.optimizer:
            raise UserError(f"there is no optimizer.{LEARNING_RATE} to be found: give the optimizer one")
        low, high = (_subject(_at_rate(self.config, rate)).config.get("schedule", {}) for rate in (0.25, 0.5))
        if LEARNING_RATE in low and low[LEARNING_RATE] == high[LEARNING_RATE]:
            raise UserError(
                f"schedule.{LEARNING_RATE} sets the rate whatever optimizer.{LEARNING_RATE} is, so that none can be "
                f"found: write 'schedule.{LEARNING_RATE}.start=${{optimizer.{LEARNING_RATE}}}' or schedule=none"
            )

    def ask(self, workplace: FinderPlace) -> Found:
        """Runs the study, or what is left of it."""
        subject = _subject(self.config)
        name = str(subject.config["agent"]["_target_"]).rpartition(".")[2]
        found: RateSearch = search_rates(
            subject, partial(_subject_at, self.config), name, self.mode, self.settings, workplace
        )
        rate = found.suggestion.rate
        config = None if rate is None else _at_rate(self.config, rate)
        return Found(found.sentences, config, found.suggestion, found.folder)


def _at_rate(config: DictConfig, rate: float) -> DictConfig:
    """The config at this rate; what refers to it follows."""
    changed = config.copy()
    OmegaConf.update(changed, f"optimizer.{LEARNING_RATE}", rate)
    return changed


def _how_sure(result: ComparisonResult, standing: Rank) -> str:
    if len(result.comparison.seeds) < FEWEST_FOR_INTERVAL:
        return ""
    tied = standing.tied and standing is not result.comparison.best
    return f"   best with probability {standing.probability_best:.2f}{'   (tied)' if tied else ''}"


def _subject_at(config: DictConfig, rate: float) -> ConfiguredSubject:
    return _subject(_at_rate(config, rate))


def _subject(config: DictConfig) -> ConfiguredSubject:
    return ConfiguredSubject(run_config_of(resolve(config)))


@dataclass(frozen=True)
class ComparisonQuestion:
    """Which of several."""

    kind: str
    candidates: dict[str, DictConfig]
    settings: ComparisonSettings
    num_rates: int = 0  # tried for each candidate before; 0: its own only

    def refuse_rates(self) -> None:
        """Where rates are to be tried, there must be some."""
        for name, config in self.candidates.items() if self.num_rates else ():
            if LEARNING_RATE not in config.optimizer:
                raise UserError(f"finder.num_rates={self.num_rates}: {name} has no optimizer.{LEARNING_RATE} to vary")
            rates_around(float(config.optimizer[LEARNING_RATE]), self.num_rates)

    def ask(self, workplace: FinderPlace) -> Found:
        """Runs the study, or what is left of it."""
        about = "-".join([*self.candidates, str(next(iter(self.candidates.values())).env.id)])
        title = "".join(letter if letter.isalnum() or letter in "-." else "-" for letter in about)
        result = self._run(title, workplace)
        best = result.comparison.best
        table = tuple(
            f"  {standing.name:<14}{format_number(standing.score):>10}" + _how_sure(result, standing)
            for standing in result.comparison.standings
        )
        config = None if best is None else self.candidates[best.name]
        if config is not None and best is not None and best.name in result.rates:
            config = _at_rate(config, result.rates[best.name])
        choice = None if best is None else f"{self.kind}={best.name}"
        return Found((*table, *result.sentences), config, None, result.folder, choice)

    def _run(self, title: str, workplace: FinderPlace) -> ComparisonResult:
        if not self.num_rates:
            subjects = {name: _subject(config) for name, config in self.candidates.items()}
            return run_comparison(self.kind, title, subjects, self.settings, workplace)
        rated = {name: RateCandidate(float(config.optimizer[LEARNING_RATE]), partial(_subject_at, config))
                 for name, config in self.candidates.items()}  # fmt: skip
        return run_at_best_rates(self.kind, title, rated, self.num_rates, self.settings, workplace)
