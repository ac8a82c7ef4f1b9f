"""`tuner find lr|optimizer|agent`: small studies that answer one question each, and what follows as a file."""

from collections.abc import Mapping, Sequence
from contextlib import closing, nullcontext
from pathlib import Path
from typing import Any

import yaml
from omegaconf import DictConfig, OmegaConf
from rich.console import Console
from rich.markup import escape
from rich.status import Status

from tuner.commands.questions import Found, question
from tuner.commands.study_from_config import check_workplace
from tuner.commands.winner import TrainingConfigs
from tuner.config.composition import run_config_of
from tuner.config.trust import remember
from tuner.config.typed_command import typed_config_dir, typed_line
from tuner.executors.base import Event, TrialProgress, TrialReported
from tuner.finders.finder_process import point_of
from tuner.finders.finder_study import FinderPlace
from tuner.results.number_format import format_number, format_seconds
from tuner.results.records import RunRecord
from tuner.runs.build import build_trackers
from tuner.runs.config_checks import resolve
from tuner.study import STOPPED, StudyListener, how_it_stopped
from tuner.study.run_registry import Run
from tuner.support.console import PlainConsole
from tuner.support.interrupts import EXIT_INTERRUPTED
from tuner.support.text_files import atomic_write
from tuner.trackers.base import TrackerGroup


def check(config: DictConfig, folder: Path, overrides: Sequence[str], config_dir: str | Path | None = None) -> None:
    """Refuses what is known to be wrong before anything is written."""
    del folder
    question(config, overrides, config_dir)
    check_workplace(resolve(config))


def run(config: DictConfig, folder: Path, overrides: Sequence[str]) -> int:
    """Runs the study, or what is left of it, and says what it found."""
    del folder  # study.folder says where studies live
    console = PlainConsole()
    try:
        found = find(config, overrides, console)
    except STOPPED as stop:
        typed = [word for word in overrides if not word.startswith("finder=")]
        again = escape(typed_line("find", [str(config.finder.kind), *typed], typed_config_dir()))
        console.print(
            f"{how_it_stopped(stop)}:\n  [bold]{again}[/bold]",
            highlight=False,
            soft_wrap=True,
        )
        return EXIT_INTERRUPTED
    for sentence in found.sentences:
        console.print(escape(sentence), highlight=False, soft_wrap=True)
    for what, line in _write_outputs(found, overrides).items():
        console.print(f"{what}:\n  [bold]{escape(line)}[/bold]", highlight=False, soft_wrap=True)
    return 0


def find(config: DictConfig, overrides: Sequence[str] = (), console: Console | None = None) -> Found:
    """Answers the question of a composed config.

    Args:
        config: Composed from the primary config `find`, checked.
        overrides: As typed.
        console: Where progress is shown; None: nowhere.

    Raises:
        StudyStopped: After Ctrl-C or SIGTERM; the same call goes on.
        UserError: The study cannot begin or go on, or no run came to a good end.
    """
    asked, resolved = question(config, overrides, typed_config_dir()), resolve(config)
    with nullcontext(StudyListener()) if console is None else closing(_Lines(console)) as listener:
        workplace = FinderPlace(
            storage=resolved["storage"]["url"],
            folder=resolved["study"]["folder"],
            name=resolved["study"]["name"],
            executor=resolved["executor"],
            tracker=TrackerGroup(list(build_trackers(resolved.get("tracker")).values())),
            listener=listener,
        )
        return asked.ask(workplace)


class _Lines(StudyListener):
    """A line for each run that begins, and one when it ends; in a terminal, how far those are that run."""

    def __init__(self, console: Console) -> None:
        self._console = console
        self._total = self._done = 0
        self._running: dict[str, str] = {}
        self._status = Status("", console=console)
        if console.is_terminal:
            self._status.start()

    def close(self) -> None:
        """Takes away what is shown of runs under way."""
        self._status.stop()

    def on_note(self, text: str) -> None:
        """Printed."""
        self._console.print(escape(text), highlight=False)

    def on_stage(self, stage: str, num_runs: int, records: Sequence[RunRecord]) -> None:
        """How many there are."""
        del stage
        self._total, self._done = num_runs, sum(record.outcome is not None for record in records)
        done = f", of which {self._done} are done" if self._done else ""
        self._console.print(f"{num_runs} runs{done}", highlight=False)

    def on_start(self, run: Run) -> None:
        """Prints the value that a run tries."""
        self._console.print(f"  {escape(self._point(run))} begins", highlight=False, soft_wrap=True)
        self._update(run, "begins")

    def on_event(self, run: Run, event: Event) -> None:
        """How far it is."""
        if isinstance(event, TrialProgress):
            self._update(run, f"{event.progress:.0%}")
        elif isinstance(event, TrialReported):
            self._update(run, f"step {event.step:g}" if event.step > 1.0 else f"{event.step:.0%}")

    def on_pause(self, run: Run, reason: str) -> None:
        """It is begun again, or later."""
        self._update(run)

    def on_end(self, run: Run, record: RunRecord) -> None:
        """Prints the result of a run."""
        self._update(run)
        self._done += 1
        came = f"{record.outcome}: {record.reason}"
        if record.complete and record.value is not None:
            came = f"{'stable up to rate ' if 'test' in record.params else ''}{format_number(record.value)}"
        line = f"[{self._done}/{self._total}] {_point(record.params)}: {came} ({format_seconds(record.seconds)})"
        self._console.print(escape(line), highlight=False, soft_wrap=True)

    def _point(self, run: Run) -> str:
        return _point(point_of(run.values["overrides"]))

    def _update(self, run: Run, state: str = "") -> None:
        """Shows the state of a run; none when it has ended."""
        self._running.pop(run.key, None)
        if state:
            self._running[run.key] = f"{self._point(run)}: {state}"
        self._status.update(escape("; ".join(self._running.values())) or " ")  # it takes no empty text


_TESTS = {
    "loss": "loss while the rate rises",
    "kl": "policy change (KL) at each rate",
    "online": "episodes while the rate rises",
}


def _point(params: Mapping[str, Any]) -> str:
    """The values that a run tries, in words."""
    named = dict(params)
    kind, _, seed = str(named.pop("test", "")).partition(" ")
    tests = [f"{_TESTS[kind]}, seed {seed}"] if kind else []
    return ", ".join([*tests, *(f"{name} {value}" for name, value in named.items())])


def _write_outputs(found: Found, overrides: Sequence[str]) -> dict[str, str]:
    """Writes the answer as experiment files; returns what can be typed."""
    if found.config is None:
        return {}
    ours = [word for word in overrides if not word.startswith(("finder", "study."))]
    ours += [] if found.choice is None else [found.choice]
    configs = TrainingConfigs(ours, typed_config_dir())
    config = run_config_of(resolve(found.config))
    remember(config)
    followed = {**config, "schedule": OmegaConf.to_container(found.config.schedule, resolve=False)}
    folder = found.folder / "experiment"
    folder.mkdir(exist_ok=True)
    text = configs.experiment(followed, f"What `tuner find` found: {' '.join(found.sentences[-1:])}")
    atomic_write(folder / "found.yaml", text)
    lines = {"train with it": configs.experiment_command(found.folder, config, "found")}
    if found.suggestion is None:
        return {**lines, "search further": configs.experiment_command(found.folder, config, "found", "tune")}
    space = yaml.safe_dump({"space": {"optimizer": {"learning_rate": dict(found.suggestion.space)}}}, sort_keys=False)
    atomic_write(folder / "found_range.yaml", f"{text}{space}")
    return {**lines, "search further": configs.experiment_command(found.folder, config, "found_range", "tune")}
