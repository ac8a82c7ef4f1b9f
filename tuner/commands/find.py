"""`tuner find lr|optimizer|agent`: small studies that answer one question each, and what follows as a file."""

import shlex
from collections.abc import Mapping, Sequence
from contextlib import closing
from dataclasses import dataclass, fields
from pathlib import Path
from typing import Any

import yaml
from omegaconf import DictConfig, OmegaConf
from rich.console import Console
from rich.markup import escape

from note_rl.learners.adjustable import LEARNING_RATE
from note_rl.settings import RolloutSettings
from tuner.build import build_node, build_settings, build_trackers
from tuner.checks import resolve
from tuner.commands.defining import run_config_of
from tuner.commands.tune import typed_config_dir
from tuner.commands.winner import TrainingConfigs
from tuner.config import RunConfig
from tuner.errors import UserError
from tuner.executors.base import Event
from tuner.finders.candidates import Budget, Metric
from tuner.finders.contest import ContestSettings, run_contest
from tuner.finders.curves import Suggestion
from tuner.finders.rate_tests import RateSettings
from tuner.finders.rates import RateSearch, chosen_mode, search_rates
from tuner.finders.study import Workplace
from tuner.finders.subjects import ConfiguredSubject
from tuner.functions import is_function
from tuner.names import did_you_mean
from tuner.preflight import check_command
from tuner.records import RunRecord
from tuner.study import StudyListener, StudyStopped
from tuner.study.book import Run
from tuner.trackers.base import TrackerGroup
from tuner.wording import format_number, format_seconds

EXIT_STOPPED = 130
_METRICS: Mapping[str, Metric] = {"reward": "reward", "loss": "frozen_loss"}
_OWN = ("kind", "candidates", "metric", "num_gradient_steps")


@dataclass(frozen=True)
class Found:
    """What a finder has to say.

    Attributes:
        sentences: The verdict.
        config: Composed, with the answer in it; None: there is no answer.
        suggestion: Of a learning rate.
        folder: Of the study.
    """

    sentences: tuple[str, ...]
    config: DictConfig | None
    suggestion: Suggestion | None
    folder: Path


def check(config: DictConfig, folder: Path, overrides: Sequence[str], config_dir: str | Path | None = None) -> None:
    """Refuses what can be told to be wrong before anything is written."""
    del folder
    _question(config, overrides, config_dir)


def run(config: DictConfig, folder: Path, overrides: Sequence[str]) -> int:
    """Runs the study, or what is left of it, and says what it found."""
    del folder  # study.folder says where studies live
    console = Console()
    try:
        found = find(config, overrides, console)
    except StudyStopped as stop:
        again = escape(shlex.join(["tuner", "find", *overrides]))
        console.print(f"{stop}; the same command goes on: [bold]{again}[/bold]")
        return EXIT_STOPPED
    for sentence in found.sentences:
        console.print(escape(sentence), highlight=False, soft_wrap=True)
    for what, line in _take_home(found, overrides).items():
        console.print(f"{what}:\n  [bold]{escape(line)}[/bold]", highlight=False, soft_wrap=True)
    return 0


def find(config: DictConfig, overrides: Sequence[str] = (), console: Console | None = None) -> Found:
    """Answers the question of a composed config.

    Args:
        config: Composed from the primary config `find`, checked.
        overrides: What was typed.
        console: Where progress is shown; None: nowhere.

    Raises:
        StudyStopped: After Ctrl-C or SIGTERM; the same call goes on.
        UserError: The study cannot begin or go on, or no run came to a good end.
    """
    question, resolved = _question(config, overrides, typed_config_dir()), resolve(config)
    workplace = Workplace(
        storage=resolved["storage"]["url"],
        folder=resolved["study"]["folder"],
        name=resolved["study"]["name"],
        executor=lambda: closing(build_node("executor", resolved["executor"])),
        tracker=TrackerGroup(list(build_trackers(resolved["tracker"]).values())),
        listener=StudyListener() if console is None else _Lines(console),
    )
    return question.ask(workplace)


def _question(
    config: DictConfig, overrides: Sequence[str], config_dir: str | Path | None
) -> "_RateQuestion | _ContestQuestion":
    """What is asked, everything checked."""
    resolved = resolve(config)
    run_config = run_config_of(resolved)
    finder = dict(resolved["finder"])
    if is_function(run_config):
        raise UserError("tuner find tries agents, and this is a function; `tuner tune` searches its arguments")
    _refuse_unknown(finder)
    further = {key: value for key, value in finder.items() if key not in _OWN}
    seed = int(resolved["seed"])
    if finder["kind"] == "lr":
        total_steps = resolved["training"]["total_steps"] if finder["mode"] in ("return", "reward") else None
        settings = RateSettings(seed=seed, total_steps=total_steps, **further)
        experience = build_settings(RunConfig.from_json(run_config)).experience
        mode = chosen_mode(settings.mode, experience)
        if mode == "kl" and not isinstance(experience, RolloutSettings):
            raise UserError("finder.mode=kl is for agents that learn from rollouts; use finder.mode=loss")
        question = _RateQuestion(config, mode, settings)
        question.refuse_rates_without_effect()
        return question
    metric = finder.get("metric", "reward")
    if metric not in _METRICS:
        raise UserError(f"finder.metric={metric} must be reward or loss{did_you_mean(str(metric), _METRICS)}")
    budget = Budget(None, resolved["training"]["total_steps"], int(finder.get("num_gradient_steps", 1)))
    contest = ContestSettings(budget, _METRICS[metric], seed=seed, **further)
    candidates = _candidates(finder["kind"], finder["candidates"], overrides, config_dir)
    return _ContestQuestion(finder["kind"], candidates, contest)


def _refuse_unknown(finder: Mapping[str, Any]) -> None:
    kind = finder.get("kind")
    if kind not in ("lr", "optimizer", "agent"):
        raise UserError(f"finder.kind={kind} must be lr, optimizer or agent")
    of_a_rate = [part.name for part in fields(RateSettings) if part.name not in ("episodes", "total_steps", "seed")]
    known = {
        "lr": ["kind", *of_a_rate],
        "optimizer": [*_OWN, "num_seeds"],
        "agent": ["kind", "candidates", "num_seeds"],
    }
    for key in finder:
        if key not in known[kind]:
            raise UserError(
                f"unknown key finder.{key}{did_you_mean(f'finder.{key}', [f'finder.{name}' for name in known[kind]])}"
            )


def _candidates(
    group: str, names: Sequence[str], overrides: Sequence[str], config_dir: str | Path | None
) -> dict[str, DictConfig]:
    """The config of each candidate: all that was typed, with another choice of the group."""
    if not isinstance(names, list) or len(set(names)) < 2 or len(set(names)) < len(names):
        raise UserError(f"finder.candidates={names} must name at least two different choices of {group}")
    typed = [word for word in overrides if not word.startswith(f"{group}=")]
    if len(typed) < len(overrides):
        raise UserError(f"{group}= cannot be typed here: what is compared stands in finder.candidates")
    return {name: check_command("find", [*typed, f"{group}={name}"], config_dir).config for name in map(str, names)}


@dataclass(frozen=True)
class _RateQuestion:
    """Which learning rate."""

    config: DictConfig
    mode: str
    settings: RateSettings

    def refuse_rates_without_effect(self) -> None:
        """An optimizer may have no rate to set; a schedule that does not begin at it would have the last word."""
        if LEARNING_RATE not in self.config.optimizer:
            raise UserError(f"there is no optimizer.{LEARNING_RATE} to be found: give the optimizer one")
        low, high = (run_config_of(resolve(self._at(rate))).get("schedule", {}) for rate in (0.25, 0.5))
        if LEARNING_RATE in low and low[LEARNING_RATE] == high[LEARNING_RATE]:
            raise UserError(
                f"schedule.{LEARNING_RATE} sets the rate whatever optimizer.{LEARNING_RATE} is, so that none can be "
                f"found: write 'schedule.{LEARNING_RATE}.start=${{optimizer.{LEARNING_RATE}}}' or schedule=none"
            )

    def ask(self, workplace: Workplace) -> Found:
        subject = self._subject(self.config)
        name = str(subject.config["agent"]["_target_"]).rpartition(".")[2]
        found: RateSearch = search_rates(
            subject, lambda rate: self._subject(self._at(rate)), name, self.mode, self.settings, workplace
        )
        rate = found.suggestion.rate
        return Found(found.sentences, None if rate is None else self._at(rate), found.suggestion, found.folder)

    def _at(self, rate: float) -> DictConfig:
        """The config at this rate; what refers to it follows."""
        changed = self.config.copy()
        OmegaConf.update(changed, f"optimizer.{LEARNING_RATE}", rate)
        return changed

    def _subject(self, config: DictConfig) -> ConfiguredSubject:
        return ConfiguredSubject(run_config_of(resolve(config)))


@dataclass(frozen=True)
class _ContestQuestion:
    """Which of several."""

    kind: str
    candidates: dict[str, DictConfig]
    settings: ContestSettings

    def ask(self, workplace: Workplace) -> Found:
        subjects = {name: ConfiguredSubject(run_config_of(resolve(config))) for name, config in self.candidates.items()}
        about = "-".join([*self.candidates, str(next(iter(self.candidates.values())).env.id)])
        title = "".join(letter if letter.isalnum() or letter in "-." else "-" for letter in about)
        result = run_contest(self.kind, title, subjects, self.settings, workplace)
        best = result.comparison.best
        table = tuple(
            f"  {standing.name:<14}{format_number(standing.score):>10}   best with probability "
            f"{standing.probability_best:.2f}{'   (tied)' if standing.tied and standing is not best else ''}"
            for standing in result.comparison.standings
        )
        config = None if best is None else self.candidates[best.name]
        return Found((*table, *result.comparison.sentences), config, None, result.folder)


class _Lines(StudyListener):
    """A line for each run that ends."""

    def __init__(self, console: Console) -> None:
        self._console = console
        self._total = self._done = 0

    def on_note(self, text: str) -> None:
        """Printed."""
        self._console.print(escape(text), highlight=False)

    def on_stage(self, stage: str, num_runs: int, records: Sequence[RunRecord]) -> None:
        """How many there are."""
        del stage
        self._total, self._done = num_runs, sum(record.outcome is not None for record in records)
        done = f", of which {self._done} are done" if self._done else ""
        self._console.print(f"{num_runs} runs{done}", highlight=False)

    def on_event(self, run: Run, event: Event) -> None:
        """Nothing: runs are short."""

    def on_end(self, run: Run, record: RunRecord) -> None:
        """What came of it."""
        del run
        self._done += 1
        what = ", ".join(f"{name} {value}" for name, value in record.params.items())
        came = format_number(record.value) if record.complete and record.value is not None else (
            f"{record.outcome}: {record.reason}"
        )  # fmt: skip
        line = f"[{self._done}/{self._total}] {what}: {came} ({format_seconds(record.seconds)})"
        self._console.print(escape(line), highlight=False, soft_wrap=True)


def _take_home(found: Found, overrides: Sequence[str]) -> dict[str, str]:
    """Writes the answer as experiment files; returns what can be typed."""
    if found.config is None:
        return {}
    ours = [word for word in overrides if not word.startswith(("finder", "study."))]
    configs = TrainingConfigs(ours, typed_config_dir())
    config = run_config_of(resolve(found.config))
    followed = {**config, "schedule": OmegaConf.to_container(found.config.schedule, resolve=False)}
    folder = found.folder / "experiment"
    folder.mkdir(exist_ok=True)
    text = configs.experiment(followed, f"What `tuner find` found: {' '.join(found.sentences[-1:])}")
    (folder / "found.yaml").write_text(text)
    lines = {"train with it": configs.experiment_command(found.folder, config, "found")}
    if found.suggestion is None:
        return {**lines, "search further": configs.experiment_command(found.folder, config, "found", "tune")}
    space = yaml.safe_dump({"space": {"optimizer": {"learning_rate": dict(found.suggestion.space)}}}, sort_keys=False)
    (folder / "found_range.yaml").write_text(f"{text}{space}")
    return {**lines, "search further": configs.experiment_command(found.folder, config, "found_range", "tune")}
