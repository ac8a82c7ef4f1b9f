"""The study itself as a tracked run, and W&B that hangs or is not there while a study runs."""

import json
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import wandb

import tuner as api
from tests.tuner.command_line import CommandLine
from tests.tuner.fake_trackers import FakeRun, FakeTracker, accidents
from tests.tuner.reporting.summaries import full_study
from tests.tuner.studies import ControllerDied, FakeExecutor, definition, run_study
from tests.wandb_offline import hanging_init, read_runs, without_account
from tests.wandb_server import FakeServer, logged_in, table_of
from tuner.errors import UserError
from tuner.results.records import StudySummary
from tuner.study import StudyStopped
from tuner.study.watching.study_run import StudyRunListener
from tuner.trackers.base import Table, Tracker, TrackerGroup
from tuner.trackers.wandb.tracker import WandbTracker
from tuner.trackers.wandb.wandb_report import publish_report, write_report

STUDY = ("agent=synthetic", "executor=inline", "storage=memory", "study.num_trials=4", "study.name=mine")
FIRST_COLUMNS = ("stage", "number", "configuration", "seed", "outcome", "score")
LINES = "Run History Line Plot"
SEARCHED = ("agent.gamma", "buffer.batch_size", "optimizer.learning_rate")
WANDB = ("tracker=wandb", "tracker.wandb.project=tests")


@pytest.fixture(autouse=True)
def no_account(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Iterator[None]:
    without_account(monkeypatch, tmp_path)
    yield
    wandb.teardown()


@pytest.fixture
def server(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Iterator[FakeServer]:
    with logged_in(monkeypatch, tmp_path) as server:
        yield server


def tracked(tmp_path: Path, **changes: Any) -> FakeRun:
    """The run of a study that is tracked from beginning to end."""
    tracker = FakeTracker()
    tracked_by(tracker, tmp_path, **changes)
    (run,) = tracker.runs
    return run


def tracked_by(tracker: Tracker, tmp_path: Path, **changes: Any) -> StudySummary:
    with StudyRunListener(tracker, definition(tmp_path, **changes)) as listener:
        summary = run_study(tmp_path, FakeExecutor(2, accidents), listener=listener, **changes)
    listener.on_result(summary, {"agent": {"gamma": 0.5}})
    return summary


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
    assert (code, summary["outcome"], summary["best_config"]) == (0, "complete", '{"agent": {"gamma": 0.5}}')
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
    assert json.loads(study.summary["best_config"])["agent"]["_target_"] == "tuner.simulator.Synthetic"
    row = study.history[-1]
    assert (row["trials._type"], row["trials.nrows"]) == ("table-file", len(trials))
    (path,) = tuner.folder.glob(f"studies/mine/wandb/*/files/{row['trials.path']}")
    kept = json.loads(path.read_text())
    assert {"stage", "score", "agent.learning_rate"} <= set(kept["columns"])


def test_the_run_of_a_study_arrives_at_w_and_b_with_its_table(tmp_path: Path, server: FakeServer) -> None:
    tracker = WandbTracker("hills", group="all hills", tags=["paper"], server_timeout_s=60)
    summary = tracked_by(tracker, tmp_path)
    tracker.close(120)
    ((run_id, sent),) = server.runs.items()
    assert server.exit_codes == {run_id: 0}
    assert (sent["project"], sent["displayName"], sent["groupName"]) == ("hills", "study", "all hills")
    assert (sent["jobType"], sent["tags"]) == ("study", ["study", "paper"])
    config = json.loads(sent["config"])
    assert json.loads(config["study"]["value"])["num_trials"] == 6
    assert config["agent"]["value"]["gamma"] == 0.99
    received = server.summaries[run_id]
    assert (received["outcome"], received["winner"]) == ("complete", summary.winner_label)
    assert received["best_config"] == '{"agent": {"gamma": 0.5}}'
    screened = [run.score for run in summary.runs if run.stage == "screen" and run.score is not None]
    assert received["study/best_screening_score"] == pytest.approx(max(screened))
    assert [row["_step"] for row in server.history[run_id]] == sorted({row["_step"] for row in server.history[run_id]})
    table = table_of(server, run_id, "trials")
    assert table["columns"] == [*FIRST_COLUMNS, "seconds", *SEARCHED, "reason"]
    assert table["data"] == [
        [
            *(run.stage, run.number, run.label, run.seed, run.outcome and run.outcome.value, run.value, run.seconds),
            *(run.params.get(path) for path in SEARCHED),
            run.reason,
        ]
        for run in summary.runs
    ]
    assert [row[4:6] for row in table["data"][:2]] == [["complete", summary.runs[0].value], ["crashed", None]]


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


def spec_of(report: dict[str, Any]) -> tuple[list[str], list[dict[str, Any]], list[dict[str, Any]]]:
    """Texts, run sets and panels of a report as W&B keeps it."""
    spec = json.loads(report["spec"]) if isinstance(report["spec"], str) else report["spec"]
    grids = [block["metadata"] for block in spec["blocks"] if block["type"] == "panel-grid"]
    texts = [piece["text"] for block in spec["blocks"] for piece in block.get("children", ()) if "text" in piece]
    return (
        texts,
        [one for grid in grids for one in grid["runSets"]],
        [one for grid in grids for one in grid["panelBankSectionConfig"]["panels"]],
    )


def check_report(report: dict[str, Any]) -> None:
    """It is over the runs of `full_study`, in this order: the study, its screening, its test seeds."""
    texts, run_sets, panels = spec_of(report)
    assert any(text.startswith("Trial 8 ") for text in texts)
    assert [one["name"] for one in run_sets] == ["study", "screening", "test"]
    for run_set, kind in zip(run_sets, ("study", "screen", "test"), strict=True):
        wanted = [one for part in run_set["filters"]["filters"] for one in (part, *part.get("filters", ()))]
        found = {one["key"]["name"]: one["value"] for one in wanted if "key" in one}
        assert found == {"group": "poles", "jobType": kind}
    assert [one["viewType"] for one in panels] == [LINES, LINES, "Parallel Coordinates Plot", LINES]
    lines, parallel = panels[1]["config"], panels[2]["config"]
    assert lines["metrics"] == ["report/value"]
    axes = [one["accessor"] for one in parallel["columns"]]
    assert axes == ["config:optimizer.value.learning_rate", "config:agent.value.gamma", "summary:value"]


def test_a_report_at_w_and_b_is_over_the_runs_of_the_study(server: FakeServer) -> None:
    server.projects.add("poles")
    address = publish_report(full_study(), "poles", "me")
    (report,) = server.reports
    assert address == f"{server.url}/me/poles/reports/Study-poles--VmlldzoxMjM01"
    names = ("projectName", "entityName", "type", "displayName")
    assert [report[name] for name in names] == ["poles", "me", "runs/draft", "Study poles"]
    check_report(report)
    assert {one["project"]["name"] for one in spec_of(report)[1]} == {"poles"}


def test_a_report_that_w_and_b_does_not_take_is_a_clear_word(
    server: FakeServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    with pytest.raises(UserError, match=r"did not take the report: .*'me/poles' not found"):
        publish_report(full_study(), "poles", "me")
    server.projects.add("poles")
    server.full = True
    with pytest.raises(UserError, match=r"did not take the report: .*no more reports"):
        publish_report(full_study(), "poles", "me")
    monkeypatch.delenv("WANDB_API_KEY")
    with pytest.raises(UserError, match="needs a W&B account: wandb login"):
        publish_report(full_study(), "poles")


def test_a_report_for_w_and_b_is_written_to_a_file_without_an_account(tuner: CommandLine) -> None:
    run_study(tuner.folder, url="journal:///studies.journal")
    (tuner.folder / "studies/study/report_wandb.json").write_text("of before")
    answer = tuner("report", "storage=journal", "publish=file", "tracker.wandb.project=hills")
    assert answer.status == 0, answer
    assert "for W&B: studies/study/report_wandb.json" in " ".join(answer.output.split())
    written = json.loads((tuner.folder / "studies/study/report_wandb.json").read_text())
    assert (written["project"]["name"], written["displayName"]) == ("hills", "Study study")
    assert [one["name"] for one in spec_of(written)[1]] == ["study", "screening", "test"]
    assert "publish=maybe must be true or false or file" in tuner.refused("report", "storage=journal", "publish=maybe")


def test_a_file_for_w_and_b_is_over_the_runs_of_the_study(tmp_path: Path) -> None:
    from wandb_workspaces.reports.v2.internal import ReportViewspec

    text = write_report(full_study(), "poles", None, tmp_path).read_text()
    check_report(json.loads(text))
    kept = ReportViewspec.model_validate_json(text)  # as the library reads a report of W&B's
    assert kept.display_name == "Study poles"
    assert len(kept.spec.blocks) == len(json.loads(text)["spec"]["blocks"])


def test_without_the_package_it_says_what_to_install(tuner: CommandLine, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "wandb_workspaces", None)
    run_study(tuner.folder, url="journal:///studies.journal")
    answer = tuner("report", "storage=journal", "publish=true")
    assert answer.status == 2
    assert "pip install 'note-rl[wandb-report]'" in answer.errors
    assert "the report is" in answer.output
    answer = tuner("report", "storage=journal", "publish=true", "tracker=jsonl")
    assert "do not choose another tracker" in answer.errors
