"""State that a function saves and goes on from: complete or not there, the same values, no code in it."""

import json
import math
import os
import random
import shutil
import signal
import subprocess
import sys
import time
from collections import OrderedDict
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import tuner
from note_rl.errors import CheckpointError
from tests.tuner.runs.reporters import Reporter
from tuner.errors import UserError
from tuner.runs.function_state import FunctionState, resume, save
from tuner.trial.context import TrialContext, set_current_trial
from tuner.trial.messages import Message, Outcome, TrialInterrupted, TrialSpec, Verdict


class Line:
    """A controller that answers each report the same."""

    stop_reason = "asked"

    def __init__(self, verdict: Verdict = "continue") -> None:
        self.verdict = verdict
        self.sent: list[Message] = []

    def send(self, message: Message) -> None:
        self.sent.append(message)

    def wait_for_verdict(self) -> Verdict:
        return self.verdict

    def asks_to_stop(self) -> bool:
        return False


def context(folder: Path, stop_at: float = math.inf) -> Reporter:
    """A new attempt of a run in a folder."""
    reporter = Reporter(stop_at)
    reporter.folder = folder  # type: ignore[attr-defined]
    return reporter


@pytest.fixture
def current(tmp_path: Path) -> Iterator[Callable[..., TrialContext]]:
    """Begins an attempt of a trial that `tuner.report` leads to."""
    spec = TrialSpec("study", "screen", 0, 0, {"training": {"total_steps": 1000}})
    with ExitStack() as last:

        def begin(line: Line | None = None) -> TrialContext:
            begun = TrialContext(spec, tmp_path, line or Line(), 0.0)
            last.callback(begun.close)
            set_current_trial(begun)
            return begun

        yield begin
    set_current_trial(None)


def metrics_in(folder: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in (folder / "metrics.jsonl").read_text().splitlines()]


def test_without_a_trial_nothing_happens(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    assert tuner.resume() is None
    assert tuner.checkpoint({"lr": 1.0}) is False
    assert tuner.report(0.5, 1.0, checkpoint={"lr": 1.0}, loss=2.0) is False
    assert not list(tmp_path.iterdir())


def test_all_that_is_given_comes_back(tmp_path: Path) -> None:
    rng = np.random.default_rng(3)
    state = {
        "weights": {"0.weight": np.arange(6, dtype=np.float32).reshape(2, 3), "0/bias": np.zeros((), np.int64)},
        "0": np.ones(2, bool),
        "groups": [{"lr": 1e-3, "betas": (0.9, 0.999), "params": [0, 1], "foreach": None}],
        "by number": {0: {"step": np.float32(2.0)}, 1: {}},
        "random": random.getstate(),
        "numpy": rng.bit_generator.state,  # whole numbers of 128 bits
        "text": "ä\ud800",
        "inf": float("inf"),
        "empty": np.zeros((0, 4)),
    }
    save(context(tmp_path), OrderedDict(state))
    found = resume(context(tmp_path))
    assert found.keys() == state.keys()
    for name in ("groups", "random", "numpy", "inf", "text"):
        assert found[name] == state[name]
    assert found["by number"] == {0: {"step": 2.0}, 1: {}}
    assert found["weights"]["0.weight"].dtype == np.float32
    np.testing.assert_array_equal(found["weights"]["0.weight"], [[0, 1, 2], [3, 4, 5]])
    assert found["weights"]["0/bias"].shape == ()
    np.testing.assert_array_equal(found["0"], [True, True])
    assert found["empty"].shape == (0, 4)
    other = np.random.default_rng(4)
    other.bit_generator.state = found["numpy"]
    assert other.random() == rng.random()


def test_keys_with_slashes_are_kept_apart(tmp_path: Path) -> None:
    save(context(tmp_path), {"a": {"b": np.array([1])}, "a/b": np.array([2])})
    found = resume(context(tmp_path))
    assert (found["a"]["b"][0], found["a/b"][0]) == (1, 2)


def test_a_model_and_its_optimizer_go_on_alike(tmp_path: Path) -> None:
    torch = pytest.importorskip("torch")

    def made() -> tuple[Any, Any]:
        torch.manual_seed(0)
        model = torch.nn.Linear(3, 2)
        return model, torch.optim.Adam(model.parameters(), lr=0.1)

    def step(model: Any, optimizer: Any) -> None:
        optimizer.zero_grad()
        model(torch.ones(1, 3)).square().sum().backward()
        optimizer.step()

    model, optimizer = made()
    step(model, optimizer)
    save(context(tmp_path), {"model": model.state_dict(), "optimizer": optimizer.state_dict()})
    step(model, optimizer)
    again, other = made()
    found = resume(context(tmp_path))
    again.load_state_dict(found["model"])
    other.load_state_dict(found["optimizer"])
    step(again, other)
    assert torch.equal(again.weight, model.weight)
    with pytest.raises(UserError, match=r"'x' is a Tensor of torch.bfloat16, which is not saved"):
        save(context(tmp_path), {"x": torch.ones(1, dtype=torch.bfloat16)})


@pytest.mark.parametrize(
    ("state", "message"),
    [
        ({"f": print}, "'f' is a builtin_function_or_method, which is not saved"),
        ({"a": {"b": [1, object()]}}, "'a/b/1' is a object"),
        ({"o": np.array([object()])}, "'o' is a ndarray of object, which is not saved: arrays of numbers"),
        ({"s": np.array(["x"])}, "'s' is a ndarray of <U1"),
        ({"k": {1.5: 1}}, r"'k' has the key 1.5; keys must be texts or whole numbers"),
        (3, r"tuner.checkpoint\(3\): give a folder, or a dictionary of arrays and numbers"),
        ("nowhere", r"tuner.checkpoint\('nowhere'\): there is no such folder"),
    ],
)
def test_what_cannot_be_saved_is_refused_and_the_last_one_stays(tmp_path: Path, state: Any, message: str) -> None:
    save(context(tmp_path), {"epoch": 1})
    with pytest.raises(UserError, match=message):
        save(context(tmp_path), state)
    assert resume(context(tmp_path)) == {"epoch": 1}
    assert [path.name for path in (tmp_path / "state").iterdir()] == ["000001"]


def test_a_folder_is_copied_and_found(tmp_path: Path) -> None:
    run, mine = tmp_path / "run", tmp_path / "mine"
    run.mkdir()
    (mine / "deep").mkdir(parents=True)
    (mine / "deep" / "model.pt").write_bytes(b"weights")
    (mine / "link").symlink_to(mine / "deep" / "model.pt")
    save(context(run), mine)
    shutil.rmtree(mine)
    found = resume(context(run))
    assert (found / "deep" / "model.pt").read_bytes() == (found / "link").read_bytes() == b"weights"
    (found / "more").write_text("x")  # what is found may be given again
    save(context(run), found)
    assert (resume(context(run)) / "more").exists()
    assert len(list((run / "state").iterdir())) == 1
    with pytest.raises(UserError, match="that is the folder of the run itself"):
        save(context(run), run)


@pytest.mark.parametrize("harm", ["short", "gone", "linked", "no head", "aside", "torn head"])
def test_one_that_is_not_whole_is_passed_over(tmp_path: Path, harm: str) -> None:
    store = FunctionState(tmp_path)
    store.write_arrays({"epoch": 1, "x": np.ones(3)})
    shutil.copytree(tmp_path / "state" / "000001", tmp_path / "state" / "000002")
    second = tmp_path / "state" / "000002"
    arrays = second / "state.safetensors"
    match harm:
        case "short":
            arrays.write_bytes(arrays.read_bytes()[:-1])
        case "gone":
            arrays.unlink()
        case "linked":
            arrays.unlink()
            arrays.symlink_to(tmp_path / "state" / "000001" / "state.safetensors")
        case "no head":
            (second / "checkpoint.json").unlink()
        case "torn head":
            (second / "checkpoint.json").write_bytes(b'{"files": {')
        case "aside":
            second.rename(second.with_name(".000002.1-abc.aside"))
    assert resume(context(tmp_path))["epoch"] == 1
    store.write_arrays({"epoch": 3})
    assert len(list((tmp_path / "state").iterdir())) == 1
    assert resume(context(tmp_path)) == {"epoch": 3}


@pytest.mark.parametrize(("older", "altered"), [(False, "longer"), (True, "longer"), (True, "y")])
def test_one_that_was_altered_is_said_to_be_passed_over(
    tmp_path: Path, current: Callable[..., TrialContext], older: bool, altered: str
) -> None:
    store, mine = FunctionState(tmp_path), tmp_path / "mine"
    mine.mkdir()
    (mine / "model.pt").write_text("x")
    store.write_folder(mine)
    if older:
        shutil.copytree(tmp_path / "state" / "000001", tmp_path / "state" / "000002")
    current()
    newest = tuner.resume()
    (newest / "model.pt").write_text(altered)
    again = current()
    assert (tuner.resume() is None) is not older
    (line,) = (tmp_path / "output.log").read_text().splitlines()
    assert line == (
        f"tuner.resume: {newest / 'model.pt'} was changed or removed after it was saved (copy what tuner.resume() "
        "returns before you change it): this checkpoint is not used, "
        + ("the run goes on from an older one" if older else "the run begins anew")
    )
    again.report(1.0, 1.0)


def test_a_damaged_array_and_a_newer_version_are_refused(tmp_path: Path) -> None:
    FunctionState(tmp_path).write_arrays({"x": np.ones(3)})
    (arrays,) = (tmp_path / "state").glob("*/state.safetensors")
    whole = arrays.read_bytes()
    arrays.write_bytes(whole[:-1] + b"\0")
    with pytest.raises(CheckpointError, match="is damaged: its arrays are not those that were written"):
        resume(context(tmp_path))
    arrays.write_bytes(whole)
    head = arrays.with_name("checkpoint.json")
    content = json.loads(head.read_text())
    content["written_by"] = {"note_rl": "9.0", "format": 99}
    head.write_text(json.dumps(content))
    with pytest.raises(UserError, match=r"cannot read the checkpoint .*9\.0"):
        resume(context(tmp_path))


def test_the_newest_is_read_though_it_is_replaced_meanwhile(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    store, newest, found = FunctionState(tmp_path), FunctionState.newest, list[Any]()
    assert store.read_newest() is None
    store.write_arrays({"epoch": 1})

    def replaced(self: FunctionState) -> Any:
        found.append(newest(self))
        if len(found) == 1:
            store.write_arrays({"epoch": 2})
        return found[-1]

    monkeypatch.setattr(FunctionState, "newest", replaced)
    assert FunctionState(tmp_path).read_newest() == {"epoch": 2}
    assert len(found) == 2
    path = tmp_path / "state" / "000002" / "state.safetensors"
    path.write_bytes(b"x" * path.stat().st_size)
    with pytest.raises(CheckpointError):
        FunctionState(tmp_path).read_newest()


def test_nothing_that_is_written_is_a_pickle(tmp_path: Path) -> None:
    FunctionState(tmp_path).write_arrays({"x": np.ones(3), "y": [1]})
    for path in (tmp_path / "state").rglob("*"):
        assert path.is_dir() or path.suffix in (".json", ".safetensors")


def test_named_metrics_are_logged_once_beside_the_report(tmp_path: Path, current: Callable[..., TrialContext]) -> None:
    line = Line()
    current(line)
    assert tuner.report(0.25, 1.0, loss=np.float32(0.5), entropy=np.array([2.0]))
    assert metrics_in(tmp_path) == [{"step": 250, "loss": 0.5, "entropy": 2.0, "report/step": 0.25}]
    current(Line())
    tuner.report(0.25, 3.0, loss=9.0)  # again, by another attempt
    tuner.report(0.5, 4.0, loss=float("nan"))
    assert metrics_in(tmp_path)[1:] == [{"step": 500, "loss": None, "report/step": 0.5}]
    with pytest.raises(UserError, match=r"tuner.report\(..., loss='low'\): a metric must be one number"):
        tuner.report(0.75, 1.0, loss="low")  # type: ignore[arg-type]


class Killed(Line):
    """The process is killed before it has the answer to a report."""

    def wait_for_verdict(self) -> Verdict:
        raise KeyboardInterrupt


@pytest.mark.parametrize("saved", [False, True])
def test_metrics_of_a_report_that_was_killed_are_logged_by_the_next_attempt_once(
    tmp_path: Path, current: Callable[..., TrialContext], saved: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It repeats the report, or makes it from the checkpoint that was saved with it."""
    current()
    tuner.report(0.25, 1.0, loss=4.0)
    trial = current(Killed())
    monkeypatch.setattr(trial, "log", lambda *_: None)  # the process is gone
    with pytest.raises(KeyboardInterrupt):
        tuner.report(0.5, 2.0, checkpoint={"epoch": 2} if saved else None, loss=3.0)
    for attempt in range(2):
        current()
        assert tuner.resume() == ({"epoch": 2} if saved else None)
        if not saved:
            tuner.report(0.25, 1.0, loss=4.0)
            tuner.report(0.5, 2.0, loss=3.0)
        assert [(row["report/step"], row["loss"]) for row in metrics_in(tmp_path)] == [(0.25, 4.0), (0.5, 3.0)], attempt
    tuner.report(0.75, 3.0, loss=2.0)
    assert [row["loss"] for row in metrics_in(tmp_path)] == [4.0, 3.0, 2.0]


def test_metrics_of_a_report_that_ends_the_run_are_kept(tmp_path: Path, current: Callable[..., TrialContext]) -> None:
    current(Line("prune"))
    with pytest.raises(TrialInterrupted):
        tuner.report(0.25, 1.0, loss=0.5)
    assert metrics_in(tmp_path)[0]["loss"] == 0.5


@pytest.mark.parametrize("heard", [False, True])
def test_a_report_with_a_checkpoint_is_made_by_the_next_attempt_if_nobody_heard_it(
    tmp_path: Path, current: Callable[..., TrialContext], heard: bool
) -> None:
    """It was killed between the two, or before the answer."""
    first = current()
    tuner.report(0.25, 1.0)
    save(first, {"epoch": 2}, {"step": 0.5, "value": 7.0, "metrics": {"loss": 3.0}})
    if heard:
        first.report(0.5, 7.0)
    second = current(line := Line())
    assert tuner.resume() == {"epoch": 2}
    assert second.reported == [(0.25, 1.0), (0.5, 7.0)]
    assert [message for message in line.sent if getattr(message, "value", None) == 7.0]
    current(Line("prune"))
    with pytest.raises(TrialInterrupted) as ended:
        tuner.resume()
    assert ended.value.outcome is Outcome.PRUNED


def test_a_checkpoint_that_is_asked_to_stop_is_written_before(tmp_path: Path) -> None:
    with pytest.raises(TrialInterrupted):
        save(context(tmp_path, stop_at=0.0), {"epoch": 1})
    assert resume(context(tmp_path)) == {"epoch": 1}


_WRITER = """
import sys
from pathlib import Path
import numpy as np
from tuner.runs.function_state import FunctionState
store, number = FunctionState(Path(sys.argv[1])), 0
while True:
    number += 1
    store.write_arrays({"number": number, "x": np.full(20_000, number)})
    print(number, flush=True)
"""


def test_the_last_complete_one_is_found_after_kill_9(tmp_path: Path) -> None:
    kills = random.Random(0)
    for _ in range(3):
        shutil.rmtree(tmp_path / "state", ignore_errors=True)
        writer = subprocess.Popen([sys.executable, "-c", _WRITER, str(tmp_path)], stdout=subprocess.PIPE, text=True)
        assert writer.stdout is not None
        assert writer.stdout.readline() == "1\n"
        time.sleep(kills.uniform(0.0, 0.05))
        os.kill(writer.pid, signal.SIGKILL)
        rest = writer.stdout.read().split()
        writer.wait()
        writer.stdout.close()
        told = int(rest[-1]) if rest else 1
        found = resume(context(tmp_path))
        assert told <= found["number"] <= told + 1
        assert set(found["x"]) == {found["number"]}
