"""The study itself as a tracked run: how the best score rises, and at the end everything that was found."""

import json
from collections.abc import Sequence
from pathlib import Path
from types import TracebackType
from typing import Final, Self

from tuner.results.columns import columns
from tuner.results.features import ShownIn, all_facts, all_stages
from tuner.results.json_values import encoded
from tuner.results.records import SCREEN, RunRecord, StudySummary
from tuner.results.verdict import verdict
from tuner.study.definition import StudyDefinition
from tuner.study.run_registry import Run
from tuner.study.storage.store import describe, settings_to_json
from tuner.study.study_errors import StudyStopped
from tuner.study.watching.study_listener import StudyListener
from tuner.support.plain_text import message_of, one_line
from tuner.trackers.base import RunInfo, RunTracker, Table, Tracker
from tuner.trial.messages import JsonDict, Outcome

JOB_TYPE: Final = "study"


class StudyRunListener(StudyListener):
    """Keeps one tracked run for the study as long as it is entered as a context; a failure inside closes it as failed.

    Args:
        tracker: Gets the run.
        definition: The study.
        folder: Of the study, if not where the definition says.
        maximised: Whether higher scores are better.
        columns: Settings as its runs show them, if these are not those of the definition.
    """

    def __init__(
        self,
        tracker: Tracker,
        definition: StudyDefinition,
        folder: Path | None = None,
        *,
        maximised: bool = True,
        columns: JsonDict | None = None,
    ) -> None:
        self._tracker = tracker
        self._definition = definition
        self._folder = folder or definition.study_folder
        self._columns = definition.judged_config() if columns is None else columns
        self._better = max if maximised else min
        self._run: RunTracker | None = None
        self._known: dict[str, set[int]] = {stage: set() for stage in all_stages()}  # numbers of runs that have ended
        self._num_failed = self._num_pruned = 0
        self._best_screened: float | None = None

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if error is not None:
            outcome = Outcome.STOPPED if isinstance(error, StudyStopped) else Outcome.CRASHED
            self._finish(1, {"outcome": outcome.value, "reason": one_line(message_of(error))})

    def on_stage(self, stage: str, num_runs: int, records: Sequence[RunRecord]) -> None:
        """Opens the run at the first stage; takes in what earlier sessions have done."""
        for record in records:
            self._take_in(record)
        if self._run is None:
            self._run = self._tracker.start_run(_info_of(self._definition, self._folder, self._columns))
        self._run.log(self._num_known, {"study/stage": all_stages().index(stage), "study/runs_planned": num_runs})

    def on_end(self, run: Run, record: RunRecord) -> None:
        """One row of the history for each run that has ended."""
        del run
        if not record.environment:
            self.on_whole(record)

    def on_whole(self, record: RunRecord) -> None:
        """The same for each that has ended in all environments."""
        self._take_in(record)
        assert self._run is not None
        row = {
            "study/seconds_of_run": record.seconds,
            "study/num_failed": float(self._num_failed),
            "study/num_pruned": float(self._num_pruned),
        }
        if record.value is not None:
            row[f"study/{record.stage}_score"] = record.value
        if self._best_screened is not None:
            row["study/best_screening_score"] = self._best_screened
        self._run.log(self._num_known, row)

    def on_result(self, summary: StudySummary, config: JsonDict) -> None:
        """Closes the run with what the study has found.

        Args:
            summary: Of the study.
            config: Of the winner.
        """
        found = verdict(summary)
        numbers = {"test_iqm": found.winner, "default_test_iqm": found.default, "difference": found.difference}
        content: dict[str, object] = {
            "outcome": Outcome.COMPLETE.value,
            "verdict": found.sentence,
            "winner": summary.winner_label,
            "best_params": dict(summary.params_of(summary.winner_label or "")),
            "best_config": json.dumps(config),  # one column, not one for each setting
            "retrain_command": summary.retrain_command,
            **{name: estimate.iqm for name, estimate in numbers.items() if estimate is not None},
            **{f"importance/{path}": share for path, share in summary.importances.items()},
            "trials": trials_table(summary),
        }
        if found.optimism is not None:
            content["selection_optimism"] = found.optimism
        content |= {fact.key: encoded(fact.of(summary)) for fact in all_facts() if fact.is_tracked and fact.of(summary)}
        if summary.importances:
            content["importances"] = importance_table(summary)
        self._finish(0, content)

    def _take_in(self, record: RunRecord) -> None:
        if record.outcome is None or record.number in self._known[record.stage]:
            return
        self._known[record.stage].add(record.number)
        self._num_failed += record.failed
        self._num_pruned += record.outcome is Outcome.PRUNED
        if record.stage == SCREEN and record.score is not None:
            self._best_screened = self._better(
                record.score, record.score if self._best_screened is None else self._best_screened
            )

    @property
    def _num_known(self) -> int:
        return sum(map(len, self._known.values()))

    def _finish(self, exit_code: int, summary: dict[str, object]) -> None:
        if self._run is not None:
            self._run.finish(exit_code, summary)
            self._run = None


def _info_of(definition: StudyDefinition, folder: Path, columns: JsonDict) -> RunInfo:
    about = json.dumps({**describe(definition), **settings_to_json(definition)}, default=str)
    # In the columns of its runs, which a table of them has anyway; what only a study has is one text.
    config = {**columns, "seed": definition.seed, "study": about}
    return RunInfo(definition.name, definition.name, config, folder, (JOB_TYPE,), JOB_TYPE, group_folder=folder)


def trials_table(summary: StudySummary) -> Table:
    """All runs of all stages with their parameters."""
    shown = columns(summary, ShownIn.TRACKER)
    rows = tuple(tuple(column.value(run) for column in shown) for run in summary.runs)
    return Table(tuple(column.heading for column in shown), rows)


def importance_table(summary: StudySummary) -> Table:
    """Importances beside what chance alone would make of them."""
    rows = [(path, share, summary.importance_null.get(path)) for path, share in summary.importances.items()]
    return Table(("parameter", "importance", "chance alone"), tuple(rows))
