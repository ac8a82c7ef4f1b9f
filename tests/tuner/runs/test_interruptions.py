"""Ends of a run before its time: Ctrl-C once and twice, SIGTERM, and the loss of a process that trains along."""

import itertools
import json
import os
import signal
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any, NoReturn

import pytest

from note_rl.errors import PeerError
from note_rl.training.checkpoint import read_checkpoint, write_checkpoint
from tests.tuner.command_line import CommandLine, Interrupting
from tests.tuner.runs.reporters import evaluations, overrides
from tuner.runs.checkpoints import Checkpoint
from tuner.runs.recorder import RunRecorder
from tuner.runs.stop_signals import SAME_PRESS_S, StopRequest
from tuner.support import interrupts
from tuner.trackers.history import HistoryTracker, read_history


def at_call(number: int, function: Callable[..., None], happens: Callable[[], object]) -> Callable[..., None]:
    """The same function, in one of whose calls something happens before."""
    count = itertools.count(1)

    def called(*arguments: Any) -> None:
        if next(count) == number:
            happens()
        function(*arguments)

    return called


def ended(run: Path) -> tuple[str, bool]:
    """The outcome of a run, and whether it has a checkpoint."""
    return json.loads((run / "result.json").read_text())["outcome"], (run / "checkpoint.safetensors").exists()


_STRAIGHT: list[list[tuple[float, float]]] = []


def straight(tuner: CommandLine) -> list[tuple[float, float]]:
    """The evaluations of the run that nobody ends, which is made once."""
    if not _STRAIGHT:
        assert tuner("train", *overrides("dqn", "torch"), "hydra.run.dir=straight").status == 0
        _STRAIGHT.append(evaluations(tuner.folder / "straight"))
    return _STRAIGHT[0]


@pytest.mark.parametrize(("number", "key"), [(signal.SIGINT, "Ctrl-C"), (signal.SIGTERM, "SIGTERM")])
def test_the_first_signal_says_at_once_what_happens(
    capfd: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, number: signal.Signals, key: str
) -> None:
    clock = iter([100.0, 100.0 + 0.9 * SAME_PRESS_S, 100.0 + SAME_PRESS_S])
    monkeypatch.setattr("tuner.runs.stop_signals.time.monotonic", lambda: next(clock))
    stop, before = StopRequest("writing the checkpoint"), signal.getsignal(number)
    with stop.handling_signals():
        signal.raise_signal(number)
        assert capfd.readouterr().err.strip() == f"stopping: writing the checkpoint; {key} again ends without it"
        signal.raise_signal(number)
        assert (stop.requested, stop.at_once) == (True, False), "a key that is pressed twice"
        with pytest.raises(KeyboardInterrupt):
            signal.raise_signal(number)
    assert (capfd.readouterr().err, stop.at_once) == ("", True)
    assert signal.getsignal(number) is before


def test_a_run_that_is_over_is_not_stopped(capfd: pytest.CaptureFixture[str]) -> None:
    stop = StopRequest("writing the checkpoint")
    with stop.handling_signals():
        stop.over()
        with pytest.raises(KeyboardInterrupt):  # trackers may take their time
            signal.raise_signal(signal.SIGINT)
    assert (capfd.readouterr().err, stop.requested) == ("", False)


@pytest.mark.parametrize("backend", ["torch", "keras"])
def test_ctrl_c_pressed_twice_in_a_row_does_not_lose_the_run(
    tuner: CommandLine, monkeypatch: pytest.MonkeyPatch, backend: str
) -> None:
    monkeypatch.setattr("tuner.runs.training.LOG_INTERVAL_S", 0.0)
    monkeypatch.setattr("tuner.runs.stop_signals.SAME_PRESS_S", 600.0)
    stop = "+tracker.stop={_target_: tests.tuner.command_line.Interrupting, after_steps: 8, times: 2}"
    answer = tuner("train", *overrides("dqn", backend), stop)
    assert (answer.status, "stopped; continue with" in answer.errors) == (130, True), answer
    assert ended(tuner.folder / "mine") == ("stopped", True)


@pytest.mark.parametrize(("after", "said"), [(8, "stopped before its first checkpoint; from step 0 on"),
                                             (160, "stopped; continue with")])  # fmt: skip
def test_a_second_ctrl_c_ends_a_run_at_once_and_is_no_crash(
    tuner: CommandLine, monkeypatch: pytest.MonkeyPatch, after: int, said: str
) -> None:
    monkeypatch.setattr("tuner.runs.training.LOG_INTERVAL_S", 0.0)
    monkeypatch.setattr("tuner.runs.stop_signals.SAME_PRESS_S", 0.0)
    stop = f"+tracker.stop={{_target_: tests.tuner.command_line.Interrupting, after_steps: {after}, times: 2}}"
    answer = tuner("train", *overrides("dqn", "torch"), stop)
    assert (answer.status, answer.errors.strip()) == (130, f"{said}: tuner train resume=mine")
    assert ended(tuner.folder / "mine") == ("stopped", after > 80)
    assert tuner("train", "resume=mine", "tracker=jsonl").status == 0
    assert evaluations(tuner.folder / "mine") == straight(tuner)


class ImpatientlyClosed(Interrupting):
    """A tracker that takes so long to close that Ctrl-C is pressed."""

    def close(self, timeout_s: float = 10.0) -> None:
        os.kill(os.getpid(), signal.SIGINT)


def test_ctrl_c_while_trackers_are_closed_says_what_there_is(tuner: CommandLine) -> None:
    closing = f"+tracker.slow={{_target_: {__name__}.ImpatientlyClosed, after_steps: 1000000}}"
    answer = tuner("train", *overrides("dqn", "torch"), closing)
    said = "the run is complete, its trackers were not waited for: mine"
    assert (answer.status, answer.errors.strip()) == (130, said)
    assert ended(tuner.folder / "mine")[0] == "complete"


@pytest.mark.parametrize("command", [("tune", "agent=synthetic"), ("find", "lr", "agent=dqn")])
def test_ctrl_c_while_the_trackers_of_a_study_are_closed_says_how_it_goes_on(
    tuner: CommandLine, monkeypatch: pytest.MonkeyPatch, command: tuple[str, ...]
) -> None:
    def stopped(*arguments: object, **options: object) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(f"tuner.commands.{command[0]}.{command[0]}", stopped)
    answer = tuner(*command, "tracker=jsonl")
    assert (answer.status, answer.errors) == (130, "")
    assert f"stopped; the same command goes on:\n  tuner {' '.join(command)} tracker=jsonl" in answer.output


def test_a_second_ctrl_c_waits_for_the_checkpoint_that_the_first_asked_for(
    tuner: CommandLine, monkeypatch: pytest.MonkeyPatch
) -> None:
    writing = Checkpoint._keep_older
    monkeypatch.setattr(Checkpoint, "_keep_older", lambda self: (signal.raise_signal(signal.SIGINT), writing(self)))
    monkeypatch.setattr(RunRecorder, "alive", at_call(3, RunRecorder.alive, lambda: signal.raise_signal(signal.SIGINT)))
    answer = tuner("train", *overrides("dqn", "torch"), "checkpoint.keep=2")
    assert (answer.status, answer.errors.strip()) == (130, "stopped; continue with: tuner train resume=mine")
    assert ended(tuner.folder / "mine") == ("stopped", True)
    assert len(list((tuner.folder / "mine").glob("checkpoint_*"))) == 1, "what follows it was done, too"


def test_a_signal_ends_an_evaluation_and_it_is_made_up(tuner: CommandLine, monkeypatch: pytest.MonkeyPatch) -> None:
    steps: list[int] = []

    def check(recorder: RunRecorder) -> None:
        steps.append(1)
        unpressed(recorder)

    unpressed = at_call(33, RunRecorder.check, lambda: signal.raise_signal(signal.SIGTERM))
    monkeypatch.setattr(RunRecorder, "check", check)
    monkeypatch.setattr(RunRecorder, "alive", lambda *_: None)
    assert tuner("train", *overrides("dqn", "torch")).status == 130
    assert len(steps) == 33, "not one more"
    assert ended(tuner.folder / "mine") == ("stopped", True)
    monkeypatch.undo()
    monkeypatch.chdir(tuner.folder)
    assert tuner("train", "resume=mine").status == 0
    assert evaluations(tuner.folder / "mine") == straight(tuner)


def test_a_run_that_loses_a_rank_keeps_what_it_has_and_says_how_to_go_on(
    tuner: CommandLine, monkeypatch: pytest.MonkeyPatch
) -> None:
    def lost(*_: object) -> NoReturn:
        raise PeerError("rank 1 has ended")

    with monkeypatch.context() as losing:
        losing.setattr(RunRecorder, "alive", at_call(15, RunRecorder.alive, lost))
        answer = tuner("train", *overrides("dqn", "torch"))
    said = "tuner train: rank 1 has ended\nit goes on from its checkpoint: tuner train resume=mine\n"
    assert (answer.status, answer.errors) == (1, said)
    assert ended(tuner.folder / "mine") == ("crashed", True)
    head = read_checkpoint(tuner.folder / "mine/checkpoint.safetensors")[1]
    assert head["trainer"]["clock"]["num_env_steps"] == 15 * 8
    assert tuner("train", "resume=mine").status == 0


def test_a_run_that_cannot_go_on_stays_as_it_is(tuner: CommandLine) -> None:
    assert tuner("train", *overrides("dqn", "torch")).status == 0
    path = tuner.folder / "mine/checkpoint.safetensors"
    arrays, head = read_checkpoint(path)
    del arrays["trainer/experience/obs"]
    write_checkpoint(path, arrays, head)
    before = {file.name: file.read_bytes() for file in path.parent.iterdir()}
    answer = tuner("train", "resume=mine", "training.total_steps=480")
    assert answer.status == 2
    assert "checkpoint.safetensors is damaged" in answer.errors
    assert {file.name: file.read_bytes() for file in path.parent.iterdir()} == before


def test_who_follows_leaves_no_folder_even_if_it_is_killed(tuner: CommandLine, monkeypatch: pytest.MonkeyPatch) -> None:
    there: list[bool] = []
    monkeypatch.setattr("tuner.commands.train.follow", lambda config: there.append((tuner.folder / "mine").exists()))
    ranks = ("strategy=ddp", "strategy.hosts=[127.0.0.1:1,127.0.0.1:2]", "strategy.rank=1")
    assert tuner("train", *overrides("dqn", "torch"), *ranks).status == 0
    assert there == [False]


def test_an_interrupted_import_of_pyarrow_is_whole(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in [name for name in sys.modules if name.partition(".")[0] == "pyarrow"]:
        monkeypatch.delitem(sys.modules, name)
    monkeypatch.setattr(sys, "path", [str(tmp_path), *sys.path])
    (tmp_path / "pyarrow").mkdir()
    (tmp_path / "pyarrow/__init__.py").write_text("import signal; signal.raise_signal(signal.SIGINT); lib = True")
    (tmp_path / "pyarrow/parquet.py").write_text("whole = True")
    before = signal.signal(signal.SIGINT, interrupts.interrupt)
    history = HistoryTracker(tmp_path)
    history.add_episode(1.0, 10)
    with pytest.raises(KeyboardInterrupt):
        history.write()
    signal.signal(signal.SIGINT, before)
    assert sys.modules["pyarrow"].lib
    assert sys.modules["pyarrow.parquet"].whole
    monkeypatch.undo()
    history.write()
    assert [row.episode_reward for row in read_history(history.path)] == [1.0]
