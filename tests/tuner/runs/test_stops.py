"""A run that is stopped at any moment, and goes on, is the run that was never stopped: bit for bit."""

import itertools
import json
import math
import os
import random
import signal
import time
from collections.abc import Callable, Mapping
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import gymnasium
import pytest

from note_rl.training.checkpoint import read_checkpoint
from tests.note_rl.environments.odd_environments import Plain
from tests.tuner.command_line import SMALL, SMALL_AGENTS, CommandLine
from tests.tuner.studies import FakeExecutor, Script, learn, run_study
from tuner.commands.preflight import preflight
from tuner.config.composition import RunConfig, to_json
from tuner.results.metric import missing_points
from tuner.runs.training import EVALUATION_METRIC, Checkpoint, EvaluationGrid, run_training
from tuner.trackers.history import HistoryTracker, read_history
from tuner.trial.folder import read_reports
from tuner.trial.messages import JsonDict, Outcome, TrialInterrupted, TrialSpec


class Stopping:
    """Keeps what a run tells, as a trial's process does, and ends it at one of the calls: first done, then raised."""

    def __init__(self) -> None:
        self.reported: list[tuple[float, float]] = []
        self.evaluated: list[int] = []
        self.calls: list[str] = []
        self.notes: list[str] = []
        self.rates: list[tuple[int, float]] = []
        self.why = ""
        self.calls_left = self.checks_left = math.inf

    def attempt(self, num_calls: float) -> None:
        """From now on `num_calls` calls are answered, and the last of them ends the run."""
        self.calls_left = num_calls

    def built(self, config: JsonDict) -> None:
        """Nothing to keep."""

    def report(self, step: float, value: float, seconds: float | None = None) -> None:
        if step not in dict(self.reported):
            self.reported.append((step, value))
        self._answer("report")

    def log(self, step: int, metrics: Mapping[str, float]) -> None:
        if "train/learning_rate" in metrics:
            self.rates.append((step, metrics["train/learning_rate"]))
        if EVALUATION_METRIC in metrics:
            self.evaluated.append(step)
        self._answer("log")

    def note(self, text: str) -> None:
        self.notes.append(text)

    def ends(self, reason: str, used: float) -> None:
        self.why = reason

    def alive(self, progress: float) -> None:
        self._answer("alive")

    def check(self) -> None:
        self.checks_left -= 1
        if self.checks_left <= 0:
            raise TrialInterrupted(Outcome.STOPPED, "enough")

    def _answer(self, name: str) -> None:
        self.calls.append(name)
        self.calls_left -= 1
        if self.calls_left <= 0:
            raise TrialInterrupted(Outcome.STOPPED, "enough")


def config_of(agent: str, backend: str, *overrides: str) -> RunConfig:
    arguments = [*SMALL, *SMALL_AGENTS[agent], f"backend={backend}", "evaluation.num_points=6", *overrides]
    return RunConfig.from_json(to_json(preflight("train", arguments)))


def attempt(config: RunConfig, folder: Path, reporter: Stopping, num_calls: float) -> bool:
    """Goes on for `num_calls` calls of the reporter; whether the run came to its end."""
    folder.mkdir(exist_ok=True)
    reporter.attempt(num_calls)
    try:
        run_training(config, folder, reporter)
    except TrialInterrupted:
        return False
    return True


def test_what_an_earlier_attempt_passed_and_did_not_report_is_evaluated_before_training_goes_on(tmp_path: Path) -> None:
    config, straight, torn = config_of("dqn", "torch"), Stopping(), Stopping()
    assert attempt(config, tmp_path / "straight", straight, math.inf)
    position = next(at for at, name in enumerate(straight.calls) if straight.calls[: at + 1].count("report") == 4)
    assert not attempt(config, tmp_path / "torn", torn, position + 1)
    lost = torn.reported.pop()  # as an earlier version, which logged first, had left it
    assert not attempt(config, tmp_path / "torn", torn, 1)
    assert torn.reported[-1] == lost
    assert attempt(config, tmp_path / "torn", torn, math.inf)
    assert torn.reported == straight.reported


def test_a_run_that_ends_by_itself_is_scored_by_its_last_value(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    class Enough(EvaluationGrid):
        def on_phase_end(self, phase: int, logs: Mapping[str, float]) -> None:
            super().on_phase_end(phase, logs)
            self._run.agent.stop_training = len(self.points()) == 4  # type: ignore[attr-defined]

    monkeypatch.setattr("tuner.runs.training.EvaluationGrid", Enough)
    reporter = Stopping()
    assert attempt(config_of("dqn", "torch"), tmp_path, reporter, math.inf)
    assert [round(6 * step) for step, _ in reporter.reported] == [1, 2, 3, 4, 5, 6]
    assert reporter.reported[4][1] == reporter.reported[5][1]


def ends_with_a_hole(always: bool) -> Callable[[TrialSpec, int], Script]:
    """Screening trial 1 says that it is complete, and a point of its curve is missing."""

    def behave(spec: TrialSpec, number: int) -> Script:
        script = learn(spec, number)
        if spec.key == "screen/1" and (always or number == 1):
            del script.curve[4]
        return script

    return behave


def test_a_run_with_a_hole_in_its_curve_is_not_complete_but_tried_again(tmp_path: Path) -> None:
    executor = FakeExecutor(behave=ends_with_a_hole(always=False))
    runs = run_study(tmp_path, executor, entry="tuner.runs.training:run_trial").stage("screen")
    assert [run.outcome for run in runs] == [Outcome.COMPLETE] * 6
    assert [spec.key for spec in executor.started].count("screen/1") == 2
    assert len(runs[1].curve) == 9


def test_a_missing_evaluation_that_stays_missing_is_reported(tmp_path: Path) -> None:
    executor = FakeExecutor(behave=ends_with_a_hole(always=True))
    run = run_study(tmp_path, executor, entry="tuner.runs.training:run_trial").stage("screen")[1]
    assert (run.outcome, run.value) == (Outcome.CRASHED, None)
    assert run.reason == "it ended without its evaluation at 0.556 of its budget"


@pytest.mark.parametrize(
    ("steps", "until", "missing"),
    [
        ([0.25, 0.5, 0.75, 1.0], None, []),
        ([0.25, 0.75], None, [2, 4]),
        ([0.25, 0.75], 3, [2]),
        ([], 2, [1, 2]),
        ([1 / 6, 2 / 6, 3 / 6, 4 / 6], 2, []),  # four points of two thirds of the budget
    ],
)
def test_missing_points(steps: list[float], until: int | None, missing: list[int]) -> None:
    assert missing_points(steps, 4, until) == missing


@pytest.mark.parametrize(
    ("agent", "backend", "jit", "num_stops"),
    [
        ("dqn", "torch", "auto", 12),
        ("ppo", "torch", "auto", 6),
        # in Keras: note_rl/training/test_resume.py
        pytest.param("dqn", "keras", "auto", 12, marks=pytest.mark.slow),  # it compiles anew each time
        pytest.param("ppo", "keras", "auto", 6, marks=pytest.mark.slow),
    ],
)
def test_a_run_stopped_at_many_moments_equals_the_one_that_was_not(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, agent: str, backend: str, jit: str, num_stops: int
) -> None:
    monkeypatch.setattr("tuner.runs.training.LOG_INTERVAL_S", 0.0)
    config = config_of(agent, backend, f"training.jit_compile={jit}")
    straight, stopped, dice = Stopping(), Stopping(), random.Random(0)
    assert attempt(config, tmp_path / "straight", straight, math.inf)
    stride, count = len(straight.calls) // num_stops, 0
    while not attempt(config, tmp_path / "stopped", stopped, dice.randint(1, stride)):
        count += 1
    assert count >= num_stops
    assert stopped.reported == straight.reported
    assert len(straight.reported) == 6
    assert stopped.evaluated == straight.evaluated
    left, right = (read_checkpoint(tmp_path / name / "checkpoint.safetensors") for name in ("straight", "stopped"))
    assert {name: (array.dtype, array.tobytes()) for name, array in left[0].items()} == {
        name: (array.dtype, array.tobytes()) for name, array in right[0].items()
    }
    assert left[1]["trainer"] == right[1]["trainer"]


def test_a_run_that_is_stopped_within_its_evaluations_makes_them_up(tmp_path: Path) -> None:
    config = config_of("dqn", "torch")
    straight, stopped = Stopping(), Stopping()
    assert attempt(config, tmp_path / "straight", straight, math.inf)
    count = 0
    for stopped.checks_left in (5, 1, 12, 15, math.inf):  # steps of evaluations, which take some 10 of them each
        count += not attempt(config, tmp_path / "stopped", stopped, math.inf)
    assert count == 4
    assert stopped.reported == straight.reported
    left, right = (read_checkpoint(tmp_path / name / "checkpoint.safetensors") for name in ("straight", "stopped"))
    assert {name: array.tobytes() for name, array in left[0].items()} == {
        name: array.tobytes() for name, array in right[0].items()
    }


def test_a_run_that_is_stopped_with_its_last_evaluation_can_be_brought_to_its_end(tuner: CommandLine) -> None:
    run = ("train", *SMALL, *SMALL_AGENTS["dqn"], "hydra.run.dir=mine")
    stop = "+tracker.stop={_target_: tests.tuner.command_line.Interrupting, after_steps: 240}"
    assert tuner(*run, stop).status == 130
    steps = [step for step, _ in read_reports(tuner.folder / "mine")]
    assert steps == [1 / 3, 2 / 3, 1.0]
    continued = tuner("train", "resume=mine", "tracker=jsonl")
    assert (continued.status, continued.errors) == (0, "")
    result = json.loads((tuner.folder / "mine/result.json").read_text())
    assert (result["outcome"], len(result["evaluations"]), result["num_env_steps"]) == ("complete", 3, 240)
    assert "has all of its 240 steps" in tuner.refused("train", "resume=mine")


def test_episodes_are_on_disk_before_the_checkpoint_that_is_behind_them(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    history, on_disk = HistoryTracker(tmp_path, write_interval_s=math.inf), []
    write = Checkpoint.write

    def noting(checkpoint: Checkpoint) -> None:
        write(checkpoint)
        on_disk.append((read_history(history.path), history.rows))

    monkeypatch.setattr(Checkpoint, "write", noting)
    reporter = Stopping()
    reporter.attempt(math.inf)
    run_training(config_of("dqn", "torch"), tmp_path, reporter, history)
    assert len(on_disk) == 6
    for written, known in on_disk:
        assert tuple(written) == known
    assert len(on_disk[-1][1]) > 5


def test_an_evaluation_that_takes_long_gives_signs_of_life(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def counted(folder: str) -> Stopping:
        reporter = Stopping()
        reporter.checks_left = 10**6
        assert attempt(config_of("dqn", "torch"), tmp_path / folder, reporter, math.inf)
        return reporter

    short = counted("short")
    num_steps = 10**6 - short.checks_left - 1  # of evaluations; once it is looked while the run is built
    looks = itertools.count()  # at the clock: a step takes two seconds
    clock = SimpleNamespace(monotonic=lambda: 2.0 * next(looks), perf_counter=time.perf_counter)
    monkeypatch.setattr("tuner.runs.training.time", clock)
    long = counted("long")
    assert num_steps > 50
    assert long.calls.count("alive") == short.calls.count("alive") + num_steps
    assert long.reported == short.reported


class Endless(Plain):
    """Never ends; sends SIGTERM to this process in the middle of the first evaluation."""

    length = 10**9
    num_steps = 0

    def step(self, action: object) -> Any:
        Endless.num_steps += 1
        if Endless.num_steps == 240 + 50:
            os.kill(os.getpid(), signal.SIGTERM)
        return super().step(action)


def test_an_evaluation_that_goes_on_and_on_ends_when_that_is_asked_for(
    tuner: CommandLine, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(Endless, "num_steps", 0)
    gymnasium.register("Endless-v0", entry_point=Endless)
    try:
        answer = tuner("train", *SMALL, "env.id=Endless-v0", "evaluation.num_points=1", "hydra.run.dir=mine")
    finally:
        gymnasium.registry.pop("Endless-v0")
    assert answer.status == 130
    assert Endless.num_steps < 400
    assert json.loads((tuner.folder / "mine/result.json").read_text())["outcome"] == "stopped"
    assert read_checkpoint(tuner.folder / "mine/checkpoint.safetensors")[0]
    assert read_reports(tuner.folder / "mine") == []
