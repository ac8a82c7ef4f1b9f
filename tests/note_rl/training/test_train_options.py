"""Arguments of train() besides optimizer and length, over both frameworks."""

import logging

import pytest

from note_rl import errors
from note_rl.errors import SettingsError
from note_rl.policy import EpsGreedyQPolicy, SoftmaxPolicy
from note_rl.seeding import seed_everything
from note_rl.settings import Hindsight, Priority, ReplaySettings, RolloutPriority, RolloutSettings, Window
from note_rl.training.callbacks import Callback, Hooks, LambdaCallback
from note_rl.training.train_options import TrainOptions, same_pool, train_options
from tests.note_rl.frameworks import frameworks
from tests.note_rl.small_environments import Counting

BOTH = pytest.mark.parametrize("framework", frameworks())
ONCE = pytest.mark.parametrize("framework", frameworks()[:1])  # for what happens before any framework is asked


def dqn(framework, env=lambda: Counting(5), **settings):
    make_agent = framework.agents.DQN
    seed_everything(3)
    agent = make_agent(hidden_size=(4,), env=env)
    agent.set(policy=EpsGreedyQPolicy(0.1), pool_size=50, batch=4, num_updates=1, update_batches=1, seed=1, **settings)
    return agent, framework.optimizers.adam(agent.param, 1e-2)


@pytest.mark.slow_in_keras
@BOTH
def test_all_of_the_manuals_arguments_are_taken(framework, caplog, monkeypatch):
    monkeypatch.setattr(errors, "_said", set())
    agent, optimizer = dqn(framework, PR=True)
    arguments = {
        **{"pool_network": True, "parallel_store_and_training": True, "parallel_training_and_save": True},
        **{"processes": 3, "num_store": 2, "processes_her": None, "processes_pr": 2},
        **{"window_size": 40, "clearing_freq": 20, "window_size_": 10, "window_size_ppo": None, "window_size_pr": 30},
        **{"random": True, "save_data": True, "jit_compile": False, "callbacks": None, "p": 0},
    }
    with caplog.at_level(logging.WARNING, logger="note_rl"):
        result = agent.train(optimizer=optimizer, episodes=6, **arguments)
        agent.train(episodes=6, **arguments)
    assert set(result.lengths) == {5}
    assert len(result.losses) == 1  # two rounds of three environments are at least six episodes
    assert caplog.records == []


@ONCE
def test_several_rounds_of_collecting_before_each_training_phase(framework):
    agent, optimizer = dqn(framework)
    result = agent.train(optimizer=optimizer, episodes=6, num_store=3, p=0)
    assert result.num_gradient_steps == len(result.losses) == 2
    agent, optimizer = dqn(framework, train_freq=8)
    result = agent.train(optimizer=optimizer, total_steps=40, num_store=2, p=0)
    assert result.num_env_steps == 40  # 8+8, 8+8, 8 and nothing is left for another
    assert len(result.losses) == 3


@ONCE
@pytest.mark.parametrize("num_envs", [1, 7, 32, 64])
def test_updates_per_environment_step_hold_for_any_number_of_environments(framework, num_envs):
    agent, optimizer = dqn(framework, train_freq=16, learning_starts=100, num_envs=num_envs)
    result = agent.train(optimizer=optimizer, total_steps=1344, p=0)
    assert result.num_env_steps == 1344
    assert abs(result.num_gradient_steps - 78) <= 1  # 112, 128, ... 1344


@ONCE
@pytest.mark.parametrize("with_pool", [True, False])
def test_what_was_collected_beyond_a_phase_counts_after_a_restart(framework, tmp_path, with_pool):
    (whole, optimizer), (first, its), (second, others) = (dqn(framework, train_freq=16, num_envs=7) for _ in range(3))
    whole.train(optimizer=optimizer, total_steps=280, p=0)
    stop = LambdaCallback(on_phase_end=lambda phase, logs: setattr(first, "stop_training", logs["num_env_steps"] > 90))
    first.train(optimizer=its, total_steps=280, callbacks=[stop], p=0)
    assert first._trainer.experience.ahead == 98 % 16
    first.save(tmp_path / "file", save_data=with_pool)
    second.restore(tmp_path / "file")
    second.train(optimizer=others, total_steps=280, p=0)
    assert second.num_gradient_steps == whole.num_gradient_steps == 280 // 16 + 1  # the budget cuts the last short
    states = [agent.learner.get_state() for agent in (whole, second)]
    assert all((states[0][name] == states[1][name]).all() for name in states[0]) == with_pool


@ONCE
def test_a_number_of_processes_is_a_number_of_environments_if_nothing_else_says_it(framework):
    agent, optimizer = dqn(framework)
    assert agent.train(optimizer=optimizer, episodes=4, processes=4, p=0).episode_steps == [20] * 4
    agent, optimizer = dqn(framework, num_envs=2)
    assert agent.train(optimizer=optimizer, episodes=2, processes=4, p=0).episode_steps == [10] * 2
    agent, optimizer = dqn(framework, env=[Counting(5), Counting(5), Counting(5)])
    assert agent.train(optimizer=optimizer, episodes=3, processes=4, p=0).episode_steps == [15] * 3


@ONCE
def test_unknown_and_impossible_arguments_are_refused_before_the_first_step(framework):
    agent, optimizer = dqn(framework)
    for arguments, message in [
        ({"proceses": 2}, "no argument 'proceses'; did you mean processes"),
        ({"frobnicate": 2}, "it takes optimizer, episodes, total_steps, pool_network"),
        ({"processes": 0}, "processes must be at least 1"),
        ({"num_store": 0}, "num_store must be at least 1"),
        ({"p": -1}, "p must be at least 0"),
        ({"jit_compile": "yes"}, "jit_compile must be"),
        ({"window_size_pr": 20}, "add PR=True"),
        ({"window_size_ppo": 20}, "add PPO=True"),
        ({"window_size": 1.5}, "between 0 and 1"),
        ({"clearing_freq": 10}, "belong together"),
    ]:
        with pytest.raises(SettingsError, match=message):
            agent.train(optimizer=optimizer, episodes=1, **arguments)
    assert agent.num_env_steps == 0


@ONCE
def test_a_window_of_one_call_keeps_the_pool_of_the_former(framework):
    agent, optimizer = dqn(framework)
    agent.train(optimizer=optimizer, episodes=6, p=0)
    assert len(agent._trainer.experience.buffer) == 30
    agent.train(episodes=1, window_size=20, p=0)
    assert len(agent._trainer.experience.buffer) == 20
    trainer = agent._trainer
    agent.train(episodes=1, window_size=20, p=0)
    assert agent._trainer is trainer  # nothing has changed
    agent.train(episodes=1, p=0)
    assert len(agent._trainer.experience.buffer) == 25
    assert agent.num_episodes == 9


@ONCE
def test_the_agents_own_window_function_is_asked(framework):
    agent, optimizer = dqn(framework)
    asked = []
    agent.window_size_func = lambda p: asked.append(p) or 12
    agent.train(optimizer=optimizer, episodes=5, p=0)
    assert len(agent._trainer.experience.buffer) == 12
    assert asked == [None] * 5  # at each update of the targets


@ONCE
def test_settings_may_change_between_calls_and_life_goes_on(framework):
    agent, optimizer = dqn(framework, train_freq=4)
    agent.train(optimizer=optimizer, total_steps=12, p=0)
    agent.set(batch=8, policy=EpsGreedyQPolicy(0.5))
    result = agent.train(total_steps=24, p=0)
    assert agent._trainer.collector.policy.eps == 0.5
    assert (result.lengths, result.episode_steps) == ([5, 5], [15, 20])  # the third episode had begun before
    assert len(agent._trainer.experience.buffer) == agent.num_env_steps == 24
    assert agent.num_episodes == 4


def test_what_keeps_a_pool():
    pool = ReplaySettings(capacity=10, batch_size=4)
    assert same_pool(pool, ReplaySettings(capacity=10, batch_size=2, train_freq=None, window=Window(size=5)))
    assert not same_pool(pool, ReplaySettings(capacity=11, batch_size=4))
    assert not same_pool(pool, ReplaySettings(capacity=10, batch_size=4, priority=Priority()))
    assert not same_pool(pool, RolloutSettings())


def test_what_the_windows_become():
    replay = ReplaySettings(capacity=100, batch_size=4, priority=Priority(), hindsight=Hindsight())
    options = train_options({"window_size": 0.5, "window_size_pr": 30, "processes_her": 2, "processes_pr": 2})
    assert options.applied_to(replay, None).window == Window(size=0.5, on_sync=30)
    rollout = RolloutSettings(priority=RolloutPriority())
    assert train_options({"window_size_ppo": 64}).applied_to(rollout, None).window == 64
    assert TrainOptions().applied_to(replay, None) is replay


@BOTH
def test_stop_training_ends_the_phase_and_no_more(framework):
    agent, optimizer = dqn(framework)

    class Stop(Callback):
        def on_episode_end(self, episode, logs):
            self.agent.stop_training = episode == 1

    result = agent.train(optimizer=optimizer, callbacks=[Stop()], p=0)  # no length at all
    assert (result.stop_reason, result.lengths, result.num_gradient_steps) == ("stop_training", [5, 5], 2)
    assert agent.train(episodes=1, p=0).stop_reason == "episodes"  # and it can go on


@BOTH
def test_hooks_in_the_order_of_the_manual_with_their_arguments(framework):
    agent, optimizer = dqn(framework)
    seen = []
    numbered = ("on_episode_begin", "on_episode_end", "on_batch_begin", "on_batch_end")
    watch = LambdaCallback(
        on_train_begin=lambda: seen.append("on_train_begin"),
        on_train_end=lambda: seen.append("on_train_end"),
        **{name: (lambda n: lambda number, logs: seen.append((n, number, sorted(logs))))(name) for name in numbered},
    )
    agent.train(optimizer=optimizer, episodes=2, callbacks=[watch], p=0)
    steps = ["num_env_steps"]
    episode = ["length", "loss", "num_env_steps", "reward", "time"]
    assert seen == [
        "on_train_begin",
        ("on_episode_begin", 0, steps),
        ("on_episode_end", 0, episode),
        ("on_episode_begin", 1, steps),
        ("on_batch_begin", 0, steps),
        ("on_batch_end", 0, ["loss"]),
        ("on_episode_end", 1, episode),
        ("on_batch_begin", 1, steps),
        ("on_batch_end", 1, ["loss"]),
        "on_train_end",
    ]


def test_hooks_may_leave_out_trailing_arguments():
    seen = []

    class Short:
        def on_episode_end(self, episode):
            seen.append(episode)

        def on_batch_end(self, *everything):
            seen.append(everything)

        def on_train_begin(self, logs=None):
            seen.append(logs)

    hooks = Hooks([Short()], None)
    hooks("on_episode_end", 1, {"reward": 2.0})
    hooks("on_batch_end", 3, {"loss": 4.0})
    hooks("on_train_begin")
    assert seen == [1, (3, {"loss": 4.0}), None]


@ONCE
def test_the_loss_of_the_logs_is_that_of_the_last_phase(framework):
    agent, optimizer = dqn(framework)
    losses = []
    watch = LambdaCallback(on_episode_end=lambda episode, logs: losses.append(logs["loss"]))
    result = agent.train(optimizer=optimizer, episodes=3, callbacks=[watch], p=0)
    assert losses[0] != losses[0]  # there was none yet
    assert losses[1:] == result.losses[:2]


@ONCE
def test_p_lines(framework, caplog):
    agent, optimizer = dqn(framework)
    with caplog.at_level(logging.INFO, logger="note_rl"):
        agent.train(optimizer=optimizer, episodes=40)
        assert len(caplog.records) == 10
        agent.train(episodes=40, p=4)
        assert len(caplog.records) == 14
        agent.train(episodes=40, p=0)
        assert len(caplog.records) == 14


@ONCE
def test_ppo_takes_its_own_window(framework):
    make_agent = framework.agents.PPO
    agent = make_agent(hidden_size=(4,), env="CartPole-v1")
    agent.set(policy=SoftmaxPolicy(), PPO=True, PR=True, rollout_steps=32, batch=8, num_epochs=1, update_batches=2)
    optimizer = framework.optimizers.adam(agent.param, 1e-2)
    result = agent.train(optimizer=optimizer, total_steps=32, window_size_ppo=16, p=0)
    assert result.num_gradient_steps == 4
    with pytest.raises(SettingsError, match="PPO=True has none"):
        agent.train(total_steps=64, window_size=100, p=0)


@BOTH
def test_a_device_is_moved_to_or_refused(framework):
    agent, optimizer = dqn(framework, device="cpu")
    if framework.package == "keras":
        with pytest.raises(SettingsError, match="give device to the agent"):
            agent.train(optimizer=optimizer, episodes=1, p=0)
        return
    agent.train(optimizer=optimizer, episodes=2, p=0)
    agent.set(device="cuda:7")
    with pytest.raises(SettingsError, match="too late"):
        agent.train(episodes=1, p=0)
    other, optimizer = dqn(framework, device="nowhere")
    with pytest.raises(SettingsError, match="device=nowhere cannot be used"):
        other.train(optimizer=optimizer, episodes=1, p=0)


@BOTH
def test_an_optimizer_is_asked_for(framework):
    agent, optimizer = dqn(framework)
    with pytest.raises(SettingsError, match="needs an optimizer"):
        agent.train(episodes=1, p=0)
    agent.optimizer = optimizer
    assert agent.train(episodes=2, p=0).num_gradient_steps == 2
    if framework.package == "keras":
        with pytest.raises(SettingsError, match="train_loss, the first argument, is a metric"):
            agent.train(optimizer, 1)
