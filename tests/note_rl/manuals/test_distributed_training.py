"""distributed_training() as manuals 001 to 003 print it: the batch of all replicas first, then optimizer and strategy.

Changed are numbers only: episodes, widths of networks, and processes of a pool. Manual 000, which has keywords, is in
test_distributed.py.
"""

import inspect

import gymnasium
import keras
import pytest
import tensorflow as tf

from note_rl import RL, RL_pytorch, rl
from note_rl.distributed.distributed_arguments import global_batch_first
from note_rl.errors import SettingsError
from note_rl.examples.keras.DDPG_HER import DDPG
from note_rl.examples.keras.DQN import DQN
from note_rl.examples.keras.MADDPG import DDPG as MADDPG
from note_rl.examples.keras.pool_network.DDPG_HER import DDPG as SideBySideDDPG  # noqa: N811
from note_rl.examples.keras.pool_network.DQN import DQN as SideBySideDQN  # noqa: N811
from note_rl.examples.keras.PPO import PPO

KINDS = (tf.distribute.MirroredStrategy, tf.distribute.MultiWorkerMirroredStrategy)


class Short(gymnasium.Wrapper):
    """CartPole of six steps at most."""

    def __init__(self):
        super().__init__(gymnasium.make("CartPole-v1", max_episode_steps=6))


def endless_reach():
    """Episodes of 50 steps each, however near a goal lies to where its episode begins."""
    return gymnasium.make("note_rl.examples.environments:PointReach-v0", reach=0.0)


def strategy_of(kind):
    return kind(["CPU:0"]) if kind is tf.distribute.MirroredStrategy else kind()


@pytest.mark.parametrize(  # test_pool_network has both
    "kind", [KINDS[0], pytest.param(KINDS[1], marks=pytest.mark.slow)]
)
def test_dqn_and_its_variants(kind, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("TF_CONFIG", raising=False)
    strategy = strategy_of(kind)
    GLOBAL_BATCH_SIZE = 16 * strategy.num_replicas_in_sync  # noqa: N806 (the manual's name)

    with strategy.scope():
        model = DQN(4, 8, 2, env=Short)
        optimizer = tf.keras.optimizers.Adam()
    model.set(policy=rl.EpsGreedyQPolicy(0.01), pool_size=10000, batch=8, update_steps=10)
    model.distributed_training(GLOBAL_BATCH_SIZE, optimizer, strategy, 4)
    assert len(model.reward_list) == 4
    assert model.num_gradient_steps > 0
    assert model.batch == GLOBAL_BATCH_SIZE

    # If set criterion.
    model.set(policy=rl.EpsGreedyQPolicy(0.01), pool_size=10000, batch=8, update_steps=10, trial_count=5, criterion=2)
    assert model.settings.experience.batch_size == 8
    model.distributed_training(GLOBAL_BATCH_SIZE, optimizer, strategy, 9)
    assert len(model.reward_list) == 5

    # If save the model at intervals of 2 episodes, with a maximum of 2 saved files; parameters only; best only.
    model.set(trial_count=1, criterion=1e9)
    model.path, model.save_freq, model.max_save_files = "model.dat", 2, 2
    model.distributed_training(GLOBAL_BATCH_SIZE, optimizer, strategy, 4)
    model.path, model.save_param_only = "param.dat", True
    model.distributed_training(GLOBAL_BATCH_SIZE, optimizer, strategy, 2)
    model.path, model.save_best_only, model.max_save_files = "best.dat", True, None
    model.distributed_training(GLOBAL_BATCH_SIZE, optimizer, strategy, num_episodes=2)
    files = sorted(path.name for path in tmp_path.iterdir())
    assert files == ["best.dat", "model-8.dat", "model-9.dat", "param-10.dat", "param-11.dat"]

    model.save_param("last.dat")
    with strategy.scope():
        other = DQN(4, 8, 2, env=Short)
        other.restore_param("last.dat")
    for mine, theirs in zip(model.q_net.trainable_variables, other.q_net.trainable_variables, strict=True):
        assert (mine.numpy() == theirs.numpy()).all()


def on_one_device(make, optimizers):
    strategy = strategy_of(tf.distribute.MirroredStrategy)
    with strategy.scope():
        return strategy, make(), [keras.optimizers.Adam() for _ in range(optimizers)]


@pytest.mark.slow  # the same call with DQN: test_dqn_and_its_variants; PPO without a strategy: test_manuals.py
def test_ppo():
    strategy, model, optimizer = on_one_device(lambda: PPO(4, 8, 2, 0.7, 0.7, env=Short), 2)
    model.set(policy=rl.SoftmaxPolicy(), pool_size=10000, update_steps=32, PPO=True)
    model.distributed_training(16 * strategy.num_replicas_in_sync, optimizer, strategy, 4)
    assert model.num_gradient_steps > 0
    assert model.num_gradient_steps % 20 == 0  # ten passes over two minibatches
    assert model.batch == 16


def test_hindsight():
    strategy, model, optimizer = on_one_device(lambda: DDPG(8, 0.1, 0.98, 0.005, env=endless_reach), 2)
    model.set(noise=rl.GaussianWhiteNoiseProcess(), pool_size=10000, criterion=-5, trial_count=10, HER=True)
    model.distributed_training(64, optimizer, strategy, 2)
    assert model.batch == 64
    assert model.num_gradient_steps > 0


@pytest.mark.slow  # as above, and several agents without a strategy: test_manuals.py
def test_several_agents():
    strategy, model, optimizer = on_one_device(lambda: MADDPG(8, 0.1, 0.98, 0.005), 2)
    model.set(policy=rl.SoftmaxPolicy(), pool_size=3000, trial_count=10, MA=True)
    model.distributed_training(16, optimizer, strategy, 3)
    assert model.num_gradient_steps > 0


@pytest.mark.parametrize(  # a strategy of the other kind: keras/test_served_update.py
    "kind", [KINDS[0], pytest.param(KINDS[1], marks=pytest.mark.slow)]
)
def test_pool_network(kind):
    strategy = strategy_of(kind)
    with strategy.scope():
        multi_worker_model = SideBySideDQN(4, 8, 2, 2)
        optimizer = tf.keras.optimizers.Adam()
    multi_worker_model.set(policy=rl.EpsGreedyQPolicy(0.01), pool_size=10000, batch=8, update_batches=17)
    multi_worker_model.distributed_training(16, optimizer, strategy, num_episodes=4, pool_network=True, processes=2)
    assert multi_worker_model.num_gradient_steps > 0
    assert multi_worker_model.batch == 16


@pytest.mark.slow  # test_hindsight and test_pool_network have one each
def test_hindsight_in_a_pool():
    strategy, model, optimizer = on_one_device(lambda: SideBySideDDPG(8, 0.1, 0.98, 0.005, 2, env=endless_reach), 2)
    model.set(noise=rl.GaussianWhiteNoiseProcess(), pool_size=10000, trial_count=10, HER=True)
    model.distributed_training(64, optimizer, strategy, 2, pool_network=True, processes=2, processes_her=4)
    assert model.num_gradient_steps > 0


def test_the_usage_example_with_its_keywords():
    strategy, agent, (optimizer,) = on_one_device(lambda: DQN(4, 8, 2, env=Short), 1)
    agent.set(policy=rl.EpsGreedyQPolicy(0.01))
    agent.distributed_training(global_batch_size=4, optimizer=optimizer, strategy=strategy, episodes=2)
    assert agent.batch == 4
    with pytest.raises(SettingsError, match="is the batch of all replicas already; give one of them"):
        agent.distributed_training(4, optimizer, strategy, 2, global_batch_size=8)
    with pytest.raises(SettingsError, match="global_batch_size must be at least 1, got 0"):
        agent.distributed_training(0, optimizer, strategy, 2)


def test_a_number_that_stands_first_moves_the_others_up():
    said = []

    class Agent:
        @global_batch_first
        def distributed_training(self, optimizer=None, strategy=None, episodes=None, **named):
            said.append((optimizer, strategy, episodes, named))

    agent = Agent()
    agent.distributed_training(64, "adam", "ddp", 100, p=0)
    agent.distributed_training("adam", "ddp", 100)
    agent.distributed_training(strategy="ddp")
    assert said == [
        ("adam", "ddp", 100, {"p": 0, "global_batch_size": 64}),
        ("adam", "ddp", 100, {}),
        (None, "ddp", None, {}),
    ]
    for base in (RL, RL_pytorch):
        assert next(iter(inspect.signature(base.distributed_training).parameters)) == "self"
        assert "global_batch_size" in inspect.signature(base.distributed_training).parameters
