"""Messages of train(): progress lines on the console, files that cannot be written, episodes that never begin."""

import logging
from contextlib import contextmanager

import pytest

from note_rl import LambdaCallback, errors
from note_rl.errors import CheckpointError, SettingsError
from note_rl.noise import GaussianWhiteNoiseProcess
from note_rl.policy import EpsGreedyQPolicy, SoftmaxPolicy
from tests.note_rl.frameworks import frameworks
from tests.note_rl.small_environments import Counting

pytestmark = pytest.mark.parametrize("framework", frameworks()[:1])  # all of it happens outside the frameworks


def dqn(framework, env=lambda: Counting(5), **settings):
    make_agent = framework.agents.DQN
    agent = make_agent(hidden_size=(4,), env=env)
    agent.set(policy=EpsGreedyQPolicy(0.1), pool_size=50, batch=4, num_updates=1, update_batches=1, seed=1, **settings)
    return agent, framework.optimizers.adam(agent.param, 1e-2)


@contextmanager
def unconfigured():
    """Logging as a plain script finds it, without pytest's own handlers."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(logging.root, "handlers", [])
        yield logging.getLogger("note_rl")


def test_progress_lines_are_seen_where_nobody_configured_logging(framework, capsys):
    agent, optimizer = dqn(framework)
    with unconfigured() as logger:
        agent.train(optimizer=optimizer, episodes=20)
        lines = capsys.readouterr().err.splitlines()
        assert len(lines) == 10
        assert all("mean return     15.0" in line for line in lines)
        agent.train(episodes=8, p=4)
        assert len(capsys.readouterr().err.splitlines()) == 4
        agent.train(episodes=5, p=0)
        assert capsys.readouterr().err == ""
        assert (logger.handlers, logger.level) == ([], logging.NOTSET)  # as it was


@pytest.mark.parametrize("where", ["note_rl", None])
def test_where_logging_is_configured_nothing_is_added(framework, capsys, where):
    records = []
    handler = logging.Handler()
    handler.emit = records.append
    agent, optimizer = dqn(framework)
    with unconfigured(), pytest.MonkeyPatch.context() as patch:
        logger = logging.getLogger(where)
        patch.setattr(logger, "handlers", [handler])
        logging.getLogger("note_rl").setLevel(logging.INFO)
        try:
            agent.train(optimizer=optimizer, episodes=4, p=2)
        finally:
            logging.getLogger("note_rl").setLevel(logging.NOTSET)
    assert len(records) == 2
    assert capsys.readouterr().err == ""


def test_a_chosen_level_is_kept(framework, capsys):
    agent, optimizer = dqn(framework)
    with unconfigured() as logger:
        logger.setLevel(logging.WARNING)
        try:
            agent.train(optimizer=optimizer, episodes=4, p=2)
        finally:
            logger.setLevel(logging.NOTSET)
    assert capsys.readouterr().err == ""


def test_a_path_that_cannot_be_written_is_refused_before_the_first_step(framework, tmp_path):
    (tmp_path / "file").write_text("")
    agent, optimizer = dqn(framework)
    for path, message in [
        (tmp_path, "it is a folder; name a file in it"),
        (tmp_path / "file" / "model.dat", "cannot write a checkpoint to .*(exists|directory)"),
    ]:
        agent.path, agent.save_freq = path, 1000
        with pytest.raises(CheckpointError, match=message):
            agent.train(optimizer=optimizer, episodes=1, p=0)
    agent.path = 3
    with pytest.raises(SettingsError, match="path must be the name of a file, got 3"):
        agent.train(optimizer=optimizer, episodes=1, p=0)
    assert agent.num_env_steps == 0
    agent.path = tmp_path / "new" / "model.dat"
    agent.train(optimizer=optimizer, episodes=1, p=0)
    assert [file.name for file in (tmp_path / "new").iterdir()] == ["model.dat"]


def noting_episodes():
    """A list, and a callback that writes the hooks of episodes into it."""
    seen = []
    return seen, LambdaCallback(
        on_episode_begin=lambda number: seen.append(f"begin {number}"),
        on_episode_end=lambda number: seen.append(f"end {number}"),
    )


def test_an_episode_that_never_begins_is_not_announced(framework):
    for arguments, told in [
        ({"episodes": 2}, "begin 0, end 0, begin 1, end 1"),
        ({"total_steps": 12}, "begin 0, end 0, begin 1, end 1, begin 2"),  # the third has begun
        ({"total_steps": 10}, "begin 0, end 0, begin 1, end 1"),
    ]:
        agent, optimizer = dqn(framework, train_freq=2)
        seen, watch = noting_episodes()
        agent.train(optimizer=optimizer, callbacks=watch, p=0, **arguments)
        assert ", ".join(seen) == told


def test_more_episodes_than_asked_for_end_and_so_have_begun(framework):
    agent, optimizer = dqn(framework, train_freq=20)
    seen, watch = noting_episodes()
    agent.train(optimizer=optimizer, episodes=2, callbacks=[watch], p=0)
    assert ", ".join(seen) == "begin 0, end 0, begin 1, end 1, begin 2, end 2, begin 3, end 3"


def test_a_call_that_plays_nothing_says_so(framework, caplog):
    agent, optimizer = dqn(framework, trial_count=2, criterion=15.0)
    agent.train(optimizer=optimizer, episodes=5, p=0)
    with caplog.at_level(logging.WARNING, logger="note_rl"):
        assert agent.train(episodes=5, p=0).stop_reason == "criterion"
    assert [record.message for record in caplog.records] == ["train() plays nothing: criterion is reached already"]


def test_processes_that_have_no_use_are_warned_of_once(framework, caplog, monkeypatch):
    monkeypatch.setattr(errors, "_said", set())
    agent, optimizer = dqn(framework, num_envs=2)
    with caplog.at_level(logging.WARNING, logger="note_rl"):
        for _ in range(2):
            agent.train(optimizer=optimizer, episodes=2, processes=3, p=0)
        agent.train(episodes=2, processes=2, p=0)
    assert [record.message for record in caplog.records] == [
        "processes=3, but there are 2 environments (num_envs, env): it has no effect"
    ]


def test_what_is_refused_is_not_talked_about_first(framework, caplog, monkeypatch):
    monkeypatch.setattr(errors, "_said", set())
    agent, optimizer = dqn(framework)
    with caplog.at_level(logging.INFO, logger="note_rl"), pytest.raises(SettingsError, match="add PR=True"):
        agent.train(optimizer=optimizer, episodes=1, window_size_pr=30, p=0)
    assert caplog.records == []


def test_rollouts_are_shared_by_the_environments_there_are(framework):
    for env, settings, options in [
        ("CartPole-v1", {"num_envs": 4}, {}),
        (lambda: Counting(5), {}, {"processes": 4}),
        ([Counting(5) for _ in range(4)], {}, {}),
        (lambda: Counting(5), {}, {}),
    ]:
        make_agent = framework.agents.PPO
        agent = make_agent(hidden_size=(4,), env=env)
        agent.set(policy=SoftmaxPolicy(), PPO=True, batch=16, update_steps=32, num_epochs=1, **settings)
        result = agent.train(optimizer=framework.optimizers.adam(agent.param, 1e-3), total_steps=1, p=0, **options)
        assert (result.num_env_steps, result.num_gradient_steps) == (32, 2)


@pytest.mark.parametrize(("second", "warned"), [(1e-3, True), (1e-4, False)])
def test_one_scheduled_rate_for_optimizers_of_several_is_warned_of(framework, caplog, second, warned):
    agent = framework.agents.DDPG(hidden_size=(4,), env="Pendulum-v1")
    agent.set(
        noise=GaussianWhiteNoiseProcess(),
        pool_size=50,
        batch=4,
        seed=1,
        schedules={"learning_rate": lambda progress: 1e-3},
    )
    optimizers = [framework.optimizers.adam(agent.param[0], 1e-4), framework.optimizers.adam(agent.param[1], second)]
    with caplog.at_level(logging.WARNING, logger="note_rl"):
        agent.train(optimizer=optimizers, total_steps=20, p=0)
    found = [record.getMessage() for record in caplog.records]
    assert [message.partition(";")[0] for message in found] == warned * [
        "the schedule of learning_rate replaces the rates of all optimizers and parameter groups (0.0001, 0.001) by one"
    ]
