"""Tests for every agent as a trial of a study: an algorithm, a trainer of another library, or a function."""

import math
from dataclasses import dataclass
from pathlib import Path

from tuner.commands.preflight import preflight
from tuner.config.composition import run_config_of
from tuner.executors.base import TrialEnded, TrialReported
from tuner.executors.inline import InlineExecutor
from tuner.runs.config_checks import resolve
from tuner.runs.functions import ENTRY as FUNCTION_ENTRY
from tuner.runs.functions import is_function
from tuner.study.definition import TRAINING_ENTRY
from tuner.trial.messages import JsonDict, Outcome, TrialResult, TrialSpec

_PATIENCE_S = 600.0


@dataclass(frozen=True)
class _Ended:
    result: TrialResult
    reports: list[tuple[float, float]]


class AgentContract:
    """Tests of an agent, by short runs of it in this process.

    Attributes:
        config_dir: The folder of groups that holds agent/NAME.yaml and, as for `tuner tune`, space/NAME.yaml; None: it
            needs none.
        exact: Whether a run that is interrupted ends with the same numbers. Say False where a library cannot do that.
    """

    config_dir: str | Path | None = None
    exact = True

    def make(self) -> list[str]:
        """Overrides for `tuner train`, with a budget of a few seconds and at least two evaluations.

        For example ["agent=mine", "training.total_steps=500", "evaluation.num_points=3"].
        """
        raise NotImplementedError

    def test_its_settings_are_accepted(self) -> None:
        """The configuration is composed and checked as `tuner train` and `tuner tune` do, before anything runs."""
        for command in ("train", "tune"):
            assert preflight(command, self.make(), self.config_dir)["agent"]

    def test_it_is_trained_and_evaluated_on_the_grid(self, tmp_path: Path) -> None:
        """A run reports a finite value at each point of the grid, the last one at the end of its budget."""
        ended = self._run(tmp_path)
        assert ended.result.outcome is Outcome.COMPLETE, ended.result.reason or ended.result.traceback
        steps = [step for step, _ in ended.reports]
        assert steps == sorted(set(steps))
        assert steps[-1] == 1.0
        assert all(math.isfinite(value) for _, value in ended.reports)

    def test_the_seed_decides(self, tmp_path: Path) -> None:
        """The same configuration and seed give the same values."""
        assert self._run(tmp_path / "one").reports == self._run(tmp_path / "other").reports

    def test_a_run_that_is_stopped_goes_on(self, tmp_path: Path) -> None:
        """Stopped at its first evaluation and started again, it comes to its end, with the values of a whole run."""
        whole = self._run(tmp_path / "whole")
        stopped = self._run(tmp_path / "parts", stop_at=1)
        assert stopped.result.outcome is Outcome.STOPPED
        assert len(stopped.reports) < len(whole.reports), "make() has a budget of at least two evaluations"
        rest = self._run(tmp_path / "parts")
        assert rest.result.outcome is Outcome.COMPLETE, rest.result.reason or rest.result.traceback
        reported = dict(stopped.reports) | dict(rest.reports)
        if self.exact:
            assert list(reported.items()) == whole.reports
        assert list(reported) == [step for step, _ in whole.reports]

    def _run(self, folder: Path, stop_at: int = 0) -> _Ended:
        """A run as a trial.

        Args:
            folder: Its folder, made if need be.
            stop_at: The report at which it is stopped; 0: it is not.
        """
        config: JsonDict = run_config_of(resolve(preflight("train", self.make(), self.config_dir)))
        entry = FUNCTION_ENTRY if is_function(config) else TRAINING_ENTRY
        reports = []
        folder.mkdir(parents=True, exist_ok=True)
        with InlineExecutor() as executor:
            executor.start(TrialSpec("study", "screen", 0, 3, config, entry), folder)
            while events := executor.wait(_PATIENCE_S):
                for event in events:
                    if isinstance(event, TrialReported):
                        reports.append((event.step, event.value))
                        executor.answer(event.key, "stop" if len(reports) == stop_at else "continue")
                    elif isinstance(event, TrialEnded):
                        return _Ended(event.result, reports)
        raise AssertionError(f"the run has not ended within {_PATIENCE_S:g} s")
