"""The chapters of the manuals around the snippets: looking, saving, and agents that bring rewards of their own."""

import importlib
import logging

import gymnasium
import numpy as np
import pytest

from note_rl.errors import NoteRLError, SettingsError
from note_rl.policy import EpsGreedyQPolicy, GreedyQPolicy, SoftmaxPolicy
from note_rl.policy.noise import GaussianWhiteNoiseProcess
from note_rl.seeding import seed_everything
from tests.note_rl.manuals.snippets import DQN_SET, build, train
from tests.note_rl.manuals.test_manuals import SNIPPETS


@pytest.mark.slow_in_keras
@pytest.mark.parametrize("framework", ["keras", "pytorch"])
def test_looking_saving_and_restoring(framework, tmp_path, monkeypatch):
    """Correction: none; windows need a display, so files are written here.

    The manuals' own way to save with pickle is not offered: reading such a file runs whatever it says.
    """
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("MPLBACKEND", "Agg")
    model = build(framework, SNIPPETS["DQN"])
    model.set(num_updates=4)
    train(framework, model, 12, p=0)
    model.visualize_loss("loss.png")
    model.visualize_reward("reward.png")
    model.visualize_reward_loss("both.png")
    model.animate_agent(200, "film.gif")
    model.save_param("param.dat")
    model.save("model.dat")
    restored = build(framework, SNIPPETS["DQN"])
    restored.restore("model.dat")
    assert restored.num_episodes == 12
    other = build(framework, SNIPPETS["DQN"])
    other.restore_param("param.dat")
    obs = np.ones((3, 4), np.float32)
    for one in (restored, other):
        np.testing.assert_array_equal(one.learner.act(obs), model.learner.act(obs))
    from note_rl import nn

    assert set(nn.restore_param("param.dat")) == set(nn.restore_param("model.dat"))
    assert issubclass(type(model), nn.RL if framework == "keras" else nn.RL_pytorch)


@pytest.mark.slow_in_keras  # PPO in Keras: test_manuals.py
@pytest.mark.parametrize("framework", ["keras", "pytorch"])
def test_the_example_of_set(framework, caplog):
    """As printed; only rollouts are shorter, so that a few episodes fill some.

    num_updates is how often each rollout is gone through: 4 * 64 / 64 gradient steps for each.
    """
    printed = {"noise": None, "pool_size": 100000, "batch": 64, "PPO": True, "PR": True, "trial_count": 100}
    model = importlib.import_module(f"note_rl.examples.{framework}.PPO").PPO(4, 128, 2)
    model.set(policy=EpsGreedyQPolicy(eps=0.1), num_updates=4, criterion=500.0, seed=1, rollout_steps=64, **printed)
    assert model.settings.experience.num_epochs == 4
    with caplog.at_level(logging.WARNING):
        result = train(framework, model, 8, p=0)
    assert result.num_gradient_steps == 4 * (result.num_env_steps // 64) > 0
    assert np.isfinite(model.loss_list).all()
    model.set(policy=GreedyQPolicy())
    with pytest.raises(NoteRLError, match=r"the loss of PPO reads log_prob_old, .* use SoftmaxPolicy"):
        train(framework, model, 4, p=0)
    with pytest.raises(SettingsError, match="num_updates=4 and num_epochs=3 both say how often a rollout is gone"):
        model.set(num_epochs=3)
    with pytest.raises(SettingsError, match="belongs to replay"):
        model.set(gradient_steps=4)


def test_hindsight_with_a_custom_reward():
    """Corrections: gym.make('FetchReach-v1') as for HER, and set() needs to know how to explore.

    The reward function as printed takes one pair of goals at a time (`if` on an array); it is then called row by row.
    """
    agents = importlib.import_module("note_rl.agents.pytorch")

    class Reaching(agents.DDPG):
        def reward_done_func(self, achieved_goal, desired_goal):
            done = np.linalg.norm(achieved_goal - desired_goal, axis=-1) < 0.05
            return (0.0 if done else -1.0), done

    seed_everything(1)  # episodes end where the goal is, and some begin near it
    model = Reaching(32, env="note_rl.examples.environments:PointReach-v0")
    with pytest.raises(SettingsError, match="needs a policy"):
        model.set(HER=True, batch=256, pool_size=100000)
    model.set(HER=True, batch=32, pool_size=100000, noise=GaussianWhiteNoiseProcess(), num_updates=2, seed=1)
    assert train("pytorch", model, 3, p=0).num_gradient_steps > 0


def test_several_agents_with_a_custom_reward():
    """Correction: set() needs to know how to explore."""
    module = importlib.import_module("note_rl.examples.pytorch.MADDPG")

    class Team(module.DDPG):
        def reward_done_func_ma(self, rewards, dones):
            return rewards, dones

    model = Team(32)
    model.set(MARL=True, batch=64, policy=SoftmaxPolicy(), num_updates=2)
    assert train("pytorch", model, 8, p=0).num_gradient_steps > 0


@pytest.mark.parametrize("framework", ["keras", "pytorch"])
def test_the_learning_rate_of_the_constructor_is_that_of_the_optimizers_not_given(framework):
    model = build(framework, SNIPPETS["HER"])
    rates = [
        one.param_groups[0]["lr"] if framework == "pytorch" else float(one.learning_rate) for one in model.optimizer
    ]
    np.testing.assert_allclose(rates, [0.005, 0.005], rtol=1e-6)
    model.set(batch=2, num_updates=1)
    assert model.train(episodes=3, p=0, jit_compile=False).num_gradient_steps > 0


@pytest.mark.parametrize("framework", ["keras", "pytorch"])
def test_an_agent_with_a_build_of_its_own_for_workers(framework):
    """The newest Note_rl's `build_`, by which a worker makes what acts alone: workers here make the whole agent."""
    module = importlib.import_module(f"tests.note_rl.manuals.with_build_{framework}")
    model = module.DQN(4, 8, 2, 2)
    model.set(policy=EpsGreedyQPolicy(0.5), num_updates=1, batch=4)
    result = train(framework, model, 4, p=0, pool_network=True, processes=2)
    assert result.num_gradient_steps > 0


def test_an_environment_without_its_time_limit_is_allowed():
    """`gym.make('CartPole-v0').env` takes the limit of 200 steps away; training goes on, episodes only get longer."""
    module = importlib.import_module("note_rl.examples.pytorch.DQN")
    model = module.DQN(4, 8, 2, env=gymnasium.make("CartPole-v1").env)
    model.set(policy=EpsGreedyQPolicy(0.5), num_updates=1, **DQN_SET)
    assert len(train("pytorch", model, 3, p=0).returns) == 3
