"""The study itself as a tracked run, and W&B that hangs or is not there while a study runs."""

import json
import sys
from collections.abc import Iterator
from dataclasses import replace
from importlib.machinery import ModuleSpec
from pathlib import Path
from types import ModuleType, SimpleNamespace
from typing import Any

import pytest
import wandb

import tuner as api
from tests.tuner.command_line import CommandLine
from tests.tuner.reporting.summaries import full_study
from tests.tuner.studies import ControllerDied, FakeExecutor, definition, run_study
from tests.tuner.study.test_study_listeners import FakeRun, FakeTracker, accidents
from tests.wandb_offline import hanging_init, read_runs, without_account
from tuner.errors import UserError
from tuner.study import StudyStopped
from tuner.study.watching.study_run import StudyRunListener
from tuner.trackers.base import Table, TrackerGroup
from tuner.trackers.wandb.report import publish_report

STUDY = ("agent=synthetic", "executor=inline", "storage=memory", "study.num_trials=4", "study.name=mine")
WANDB = ("tracker=wandb", "tracker.wandb.project=tests")


@pytest.fixture(autouse=True)
def no_account(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Iterator[None]:
    without_account(monkeypatch, tmp_path)
    yield
    wandb.teardown()


def tracked(tmp_path: Path, **changes: Any) -> FakeRun:
    """The run of a study that is tracked from beginning to end."""
    tracker = FakeTracker()
    with StudyRunListener(tracker, definition(tmp_path, **changes)) as listener:
        summary = run_study(tmp_path, FakeExecutor(2, accidents), listener=listener, **changes)
    listener.on_result(summary, {"agent": {"gamma": 0.5}})
    (run,) = tracker.runs
    return run


def test_the_history_rises_to_the_best_and_the_end_holds_everything(tmp_path: Path) -> None:
    run = tracked(tmp_path)
    assert (run.info.name, run.info.group, run.info.job_type) == ("study", "study", "study")
    assert run.info.config["agent"]["gamma"] == 0.99
    assert set(run.info.config) <= {*definition(tmp_path).judged_config(), "seed", "study"}, "a column that no run has"
    assert isinstance(json.loads(run.info.config["study"]), dict)
    steps = [step for step, _ in run.rows]
    assert steps == sorted(steps)
    best = [row["study/best_screening_score"] for _, row in run.rows if "study/best_screening_score" in row]
    assert best == sorted(best)
    assert run.rows[-1][1]["study/num_failed"] == 2.0  # trial 1 crashed for good, trial 3 diverged
    ((code, summary),) = run.ends
    assert (code, summary["outcome"], summary["best_config"]) == (0, "complete", {"agent": {"gamma": 0.5}})
    assert summary["verdict"].startswith("Trial ")
    table = summary["trials"]
    assert isinstance(table, Table)
    assert len(table.rows) == 6 + 4 + 4
    assert all(len(row) == len(table.columns) for row in table.rows)
    crashed = dict(zip(table.columns, table.rows[1], strict=True))
    assert (crashed["stage"], crashed["number"], crashed["outcome"], crashed["score"]) == ("screen", 1, "crashed", None)
    assert crashed["reason"] == "KeyError: 'obs'"
    assert max(row[table.columns.index("score")] or 0.0 for row in table.rows if row[0] == "screen") == best[-1]


@pytest.mark.parametrize(
    ("error", "outcome"), [(StudyStopped(2, "SIGINT"), "stopped"), (UserError("no space left\nmore"), "crashed")]
)
def test_a_study_that_does_not_come_to_its_end_is_closed_as_failed(
    tmp_path: Path, error: Exception, outcome: str
) -> None:
    tracker = FakeTracker()
    listener = StudyRunListener(tracker, definition(tmp_path))
    listener.on_stage("screen", 6, [])
    listener.__exit__(type(error), error, None)
    ((code, summary),) = tracker.runs[0].ends
    assert (code, summary["outcome"]) == (1, outcome)
    assert "\n" not in summary["reason"]


def test_a_study_that_goes_on_counts_on(tmp_path: Path) -> None:
    with pytest.raises(ControllerDied):
        run_study(tmp_path, FakeExecutor(die_after=70))
    assert tracked(tmp_path).rows[0][0] == 3  # what an earlier session has brought to an end


# With W&B


def test_a_study_leaves_a_run_of_its_own_with_tables(tuner: CommandLine) -> None:
    answer = tuner("tune", *STUDY, *WANDB, "agent.crash_rate=0.3", "study.retries=0", "study.max_failures=50")
    assert answer.status == 0, answer.errors
    wandb.teardown()
    runs = read_runs(tuner.folder / "studies", "offline-run-*/*.wandb")
    (study,) = [run for run in runs if run.job_type == "study"]
    trials = [run for run in runs if run.job_type != "study"]
    assert (study.name, study.group, study.exit_code) == ("mine", "mine", 0)
    outcomes = {json.loads(path.read_text())["outcome"] for path in tuner.folder.glob("studies/mine/*/*/result.json")}
    assert outcomes == {"complete", "crashed"}
    for run in trials:  # closed with the right state, those that crashed too
        assert run.exit_code == (0 if run.summary["outcome"] == "complete" else 1)
    assert study.summary["best_config"]["agent"]["_target_"] == "tuner.simulator.Synthetic"
    row = study.history[-1]
    assert (row["trials._type"], row["trials.nrows"]) == ("table-file", len(trials))
    (path,) = tuner.folder.glob(f"studies/mine/wandb/*/files/{row['trials.path']}")
    kept = json.loads(path.read_text())
    assert {"stage", "score", "agent.learning_rate"} <= set(kept["columns"])


def test_a_study_does_not_wait_for_w_and_b_that_hangs(tuner: CommandLine, monkeypatch: pytest.MonkeyPatch) -> None:
    release, entered = hanging_init(monkeypatch)
    monkeypatch.setattr(TrackerGroup.close, "__defaults__", (0.1,))  # of the ten seconds given at the end
    hung = tune_values(*STUDY, *WANDB, "tracker.wandb.mode=online", "study.folder=hung")
    assert entered.wait(60)
    assert not release.is_set(), "W&B has not answered yet, and the study is done"
    release.set()
    assert hung == tune_values(*STUDY, "tracker=jsonl", "study.folder=plain")


def tune_values(*overrides: str) -> list[tuple[str, int, Any]]:
    return [(run.stage, run.seed, run.value) for run in api.tune(overrides).summary.runs]


# A report at W&B


class Recorded(SimpleNamespace):
    """Stands for any part of a report: remembers its arguments."""

    def __init__(self, kind: str, *values: Any, **named: Any) -> None:
        super().__init__(kind=kind, values=values, **named)

    def save(self, draft: bool) -> None:
        if self.project == "refused":
            raise Exception("not logged in to W&B")
        self.url, self.draft = f"https://wandb.ai/me/{self.project}/reports/1", draft


@pytest.fixture
def workspaces(monkeypatch: pytest.MonkeyPatch) -> list[Recorded]:
    """In the place of wandb-workspaces, which does nothing without a server."""
    made: list[Recorded] = []

    class Parts(ModuleType):
        def __getattr__(self, kind: str) -> Any:
            if kind.startswith("__"):
                raise AttributeError(kind)

            def make(*values: Any, **named: Any) -> Recorded:
                made.append(Recorded(kind, *values, **named))
                return made[-1]

            return make

    module: Any = None
    for name in ("wandb_workspaces.reports.v2", "wandb_workspaces.reports", "wandb_workspaces"):
        inner, module = module, Parts(name)
        module.__spec__ = ModuleSpec(name, None)
        if inner is not None:
            vars(module)[inner.__name__.rpartition(".")[2]] = inner
        monkeypatch.setitem(sys.modules, name, module)
    monkeypatch.setenv("WANDB_API_KEY", "0123456789" * 4)
    return made


def test_a_report_at_w_and_b_is_over_the_runs_of_the_study(workspaces: list[Recorded]) -> None:
    assert publish_report(full_study(), "poles", "me") == "https://wandb.ai/me/poles/reports/1"
    report = workspaces[-1]
    assert (report.kind, report.project, report.entity, report.draft) == ("Report", "poles", "me", True)
    assert report.blocks[0].values[0].startswith("Trial 8 ")
    filters = [one.filters for one in workspaces if one.kind == "Runset"]
    assert filters == [f"Group = 'poles' and JobType = '{kind}'" for kind in ("screen", "test", "study")]
    columns = [one.metric.values[0] for one in workspaces if one.kind == "ParallelCoordinatesPlotColumn"]
    assert columns == ["optimizer.learning_rate", "agent.gamma", "value"]


@pytest.mark.usefixtures("workspaces")
def test_a_report_that_w_and_b_does_not_take_is_a_clear_word(monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(UserError, match="did not take the report: not logged in to W&B"):
        publish_report(replace(full_study(), name="x"), "refused")
    monkeypatch.delenv("WANDB_API_KEY")
    with pytest.raises(UserError, match="needs a W&B account: wandb login"):
        publish_report(full_study(), "poles")


def test_without_the_package_it_says_what_to_install(tuner: CommandLine) -> None:
    run_study(tuner.folder, url="journal:///studies.journal")
    answer = tuner("report", "storage=journal", "publish=true")
    assert answer.status == 2
    assert "pip install 'note-rl[wandb-report]'" in answer.errors
    assert "the report is" in answer.output
    answer = tuner("report", "storage=journal", "publish=true", "tracker=jsonl")
    assert "do not choose another tracker" in answer.errors
