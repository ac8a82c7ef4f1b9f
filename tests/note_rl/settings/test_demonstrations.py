"""Demonstrations in their file."""

import numpy as np
import pytest

from note_rl.errors import NoteRLError
from note_rl.settings.demonstrations import Demonstrations


def test_demonstrations_come_back_from_their_file(tmp_path):
    pairs = Demonstrations(np.arange(8, dtype=np.float32).reshape(4, 2), np.arange(4))
    pairs.save(tmp_path / "expert.npz")
    read = Demonstrations.load(tmp_path / "expert.npz")
    np.testing.assert_array_equal(read.obs, pairs.obs)
    np.testing.assert_array_equal(read.action, pairs.action)
    (tmp_path / "other.npz").write_bytes(b"nothing of the kind")
    for name in ("other.npz", "missing.npz"):
        with pytest.raises(NoteRLError, match="cannot read demonstrations"):
            Demonstrations.load(tmp_path / name)
    with pytest.raises(NoteRLError, match="one action per observation"):
        Demonstrations(np.zeros((3, 1)), np.zeros(2))
