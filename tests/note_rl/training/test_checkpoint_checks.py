"""Checkpoints that do not fit are refused at once, in words, and leave the agent as it was."""

import copy

import numpy as np
import pytest
import torch
from gymnasium.wrappers import TimeLimit

from note_rl.agents.pytorch import DQN, PPO
from note_rl.errors import CheckpointError
from note_rl.examples.environments import BitFlipping
from note_rl.policy import EpsGreedyQPolicy, SoftmaxPolicy
from note_rl.seeding import seed_everything
from note_rl.training.checkpoint import read_checkpoint, write_checkpoint
from tests.note_rl.small_environments import Counting


def dqn(env="CartPole-v1", **settings):
    agent = DQN(hidden_size=4, env=env)
    told = {"policy": EpsGreedyQPolicy(0.1), "batch": 4, "num_updates": 1, "pool_size": 50, "seed": 1}
    agent.set(**{**told, **settings})
    return agent


def train(agent, episodes=2, **options):
    optimizer = torch.optim.Adam(agent.param)
    return agent.train(optimizer, **({"episodes": episodes} if "total_steps" not in options else {}), p=0, **options)


@pytest.fixture(scope="module")
def saved(tmp_path_factory):
    path = tmp_path_factory.mktemp("restoring") / "model.dat"
    agent = dqn()
    train(agent)
    agent.save(path)
    return path


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"pool_size": 60}, "capacity 50, this agent's 60: set pool_size/capacity=50"),
        ({"num_envs": 2}, "holds 1 environments, this run 2: set num_envs"),
        ({"env": ["CartPole-v1"] * 3}, "holds 1 environments, this run 3"),
        ({"TRL": True}, "gathered without HER or TRL"),
        (
            {"pool_size": None, "num_updates": None, "PPO": True, "rollout_steps": 8, "policy": SoftmaxPolicy()},
            "trained from a replay pool, this agent from rollouts",
        ),
        (
            {"num_updates": None, "sequences": True, "sequence_length": 5, "policy": SoftmaxPolicy()},
            "trained from a replay pool, this agent from sequences: set PPO and sequences as they were",
        ),
    ],
)
def test_restore_refuses_other_settings_and_changes_nothing(saved, settings, message):
    agent = dqn(**settings)
    trains = not {"PPO", "TRL", "sequences"} & set(settings)  # DQN does not
    if trains:
        train(agent, 1)
    before, counted = agent.learner.get_state(), agent.num_env_steps
    with pytest.raises(CheckpointError, match=f"{message}.*restore_param"):
        agent.restore(saved)
    for name, values in agent.learner.get_state().items():
        np.testing.assert_array_equal(values, before[name])
    assert agent.num_env_steps == counted
    if trains:
        assert len(train(agent, 1).returns) == 1


def test_train_refuses_what_restore_could_not_know(saved):
    for set_later, options, message in (
        ({"pool_size": 60}, {}, "set pool_size/capacity=50"),
        ({}, {"processes": 2}, "this run 2: set num_envs"),
        ({}, {"processes": 1, "pool_network": True}, "environments stepped in the training process"),
    ):
        agent = DQN(hidden_size=4)
        agent.restore(saved)
        agent.set(policy=EpsGreedyQPolicy(0.1), batch=4, num_updates=1, **{"pool_size": 50, **set_later})
        for _ in range(2):  # and again: nothing was taken over by half
            with pytest.raises(CheckpointError, match=message):
                train(agent, 1, **options)


def test_a_pool_of_other_observations_is_refused(saved):
    agent = DQN(4, 4, 2, env=Counting)
    agent.restore(saved)
    agent.set(policy=EpsGreedyQPolicy(0.1), batch=4, num_updates=1, pool_size=50)
    with pytest.raises(CheckpointError, match=r"observations of the shape \[4\], this environment shows \[2\]"):
        train(agent, 1)


def test_what_may_differ_does_not_matter(saved):
    for settings in ({"PR": True}, {"num_steps": 3}, {"batch": 8}, {"trial_count": 3}, {"normalise_obs": True}):
        agent = dqn(**settings)
        agent.restore(saved)
        assert len(train(agent, 1).returns) == 1
        assert agent.num_episodes == 3


TRAINER = ["collector/" + name for name in ("actions/0", "episode", "length", "obs", "return", "starts")]
TRAINER += ["experience/" + name for name in ("action", "ended", "next_obs", "obs", "position", "reward", "terminated")]


def hand_made(saved, tmp_path, change):
    arrays, head = read_checkpoint(saved)
    arrays, head = dict(arrays), copy.deepcopy(head)
    change({name.removeprefix("trainer/"): name for name in arrays}, arrays, head)
    del head["checksum"]
    write_checkpoint(tmp_path / "made.dat", arrays, head)
    return tmp_path / "made.dat"


def refused(path):
    """By restore(), or by train() after it."""

    def restored_and_trained():
        agent = dqn()
        agent.restore(path)
        train(agent, 1)

    with pytest.raises(CheckpointError):
        restored_and_trained()


@pytest.mark.parametrize("name", TRAINER)
def test_hand_made_files_without_an_array_are_refused(saved, tmp_path, name):
    refused(hand_made(saved, tmp_path, lambda short, arrays, head: arrays.pop(short[name])))


@pytest.mark.parametrize("name", [name for name in TRAINER if name != "collector/actions/0"])
def test_hand_made_files_with_another_shape_are_refused(saved, tmp_path, name):
    def change(short, arrays, head):
        old = arrays[short[name]]
        arrays[short[name]] = np.zeros((len(old) + 1, *old.shape[1:]), old.dtype)

    refused(hand_made(saved, tmp_path, change))


@pytest.mark.parametrize(
    "change",
    [
        lambda head: head["clock"].update(num_env_steps="x"),
        lambda head: head["clock"].update(further=1),
        lambda head: head.update(seed="x"),
        lambda head: head.update(recent=["a"]),
        lambda head: head["random"].pop("sampling"),
        lambda head: head.pop("clock"),
    ],
)
def test_hand_made_counts_are_refused(saved, tmp_path, change):
    refused(hand_made(saved, tmp_path, lambda short, arrays, head: change(head["trainer"])))


def test_hand_made_positions_and_priorities_are_refused(saved, tmp_path):
    def moved(short, arrays, head):
        arrays[short["experience/position"]] = np.array([0, 70, 50, 70, 1], np.int64)

    def scored(short, arrays, head):
        arrays["trainer/experience/sampler/scores"] = np.ones(3, np.float32)
        arrays["trainer/experience/sampler/counts"] = np.ones(4)

    def normalised(short, arrays, head):
        arrays["normaliser/mean"] = np.zeros(4)

    for change in (moved, scored, normalised):
        refused(hand_made(saved, tmp_path, change))


def test_saving_what_was_only_restored_gives_the_same_file(saved, tmp_path):
    """The random state included, which waits until train() is called."""
    seed_everything(99)
    agent = dqn()
    agent.restore(saved)
    agent.save(tmp_path / "again.dat")
    (first, head), (second, other_head) = read_checkpoint(saved), read_checkpoint(tmp_path / "again.dat")
    assert head == other_head
    assert set(first) == set(second)
    for name, values in first.items():
        np.testing.assert_array_equal(second[name], values, err_msg=name)


def test_hindsight_pools_and_frames_come_back_under_the_same_settings_only(tmp_path):
    def bits():  # without a limit an episode lasts until all bits agree by chance
        return TimeLimit(BitFlipping(), 10)

    agent = dqn(env=bits, HER=True)
    train(agent, total_steps=30)
    agent.save(tmp_path / "her.dat")
    again = dqn(env=bits, HER=True)
    again.restore(tmp_path / "her.dat")
    train(again, total_steps=40)
    frames = DQN(hidden_size=4, frame_stack=2)
    frames.set(policy=EpsGreedyQPolicy(0.1), batch=4, num_updates=1, pool_size=50, frame_stack=2)
    train(frames)
    frames.save(tmp_path / "frames.dat")
    other = DQN(8, 4, 2)  # the same networks
    other.set(policy=EpsGreedyQPolicy(0.1), batch=4, num_updates=1, pool_size=50)
    with pytest.raises(CheckpointError, match="of 2 frames shown together, this agent's of 1"):
        other.restore(tmp_path / "frames.dat")


def test_an_on_policy_run_is_refused_by_another_number_of_environments(tmp_path):
    def ppo(num_envs):
        agent = PPO(hidden_size=4)
        agent.set(policy=SoftmaxPolicy(), PPO=True, rollout_steps=8, batch=8, num_epochs=1, num_envs=num_envs)
        return agent

    agent = ppo(2)
    agent.train(torch.optim.Adam([p for group in agent.param for p in group]), total_steps=16, p=0)
    agent.save(tmp_path / "ppo.dat")
    with pytest.raises(CheckpointError, match="holds 2 environments, this run 3"):
        ppo(3).restore(tmp_path / "ppo.dat")
    ppo(2).restore(tmp_path / "ppo.dat")
