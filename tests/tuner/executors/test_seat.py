"""The far end, without a cluster: an actor is an object, and its trial a real process."""

from collections.abc import Iterator
from importlib import metadata
from pathlib import Path

import pytest

from tuner.executors.base import Event, TrialEnded, TrialReported
from tuner.executors.preload import Preload
from tuner.executors.remote.exchange import Order, SeatSettings, TrialStart
from tuner.executors.remote.folder_changes import Piece, apply_changes
from tuner.executors.remote.seat import Seat, versions
from tuner.trial import Limits, Outcome, TrialSpec
from tuner.trial import folder as files

PATIENCE_S = 120.0
SETTINGS = SeatSettings(Preload(), "forkserver", Limits(), 1, shared=False, max_transfer_mb=64.0, lease_s=None)


@pytest.fixture
def scratch(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.syspath_prepend(str(Path(__file__).parent))
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    return tmp_path


@pytest.fixture
def seats() -> Iterator[list[Seat]]:
    seats: list[Seat] = []
    yield seats
    for seat in seats:
        seat.close()


def start(entry: str, held: dict[str, Piece | None] | None = None) -> Order:
    spec = TrialSpec("study", "screen", 0, 11, {"learning_rate": 0.1}, entry=f"trial_entries:{entry}")
    return Order(TrialStart(spec.to_json(), "/not/here", held or {}, b""))


def test_a_trial_is_run_and_its_folder_arrives(scratch: Path, seats: list[Seat]) -> None:
    seats.append(Seat(SETTINGS))
    here = scratch / "here"
    here.mkdir()
    events: list[Event] = []
    number, order = 1, start("complete")
    while not any(isinstance(event, TrialEnded) for event in events):
        happened = seats[0].exchange(number, order, PATIENCE_S)
        assert seats[0].exchange(number, order, PATIENCE_S) is happened  # asked again: the same, and done once
        apply_changes(here, happened.files)
        events += happened.events
        reported = any(isinstance(event, TrialReported) for event in happened.events)
        number, order = number + 1, Order(verdict="continue") if reported else Order()
    assert [(event.step, event.value) for event in events if isinstance(event, TrialReported)] == [
        (0.25, 2.5),
        (0.5, 5.0),
        (1.0, 10.0),
    ]
    state = files.read_trial(here)
    assert state.reports == ((0.25, 2.5), (0.5, 5.0), (1.0, 10.0))
    assert state.result is not None
    assert state.result.outcome is Outcome.COMPLETE
    assert not (here / files.LOCK_FILE).exists()


def test_too_much_to_send_ends_the_trial_with_what_to_do(scratch: Path, seats: list[Seat]) -> None:
    settings = SeatSettings(Preload(), "forkserver", Limits(), 1, shared=False, max_transfer_mb=1e-5, lease_s=None)
    seats.append(Seat(settings))
    events: list[Event] = []
    number, order = 1, start("complete")
    while not any(isinstance(event, TrialEnded) for event in events):
        events += seats[0].exchange(number, order, PATIENCE_S).events
        number, order = number + 1, Order()
    ended = events[-1]
    assert isinstance(ended, TrialEnded)
    assert ended.result.deterministic
    assert "executor.files=shared" in ended.result.reason
    assert "agent.save_replay=false" in ended.result.reason


def test_versions_are_those_of_all_that_results_depend_on() -> None:
    found, more = versions(None), versions(None, ("torch",))
    assert found.keys() == {"python", "note-rl", "numpy", "gymnasium"}
    assert more.keys() - found.keys() >= {"torch", "stable-baselines3", "sb3-contrib"}
    assert more["stable-baselines3"] == metadata.version("stable-baselines3")
    assert "not installed" not in more.values()


def test_scratch_folders_of_the_dead_are_removed_and_those_of_the_living_are_not(
    scratch: Path, seats: list[Seat]
) -> None:
    dead, young = scratch / "tuner-seat-dead", scratch / "tuner-seat-young"
    dead.mkdir()
    young.mkdir()
    (dead / files.LOCK_FILE).touch()
    seats.append(Seat(SETTINGS))
    living = {path.name for path in scratch.glob("tuner-seat-*")}
    assert "tuner-seat-dead" not in living
    assert "tuner-seat-young" in living  # it has no lock yet: it is being made
    seats.append(Seat(SETTINGS))
    assert {path.name for path in scratch.glob("tuner-seat-*")} > living
    while seats:
        seats.pop().close()
    assert [path.name for path in scratch.glob("tuner-seat-*")] == ["tuner-seat-young"]
