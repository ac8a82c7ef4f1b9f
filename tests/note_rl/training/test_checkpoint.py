import json
import os
import re
import signal
import subprocess
import sys

import numpy as np
import pytest
from safetensors.numpy import save_file

from note_rl.errors import CheckpointError
from note_rl.support.formats import FORMAT, VERSION
from note_rl.training import checkpoint
from note_rl.training.checkpoint import read_checkpoint, write_checkpoint

ARRAYS = {
    "a/b": np.arange(6, dtype=np.float32).reshape(2, 3),
    "flags": np.array([True, False]),
    "none": np.zeros((0, 2)),
    "one": np.array(3.0),
}


def test_round_trip(tmp_path):
    path = tmp_path / "deep" / "agent.safetensors"
    write_checkpoint(path, ARRAYS, {"counters": {"steps": 2**70}, "text": "é"})
    arrays, head = read_checkpoint(path)
    for name, values in ARRAYS.items():
        np.testing.assert_array_equal(arrays[name], values)
        assert (arrays[name].dtype, arrays[name].shape) == (values.dtype, values.shape)
    assert head["counters"] == {"steps": 2**70}
    assert head["text"] == "é"
    assert os.listdir(path.parent) == [path.name]


@pytest.mark.parametrize("keep", [0, 5, 60, -1])
def test_a_truncated_file_is_refused(tmp_path, keep):
    path = tmp_path / "agent"
    write_checkpoint(path, ARRAYS, {})
    path.write_bytes(path.read_bytes()[:keep])
    with pytest.raises(CheckpointError, match="damaged"):
        read_checkpoint(path)


@pytest.mark.parametrize(
    ("metadata", "message"),
    [
        (None, "not written by note_rl"),
        ({"note_rl": "{"}, "damaged"),
        (
            {"note_rl": json.dumps({"written_by": {"note_rl": "0.9.1", "format": 99}})},
            r"cannot read the checkpoint .*agent: note-rl 0\.9\.1 wrote it in format 99, and this is note-rl "
            rf"{re.escape(VERSION)}, which reads formats up to {FORMAT}: pip install 'note-rl>=0\.9\.1'",
        ),
        (
            {"note_rl": json.dumps({"written_by": {"note_rl": "$(reboot)", "format": 99}})},
            r": a later version of note-rl wrote it in format 99.*: pip install -U note-rl$",
        ),
    ],
)
def test_foreign_and_newer_files_are_refused(tmp_path, metadata, message):
    path = tmp_path / "agent"
    save_file(ARRAYS, path, metadata)
    with pytest.raises(CheckpointError, match=message):
        read_checkpoint(path)


def test_a_missing_file_is_refused(tmp_path):
    with pytest.raises(CheckpointError, match="there is no checkpoint"):
        read_checkpoint(tmp_path / "nothing")


def test_a_crash_while_writing_leaves_the_former_file(tmp_path, monkeypatch):
    path = tmp_path / "agent"
    write_checkpoint(path, ARRAYS, {"number": 1})

    def broken(*_):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(checkpoint.os, "replace", broken)
    with pytest.raises(CheckpointError, match="No space left"):
        write_checkpoint(path, ARRAYS, {"number": 2})
    assert read_checkpoint(path)[1]["number"] == 1
    assert os.listdir(tmp_path) == ["agent"]


def test_a_folder_that_cannot_be_made_is_refused(tmp_path):
    (tmp_path / "file").write_text("")
    with pytest.raises(CheckpointError, match="cannot write"):
        write_checkpoint(tmp_path / "file" / "agent", ARRAYS, {})


@pytest.mark.parametrize(("umask", "mode"), [(0o022, 0o644), (0o077, 0o600), (0o002, 0o664)])
def test_a_file_has_the_mode_that_the_umask_leaves(tmp_path, umask, mode):
    before = os.umask(umask)
    try:
        write_checkpoint(tmp_path / "agent", ARRAYS, {})
    finally:
        os.umask(before)
    assert (tmp_path / "agent").stat().st_mode & 0o777 == mode


def test_a_single_wrong_bit_is_noticed(tmp_path):
    path = tmp_path / "agent"
    write_checkpoint(path, ARRAYS, {})
    content = bytearray(path.read_bytes())
    content[-1] ^= 1
    path.write_bytes(content)
    with pytest.raises(CheckpointError, match="damaged: its arrays"):
        read_checkpoint(path)


@pytest.mark.parametrize("head", ["[1]", "{}", '{"written_by": {"format": "new"}}', '{"written_by": {"format": true}}'])
def test_a_head_without_a_format_is_refused(tmp_path, head):
    path = tmp_path / "agent"
    save_file(ARRAYS, path, {"note_rl": head})
    with pytest.raises(CheckpointError, match="does not name its format"):
        read_checkpoint(path)


_KILLED_WHILE_WRITING = """
import os, signal, sys
import numpy as np
from note_rl.training import checkpoint

save_file = checkpoint.save_file

def dying(arrays, path, metadata):
    save_file(arrays, path, metadata)
    os.truncate(path, 100)  # half of it has reached the disk
    os.kill(os.getpid(), signal.SIGKILL)

checkpoint.write_checkpoint(sys.argv[1], {"a": np.zeros(1000)}, {"number": 1})
checkpoint.save_file = dying
checkpoint.write_checkpoint(sys.argv[1], {"a": np.ones(1000)}, {"number": 2})
"""


def test_a_process_killed_while_writing_leaves_the_former_file(tmp_path):
    path = tmp_path / "agent"
    child = subprocess.run([sys.executable, "-c", _KILLED_WHILE_WRITING, str(path)], check=False)
    assert child.returncode == -signal.SIGKILL
    arrays, head = read_checkpoint(path)
    assert head["number"] == 1
    assert not arrays["a"].any()
