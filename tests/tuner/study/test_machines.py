"""The machine of each run: reported by the trial, kept with the run, shown wherever a run is."""

import csv
import io
import os
from collections.abc import Iterator
from pathlib import Path

from rich.console import Console

from tests.tuner.fake_trackers import FakeTracker
from tests.tuner.studies import FakeExecutor, Script, learn, run_study
from tuner.executors.base import Event, TrialStarted
from tuner.reporting.page import render_page, write_page
from tuner.reporting.study_progress import RunningRun, StudyProgress
from tuner.reporting.terminal import render_progress
from tuner.results.insights.effort import MachineShare, machines
from tuner.study.watching.trial_tracking import TrackingListener
from tuner.trial.messages import Outcome, TrialResult, TrialSpec


class OverMachines(FakeExecutor):
    """Every second run is on another machine; run 3 loses its own and goes on elsewhere."""

    def _play(self, spec: TrialSpec, folder: Path, script: Script) -> Iterator[Event]:
        events = super()._play(spec, folder, script)
        next(events)
        host = os.uname().nodename if spec.number % 2 == 0 else f"far-{self._attempts[spec.key]}"
        yield TrialStarted(spec.key, os.getpid(), host)
        yield from events


def loses_a_machine(spec: TrialSpec, attempt: int) -> Script:
    script = learn(spec, attempt)
    if spec.key == "screen/3" and attempt == 1:
        return Script(script.curve[:3], TrialResult(Outcome.LOST, "far-1 was lost", seconds=2.0))
    return script


def test_a_run_knows_the_machine_that_it_ended_on(tmp_path: Path) -> None:
    summary = run_study(tmp_path, OverMachines(behave=loses_a_machine))
    assert [run.host for run in summary.stage("screen")] == ["", "far-1", "", "far-2", "", "far-1"]
    assert [run.outcome for run in summary.stage("screen")] == [Outcome.COMPLETE] * 6


def test_the_report_says_what_each_machine_did(tmp_path: Path) -> None:
    summary = run_study(tmp_path, OverMachines(behave=loses_a_machine))
    shares = machines(summary)
    assert [share.host for share in shares] == ["", "far-1", "far-2"]
    assert sum(share.num_runs for share in shares) == len(summary.runs)
    assert shares[2] == MachineShare("far-2", 1, 0, 3.0)  # two seconds there and one on the machine that was lost
    page = render_page(summary)
    table = page.partition('id="machine-table"')[2].partition("</table>")[0]
    assert [name in table for name in ("the controller&#x27;s own", "far-1", "far-2")] == [True] * 3
    write_page(summary, tmp_path / "report")
    rows = list(csv.DictReader(io.StringIO((tmp_path / "report" / "trials.csv").read_text())))
    assert [row["host"] for row in rows if row["stage"] == "screen"] == ["", "far-1", "", "far-2", "", "far-1"]


def test_a_study_on_one_machine_does_not_speak_of_machines(tmp_path: Path) -> None:
    summary = run_study(tmp_path)
    assert machines(summary) == ()
    assert "machine-table" not in render_page(summary)


def test_trackers_get_the_machine_when_the_run_begins(tmp_path: Path) -> None:
    tracker = FakeTracker()
    listener = TrackingListener(tracker, "study", 900, tmp_path)
    run_study(tmp_path, OverMachines(behave=loses_a_machine), listener=listener)
    hosts = {run.info.name: run.info.host for run in tracker.runs}
    assert (hosts["screen/0"], hosts["screen/1"], hosts["screen/3"]) == ("", "far-1", "far-1")
    assert [len(run.ends) for run in tracker.runs] == [1] * len(tracker.runs)


def test_the_live_table_names_other_machines() -> None:
    running = (RunningRun("trial 0", 1), RunningRun("trial 1", 1, host="far-1"))
    console = Console(file=io.StringIO(), width=80)
    console.print(render_progress(StudyProgress("title", "screen", 0, 2, running)))
    lines = console.file.getvalue().splitlines()  # type: ignore[attr-defined]
    assert [line.rstrip().endswith("on far-1") for line in lines if "trial" in line] == [False, True]
