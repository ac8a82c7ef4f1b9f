import json
import os
import subprocess
import sys
import threading
import time

import pytest

from tuner.errors import UserError
from tuner.support.text_files import open_to_append
from tuner.trial import FolderState, Outcome, TrialResult, TrialSpec, end_leftover, read_trial, system, wait_until_free
from tuner.trial import folder as files

SPEC = TrialSpec("study", "screen", 3, 1, {"x": 1})


@pytest.fixture
def folder(tmp_path):
    files.prepare(tmp_path / "trial", SPEC)
    return tmp_path / "trial"


@pytest.fixture
def sleeper():
    """A process that leads a group of its own."""
    process = subprocess.Popen(["sleep", "1000"], start_new_session=True)
    yield process
    process.kill()
    process.wait()


def note_process(folder, pid, start_time):
    (folder / "pid").write_text(json.dumps({"pid": pid, "start_time": start_time}))


def test_folder_that_does_not_exist_is_an_empty_state(tmp_path):
    assert read_trial(tmp_path / "none") == FolderState(None, (), None, False, None)


def test_prepared_folder(folder):
    assert read_trial(folder) == FolderState(SPEC, (), None, False, None)
    assert os.listdir(folder) == ["trial.json"]


def test_folder_that_cannot_be_made_is_the_users_to_put_right(tmp_path):
    (tmp_path / "file").touch()
    with pytest.raises(UserError, match="cannot be written: Not a directory"):
        files.prepare(tmp_path / "file" / "trial", SPEC)


@pytest.mark.parametrize("tail", ['{"step": 1.0, "va', '{"step": 1.0, "value": 9.0}', "\0\0\0\0"])
def test_torn_line_is_passed_over_and_cut(folder, tail):
    sound = '{"step": 0.25, "value": 1.5}\n{"step": 0.5, "value": -2.0}\n'
    path = folder / "reports.jsonl"
    path.write_text(sound + tail)
    assert read_trial(folder).reports == ((0.25, 1.5), (0.5, -2.0))
    files.cut_torn_tail(path)
    assert path.read_text() == sound


@pytest.mark.parametrize("torn", ['{"step": 1.0', "\0\0\0"])
def test_one_line_at_most_is_cut(folder, torn):
    path = folder / "reports.jsonl"
    damaged = '{"step": 0.25, "value": 1.5}\nno JSON\n'
    path.write_text(damaged + torn)
    files.cut_torn_tail(path)
    assert path.read_text() == damaged
    path.write_text(torn)
    files.cut_torn_tail(path)
    assert path.read_text() == "", "a run that was killed in its first line"


def test_a_damaged_line_with_an_end_is_kept(folder):
    path = folder / "metrics.jsonl"
    damaged = '{"step": 1, "value": 1.5}\nAA\nBB\n'
    for torn in ("", "CC", '{"step": 2'):
        path.write_text(damaged + torn)
        files.cut_torn_tail(path)
        files.cut_torn_tail(path)
        assert path.read_text() == damaged


def test_the_last_value_of_each_metric_that_was_logged(folder):
    lines = [
        '{"step": 1, "loss": 0.5, "size": 8}',
        '{"step": 2, "loss": null, "on": true}',
        "damaged",
        '{"step": 3, "a": 1}',
    ]
    (folder / "metrics.jsonl").write_text("\n".join([*lines, '{"step": 4, "loss": 7.0']))  # and a line cut short
    assert files.read_logged(folder) == {"loss": 0.5, "size": 8.0, "a": 1.0}
    assert files.read_logged(folder / "nowhere") == {}


@pytest.mark.parametrize("other", ["export A=1\n", "export A=1\nalias b=c\n", "{ echo; }\n", "a\n{torn"])
def test_a_file_without_any_json_is_kept(folder, other):
    path = folder / "metrics.jsonl"
    path.write_text(other)
    with pytest.raises(OSError, match=r"metrics\.jsonl holds no lines of JSON"):
        files.cut_torn_tail(path)
    assert path.read_text() == other


@pytest.mark.parametrize("name", ["reports.jsonl", "metrics.jsonl", "output.log", "lock"])
def test_nothing_is_written_through_a_link(tmp_path, name):
    victim, folder = tmp_path / "victim", tmp_path / "trial"
    folder.mkdir()
    victim.write_text('{"step": 0.25, "value": 1.5}\n{"torn')
    (folder / name).symlink_to(victim)
    with pytest.raises(UserError, match=rf"{name} is a link"):
        files.prepare(folder, SPEC)
    with pytest.raises(OSError, match="symbolic links"):
        open_to_append(folder / name)
    if name == "lock":
        with pytest.raises(OSError, match="symbolic links"):
            files.acquire_lock(folder, 0.0)
    else:
        with pytest.raises(OSError, match="symbolic links"):
            files.cut_torn_tail(folder / name)
    assert victim.read_text() == '{"step": 0.25, "value": 1.5}\n{"torn'


def test_sound_file_is_not_cut(folder):
    path = folder / "reports.jsonl"
    path.write_text('{"step": 0.25, "value": 1.5}\n')
    files.cut_torn_tail(path)
    assert path.read_text() == '{"step": 0.25, "value": 1.5}\n'
    files.cut_torn_tail(folder / "metrics.jsonl")  # not there: nothing to cut


def test_result_is_moved_into_place(folder):
    result = TrialResult(Outcome.PRUNED, "why", seconds=2.0)
    files.write_result(folder, result)
    assert read_trial(folder).result == result
    assert sorted(os.listdir(folder)) == ["result.json", "trial.json"]


@pytest.mark.parametrize("text", ["", '{"outcome": "comp'])
def test_half_a_result_is_none(folder, text):
    (folder / "result.json").write_text(text)
    assert read_trial(folder).result is None


def test_claim_forgets_the_earlier_attempt(folder):
    files.write_result(folder, TrialResult(Outcome.CRASHED))
    (folder / "metrics.jsonl").write_text('{"step": 1}\n{"st')
    files.claim(folder)
    state = read_trial(folder)
    assert state.result is None
    assert state.pid == os.getpid()
    assert (folder / "metrics.jsonl").read_text() == '{"step": 1}\n'


def test_lock_is_exclusive_and_seen_from_outside(folder):
    held = files.acquire_lock(folder, 0)
    assert held is not None
    assert files.acquire_lock(folder, 0) is None
    assert read_trial(folder).alive
    assert not wait_until_free(folder, 0.05)
    freed = threading.Timer(0.1, os.close, [held])
    freed.start()
    assert wait_until_free(folder, 20)
    freed.join()
    assert not read_trial(folder).alive


def test_a_look_from_outside_does_not_keep_the_owner_out(folder):
    """`is_locked` holds the lock for an instant: another process that wants it waits that long."""
    looking = threading.Event()

    def look():
        while not looking.is_set():
            files.is_locked(folder)

    onlooker = threading.Thread(target=look)
    onlooker.start()
    for _ in range(50):
        descriptor = files.acquire_lock(folder, patience_s=20)
        assert descriptor is not None
        os.close(descriptor)
    looking.set()
    onlooker.join()


def test_living_process_is_distinguished_from_one_with_the_same_number(folder, sleeper):
    started = system.start_time(sleeper.pid)
    note_process(folder, sleeper.pid, started)
    assert read_trial(folder).pid == sleeper.pid
    note_process(folder, sleeper.pid, started + "0")
    assert read_trial(folder).pid is None


def test_leftover_is_ended(folder, sleeper):
    note_process(folder, sleeper.pid, system.start_time(sleeper.pid))
    assert end_leftover(folder, grace_s=20)
    assert sleeper.wait(20) == -15  # SIGTERM was enough
    assert not end_leftover(folder, grace_s=0)


def test_leftover_that_ignores_sigterm_is_killed(folder):
    program = "import signal, time; signal.signal(signal.SIGTERM, signal.SIG_IGN); print(flush=True); time.sleep(1000)"
    process = subprocess.Popen([sys.executable, "-c", program], start_new_session=True, stdout=subprocess.PIPE)
    process.stdout.readline()
    note_process(folder, process.pid, system.start_time(process.pid))
    assert end_leftover(folder, grace_s=0.1)
    assert process.wait(20) == -9
    process.stdout.close()


def test_process_with_a_recycled_number_is_not_touched(folder, sleeper):
    note_process(folder, sleeper.pid, system.start_time(sleeper.pid) + "0")
    assert not end_leftover(folder, grace_s=0)
    assert sleeper.poll() is None


def test_group_without_its_leader_is_ended(folder):
    """The leader was killed, its children live on: their group's number is not given away as long as they do."""
    program = "import subprocess; print(subprocess.Popen(['sleep', '1000']).pid, flush=True)"
    leader = subprocess.Popen(
        [sys.executable, "-c", f"{program}; input()"],
        start_new_session=True,
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
    )
    orphan = int(leader.stdout.readline())
    note_process(folder, leader.pid, system.start_time(leader.pid))
    leader.kill()
    leader.wait()
    leader.stdin.close()
    leader.stdout.close()
    assert end_leftover(folder, grace_s=0)
    deadline = time.monotonic() + 20
    while system.start_time(orphan) is not None:
        assert time.monotonic() < deadline
    assert not end_leftover(folder, grace_s=0)


@pytest.mark.parametrize("text", ["", "{}", "[]", "17"])
def test_damaged_pid_file_names_nobody(folder, text):
    (folder / "pid").write_text(text)
    assert read_trial(folder).pid is None
    assert not end_leftover(folder)


def test_tail_of_output(folder):
    assert files.tail_of_output(folder) == ""
    (folder / "output.log").write_bytes(b"".join(b"line %d \xff\n" % number for number in range(10_000)))
    tail = files.tail_of_output(folder, num_lines=3).splitlines()
    assert tail == ["line 9997 \ufffd", "line 9998 \ufffd", "line 9999 \ufffd"]


def test_memory_of_a_group_is_that_of_all_its_members(sleeper):
    memory = system.memory_of_groups([sleeper.pid, os.getpgrp()])
    assert 0 < memory[sleeper.pid] < 20
    assert memory[os.getpgrp()] > 20


def test_a_process_that_has_left_a_group_belongs_to_it_as_long_as_its_parents_live():
    program = "import subprocess; subprocess.run(['sleep', '1000'], start_new_session=True)"
    leader = subprocess.Popen([sys.executable, "-c", program], start_new_session=True)
    try:
        left: list[int] = []
        while not left:
            time.sleep(0.01)
            found = system.belonging_to([leader.pid])
            left = [pid for pid in found.keys() - {leader.pid} if os.getpgid(pid) == pid]
        (sleeper,) = left
        assert found[sleeper] == leader.pid
        assert system.memory_of_groups([leader.pid, sleeper])[sleeper] > 0, "of two groups it is in its own"
    finally:
        leader.kill()
        leader.wait()
        os.kill(sleeper, 9)
