"""When, what and where files are written while training; with agents of both frameworks."""

import os
import threading

import numpy as np
import pytest

from note_rl.errors import CheckpointError, DivergedError, SettingsError
from note_rl.policy import EpsGreedyQPolicy
from note_rl.seeding import seed_everything
from note_rl.training import checkpoint_saver
from note_rl.training.callbacks import LambdaCallback
from note_rl.training.checkpoint import read_checkpoint, write_checkpoint
from note_rl.training.checkpoint_saver import SavingOptions, SavingRecord
from note_rl.training.persistence import restore_param
from tests.note_rl.frameworks import Framework, frameworks
from tests.note_rl.small_environments import Counting

FRAMEWORKS = pytest.mark.parametrize("framework", frameworks())
PYTORCH = Framework("pytorch")


class Rising(Counting):
    """Episodes of three steps that return 1, 2, 3, then 2, 1, 0 and so on."""

    RETURNS = (1.0, 2.0, 3.0, 2.0, 1.0, 0.0)

    def __init__(self):
        super().__init__(3)
        self.number = -1

    def reset(self, **arguments):
        self.number += 1
        return super().reset(**arguments)

    def step(self, action):
        obs, _, terminated, *rest = super().step(action)
        return obs, self.RETURNS[self.number % 6] * terminated, terminated, *rest


def dqn(framework, env=Rising, **settings):
    seed_everything(3)
    agent = framework.agents.DQN(hidden_size=(4,), env=env)
    agent.set(policy=EpsGreedyQPolicy(0.1), pool_size=50, batch=4, num_updates=1, seed=1, **settings)
    return agent, framework.optimizers.adam(agent.param, 1e-2)


def files(folder):
    return sorted(os.listdir(folder), key=lambda name: (len(name), name))


# When files are written, the trainer decides, whose code is the same for both; what stands in them is asked of both.


def test_files_are_written_at_an_interval_of_episodes_and_only_the_newest_are_kept(tmp_path):
    agent, optimizer = dqn(PYTORCH)
    agent.path, agent.save_freq, agent.max_save_files = tmp_path / "model.dat", 2, 2
    agent.train(optimizer=optimizer, episodes=7, p=0)
    assert files(tmp_path) == ["model-6.dat", "model-7.dat"]  # the last one holds what the sixth does not
    assert read_checkpoint(tmp_path / "model-6.dat")[1]["trainer"]["clock"]["num_episodes"] == 6
    agent.train(episodes=3, p=0)
    assert files(tmp_path) == ["model-8.dat", "model-10.dat"]


@FRAMEWORKS
def test_one_file_is_replaced(framework, tmp_path):
    agent, optimizer = dqn(framework)
    agent.path = str(tmp_path / "model.dat")
    seen = []
    watch = LambdaCallback(on_episode_end=lambda episode: seen.append(files(tmp_path)))
    agent.train(optimizer=optimizer, episodes=3, callbacks=[watch], p=0)
    assert seen == [[], ["model.dat"], ["model.dat"]]  # each phase is an episode, and ends after it
    assert read_checkpoint(tmp_path / "model.dat")[1]["trainer"]["clock"]["num_episodes"] == 3


def test_the_best_only(tmp_path):
    agent, optimizer = dqn(PYTORCH, trial_count=2)
    agent.path, agent.save_best_only, agent.max_save_files = tmp_path / "best.dat", True, 10
    agent.train(optimizer=optimizer, episodes=12, p=0)
    # means of two: 1.5, 2.5, 2.5, 1.5, 0.5, 0.5, 1.5, 2.5, ...: the third episode is never beaten
    assert files(tmp_path) == ["best-2.dat", "best-3.dat"]
    other, optimizer = dqn(PYTORCH, trial_count=2)
    other.restore(tmp_path / "best-3.dat")
    other.path, other.save_best_only, other.max_save_files = tmp_path / "best.dat", True, 10
    other.train(optimizer=optimizer, episodes=6, p=0)  # knows what it has to beat
    assert files(tmp_path) == ["best-2.dat", "best-3.dat"]


def test_another_file_begins_without_a_best(tmp_path):
    agent, optimizer = dqn(PYTORCH, trial_count=2)
    agent.path, agent.save_best_only = tmp_path / "first.dat", True
    agent.train(optimizer=optimizer, episodes=6, p=0)
    (tmp_path / "folder").mkdir()
    for path in (tmp_path / "second.dat", tmp_path / "folder" / "second.dat"):
        agent.path = path
        agent.train(episodes=6, p=0)  # in which nothing is as good as the third episode
        assert path.is_file()


def test_the_best_is_not_known_before_there_are_enough_episodes(tmp_path, caplog):
    agent, optimizer = dqn(PYTORCH)
    agent.path, agent.save_best_only = tmp_path / "best.dat", True
    agent.train(optimizer=optimizer, episodes=9, p=0)
    assert files(tmp_path) == []
    assert "fewer episodes than trial_count" in caplog.text
    agent.train(episodes=1, p=0)
    assert files(tmp_path) == ["best.dat"]


@FRAMEWORKS
def test_parameters_only(framework, tmp_path):
    agent, optimizer = dqn(framework)
    agent.path, agent.save_param_only = tmp_path / "param.dat", True
    agent.train(optimizer=optimizer, episodes=4, p=0)
    arrays, head = read_checkpoint(tmp_path / "param.dat")
    assert "trainer" not in head
    assert all(name.startswith("learner/agent/") for name in arrays)
    other, optimizer = dqn(framework)
    other.train(optimizer=optimizer, episodes=1, p=0)
    other.restore_param(tmp_path / "param.dat")
    for mine, theirs in zip(framework.parameters(other), framework.parameters(agent), strict=True):
        np.testing.assert_array_equal(mine, theirs)
    assert other.num_episodes == 1  # everything else is as it was
    assert sorted(restore_param(tmp_path / "param.dat")) == sorted(n.removeprefix("learner/agent/") for n in arrays)


@pytest.mark.slow_in_keras  # of states in Keras: learners/test_base.py
@FRAMEWORKS
def test_restoring_parameters_leaves_the_optimizer_alone(framework, tmp_path):
    def go_on(interrupted):
        agent, optimizer = dqn(framework)
        agent.train(optimizer=optimizer, episodes=4, p=0)
        if interrupted:
            agent.save_param(tmp_path / "param.dat")
            agent.restore_param(tmp_path / "param.dat")
        agent.train(episodes=4, p=0)
        return framework.parameters(agent)

    for mine, theirs in zip(go_on(True), go_on(False), strict=True):
        np.testing.assert_array_equal(mine, theirs)


@pytest.mark.parametrize(
    ("framework", "background"),
    [
        (PYTORCH, False),
        (PYTORCH, True),
        pytest.param(Framework("keras"), True, marks=pytest.mark.slow),  # of Keras: test_resume.py
    ],
)
def test_a_file_holds_one_moment_and_training_goes_on_from_it(framework, tmp_path, background):
    whole, optimizer = dqn(framework, env="CartPole-v1")
    straight = whole.train(optimizer=optimizer, episodes=8, p=0)
    first, optimizer = dqn(framework, env="CartPole-v1")
    first.path, first.save_freq, first.max_save_files = tmp_path / "m.dat", 4, 5
    first.train(optimizer=optimizer, episodes=7, parallel_training_and_save=background, p=0)
    second, optimizer = dqn(framework, env="CartPole-v1")
    second.restore(tmp_path / "m-4.dat")
    rest = second.train(optimizer=optimizer, episodes=4, p=0)
    assert rest.returns == straight.returns[4:]
    for mine, theirs in zip(framework.parameters(second), framework.parameters(whole), strict=True):
        np.testing.assert_array_equal(mine, theirs)


def background(tmp_path, monkeypatch, write):
    monkeypatch.setattr(checkpoint_saver, "write_checkpoint", write)
    agent, optimizer = dqn(PYTORCH)
    agent.path = tmp_path / "model.dat"
    return lambda **options: agent.train(
        optimizer=optimizer, episodes=4, parallel_training_and_save=True, p=0, **options
    )


def test_training_goes_on_while_a_file_is_being_written(tmp_path, monkeypatch):
    two_episodes_are_over = threading.Event()

    def slow(path, arrays, head):
        assert two_episodes_are_over.wait(30)
        write_checkpoint(path, arrays, head)

    train = background(tmp_path, monkeypatch, slow)
    watch = LambdaCallback(on_episode_end=lambda episode: two_episodes_are_over.set() if episode == 1 else None)
    train(callbacks=[watch])  # the file of the first episode waits for the end of the second
    assert read_checkpoint(tmp_path / "model.dat")[1]["trainer"]["clock"]["num_episodes"] == 4


def test_a_failure_in_the_background_is_not_lost(tmp_path, monkeypatch):
    def full(path, arrays, head):
        raise CheckpointError("no space left")

    train = background(tmp_path, monkeypatch, full)
    with pytest.raises(CheckpointError, match="no space left"):
        train()


def test_an_error_of_training_is_the_one_that_is_seen(tmp_path, monkeypatch, caplog):
    def full(path, arrays, head):
        raise CheckpointError("no space left")

    def stumble(episode):
        if episode == 1:
            raise DivergedError("diverged")

    train = background(tmp_path, monkeypatch, full)
    with pytest.raises(DivergedError):
        train(callbacks=[LambdaCallback(on_episode_end=stumble)])
    assert "no space left" in caplog.text


@FRAMEWORKS
def test_save_data_leaves_the_pool_out(framework, tmp_path):
    agent, optimizer = dqn(framework)
    agent.path = tmp_path / "model.dat"
    agent.train(optimizer=optimizer, episodes=2, save_data=False, p=0)
    assert not any(name.startswith("trainer/experience") for name in read_checkpoint(agent.path)[0])
    agent.train(episodes=2, p=0)
    assert any(name.startswith("trainer/experience") for name in read_checkpoint(agent.path)[0])


@FRAMEWORKS
@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"save_best_only": True}, "save_best_only needs to know where"),
        ({"max_save_files": 2}, "max_save_files needs to know where"),
        ({"path": "m", "save_freq": 0}, "save_freq must be at least 1"),
        ({"path": "m", "max_save_files": 0}, "max_save_files must be at least 1"),
    ],
)
def test_nonsense_is_refused_before_the_first_step(framework, options, message):
    agent, optimizer = dqn(framework)
    for name, value in options.items():
        setattr(agent, name, value)
    with pytest.raises(SettingsError, match=message):
        agent.train(optimizer=optimizer, episodes=1, p=0)
    assert agent.num_env_steps == 0


def test_only_files_of_this_very_path_are_ever_removed(tmp_path):
    options = SavingOptions(path=tmp_path / "model.dat", max_files=1)
    record = SavingRecord.from_json({"files": ["../model-1.dat", "other-1.dat", "model-x.dat", 7], "best": "no"})
    assert record.best is None
    options = SavingOptions(path=tmp_path / "model.dat", max_files=2)
    removed = [record.add(tmp_path / f"model-{number}.dat", options) for number in (1, 2, 3, 3)]
    assert removed == [[], [], [tmp_path / "model-1.dat"], []]
    assert record.files == ["../model-1.dat", "other-1.dat", "model-x.dat", "model-2.dat", "model-3.dat"]
    assert SavingRecord.from_json(None).files == []


@FRAMEWORKS
def test_bad_files_leave_everything_as_it_was(framework, tmp_path):
    agent, optimizer = dqn(framework)
    agent.train(optimizer=optimizer, episodes=3, p=0)
    agent.save(tmp_path / "good")
    good = (tmp_path / "good").read_bytes()
    arrays, head = read_checkpoint(tmp_path / "good")
    (tmp_path / "truncated").write_bytes(good[: len(good) // 2])
    (tmp_path / "foreign").write_bytes(b"PK\x03\x04 something else")
    write_checkpoint(tmp_path / "without_counts", arrays, {**head, "trainer": {"seed": 1}})
    write_checkpoint(tmp_path / "odd_random", arrays, {**head, "trainer": {**head["trainer"], "random": {}}})
    kept = {name: values for name, values in arrays.items() if not name.startswith("learner/agent/")}
    write_checkpoint(tmp_path / "no_parameters", kept, head)
    wide = framework.agents.DQN(hidden_size=(5,), env=Rising)
    wide.save(tmp_path / "another_agent")

    def everything():
        return [*framework.parameters(agent), agent.num_env_steps, agent.num_episodes, agent.num_gradient_steps]

    before = everything()
    for name, message in {
        "truncated": "damaged",
        "foreign": "damaged or no checkpoint",
        "without_counts": "counts are not complete",
        "odd_random": "counts are not complete",
        "no_parameters": "another kind",
        "another_agent": "another agent",
        "nothing": "there is no checkpoint",
    }.items():
        with pytest.raises(CheckpointError, match=message):
            agent.restore(tmp_path / name)
        for mine, theirs in zip(everything(), before, strict=True):
            np.testing.assert_array_equal(mine, theirs)
    with pytest.raises(CheckpointError, match="another agent"):
        agent.restore_param(tmp_path / "another_agent")
    agent.train(episodes=1, p=0)  # and goes on
    assert agent.num_episodes == 4


@FRAMEWORKS
def test_the_history_goes_along(framework, tmp_path):
    agent, optimizer = dqn(framework)
    agent.train(optimizer=optimizer, episodes=3, p=0)
    agent.save(tmp_path / "m")
    other, optimizer = dqn(framework)
    other.restore(tmp_path / "m")
    other.train(optimizer=optimizer, episodes=2, p=0)
    assert len(other._history.returns) == 5
    assert other._history.episode_steps == [3, 6, 9, 12, 15]
    assert len(other._history.losses) == len(other._history.phase_steps) == 5
