import json
import os

import numpy as np
import pytest
from safetensors.numpy import save_file

from note_rl import checkpoint
from note_rl.checkpoint import read_checkpoint, write_checkpoint
from note_rl.errors import CheckpointError

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
        ({"note_rl": json.dumps({"version": 99})}, "version 99.*update"),
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
