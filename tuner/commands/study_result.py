"""Result of a study in Python: `tuner.tune` returns it, and `tuner.load` loads it again."""

import importlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any, cast

from tuner.checking.features import typed_within
from tuner.commands.features import policy_loader
from tuner.commands.preflight import admit_groups, compose_or_explain
from tuner.commands.winner import TrainingConfigs
from tuner.config.composition import config_loader, to_json
from tuner.config.overrides import to_hydra
from tuner.config.trust import admit, refuse_lookups
from tuner.config.typed_command import TypedCommand
from tuner.errors import UserError
from tuner.results.columns import rows
from tuner.results.features import all_stages
from tuner.results.findings import Verdict
from tuner.results.number_format import join_words
from tuner.results.records import RunRecord, StudySummary
from tuner.results.verdict import verdict
from tuner.runs.function_state import FunctionState
from tuner.runs.functions import is_function
from tuner.runs.player import Player
from tuner.runs.run_folders import read_run
from tuner.runs.trained_agents import load_run
from tuner.study import Winner
from tuner.study.definition import DEFAULT_LABEL
from tuner.support.names import did_you_mean
from tuner.trial.folder import CHECKPOINT_FILE
from tuner.trial.messages import JsonDict

_MOST_LISTED = 5


@dataclass(frozen=True)
class StudyResult:
    """A study, finished or not. Of a sweep the winner is its best job; with more objectives, more is chosen.

    Attributes:
        summary: Everything known of it, every run included.
        folder: Its files.
        winners: Its chosen configurations, the best in score first; of one objective that is one. None yet: empty.
        trust: Modules outside of `tuner` that the study may name.
    """

    summary: StudySummary
    folder: Path
    winners: tuple[Winner, ...]
    trust: tuple[str, ...] = ()

    def __repr__(self) -> str:
        """Returns a line: a study holds more than anybody wants to see at a prompt."""
        winners = ", ".join(winner.label for winner in self.winners) or "none yet"
        what, num_runs = f"{type(self).__name__} {self.summary.name}", len(self.summary.runs)
        return f"<{what} in {self.folder}: {num_runs} runs, winner: {winners}>"

    @property
    def rows(self) -> list[dict[str, Any]]:
        """All runs of all stages as dictionaries, each with all columns of trials.csv; parameters as they are typed."""
        return rows(self.summary)

    @property
    def trials(self) -> Any:
        """The same as a pandas.DataFrame.

        Raises:
            UserError: pandas is not installed.
        """
        try:
            pandas = importlib.import_module("pandas")
        except ModuleNotFoundError:
            raise UserError(
                "trials is a table of pandas: pip install 'note-rl[report]', or use rows, a list of dicts"
            ) from None
        return pandas.DataFrame(self.rows)

    @property
    def winner(self) -> Winner:
        """The chosen configuration: label, values by config path, and whole config; of several, the one of best score.

        Raises:
            UserError: Nothing is chosen yet.
        """
        if not self.winners:
            raise UserError(
                f"study {self.summary.name} has no winner yet. {self.verdict.sentence}\n"
                f"Go on with it: {self.summary.study_command or 'the command it was started with'}"
            )
        return self.winners[0]

    @cached_property
    def overrides(self) -> tuple[str, ...]:
        """Overrides with which `tuner.train` and `tuner train` train the winner again.

        Raises:
            UserError: There is no winner yet; or it names code that was not used here before, see `tuner.config.trust`.
        """
        overrides = self._overrides
        refuse_lookups(overrides, self._source)
        if not self.summary.is_sweep:
            self._admit(overrides)
        return overrides

    def _admit(self, overrides: Sequence[str]) -> None:
        """A storage may be somebody else's, and so may be what it says was typed."""
        if any(word.lstrip("+~").startswith("hydra") for word in overrides):
            raise UserError(f"{self._source} changes how Hydra runs: somebody has edited it")
        folder = self.config_dir
        admit_groups(folder, [f"trust=[{','.join(self.trust)}]"])
        admit(to_json(compose_or_explain(config_loader(folder), "train", overrides)), self._source, self.trust)

    @property
    def _source(self) -> str:
        return f"the storage of study {self.summary.name}"

    @property
    def config(self) -> JsonDict:
        """The winner's whole run config."""
        return self.winner.config

    @property
    def best_params(self) -> Mapping[str, Any]:
        """The winner's searched values by config path."""
        return self.winner.values

    @property
    def others(self) -> tuple[Winner, ...]:
        """The other chosen configurations, where there is more than one objective."""
        return self.winners[1:]

    @property
    def experiment_file(self) -> Path:
        """The whole winning config as an experiment; a sweep has none."""
        return self.folder / "experiment" / "winner.yaml"

    @property
    def experiment_command(self) -> str:
        """The command line that trains from that file."""
        configs = TrainingConfigs(self.overrides, self.config_dir)
        return configs.experiment_command(self.folder, self.config)

    @property
    def default_command(self) -> str:
        """The command line that trains the default configuration; empty for a sweep, and where nothing was tested."""
        return self.summary.default_command

    @property
    def config_dir(self) -> str | None:
        """The user's folder of groups that the study was started with."""
        return TypedCommand.read(self.summary.retrain_command or self.summary.study_command).config_dir

    @property
    def _overrides(self) -> tuple[str, ...]:
        winner = self.winner
        if self.summary.is_sweep:
            return tuple(f"{path}={to_hydra(value)}" for path, value in winner.values.items())
        if self.summary.retrain_command:
            return TypedCommand.read(self.summary.retrain_command).overrides
        study = TypedCommand.read(self.summary.study_command)
        typed = typed_within(study.overrides, next(iter(self.summary.part_names), ""))
        refuse_lookups([*typed, *map(str, winner.values.values())], self._source)
        return tuple(TrainingConfigs(typed, self.config_dir).overrides_for(winner.config, winner.values))

    @cached_property
    def verdict(self) -> Verdict:
        """The verdict on the winner; `verdict.sentence` is its one sentence."""
        return verdict(self.summary)

    def agent(self, label: str | None = None, seed: int | None = None, environment: str | None = None) -> Player:
        """The trained agent of a configuration, on the CPU: `action, _ = result.agent().predict(obs)`.

        It is that of `best_run`. Being the best of a few, it
        is likely to be somewhat worse than its score: what to expect of the configuration is in `verdict`.

        Args:
            label: Of the configuration, "trial 7" or "default"; None: the winner.
            seed: Of the run to take; None: the one with the highest score.
            environment: Which one it is of, where a run has a part in each of them; None: the first.

        Raises:
            UserError: There is no winner yet, no such run, no checkpoint of it, or a function was tuned.
            note_rl.errors.CheckpointError: The checkpoint is damaged.
        """
        place = self.best_run(label, seed, environment)
        config = read_run(place, self.trust)
        load_policy = policy_loader(config)
        if load_policy is not None:
            return cast(Player, load_policy(config, place))  # it has the form of one
        return Player(load_run(place, self.trust))

    def best_run(self, label: str | None = None, seed: int | None = None, environment: str | None = None) -> Path:
        """The folder of a configuration's run: of those on several seeds that of the last stage with the highest score.

        Args:
            label: See `agent`.
            seed: See `agent`.
            environment: See `agent`.

        Raises:
            UserError: There is no winner yet, no such run, no checkpoint of it, or a function was tuned.
        """
        label = self.winner.label if label is None else label
        if label == DEFAULT_LABEL:
            label = self.summary.default_label  # a trial's, where the default configuration has won
        runs = [run for run in self._runs_in(environment) if run.label == label and seed in (None, run.seed)]
        kept = [run for run in runs if self._has_checkpoint(run)]
        if not kept:
            raise UserError(self._why_no_agent(label, seed, runs))
        best = max(kept, key=lambda run: (run.complete, all_stages().index(run.stage), self.summary.merit(run) or 0.0))
        return Path(best.folder)

    @property
    def has_agent(self) -> bool:
        """Whether there is a trained agent of the winner, as `agent()` and `tuner play` need it."""
        return any(run.label == self.winner.label and self._has_checkpoint(run) for run in self._runs_in(None))

    def _has_checkpoint(self, run: RunRecord) -> bool:
        """Whether a run has saved an agent, or, of a function, what it has learned in a form that is known."""
        folder = Path(run.folder)
        if (folder / CHECKPOINT_FILE).is_file():
            return True
        configs = [winner.config for winner in self.winners]
        return any(map(policy_loader, configs)) and FunctionState(folder).newest() is not None

    def _runs_in(self, environment: str | None) -> list[RunRecord]:
        """All runs; of runs with parts those in one environment."""
        names = self.summary.part_names
        if environment is not None and environment not in names:
            there = did_you_mean(environment, names) or ": it is of one environment only"
            raise UserError(f"study {self.summary.name} has no environment {environment}{there}")
        if not names:
            return list(self.summary.runs)
        chosen = names[0] if environment is None else environment
        return [part for run in self.summary.runs for part in run.parts if part.environment == chosen]

    def _labels(self) -> list[str]:
        """Of all configurations, trials by their numbers."""
        labels = {run.label for run in self.summary.runs}
        return sorted(labels, key=lambda label: [int(part) if part.isdigit() else 0 for part in label.split()])

    def _why_no_agent(self, label: str, seed: int | None, runs: list[RunRecord]) -> str:
        name = self.summary.name
        if not runs:
            labels = self._labels()
            if label in labels:
                seeds = sorted({run.seed for run in self.summary.runs if run.label == label})
                return f"study {name} has no run of {label} with seed {seed}; it has seed {join_words(map(str, seeds))}"
            more = [f"{len(labels) - _MOST_LISTED} more"] if len(labels) > _MOST_LISTED else []
            listed = join_words([*labels[:_MOST_LISTED], *more])
            return f"study {name} has no run of {label}; it has {listed} (see trials or rows)"
        if self.winners and is_function(self.winners[0].config) and self.winners[0].config:
            return f"study {name} tunes a function, which leaves no agent behind; its result is in winner.values"
        where = ", ".join(run.folder for run in runs[:3])
        return f"no run of {label} in study {name} has a checkpoint (looked in {where}): train it again with overrides"


@dataclass(frozen=True, repr=False)
class TuneResult(StudyResult):
    """Result of `tuner.tune`: a study that this process has run, so that nobody has to vouch for its code."""

    def _admit(self, overrides: Sequence[str]) -> None:
        """Everything was typed here."""
