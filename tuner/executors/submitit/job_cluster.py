"""The controller's side of jobs: they are submitted, connect, are asked, and end."""

import itertools
import os
import queue
import secrets
import shutil
import signal
import socket
import threading
import time
from collections import deque
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from importlib.util import find_spec
from multiprocessing import AuthenticationError
from multiprocessing.connection import Connection, answer_challenge, deliver_challenge, wait
from pathlib import Path
from typing import Any, Final, Literal, TypeAlias

from tuner.errors import UserError
from tuner.executors.remote.cluster import SeatLostError
from tuner.executors.remote.exchange import SeatSettings
from tuner.executors.remote.seat import own_folder
from tuner.executors.submitit.job_seat import notice_loss, serve

Kind: TypeAlias = Literal["auto", "slurm", "local"]

_TURN_S: Final = 0.1
_LOOK_S: Final = 2.0
"""How often it is looked whether jobs that have not connected are still there."""
_ENDING_S: Final = 10.0
_MOST_STILLBORN: Final = 3
"""Jobs in a row that end before they connect: then something is wrong with all of them."""


@dataclass(eq=False)
class _Job:
    """A job, and what is asked of it: questions in order, the messages that are not sent yet."""

    number: int
    job: Any
    connection: Connection | None = None
    questions: "deque[_Question]" = field(default_factory=deque)
    messages: deque[tuple[str, tuple[Any, ...]]] = field(default_factory=deque)
    lost: str = ""


@dataclass(eq=False)
class _Question:
    job: _Job
    is_answered: bool = False
    answer: Any = None


class JobCluster:
    """Jobs as seats: what `Cluster` asks for.

    Args:
        kind: How jobs are started; "auto": by Slurm where it is, else as processes of this machine.
        folder: Where submitit writes; every machine sees it at the same path.
        address: The name under which jobs reach this machine; None: the one that it gives itself.
        reserved: Resources of a job, by submitit's names.
        lost_after_s: How long a machine may be out of reach.
        settings: Of a seat.

    Raises:
        UserError: Slurm is not there, submitit does not know a setting, or the folder cannot be used.
    """

    def __init__(
        self,
        kind: Kind,
        folder: str,
        address: str | None,
        reserved: Mapping[str, Any],
        lost_after_s: float,
        settings: SeatSettings,
    ) -> None:
        check_folder(folder)
        try:
            Path(folder).mkdir(parents=True, exist_ok=True)
            self._folder, self._lock = own_folder("jobs-", Path(folder).absolute())  # the key is in it
        except OSError as error:
            raise _no_folder(folder, error.strerror or str(error)) from error
        self._submitter = make_submitter(kind, self._folder, reserved)
        self._is_local = self._submitter.cluster == "local"
        self._door = _Door("127.0.0.1" if self._is_local else "", lost_after_s)
        host = "127.0.0.1" if self._is_local else address or socket.getfqdn()
        self._first_arguments = ((host, self._door.port), self._door.key)
        self._lost_after_s = lost_after_s
        self._settings = settings
        self._numbers = itertools.count()
        self._jobs: dict[int, _Job] = {}
        self._ending: list[Any] = []
        self._num_stillborn = 0
        self._looked_at = 0.0

    def new_seat(self) -> _Job:
        """Submits a job."""
        number = next(self._numbers)
        try:
            with _ctrl_c_left_to_us():
                job = self._submitter.submit(serve, *self._first_arguments, number, self._lost_after_s, self._settings)
        except Exception as error:  # submitit raises of all kinds, what Slurm says among them
            raise UserError(f"submitit cannot submit a job: {_last_line(str(error))}") from error
        self._jobs[number] = _Job(number, job)
        return self._jobs[number]

    def ask(self, seat: _Job, method: str, *arguments: Any) -> _Question:
        """Sends it, or keeps it until the job has connected."""
        question = _Question(seat)
        seat.questions.append(question)
        seat.messages.append((method, arguments))
        self._send(seat)
        return question

    def ready(self, questions: Sequence[_Question], timeout_s: float) -> list[_Question]:
        """See `Cluster.ready`."""
        deadline = time.monotonic() + timeout_s
        while True:
            self._let_in()
            self._look_after_jobs()
            self._listen(min(_TURN_S, max(0.0, deadline - time.monotonic())))
            found = [one for one in questions if one.is_answered or one.job.lost]
            if found or time.monotonic() >= deadline:
                return found

    def answer(self, question: _Question) -> Any:
        """See `Cluster.answer`."""
        if not question.is_answered:
            if self._num_stillborn >= _MOST_STILLBORN:
                raise UserError(
                    f"{self._num_stillborn} jobs in a row have ended before their first word: {question.job.lost}.\n"
                    f"Their output is in {self._folder}; the same command goes on"
                )
            raise SeatLostError(question.job.lost)
        if isinstance(question.answer, UserError):
            raise question.answer
        return question.answer

    def kill(self, seat: _Job) -> None:
        """Gives a job up: without its connection it ends by itself, and it is cancelled besides."""
        if self._jobs.pop(seat.number, None) is None:
            return
        self._lose(seat, "it was given up")
        with suppress(OSError):
            seat.job.cancel(check=False)
            # That was Ctrl-C, which it ignores. The number of a job that has ended may be another's.
            if self._is_local and not seat.job.done():
                os.kill(int(seat.job.job_id), signal.SIGTERM)
        self._ending.append(seat.job)

    def shortage(self, num_seats: int, of_free: bool) -> str:
        """Jobs that have not begun."""
        del num_seats
        waiting = [f"{one.job.job_id} ({one.job.state})" for one in self._jobs.values() if one.connection is None]
        return f"their jobs to begin: {', '.join(waiting)}" if of_free else ""

    def close(self) -> None:
        """Ends all jobs and removes what submitit has written, unless a job never came to its first word."""
        for seat in list(self._jobs.values()):
            self.kill(seat)
        self._door.close()
        deadline = time.monotonic() + _ENDING_S
        while self._is_local and not all(job.done() for job in self._ending) and time.monotonic() < deadline:
            time.sleep(_TURN_S)
        os.close(self._lock)
        if not self._num_stillborn:
            shutil.rmtree(self._folder, ignore_errors=True)
            with suppress(OSError):  # others' are in it
                self._folder.parent.rmdir()

    def _let_in(self) -> None:
        for number, connection in self._door.arrived():
            seat = self._jobs.get(number)
            if seat is None or seat.connection is not None:
                connection.close()  # given up, or put into the queue again by Slurm
                continue
            self._num_stillborn = 0
            seat.connection = connection
            self._send(seat)

    def _send(self, seat: _Job) -> None:
        try:
            while seat.connection is not None and seat.messages:
                seat.connection.send(seat.messages[0])
                seat.messages.popleft()
        except OSError:
            self._lose(seat, _ENDED)

    def _listen(self, timeout_s: float) -> None:
        asked = {one.connection: one for one in self._jobs.values() if one.connection is not None and one.questions}
        if not asked:
            time.sleep(timeout_s)
        for connection in wait(list(asked), timeout_s) if asked else ():
            assert isinstance(connection, Connection)
            seat = asked[connection]
            try:
                answer = connection.recv()
            except (EOFError, OSError):
                self._lose(seat, _ENDED)
            else:
                question = seat.questions.popleft()
                question.is_answered, question.answer = True, answer

    def _look_after_jobs(self) -> None:
        if time.monotonic() - self._looked_at < _LOOK_S:
            return
        self._looked_at = time.monotonic()
        self._ending = [job for job in self._ending if not job.done()]
        for seat in self._jobs.values():
            if seat.connection is None and not seat.lost and seat.job.done():
                self._num_stillborn += 1
                self._lose(seat, _last_line(seat.job.stderr() or "") or f"job {seat.job.job_id} has ended")

    def _lose(self, seat: _Job, why: str) -> None:
        seat.lost = seat.lost or why
        seat.messages.clear()
        if seat.connection is not None:
            seat.connection.close()
            seat.connection = None


_ENDED: Final = "its job has ended"


class _Door:
    """Takes the connections of jobs, each of which proves that it has the key."""

    def __init__(self, host: str, lost_after_s: float) -> None:
        self.key = secrets.token_bytes(32)
        self._lost_after_s = lost_after_s
        self._socket = socket.create_server((host, 0))
        self.port: int = self._socket.getsockname()[1]
        self._arrived: queue.SimpleQueue[tuple[int, Connection]] = queue.SimpleQueue()
        self._thread = threading.Thread(target=self._take_all, name="jobs", daemon=True)
        self._thread.start()

    def arrived(self) -> Iterator[tuple[int, Connection]]:
        """The jobs that have connected since this was called last."""
        while True:
            try:
                yield self._arrived.get_nowait()
            except queue.Empty:
                return

    def close(self) -> None:
        """Takes nobody any more."""
        self._socket.shutdown(socket.SHUT_RDWR)  # which wakes the thread
        self._thread.join()
        self._socket.close()
        for _, connection in self.arrived():
            connection.close()

    def _take_all(self) -> None:
        while True:
            try:
                line, _ = self._socket.accept()
            except OSError:
                return
            threading.Thread(target=self._greet, args=(line,), name="a job", daemon=True).start()

    def _greet(self, line: socket.socket) -> None:
        """In a thread of its own, so that a connection on which nothing comes delays no other one."""
        notice_loss(line, self._lost_after_s)
        connection = Connection(line.detach())
        try:
            deliver_challenge(connection, self.key)
            answer_challenge(connection, self.key)
            number = int(connection.recv_bytes(32))
        except (EOFError, OSError, ValueError, AuthenticationError):
            connection.close()
        else:
            self._arrived.put((number, connection))


def check_installed() -> None:
    """Refuses to go on without submitit.

    Raises:
        UserError: It is not installed.
    """
    if find_spec("submitit") is None:
        raise UserError("executor=submitit needs submitit, which is not installed: pip install 'note-rl[submitit]'")


def check_folder(folder: str) -> None:
    """Refuses a folder that cannot be made, or in which nothing can be written. Makes nothing.

    Raises:
        UserError: Names it.
    """
    place = Path(folder).absolute()
    try:
        there = next(one for one in (place, *place.parents) if one.exists())
    except OSError as error:
        raise _no_folder(folder, error.strerror or str(error)) from error
    if not there.is_dir():
        raise _no_folder(folder, f"{there} is a file")
    if not os.access(there, os.W_OK | os.X_OK):
        raise _no_folder(folder, f"you may not write in {there}")


def _no_folder(folder: str, why: str) -> UserError:
    return UserError(
        f"executor.folder={folder} cannot be used: {why}; name a folder that this machine and the jobs can write to"
    )


def make_submitter(kind: Kind, folder: Path, reserved: Mapping[str, Any]) -> Any:
    """Makes the object of submitit that submits jobs.

    Raises:
        UserError: Slurm is not there, or submitit does not know a setting.
    """
    import submitit

    try:
        submitter = submitit.AutoExecutor(folder, cluster=None if kind == "auto" else kind)
        submitter.update_parameters(**reserved)
    except NameError as error:
        raise UserError(f"executor.slurm: {str(error).splitlines()[0]}") from error
    except (AssertionError, RuntimeError, ValueError) as error:
        raise UserError(f"executor.cluster={kind} cannot be used: {_last_line(str(error))}") from error
    return submitter


@contextmanager
def _ctrl_c_left_to_us() -> Iterator[None]:
    """Ctrl-C goes to all processes of a terminal; jobs of this machine leave it to the controller to end them."""
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    before = signal.signal(signal.SIGINT, signal.SIG_IGN)
    try:
        yield
    finally:
        signal.signal(signal.SIGINT, before)


def _last_line(text: str) -> str:
    return next((line.strip()[:200] for line in reversed(text.splitlines()) if line.strip()), "")
