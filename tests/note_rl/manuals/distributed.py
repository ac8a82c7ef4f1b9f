"""Manual 000, "Distributed Training (TensorFlow)", as it is printed but for the number of episodes.

python -m tests.note_rl.manuals.distributed CHAPTER FILE: what came of it, as JSON. Where there are several processes,
TF_CONFIG says which one this is. The manual's strategies are those of machines with two GPUs; here, of a CPU in two.
"""

import json
import os
import sys
from pathlib import Path

import tensorflow as tf

from note_rl.examples.keras.DQN import DQN
from note_rl.examples.keras.pool_network.DQN import DQN as SideBySideDQN  # noqa: N811 (the manual has two of this name)
from note_rl.examples.keras.PPO import PPO
from note_rl.policy import EpsGreedyQPolicy, SoftmaxPolicy
from note_rl.rl import serve

EPISODES = 24


def two_devices():
    whole = tf.config.list_physical_devices("CPU")[0]
    tf.config.set_logical_device_configuration(whole, [tf.config.LogicalDeviceConfiguration()] * 2)
    return tf.distribute.MirroredStrategy(["CPU:0", "CPU:1"], cross_device_ops=tf.distribute.ReductionToOneDevice())


def mirrored(strategy=None, episodes=EPISODES):
    """MirroredStrategy (Multi-GPU, single machine)."""
    strategy = strategy or two_devices()
    batch_per_replica = 64
    global_batch = batch_per_replica * strategy.num_replicas_in_sync

    with strategy.scope():
        model = DQN(state_dim=4, hidden_size=128, action_dim=2)
        optimizer = tf.keras.optimizers.Adam()

    model.set(policy=EpsGreedyQPolicy(eps=0.01), pool_size=10000, batch=global_batch, update_steps=10)
    model.distributed_training(optimizer=optimizer, strategy=strategy, episodes=episodes, pool_network=False)
    return model


def ppo():
    """PPO with MirroredStrategy."""
    strategy = two_devices()
    global_batch = 64 * strategy.num_replicas_in_sync

    with strategy.scope():
        model = PPO(state_dim=4, hidden_size=128, action_dim=2, clip=0.7, entropy_coef=0.7)
        optimizer = [tf.keras.optimizers.Adam(1e-4), tf.keras.optimizers.Adam(5e-3)]

    model.set(policy=SoftmaxPolicy(), pool_size=10000, batch=global_batch, update_steps=1000, PPO=True)
    model.distributed_training(optimizer=optimizer, strategy=strategy, episodes=4 * EPISODES, pool_network=False)
    return model


def pool_network():
    """Pool Network + MirroredStrategy, then the example of RL.distributed_training with all it names."""
    strategy = two_devices()
    global_batch = 64 * strategy.num_replicas_in_sync

    with strategy.scope():
        model = SideBySideDQN(state_dim=4, hidden_size=128, action_dim=2, processes=7)
        optimizer = tf.keras.optimizers.Adam()

    model.set(policy=EpsGreedyQPolicy(eps=0.01), pool_size=10000, batch=global_batch, update_batches=17)
    model.distributed_training(
        optimizer=optimizer, strategy=strategy, episodes=EPISODES, pool_network=True, processes=7
    )
    train_loss = tf.keras.metrics.Mean()
    model.distributed_training(
        train_loss=train_loss,
        strategy=strategy,
        episodes=EPISODES,
        pool_network=True,
        parallel_store_and_training=True,
        processes=7,
        jit_compile=True,
    )
    assert train_loss.result() > 0
    return model


def multi_worker():
    """MultiWorkerMirroredStrategy (Multi-machine)."""
    tf_config = json.loads(os.environ["TF_CONFIG"])

    strategy = tf.distribute.MultiWorkerMirroredStrategy()
    per_worker_batch = 64
    num_workers = len(tf_config["cluster"]["worker"])
    global_batch = per_worker_batch * num_workers

    with strategy.scope():
        model = SideBySideDQN(state_dim=4, hidden_size=128, action_dim=2, processes=7)
        optimizer = tf.keras.optimizers.Adam()

    model.set(policy=EpsGreedyQPolicy(eps=0.01), pool_size=10000, batch=global_batch, update_batches=17)
    model.distributed_training(
        optimizer=optimizer, strategy=strategy, num_episodes=EPISODES, pool_network=True, processes=7
    )
    return model


def parameter_server():
    """ParameterServerStrategy; TensorFlow needs a cluster, and the processes beside this one."""
    if serve():
        sys.exit()
    strategy = tf.distribute.experimental.ParameterServerStrategy(
        tf.distribute.cluster_resolver.TFConfigClusterResolver()
    )
    with strategy.scope():
        rl_agent = SideBySideDQN(state_dim=4, hidden_size=128, action_dim=2, processes=16)
        rl_agent.optimizer = tf.keras.optimizers.Adam()
    rl_agent.set(policy=EpsGreedyQPolicy(eps=0.01), pool_size=10000, batch=64, update_batches=17)
    train_loss = tf.keras.metrics.Mean()

    rl_agent.distributed_training(train_loss=train_loss, strategy=strategy, num_episodes=2 * EPISODES, processes=16)
    assert train_loss.result() > 0
    return rl_agent


def outcome(model):
    return {
        "episodes": len(model.reward_list),
        "gradient_steps": model.num_gradient_steps,
        "losses": [float(loss) for loss in model.loss_list if loss == loss],
        "weights": sum(float(abs(variable.numpy()).sum()) for group in model.learner.groups for variable in group),
    }


if __name__ == "__main__":
    chapters = (mirrored, ppo, pool_network, multi_worker, parameter_server)
    trained = {chapter.__name__: chapter for chapter in chapters}[sys.argv[1]]()
    Path(sys.argv[2]).write_text(json.dumps(outcome(trained)))
