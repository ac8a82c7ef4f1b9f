"""Messages of a sweep in Hydra's log, and its files beside the folders of its jobs."""

import logging
from collections.abc import Sequence
from pathlib import Path

from omegaconf import DictConfig, OmegaConf

from tuner.results.number_format import format_number
from tuner.results.records import RunRecord
from tuner.study.run_registry import Run
from tuner.study.sweep.sweep_study import JobResult, SweepListener
from tuner.study.watching.study_listener import Listeners
from tuner.support.plain_text import printable
from tuner.sweeper.grammar import SweepSpace
from tuner.sweeper.hydra_job import without_passwords
from tuner.sweeper.optimization_results import RESULTS_FILE, results_of, write_results
from tuner.trial.messages import Outcome

_log = logging.getLogger(__name__)


class SweepListeners(Listeners, SweepListener):
    """Several listeners of a sweep, notified one after the other."""

    def __init__(self, *listeners: SweepListener) -> None:
        super().__init__(*listeners)
        self._of_sweep = listeners

    def on_folder(self, folder: Path) -> None:
        """Passed on."""
        for listener in self._of_sweep:
            listener.on_folder(folder)

    def on_results(self, folder: Path, best: Sequence[JobResult]) -> None:
        """Passed on."""
        for listener in self._of_sweep:
            listener.on_results(folder, best)


class SweepLog(SweepListener):
    """Logs as Hydra's own launcher does.

    Args:
        config: The composed config, kept as multirun.yaml.
        num_objectives: How many values a job has.
        space: The search; overrides that all jobs share are not repeated.
    """

    def __init__(self, config: DictConfig, num_objectives: int, space: SweepSpace) -> None:
        self._config = config
        self._num_objectives = num_objectives
        self._space = space

    def on_note(self, text: str) -> None:
        """Logged."""
        _log.warning(text)

    def on_folder(self, folder: Path) -> None:
        """Keeps the config, as every sweeper does."""
        _log.info("Jobs are in %s", folder)
        OmegaConf.save(without_passwords(self._config), folder / "multirun.yaml")

    def on_stage(self, stage: str, num_runs: int, records: Sequence[RunRecord]) -> None:
        """Says how many jobs there are to do."""
        num_done = sum(record.outcome is not None for record in records)
        _log.info("%d jobs in all%s", num_runs, f", of which {num_done} are done" if num_done else "")

    def on_start(self, run: Run) -> None:
        """One line with the overrides."""
        _log.info("\t#%d : %s", run.number, printable(" ".join(self._space.searched(run.config["overrides"]))))

    def on_pause(self, run: Run, reason: str) -> None:
        """Said: a Hydra application starts from the beginning unless it keeps checkpoints of its own."""
        if run.is_retried:
            last = run.attempts[-1]
            _log.warning("\t#%d %s and is started again: %s", run.number, last["outcome"], last["reason"])
        else:
            _log.info("\t#%d stopped; it is started again when the sweep goes on", run.number)

    def on_end(self, run: Run, record: RunRecord) -> None:
        """One line with the value, or with what went wrong."""
        if record.outcome is Outcome.COMPLETE and record.value is not None:
            _log.info("\t#%d = %s", run.number, format_number(record.value))
        elif record.failed:
            _log.warning("\t#%d %s: %s (see %s)", run.number, record.outcome, record.reason, record.folder)
        else:
            _log.info("\t#%d %s", run.number, record.reason or record.outcome)

    def on_results(self, folder: Path, best: Sequence[JobResult]) -> None:
        """Writes optimization_results.yaml, also when the sweep was stopped half-way."""
        results = results_of(best, self._num_objectives)
        if results:
            write_results(folder, results)
            for job in best:
                values = ", ".join(map(format_number, job.values))
                params = printable(str(job.params))
                _log.info("Best: %s with %s, job #%d; see %s", values, params, job.number, folder / RESULTS_FILE)
