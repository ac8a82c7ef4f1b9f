"""train(parallel_dump=True): checkpoints as folders, with a file for each array."""

import json

import numpy as np
import pytest
from safetensors.numpy import load_file

from note_rl.errors import CheckpointError
from note_rl.training.checkpoint import read_checkpoint, write_checkpoint, write_checkpoint_folder
from note_rl.training.persistence import restore_param
from tests.note_rl.training.test_checkpoint_saver import FRAMEWORKS, dqn, files

ARRAYS = {"learner/agent/a": np.arange(6.0).reshape(2, 3), "learner/agent/../b": np.ones((), np.int64)}


@pytest.mark.slow_in_keras
@FRAMEWORKS
@pytest.mark.parametrize("in_background", [False, True])
def test_a_run_goes_on_from_a_folder_as_from_a_file(framework, in_background, tmp_path):
    agent, optimizer = dqn(framework)
    agent.path, agent.save_freq, agent.max_save_files = tmp_path / "model.dat", 2, 2
    agent.train(optimizer=optimizer, episodes=6, p=0, parallel_dump=True, parallel_training_and_save=in_background)
    assert files(tmp_path) == ["model-4.dat", "model-6.dat"]  # that of the second episode is removed
    agent.save(tmp_path / "whole.dat")
    arrays, head = read_checkpoint(tmp_path / "whole.dat")
    in_folder, its_head = read_checkpoint(tmp_path / "model-6.dat")
    assert set(in_folder) == set(arrays)
    for name, values in arrays.items():
        np.testing.assert_array_equal(in_folder[name], values)
    assert its_head["trainer"]["clock"] == head["trainer"]["clock"]
    assert len(files(tmp_path / "model-6.dat")) == len(arrays) + 1
    other, optimizer = dqn(framework)
    other.restore(tmp_path / "model-6.dat")
    other.path = None
    other.train(optimizer=optimizer, episodes=2, p=0)
    assert other.num_episodes == 8


@FRAMEWORKS
def test_parameters_alone_are_replaced_and_restored(framework, tmp_path):
    agent, optimizer = dqn(framework)
    agent.path, agent.save_param_only = tmp_path / "param.dat", True
    agent.train(optimizer=optimizer, episodes=4, p=0, parallel_dump=True)
    assert files(tmp_path) == ["param.dat"]
    other, _ = dqn(framework)
    other.restore_param(tmp_path / "param.dat")
    for mine, theirs in zip(framework.parameters(agent), framework.parameters(other), strict=True):
        np.testing.assert_array_equal(mine, theirs)
    assert len(restore_param(tmp_path / "param.dat")) > 2


def test_each_array_is_a_file_within_the_folder(tmp_path):
    write_checkpoint_folder(tmp_path / "model", ARRAYS, {"agent": "DQN"})
    assert files(tmp_path / "model") == [
        "note_rl.json",
        "0001-learner.agent.a.safetensors",
        "0000-learner.agent....b.safetensors",
    ]
    assert list(load_file(tmp_path / "model" / "0001-learner.agent.a.safetensors")) == ["learner/agent/a"]
    arrays, head = read_checkpoint(tmp_path / "model")
    assert head["agent"] == "DQN"
    assert {name: values.tolist() for name, values in arrays.items()} == {
        name: values.tolist() for name, values in ARRAYS.items()
    }


def test_what_is_damaged_or_leads_elsewhere_is_refused(tmp_path):
    folder = tmp_path / "model"
    write_checkpoint_folder(folder, ARRAYS, {})
    one = folder / "0001-learner.agent.a.safetensors"
    kept = one.read_bytes()
    for content in (kept[:-1], b"", b"\x80\x04 no array"):
        one.write_bytes(content)
        with pytest.raises(CheckpointError, match="model is damaged"):
            read_checkpoint(folder)
    one.unlink()
    elsewhere = tmp_path / "elsewhere.safetensors"
    elsewhere.write_bytes(kept)
    one.symlink_to(elsewhere)
    with pytest.raises(CheckpointError, match="model is damaged: its arrays are not those that were written"):
        read_checkpoint(folder)
    (folder / "note_rl.json").write_text(json.dumps({"written_by": {"format": 99}}))
    with pytest.raises(CheckpointError, match="wrote it in format 99"):
        read_checkpoint(folder)


@pytest.mark.parametrize("there", ["a folder of mine", "a file", "a link"])
def test_nothing_of_others_is_replaced(there, tmp_path):
    path, mine = tmp_path / "model.dat", tmp_path / "mine"
    mine.mkdir()
    (mine / "note_rl.json").write_text("{}")
    if there == "a folder of mine":
        path.mkdir()
        (path / "thesis.txt").write_text("years")
    elif there == "a file":
        write_checkpoint(path, ARRAYS, {})
    else:
        path.symlink_to(mine)
    from tests.note_rl.frameworks import Framework

    agent, optimizer = dqn(Framework("pytorch"))
    agent.path = path
    with pytest.raises(CheckpointError, match=r"parallel_dump=True makes a folder of it, and what is there is no such"):
        agent.train(optimizer=optimizer, episodes=1, p=0, parallel_dump=True)
    assert agent.num_episodes == 0
    assert path.exists()
