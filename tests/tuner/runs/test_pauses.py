"""Runs that are paused at a rung, and what goes on from there: the same run, or another one that inherits it."""

import time
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from note_rl.training.checkpoint import read_checkpoint
from tests.tuner.runs.reporters import CASES, POOL, Reporter, run_config
from tuner.features.population.initial_state import inherit
from tuner.runs.checkpoints import about_best
from tuner.runs.training import run_training
from tuner.trial.folder import BEST_FILE, CHECKPOINT_FILE, CLOCK_FILE, INHERITED_FILE, read_times
from tuner.trial.messages import Outcome, TrialInterrupted

PARAMETERS = "learner/agent/"


class PausingReporter(Reporter):
    """Has to pause at a rung, whenever that is reported."""

    def __init__(self, rung: float | None, reported: list[tuple[float, float]] | None = None) -> None:
        super().__init__()
        self.rung = rung
        self.reported = list(reported or ())

    def report(self, step: float, value: float, seconds: float | None = None) -> None:
        super().report(step, value, seconds)
        if step == self.rung:
            raise TrialInterrupted(Outcome.PAUSED, "a rung")


class HandedOver(Reporter):
    """Pauses at rungs, and goes on from each in another folder, as the controller of a population has it."""

    def __init__(self, folder: Path, rungs: tuple[float, ...]) -> None:
        super().__init__()
        self.folder, self.rungs, self.told, self.waits_s = folder, rungs, list[float](), 0.0

    def report(self, step: float, value: float, seconds: float | None = None) -> None:
        super().report(step, value, seconds)
        self.told.append(step)
        if step in self.rungs and self.told.count(step) == 1:
            raise TrialInterrupted(Outcome.PAUSED, "a rung", self.wait)

    def wait(self) -> Path:
        """Copies what a run hands over, and spoils what it must not touch any more."""
        before, self.folder = self.folder, self.folder.with_name(f"{self.folder.name}+")
        inherit(self.folder, before, is_copy=False)
        time.sleep(self.waits_s)
        for path in before.iterdir():
            path.unlink()
        return self.folder


def paused(folder: Path, rung: float, agent: str = "dqn", backend: str = "torch", *further: str) -> PausingReporter:
    folder.mkdir(exist_ok=True)
    reporter = PausingReporter(rung)
    with pytest.raises(TrialInterrupted):
        run_training(run_config(*further, agent=agent, backend=backend), folder, reporter)
    return reporter


def arrays_of(path: Path) -> dict[str, Any]:
    arrays, head = read_checkpoint(path)
    arrays = {name: values for name, values in arrays.items() if not name.startswith("history/")}  # which has times
    return {**arrays, "clock": np.array(list(head["trainer"]["clock"].values()))}


@pytest.mark.parametrize(  # a run in Keras goes on in note_rl/training/test_resume.py
    ("agent", "backend"), [*CASES[:2], pytest.param(*CASES[3], marks=pytest.mark.slow)]
)
def test_a_run_that_was_paused_at_a_rung_is_the_one_that_was_not(tmp_path: Path, agent: str, backend: str) -> None:
    config = run_config(agent=agent, backend=backend)
    (tmp_path / "straight").mkdir()
    straight = Reporter()
    whole = run_training(config, tmp_path / "straight", straight)
    reporter = paused(tmp_path / "paused", 1 / 3, agent, backend)
    assert [step for step, _ in reporter.reported] == [1 / 3]
    assert read_checkpoint(tmp_path / "paused" / CHECKPOINT_FILE)[1]["trainer"]["clock"]["num_env_steps"] >= 80
    reporter.rung = None
    rest = run_training(config, tmp_path / "paused", reporter)
    assert reporter.reported == straight.reported
    assert rest.num_gradient_steps == whole.num_gradient_steps
    ends = [arrays_of(tmp_path / name / CHECKPOINT_FILE) for name in ("paused", "straight")]
    assert ends[0].keys() == ends[1].keys()
    assert [name for name in ends[0] if not np.array_equal(ends[0][name], ends[1][name])] == []


@pytest.mark.parametrize(
    ("agent", "backend", "more"),
    [
        ("dqn", "torch", ()),
        ("ppo", "torch", POOL),
        ("dqn", "keras", ("training.jit_compile=auto",)),
        pytest.param("ppo", "keras", (), marks=pytest.mark.slow),
    ],
)
def test_a_run_that_goes_on_in_its_process_in_other_folders_is_the_one_that_was_not_paused(
    tmp_path: Path, agent: str, backend: str, more: tuple[str, ...]
) -> None:
    config = run_config(*more, agent=agent, backend=backend)
    (tmp_path / "straight").mkdir()
    (tmp_path / "first").mkdir()
    straight, reporter = Reporter(), HandedOver(tmp_path / "first", (1 / 3, 2 / 3))
    run_training(config, tmp_path / "straight", straight)
    outcome = run_training(config, tmp_path / "first", reporter)
    assert outcome.folder == reporter.folder == tmp_path / "first++"
    assert (reporter.reported, reporter.told) == (straight.reported, [1 / 3, 1 / 3, 2 / 3, 2 / 3, 1.0])
    assert reporter.used == [straight.used[0]] * 3, "each part says what it uses"
    ends = [arrays_of(folder / CHECKPOINT_FILE) for folder in (outcome.folder, tmp_path / "straight")]
    assert ends[0].keys() == ends[1].keys()
    assert [name for name in ends[0] if not np.array_equal(ends[0][name], ends[1][name])] == []
    assert about_best(outcome.folder / BEST_FILE) == about_best(tmp_path / "straight" / BEST_FILE)
    assert [point.mean_return for point in outcome.evaluations] == [value for _, value in straight.reported]
    assert list((tmp_path / "first").iterdir()) == list((tmp_path / "first+").iterdir()) == []


def test_time_that_is_waited_is_no_training_and_places_and_older_checkpoints_are_in_the_new_folder(
    tmp_path: Path,
) -> None:
    (tmp_path / "first").mkdir()
    reporter = HandedOver(tmp_path / "first", (1 / 3,))
    reporter.waits_s, began = 1.5, time.perf_counter()
    run_training(run_config("checkpoint.keep=3"), tmp_path / "first", reporter)
    whole = time.perf_counter() - began
    folder = tmp_path / "first+"
    spent = read_checkpoint(folder / CHECKPOINT_FILE)[1]["seconds"]
    assert 0.0 < spent < whole - reporter.waits_s
    assert max(read_times(folder).values(), default=0.0) < whole - reporter.waits_s
    kept = sorted(folder.glob("checkpoint_*"))
    assert len(kept) == 3, "that of the pause, and the two behind it"


def test_points_that_a_phase_passes_behind_the_pause_are_noted_in_the_new_folder(tmp_path: Path) -> None:
    points = ("training.total_steps=240", "evaluation.num_points=12", "env.num_envs=2", "buffer.num_steps=40")
    (tmp_path / "straight").mkdir()
    (tmp_path / "first").mkdir()
    straight, reporter = Reporter(), HandedOver(tmp_path / "first", (1 / 12, 0.5))
    config = run_config(*points, agent="ppo")
    expected = run_training(config, tmp_path / "straight", straight)
    found = run_training(config, tmp_path / "first", reporter)
    assert reporter.reported == straight.reported
    places, others = ([point.num_env_steps for point in one.evaluations] for one in (found, expected))
    assert places[6:] == others[6:], "earlier ones were noted in the folders before"
    assert (found.folder / CLOCK_FILE).exists()


def test_a_run_whose_checkpoint_leaves_something_out_begins_its_next_part_from_that(tmp_path: Path) -> None:
    """As it does everywhere else: what is left out would be there in one process and not in another."""
    reporter = HandedOver(tmp_path, (1 / 3,))
    with pytest.raises(TrialInterrupted):
        run_training(run_config("checkpoint.save_replay=false"), tmp_path, reporter)
    assert reporter.folder == tmp_path


def test_a_rung_that_was_reported_is_reported_again_before_training_goes_on(tmp_path: Path) -> None:
    """The controller may have died before it could say that the run is to pause there."""
    reporter = paused(tmp_path, 1 / 3)
    before = arrays_of(tmp_path / CHECKPOINT_FILE)
    with pytest.raises(TrialInterrupted):
        run_training(run_config(), tmp_path, reporter)
    assert len(reporter.reported) == 1
    after = arrays_of(tmp_path / CHECKPOINT_FILE)
    assert [name for name in before if not np.array_equal(before[name], after[name])] == [], "not one step further"


@pytest.mark.parametrize(
    ("agent", "backend"), [pytest.param(*one, marks=[pytest.mark.slow] * (one != CASES[0])) for one in CASES]
)
def test_heirs_begin_with_the_parameters_they_inherit_and_differ_from_then_on(
    tmp_path: Path, agent: str, backend: str
) -> None:
    parent = paused(tmp_path / "parent", 1 / 3, agent, backend)
    source = tmp_path / "parent" / CHECKPOINT_FILE
    ends = []
    for name, seed in (("first", 1), ("second", 2), ("first again", 1)):
        folder = tmp_path / name
        folder.mkdir()
        (folder / INHERITED_FILE).hardlink_to(source)
        heir = PausingReporter(1 / 3, parent.reported)
        with pytest.raises(TrialInterrupted):  # at once, so that what is written is what was begun with
            run_training(run_config(f"seed={seed}", agent=agent, backend=backend), folder, heir)
        begun, inherited = arrays_of(folder / CHECKPOINT_FILE), arrays_of(source)
        assert all(np.array_equal(begun[key], inherited[key]) for key in inherited if key.startswith("learner/"))
        heir.rung = 2 / 3
        with pytest.raises(TrialInterrupted):
            run_training(run_config(f"seed={seed}", agent=agent, backend=backend), folder, heir)
        assert [step for step, _ in heir.reported] == [1 / 3, 2 / 3]
        ends.append({key: value for key, value in arrays_of(folder / CHECKPOINT_FILE).items() if PARAMETERS in key})
    assert any(not np.array_equal(ends[0][key], ends[1][key]) for key in ends[0])
    assert all(np.array_equal(ends[0][key], ends[2][key]) for key in ends[0])
