"""Callbacks that count go on where they were: their states stand in checkpoints."""

import copy
import json
import logging

import numpy as np
import pytest
from safetensors import safe_open

from note_rl.errors import CheckpointError, SettingsError
from note_rl.training.callbacks import Callback, LambdaCallback
from note_rl.training.checkpoint import read_checkpoint, write_checkpoint
from tests.note_rl.training.test_resume import CASES, PYTORCH, make

CASE = CASES["replay"]  # phases of 16 steps


class Counter(Callback):
    """Counts phases and sums the losses in its logs, in the forms that a state may have."""

    def __init__(self):
        self.phases = 0
        self.losses = np.zeros(2, np.float64)
        self.seen = {"steps": [], "last": None, "name": "counter"}

    def on_phase_end(self, phase, logs):
        self.phases += 1
        if np.isfinite(logs["loss"]):
            self.losses[phase % 2] += logs["loss"]
        self.seen["steps"].append(logs["num_env_steps"])
        self.seen["last"] = phase

    def get_state(self):
        return {"phases": self.phases, "losses": self.losses, "seen": self.seen}

    def set_state(self, state):
        assert self.agent is not None
        self.phases, self.losses, self.seen = state["phases"], state["losses"], state["seen"]


def train(agent, optimizer, total_steps, callbacks, **options):
    return agent.train(optimizer=optimizer, total_steps=total_steps, callbacks=callbacks, p=0, **options)


def stopping_at(agent, num_env_steps):
    def stop(phase, logs):
        agent.stop_training = agent.stop_training or logs["num_env_steps"] >= num_env_steps

    return LambdaCallback(on_phase_end=stop)


def test_a_resumed_run_is_the_undisturbed_one_for_callbacks_too(tmp_path):
    whole, optimizer = make(PYTORCH, CASE)
    undisturbed = Counter()
    train(whole, optimizer, 320, [undisturbed])
    assert undisturbed.phases == 20

    first, optimizer = make(PYTORCH, CASE)
    train(first, optimizer, 320, [Counter(), stopping_at(first, 160)])
    first.save(tmp_path / "a")

    second, optimizer = make(PYTORCH, CASE, seed=99)
    second.restore(tmp_path / "a")
    resumed = Counter()
    train(second, optimizer, 320, [resumed])
    assert resumed.phases == 20
    np.testing.assert_array_equal(resumed.losses, undisturbed.losses)
    assert resumed.seen == undisturbed.seen


def counted(tmp_path, callbacks, total_steps=32, **attributes):
    agent, optimizer = make(PYTORCH, CASE)
    vars(agent).update(attributes)
    train(agent, optimizer, total_steps, callbacks)
    agent.save(tmp_path / "a")
    return agent


def restored(tmp_path, callbacks, total_steps=48, **how):
    agent, optimizer = make(PYTORCH, CASE, seed=99)
    agent.restore(tmp_path / "a", **how)
    train(agent, optimizer, total_steps, callbacks)
    return agent


def test_two_of_a_class_are_distinguished_by_their_order(tmp_path):
    ahead = Counter()
    ahead.phases = 100
    counted(tmp_path, [ahead, Counter()])
    first, second = Counter(), Counter()
    restored(tmp_path, [first, second])
    assert (first.phases, second.phases) == (103, 3)
    _, head = read_checkpoint(tmp_path / "a")
    assert list(head["callbacks"]) == ["Counter", "Counter 2"]


def test_files_of_training_hold_the_phase_that_they_were_written_in(tmp_path):
    """The saver comes last: a counter has counted the phase whose end is written down, wherever it stands."""
    agent, optimizer = make(PYTORCH, CASE)
    agent.path, agent.save_freq = str(tmp_path / "a"), 1
    train(agent, optimizer, 320, [Counter()])
    arrays, head = read_checkpoint(tmp_path / "a")
    assert head["callbacks"]["Counter"]["phases"] * 16 == head["trainer"]["clock"]["num_env_steps"]
    assert arrays["callbacks/Counter/losses"].shape == (2,)


def test_a_copy_with_other_random_numbers_has_the_state_of_the_run_that_was_copied(tmp_path):
    counted(tmp_path, [Counter()])
    counter = Counter()
    restored(tmp_path, [counter], reseed=7)
    assert counter.phases == 3


def test_a_copy_of_an_agent_goes_on_with_the_state(tmp_path):
    agent = counted(tmp_path, [Counter()])
    counter = Counter()
    train(copy.deepcopy(agent), None, 48, [counter])
    assert counter.phases == 3


def test_what_was_restored_and_not_trained_is_saved_again(tmp_path):
    counted(tmp_path, [Counter()])
    agent, _ = make(PYTORCH, CASE, seed=99)
    agent.restore(tmp_path / "a")
    agent.save(tmp_path / "a")
    counter = Counter()
    restored(tmp_path, [counter])
    assert counter.phases == 3


def test_a_state_whose_callback_is_missing_is_one_line(tmp_path, caplog):
    counted(tmp_path, [Counter()])
    with caplog.at_level(logging.WARNING):
        agent = restored(tmp_path, [])
    assert [record.getMessage() for record in caplog.records] == [
        "the checkpoint holds the state of a callback Counter, which this training is without: it is left out"
    ]
    agent.save(tmp_path / "a")
    assert read_checkpoint(tmp_path / "a")[1]["callbacks"] == {}


def test_a_callback_without_a_stored_state_begins_anew(tmp_path):
    counted(tmp_path, [])
    counter = Counter()
    restored(tmp_path, [counter])
    assert counter.phases == 1


@pytest.mark.parametrize(
    ("state", "message"),
    [
        ({"seen": {1, 2}}, r"Storing.get_state\(\) has seen=\{1, 2\}, of the type set, which a checkpoint cannot hold"),
        ({"seen": (1, 2)}, "has seen=.* of the type tuple"),
        ({"seen": [np.zeros(2)]}, "has seen=.* of the type list"),
        ({"seen": {1: 2}}, "has seen=.* of the type dict"),
        ({"seen": np.array([object()])}, "has seen=.* of the type ndarray"),
        ({"seen": np.array(["a"])}, "has seen=.* of the type ndarray"),
        ({"a/b": 1}, "has the key 'a/b': keys are words without a slash"),
        ({2: 1}, "has the key 2: keys are words"),
        ([1], "must give a mapping, such as {'count': 3}, got"),
    ],
)
def test_what_cannot_be_stored_is_refused_before_the_first_step(state, message):
    class Storing(Callback):
        def get_state(self):
            return state

        def set_state(self, state):
            raise AssertionError

    agent, optimizer = make(PYTORCH, CASE)
    with pytest.raises(CheckpointError, match=message):
        train(agent, optimizer, 32, [Storing()])
    assert agent.num_env_steps == 0


@pytest.mark.parametrize(("given", "missing"), [("get_state", "set_state"), ("set_state", "get_state")])
def test_half_of_the_contract_is_refused(given, missing):
    kind = type("Half", (Callback,), {given: lambda self, *state: {}})
    agent, optimizer = make(PYTORCH, CASE)
    with pytest.raises(SettingsError, match=rf"callback Half has {given}\(\) and no {missing}\(\)"):
        train(agent, optimizer, 32, [kind()])


@pytest.mark.parametrize("stored", [3, {"Counter": 3}])
def test_damaged_states_are_refused(tmp_path, stored):
    counted(tmp_path, [Counter()])
    arrays, head = read_checkpoint(tmp_path / "a")
    write_checkpoint(tmp_path / "a", arrays, {**head, "callbacks": stored})
    agent, _ = make(PYTORCH, CASE)
    with pytest.raises(CheckpointError, match="is damaged"):
        agent.restore(tmp_path / "a")


def test_nothing_is_pickled(tmp_path):
    counted(tmp_path, [Counter()])
    with safe_open(tmp_path / "a", framework="numpy") as file:
        head = json.loads(file.metadata()["note_rl"])
    assert head["callbacks"]["Counter"]["seen"] == {"steps": [16, 32], "last": 2, "name": "counter"}
