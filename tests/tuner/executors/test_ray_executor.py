"""The controller's side without a cluster: seats that answer, are out of reach, die, and come back late."""

from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest

from tuner.errors import UserError
from tuner.executors.base import Event, Seats, TrialEnded, TrialReported, TrialStarted
from tuner.executors.ray import executor as module
from tuner.executors.ray.executor import RayExecutor
from tuner.executors.remote.cluster import SeatLostError, SeatUnreachableError
from tuner.executors.remote.exchange import Happened, Order, SeatInfo
from tuner.executors.remote.folder_changes import Piece
from tuner.executors.remote.seat import versions
from tuner.trial.messages import Outcome, TrialResult, TrialSpec

KEY = "screen/0"

Answer = Happened | Exception


@dataclass(eq=False)
class FakeSeat:
    """Answers as the test says, once it has a place."""

    answers: list[Answer]
    versions: dict[str, str]
    is_placed: bool = True
    refusal: Exception | None = None
    asked: list[tuple[int, Order]] = field(default_factory=list)
    is_killed: bool = False
    is_closed: bool = False

    def hello(self) -> Any:
        return (self, "hello")

    def exchange(self, number: int, order: Order, timeout_s: float) -> Any:
        self.asked.append((number, order))
        return (self, number, len(self.asked))

    def close(self) -> Any:
        self.is_closed = True
        return (self, "close")

    def kill(self) -> None:
        self.is_killed = True


class FakeCluster:
    """Seats in the order in which they are asked for; those behind the last one find no place."""

    def __init__(self, *seats: FakeSeat) -> None:
        self.seats = list(seats)
        self.made: list[FakeSeat] = []
        self.is_closed = False

    def new_seat(self) -> FakeSeat:
        seat = self.seats.pop(0) if self.seats else FakeSeat([], {}, is_placed=False)
        self.made.append(seat)
        return seat

    def ask(self, seat: FakeSeat, method: str, *arguments: Any) -> Any:
        return getattr(seat, method)(*arguments)

    def kill(self, seat: FakeSeat) -> None:
        seat.kill()

    def ready(self, asked: list[Any], timeout_s: float) -> list[Any]:
        return [token for token in asked if token[0].is_placed and (isinstance(token[1], str) or token[0].answers)]

    def answer(self, token: Any) -> Any:
        seat = token[0]
        if token[1] == "hello":
            if seat.refusal is not None:
                raise seat.refusal
            return SeatInfo("far", 7, seat.versions)
        answer = seat.answers.pop(0)
        if isinstance(answer, Exception):
            raise answer
        return answer

    def shortage(self, num_seats: int, of_free: bool) -> str:
        return f"{num_seats} CPU" if of_free else ""

    def close(self) -> None:
        self.is_closed = True


def seat(*answers: Answer) -> FakeSeat:
    return FakeSeat(list(answers), versions(None))


Make = Callable[..., tuple[RayExecutor, FakeCluster]]


@pytest.fixture
def make(monkeypatch: pytest.MonkeyPatch) -> Make:
    def make(*seats: FakeSeat, **settings: Any) -> tuple[RayExecutor, FakeCluster]:
        cluster = FakeCluster(*seats)
        monkeypatch.setattr(module, "RayCluster", lambda *arguments: cluster)
        monkeypatch.setattr(module, "check_installed", lambda: None)
        monkeypatch.setattr("time.sleep", lambda seconds: None)
        return RayExecutor(**settings), cluster

    return make


class FullCluster(FakeCluster):
    """Takes one seat and refuses the next one."""

    def new_seat(self) -> FakeSeat:
        if self.made:
            raise UserError("the queue takes no more")
        return super().new_seat()


def test_a_cluster_that_refuses_a_seat_is_left(make: Make, monkeypatch: pytest.MonkeyPatch) -> None:
    make(seat())
    cluster = FullCluster(seat())
    monkeypatch.setattr(module, "RayCluster", lambda *arguments: cluster)
    with pytest.raises(UserError, match="the queue takes no more"):
        RayExecutor(parallel=2)
    assert cluster.is_closed


ENDED = Happened([TrialEnded(KEY, TrialResult(Outcome.COMPLETE))])

SPEC = TrialSpec("study", "screen", 0, 3, {})


def events_until_the_end(executor: RayExecutor, verdict: str = "continue") -> list[Event]:
    events: list[Event] = []
    while not any(isinstance(event, TrialEnded) for event in events):
        for event in executor.wait(1.0):
            events.append(event)
            if isinstance(event, TrialReported):
                executor.answer(event.key, verdict)  # type: ignore[arg-type]
    return events


def test_files_are_here_before_the_event_that_they_belong_to(tmp_path: Path, make: Make) -> None:
    line = b'{"step": 0.5, "value": 2.0}\n'
    far = seat(
        Happened([TrialStarted(KEY, 7)]),
        Happened([TrialReported(KEY, 0.5, 2.0)], {"reports.jsonl": Piece(0, line)}),
        ENDED,
    )
    executor, _ = make(far)
    executor.start(SPEC, tmp_path / "0")
    seen: list[Event] = []
    while not any(isinstance(event, TrialReported) for event in seen):
        seen += executor.wait(1.0)
    assert (tmp_path / "0" / "reports.jsonl").read_bytes() == line
    assert executor.wait(0.0) == []  # it waits for the verdict and is asked nothing
    assert len(far.asked) == 2
    executor.answer(KEY, "prune")
    assert executor.wait(1.0) == ENDED.events
    assert [number for number, _ in far.asked] == [1, 2, 3]
    start, quiet, verdict = (order for _, order in far.asked)
    assert start.start is not None
    assert "trial.json" in start.start.files
    assert (quiet, verdict) == (Order(), Order(verdict="prune"))
    assert executor.free_slots == 1


def test_an_answer_that_was_lost_is_asked_for_again_under_its_number(tmp_path: Path, make: Make) -> None:
    far = seat(SeatUnreachableError("socket closed"), Happened([TrialStarted(KEY, 7)]), ENDED)
    executor, cluster = make(far)
    executor.start(SPEC, tmp_path / "0")
    events = events_until_the_end(executor)
    assert [type(event) for event in events] == [TrialStarted, TrialEnded]
    assert [number for number, _ in far.asked] == [1, 1, 2]
    assert far.asked[0] == far.asked[1]
    assert cluster.made == [far]


def test_a_trial_on_a_lost_seat_goes_on_elsewhere_with_the_files_that_came(tmp_path: Path, make: Make) -> None:
    checkpoint = Piece(0, b"weights")
    first = seat(Happened([], {"checkpoint.safetensors": checkpoint}), SeatLostError("the node died"))
    second = seat(ENDED)
    executor, _ = make(first, second)
    executor.start(SPEC, tmp_path / "0")
    (ended,) = events_until_the_end(executor)
    assert ended == TrialEnded(KEY, TrialResult(Outcome.LOST, "far or the seat there was lost (the node died)"))
    assert first.is_killed
    executor.start(SPEC, tmp_path / "0")
    assert events_until_the_end(executor) == ENDED.events
    start = second.asked[0][1].start
    assert start is not None
    assert start.files["checkpoint.safetensors"] == checkpoint


@pytest.mark.parametrize("refusal", [SeatLostError("the node died"), SeatUnreachableError("no route")])
def test_a_trial_on_a_seat_that_dies_before_it_has_said_where_it_is_goes_on_elsewhere(
    refusal: Exception, tmp_path: Path, make: Make
) -> None:
    first, second = seat(), seat(ENDED)
    first.refusal = refusal
    executor, _ = make(first, second)
    first.is_placed = False
    executor.start(SPEC, tmp_path / "0")
    first.is_placed = True
    (ended,) = executor.wait(1.0)
    assert ended == TrialEnded(KEY, TrialResult(Outcome.LOST, f"a machine or the seat there was lost ({refusal})"))
    assert first.is_killed
    executor.start(SPEC, tmp_path / "0")
    assert executor.wait(1.0) == ENDED.events


def test_who_comes_back_late_is_not_listened_to(tmp_path: Path, make: Make) -> None:
    first, second = seat(SeatLostError("the node died")), seat()
    executor, _ = make(first, second)
    executor.start(SPEC, tmp_path / "0")
    events_until_the_end(executor)
    executor.start(SPEC, tmp_path / "0")
    first.answers.append(Happened([TrialReported(KEY, 1.0, 99.0)], {"reports.jsonl": Piece(0, b"late\n")}))
    assert executor.wait(0.0) == []
    assert not (tmp_path / "0" / "reports.jsonl").exists()
    second.answers.append(ENDED)
    assert executor.wait(1.0) == ENDED.events


def test_out_of_reach_for_too_long_is_lost(tmp_path: Path, make: Make, monkeypatch: pytest.MonkeyPatch) -> None:
    now = [0.0]
    monkeypatch.setattr("time.monotonic", lambda: now[0])
    far = seat(*[SeatUnreachableError("no route")] * 9)
    executor, _ = make(far, lost_after_s=30.0)
    executor.start(SPEC, tmp_path / "0")
    outcomes = []
    for seconds in (1.0, 29.0, 31.0, 31.5):
        now[0] = seconds
        outcomes.append([event for event in executor.wait(0.0) if isinstance(event, TrialEnded)])
    assert outcomes[:3] == [[], [], []]
    assert outcomes[3][0].result.outcome is Outcome.LOST
    assert len(far.asked) == 4


def test_a_run_that_loses_too_many_is_given_up(tmp_path: Path, make: Make) -> None:
    executor, _ = make(*(seat(SeatLostError("gone")) for _ in range(4)), max_lost=2)
    given_up = []
    for _ in range(3):
        executor.start(SPEC, tmp_path / "0")
        (ended,) = events_until_the_end(executor)
        assert isinstance(ended, TrialEnded)
        given_up.append(ended.result.deterministic)
    assert given_up == [False, False, True]
    assert "3 times, and executor.max_lost=2" in ended.result.reason


def test_a_shared_folder_is_not_used_before_the_lost_seat_must_have_left(
    tmp_path: Path, make: Make, monkeypatch: pytest.MonkeyPatch
) -> None:
    now = [100.0]
    monkeypatch.setattr("time.monotonic", lambda: now[0])
    executor, _ = make(seat(SeatLostError("gone")), files="shared", lost_after_s=30.0)
    executor.start(SPEC, tmp_path / "0")
    told = []
    for seconds in (100.0, 114.0, 115.0):
        now[0] = seconds
        told.append(len(executor.wait(0.0)))
    assert told == [0, 0, 1]


def test_what_has_no_room_yet_is_stopped_at_once(tmp_path: Path, make: Make) -> None:
    executor, cluster = make(parallel=2)
    assert executor.free_slots == 1  # one may be started, so that it is known what room is waited for
    executor.start(SPEC, tmp_path / "0")
    assert executor.free_slots == 0
    executor.stop_all()
    (ended,) = executor.wait(0.0)
    assert ended == TrialEnded(KEY, TrialResult(Outcome.STOPPED, "no machine had room for it yet"))
    assert cluster.made[0].is_killed
    executor.close()
    assert all(seat.is_killed for seat in cluster.made)


def test_too_little_room_is_reported_once(
    make: Make, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    now = [0.0]
    monkeypatch.setattr("time.monotonic", lambda: now[0])
    executor, _ = make(seat(), parallel=3)
    warnings = []
    for seconds in (1.0, 11.0, 61.0, 99.0):
        now[0] = seconds
        _ = executor.free_slots
        warnings.append(len(caplog.messages))
    assert warnings == [0, 0, 1, 1]
    assert caplog.messages[0].startswith("2 of 3 trials at a time find no room in the cluster")


def test_a_machine_with_other_versions_is_refused(make: Make) -> None:
    far = seat()
    far.versions = {**far.versions, "numpy": "1.0"}
    executor, _ = make(far)
    with pytest.raises(UserError, match=r"far has numpy 1\.0 instead of \d"):
        _ = executor.free_slots


@pytest.mark.parametrize(
    ("settings", "complaint"),
    [
        ({"parallel": 0}, "executor.parallel must be at least 1, not 0"),
        ({"files": "push"}, "executor.files must be pull or shared, not 'push'"),
        ({"address": "here"}, "executor.address must be auto, null or HOST:PORT, not 'here'"),
        ({"ship": "yes"}, "executor.ship must be true or false, not 'yes'"),
        ({"lost_after_s": 0}, "executor.lost_after_s must be greater than 0, not 0"),
        ({"gpus": -1}, "executor.gpus must be at least 0, not -1"),
        ({"resources": {"GPU": 1}}, "GPUs executor.gpus"),
    ],
)
def test_bad_settings_are_refused(settings: dict[str, Any], complaint: str, make: Make) -> None:
    with pytest.raises(UserError) as refused:
        make(**settings)
    assert complaint in str(refused.value)


@pytest.mark.parametrize(
    ("room", "count", "remark"),
    [
        (8, 4, "3 machines: room for 8, of which 4 are used (executor.parallel)"),
        (3, 3, "3 machines: room for 3 of the 4 of executor.parallel"),
        (0, 4, "3 machines: no machine has the 2 CPU, 0.5 GPU that one trial reserves; it would wait for one"),
    ],
)
def test_a_plan_reckons_with_the_room_there_is(
    room: int, count: int, remark: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, "count_room", lambda address, reserved: (room, "3 machines"))
    assert RayExecutor.count_seats(parallel=4, threads=2, gpus=0.5, lost_after_s=3.0) == Seats(count, remark)
