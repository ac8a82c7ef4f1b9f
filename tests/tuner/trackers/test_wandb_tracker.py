"""Effects are read back from the files that W&B writes offline; no test needs the network or an account."""

import socket
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import wandb
from wandb.sdk.lib.service.service_token import WandbServiceConnectionError

from tests.wandb_offline import OfflineRun, hanging_init, read_runs, without_account
from tuner.trackers.base import PartOfRun, RunInfo
from tuner.trackers.wandb.tracker import WandbTracker

FAKE_KEY = "0123456789" * 4


@pytest.fixture(autouse=True)
def no_account(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Iterator[None]:
    """The working directory is watched for stray files."""
    without_account(monkeypatch, tmp_path)
    cwd = tmp_path / "cwd"
    cwd.mkdir()
    monkeypatch.chdir(cwd)
    yield
    wandb.teardown()
    assert list(cwd.iterdir()) == []


def info(folder: Path, name: str = "screen/0", **changes: Any) -> RunInfo:
    config = {"seed": 3, "optimizer": {"learning_rate": 1e-3}}
    fields: dict[str, Any] = {"config": config, "job_type": "screen", "tags": ("dqn",), **changes}
    return RunInfo(name, "my study", folder=folder / name, **fields)


def warnings(caplog: pytest.LogCaptureFixture) -> list[str]:
    """Our own warnings; wandb's messages go to its debug.log and nowhere else."""
    return [record.message for record in caplog.records if record.name.startswith("tuner")]


def delivered_runs(folder: Path) -> list[OfflineRun]:
    """Finishing a run hands it to wandb's service process; the end of that, as at exit, is when it is on the disk."""
    wandb.teardown()
    return read_runs(folder, "offline-run-*/*.wandb")


def values(run: OfflineRun) -> list[dict[str, float]]:
    return [{key: value for key, value in row.items() if key in ("_step", "loss", "return")} for row in run.history]


@pytest.fixture
def dead_server(monkeypatch: pytest.MonkeyPatch) -> None:
    """A key is there, and nobody listens at the server's address."""
    with socket.create_server(("127.0.0.1", 0)) as free:
        port = free.getsockname()[1]
    monkeypatch.setenv("WANDB_API_KEY", FAKE_KEY)
    monkeypatch.setenv("WANDB_BASE_URL", f"http://127.0.0.1:{port}")


@pytest.fixture
def blocked_init(monkeypatch: pytest.MonkeyPatch) -> Iterator[threading.Event]:
    """`wandb.init` waits until the event is set, as it does for a server that accepts and says nothing."""
    release, entered = hanging_init(monkeypatch)
    monkeypatch.setattr(release, "entered", entered, raising=False)
    yield release
    release.set()


def test_a_service_of_before_that_has_gone_is_one_warning(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    def init(**arguments: Any) -> None:
        raise WandbServiceConnectionError("Failed to connect to service on socket /tmp/gone")

    monkeypatch.setattr(wandb, "init", init)
    tracker = WandbTracker()
    for name in ("screen/0", "screen/1"):
        run = tracker.start_run(info(tmp_path, name))
        run.log(0, {"loss": 1.0})
        run.finish()
    tracker.close(60)
    (record,) = [record for record in caplog.records if record.levelname == "WARNING"]
    assert "W&B is off for the rest of this session: " in record.getMessage()
    assert "Failed to connect to service" in record.getMessage()


def test_two_concurrent_runs_one_completes_and_one_crashes(tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    tracker = WandbTracker(project="tuner-tests")
    good, bad = tracker.start_run(info(tmp_path, "screen/0")), tracker.start_run(info(tmp_path, "screen/1"))
    for step in range(0, 500, 100):
        good.log(step, {"loss": step / 4})
        bad.log(step, {"loss": -1.0, "return": float(step)})
    bad.finish(1, {"outcome": "crashed"})
    good.log(500, {"loss": 125.0})
    good.finish(0, {"outcome": "complete", "score": 497.5})
    tracker.close(timeout_s=60)

    complete, crashed = delivered_runs(tmp_path)
    assert (complete.name, complete.group, complete.job_type) == ("screen/0", "my study", "screen")
    assert (complete.project, complete.tags) == ("tuner-tests", ("dqn",))
    assert complete.config == {"seed": 3, "optimizer": {"learning_rate": 1e-3}}
    assert values(complete) == [{"_step": step, "loss": step / 4} for step in range(0, 600, 100)]
    assert (complete.exit_code, complete.summary["score"], complete.summary["outcome"]) == (0, 497.5, "complete")
    assert (crashed.name, crashed.exit_code, crashed.summary["outcome"]) == ("screen/1", 1, "crashed")
    assert values(crashed) == [{"_step": step, "loss": -1, "return": step} for step in range(0, 500, 100)]
    assert complete.files == crashed.files == ()  # no code, no console output, no list of packages
    assert capfd.readouterr() == ("", "")


def test_halves_of_characters_and_escapes_are_written_out(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    tracker = WandbTracker()
    run = tracker.start_run(info(tmp_path, config={"kind": "half \ud800", "list": ["\x1b[2J"]}))
    run.finish(1, {"reason": "\ud800", "params": {"kind": "\x9b"}})
    tracker.close(60)
    (written,) = delivered_runs(tmp_path)
    assert written.config == {"kind": "half \\ud800", "list": ["\\x1b[2J"]}
    assert (written.summary["reason"], written.summary["params"]) == ("\\ud800", {"kind": "\\x9b"})
    assert warnings(caplog) == []


def test_files_lie_in_the_runs_folder_the_studys_or_the_directory_given(tmp_path: Path) -> None:
    own, shared = WandbTracker(), WandbTracker(directory=tmp_path / "shared")
    own.start_run(info(tmp_path / "own")).finish()
    for number in range(2):
        own.start_run(info(tmp_path / "study", f"screen/{number}", group_folder=tmp_path / "study")).finish()
    own.close(60)  # before the same run is begun by another
    shared.start_run(info(tmp_path / "study")).finish()
    shared.close(60)
    assert len(list((tmp_path / "own" / "screen" / "0" / "wandb").glob("offline-run-*"))) == 1
    assert len(list((tmp_path / "study" / "wandb").glob("offline-run-*"))) == 2
    assert len(list((tmp_path / "shared" / "wandb").glob("offline-run-*"))) == 1


def test_what_is_too_long_for_wandb_is_shortened(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    tracker = WandbTracker()
    tracker.start_run(info(tmp_path, "x" * 200, tags=("gamma, " * 20, "dqn"))).finish()
    tracker.close(60)
    assert warnings(caplog) == []
    (run,) = delivered_runs(tmp_path)
    assert [len(tag) for tag in run.tags] == [64, 3]
    assert run.tags[0].startswith("gamma, gamma")


def test_a_continued_run_stays_the_same_wandb_run(tmp_path: Path) -> None:
    for first_step in (0, 100):
        tracker = WandbTracker()
        run = tracker.start_run(info(tmp_path))
        run.log(first_step, {"loss": 1.0})
        run.finish(exit_code=0)
        tracker.close(60)
    first, second = delivered_runs(tmp_path)
    assert first.id == second.id
    assert sorted(row["_step"] for row in first.history + second.history) == [0, 100]


def test_parts_of_a_run_are_one_wandb_run(tmp_path: Path) -> None:
    whole = info(tmp_path, "member 3", config={"seed": 7})
    tracker = WandbTracker()
    for generation, steps in enumerate([(10, 20), (20, 30)]):  # the second one begins where the first one ended
        part = PartOfRun(whole, {"population/generation": float(generation)})
        run = tracker.start_run(info(tmp_path, f"evolve/{generation}", part=part))
        for step in steps:
            run.log(step, {"loss": float(step)})
        run.finish(exit_code=0, summary={"value": float(generation)})
    tracker.start_run(info(tmp_path, "another")).finish()
    tracker.close(60)
    member, another = sorted(delivered_runs(tmp_path), key=lambda run: run.config["seed"], reverse=True)
    rows = [(row["_step"], row.get("population/generation")) for row in member.history]
    assert rows == [(10, 0.0), (20, 1.0), (30, None)]
    assert (member.config, member.exit_code, member.summary["value"]) == ({"seed": 7}, 0, 1.0)
    assert another.config["seed"] == 3


def test_a_part_that_goes_on_in_another_session_stays_part_of_the_same_run(tmp_path: Path) -> None:
    for step, code in ((10, 1), (20, 0)):
        tracker = WandbTracker()
        run = tracker.start_run(
            info(tmp_path, "evolve/0", part=PartOfRun(info(tmp_path, "member 0"), {"generation": 0.0}))
        )
        run.log(step, {"loss": 1.0})
        run.finish(exit_code=code)
        tracker.close(60)
    first, second = delivered_runs(tmp_path)
    assert first.id == second.id
    assert sorted((run.history[0]["_step"], run.exit_code) for run in (first, second)) == [(10, 1), (20, 0)]


def test_what_was_given_may_be_changed_afterwards(tmp_path: Path) -> None:
    config, summary = {"agent": {"gamma": 0.5}}, {"scores": [1]}
    tracker = WandbTracker()
    run = tracker.start_run(info(tmp_path, config=config))
    run.finish(0, summary)
    config["agent"]["gamma"] = 0.9
    summary["scores"].append(2)
    tracker.close(60)
    (found,) = delivered_runs(tmp_path)
    assert found.config == {"agent": {"gamma": 0.5}}
    assert found.summary["scores"] == [1]


def test_close_ends_open_runs_as_failed(tmp_path: Path) -> None:
    tracker = WandbTracker()
    run = tracker.start_run(info(tmp_path))
    run.log(1, {"loss": 1.0})
    tracker.close(60)
    run.log(2, {"loss": 2.0})
    run.finish()
    (found,) = delivered_runs(tmp_path)
    assert (found.exit_code, len(found.history)) == (1, 1)


@pytest.mark.usefixtures("dead_server")
def test_an_unreachable_server_is_one_warning_and_everything_is_recorded_offline(
    tmp_path: Path, caplog: pytest.LogCaptureFixture, capfd: pytest.CaptureFixture[str]
) -> None:
    tracker = WandbTracker(server_timeout_s=1, directory=tmp_path / "study")
    for number in range(2):
        run = tracker.start_run(info(tmp_path, f"screen/{number}"))
        run.log(7, {"loss": 0.5})
        run.finish(exit_code=number)
    tracker.close(60)
    assert [(run.name, values(run), run.exit_code) for run in delivered_runs(tmp_path)] == [
        ("screen/0", [{"_step": 7, "loss": 0.5}], 0),
        ("screen/1", [{"_step": 7, "loss": 0.5}], 1),
    ]
    (warning,) = warnings(caplog)
    assert "W&B cannot be used online" in warning
    assert "connection refused" in warning
    assert f"`wandb sync {tmp_path}/study/wandb/offline-run-*`" in warning
    assert capfd.readouterr() == ("", "")


def test_nothing_waits_for_a_server_that_does_not_answer(
    tmp_path: Path, blocked_init: Any, caplog: pytest.LogCaptureFixture
) -> None:
    tracker = WandbTracker(mode="online", queue_size=50)
    run = tracker.start_run(info(tmp_path))
    assert blocked_init.entered.wait(60)
    for step in range(80):  # each of these returns although the background thread cannot move
        run.log(step, {"loss": 0.0})
    run.finish()
    tracker.close(timeout_s=0.05)
    assert not blocked_init.is_set()
    assert warnings(caplog) == [
        "W&B is too slow: measurements are dropped (they are in metrics.jsonl)",
        "W&B has not received everything 0.05 s after the end: 1 run not closed, 50 rows of numbers missing "
        "(metrics.jsonl has them all)",
    ]


def test_files_on_this_machine_are_waited_for_without_a_limit(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    init, is_free = wandb.init, threading.Event()

    def busy_init(**arguments: Any) -> Any:
        assert is_free.wait(60)
        return init(**arguments)

    monkeypatch.setattr(wandb, "init", busy_init)
    tracker = WandbTracker(mode="offline")
    run = tracker.start_run(info(tmp_path))
    for step in range(3):
        run.log(step, {"loss": 0.5})
    run.finish()
    closing = threading.Thread(target=tracker.close, args=(0.0,))
    closing.start()
    while not warnings(caplog):
        assert closing.is_alive(), "it was not waited for"
    is_free.set()
    closing.join(60)
    assert not closing.is_alive()
    assert warnings(caplog) == [
        "W&B is still writing its files: 1 run not closed, 3 rows of numbers missing; Ctrl-C goes on without them"
    ]
    (delivered,) = delivered_runs(tmp_path)
    assert [row["loss"] for row in delivered.history] == [0.5] * 3


def test_an_agent_of_wandb_plans_one_run_and_the_others_have_ids_of_their_own(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name, value in (("RUN_ID", "planned"), ("SWEEP_ID", "sweep1"), ("PROJECT", "of-the-sweep")):
        monkeypatch.setenv(f"WANDB_{name}", value)
    tracker = WandbTracker(mode="offline", project="mine")
    for number, kind in enumerate(("screen", "study", "train", "screen")):
        tracker.start_run(info(tmp_path, f"{kind}/{number}", job_type=kind)).finish()
    tracker.close(60)
    found = [(run.job_type, run.id == "planned", run.project) for run in delivered_runs(tmp_path)]
    assert sorted(found) == [
        ("screen", False, "mine"),
        ("screen", False, "mine"),
        ("study", True, "of-the-sweep"),
        ("train", False, "mine"),
    ]


def test_group_and_tags_of_the_user(tmp_path: Path) -> None:
    tracker = WandbTracker(group="paper", tags=("gpu",))
    tracker.start_run(info(tmp_path)).finish()
    tracker.close(60)
    (run,) = delivered_runs(tmp_path)
    assert (run.group, run.tags) == ("paper", ("dqn", "gpu"))


def test_what_is_left_behind_is_not_taken_up_again(
    tmp_path: Path, blocked_init: Any, caplog: pytest.LogCaptureFixture
) -> None:
    tracker = WandbTracker(mode="online")
    tracker.start_run(info(tmp_path))
    assert blocked_init.entered.wait(60)
    tracker.close(timeout_s=0.0)
    (thread,) = [thread for thread in threading.enumerate() if thread.name == "tracker-wandb"]
    blocked_init.set()
    thread.join(60)
    assert not thread.is_alive()
    assert len(warnings(caplog)) == 1  # that it was left behind; not that it failed after that


def test_a_folder_that_cannot_be_made_is_one_warning(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    (tmp_path / "file").touch()
    tracker = WandbTracker()
    for number in range(2):
        run = tracker.start_run(info(tmp_path / "file", f"screen/{number}"))
        run.log(1, {"loss": 1.0})
        run.finish()
    tracker.close(60)
    (warning,) = warnings(caplog)
    assert "W&B is off" in warning
    assert "Not a directory" in warning


def test_what_wandb_refuses_is_one_warning(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    tracker = WandbTracker()
    tracker.start_run(info(tmp_path, config={"no JSON": object()})).finish()
    tracker.close(60)
    (warning,) = warnings(caplog)
    assert "not JSON serializable" in warning


def test_disabled_does_nothing_at_all(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(wandb, "init", lambda **_: pytest.fail("wandb was asked"))
    tracker = WandbTracker(mode="disabled")
    run = tracker.start_run(info(tmp_path))
    run.log(1, {"loss": 1.0})
    run.finish()
    tracker.close()
    assert not (tmp_path / "screen").exists()
