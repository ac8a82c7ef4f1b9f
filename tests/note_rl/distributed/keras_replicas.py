"""Trains agents alone and on two replicas of one CPU, in a process of its own: TensorFlow settles its devices once.

python -m tests.note_rl.distributed.keras_replicas FILE [further]: what they came to, as .npz; `further` takes a minute.
"""

import math
import sys
from pathlib import Path

import numpy as np
import tensorflow as tf

from note_rl.agents.keras import DQN, PPO
from note_rl.errors import NoteRLError
from note_rl.learners.base import parameter_groups
from note_rl.optimizers.keras import adam
from note_rl.policy import EpsGreedyQPolicy, SoftmaxPolicy
from note_rl.seeding import seed_everything
from note_rl.training.checkpoint import read_checkpoint

CLIP = 0.05  # so low that it always acts: averages are taken before
REPLAY = {"batch": 16, "pool_size": 200, "train_freq": 8, "num_updates": 4, "learning_starts": 32}
STEPS = 96


def dqn():
    agent = DQN(hidden_size=(8,))
    agent.set(policy=EpsGreedyQPolicy(0.2), **REPLAY, PR=True, update_batches=4, max_grad_norm=CLIP, seed=1)
    return agent, adam(agent.param, 1e-3)


def ppo():
    agent = PPO(hidden_size=(8,))
    rollouts = {"rollout_steps": 32, "num_epochs": 3, "batch": 16}
    agent.set(policy=SoftmaxPolicy(), PPO=True, **rollouts, max_grad_norm=CLIP, seed=1)
    return agent, [adam(agent.param[0], 1e-3), adam(agent.param[1], 5e-3)]


def arrays(agent):
    return [variable.numpy() for group in parameter_groups(agent.param) for variable in group]


def on_each(strategy, agent):
    """The parameters as the two replicas hold them."""
    variables = [getattr(one, "value", one) for group in agent.learner.groups for one in group]
    held = [strategy.experimental_local_results(variable) for variable in variables]
    return [np.concatenate([np.ravel(values[replica]) for values in held]) for replica in range(2)]


def refusals(strategy):
    """Errors of calls that cannot be distributed."""
    agent, optimizer = dqn()
    for given in (strategy, "ddp", tf.distribute.OneDeviceStrategy("CPU:0")):
        try:
            agent.distributed_training(optimizer, given, total_steps=STEPS, p=0)
        except NoteRLError as error:
            yield str(error)


def configured(folder):
    """Results of runs of TD3, whose actor waits: one by itself, and one shared that is stopped on its way."""
    from tests.tuner.runs.test_stops import Stopping, attempt, config_of  # takes a second
    from tuner.trial.folder import CHECKPOINT_FILE

    agent = ("td3", "keras", "training.jit_compile=false", f"training.max_grad_norm={CLIP}", "training.total_steps=120")
    assert attempt(config_of(*agent), folder / "alone", Stopping(), math.inf)
    shared, reporter = config_of(*agent, "strategy=mirrored"), Stopping()
    assert not attempt(shared, folder / "shared", reporter, 6)
    assert attempt(shared, folder / "shared", reporter, math.inf)
    for name in ("alone", "shared"):
        arrays_of_run = read_checkpoint(folder / name / CHECKPOINT_FILE)[0]
        learned = sorted(key for key in arrays_of_run if key.startswith(("learner/agent", "learner/optimizer")))
        yield f"run {name}", np.concatenate([np.ravel(arrays_of_run[key]) for key in learned])


def main(path, further):
    tf.config.optimizer.set_experimental_options({"disable_meta_optimizer": True})  # of graphs that run a few times
    first = tf.config.list_physical_devices("CPU")[0]
    tf.config.set_logical_device_configuration(first, [tf.config.LogicalDeviceConfiguration()] * 2)
    reduce = tf.distribute.ReductionToOneDevice()
    strategy = tf.distribute.MirroredStrategy(["CPU:0", "CPU:1"], cross_device_ops=reduce)
    found = {"refusals": list(refusals(strategy))}
    pool = {"pool_network": True, "processes": 2} if further else {}
    for make, options in ((dqn, pool), *([(ppo, {})] if further else [])):
        name = make.__name__
        seed_everything(0)
        alone, optimizer = make()
        expected = alone.train(optimizer=optimizer, total_steps=STEPS, jit_compile=False, p=0, **options)
        seed_everything(0)
        with strategy.scope():
            agent, optimizer = make()
        result = agent.distributed_training(optimizer, strategy, total_steps=STEPS, p=0, **options)
        for which, trained, came_to in (("alone", alone, expected), ("together", agent, result)):
            found[f"{name} {which} parameters"] = np.concatenate([values.ravel() for values in arrays(trained)])
            found[f"{name} {which} losses"] = came_to.losses
            found[f"{name} {which} steps"] = came_to.num_gradient_steps
        found[f"{name} norm"] = max(value for key, value in agent.reported.items() if key.startswith("gradient_norm"))
        found[f"{name} replica 0"], found[f"{name} replica 1"] = on_each(strategy, agent)
        if make is dqn:
            found["priorities"] = [one._trainer.experience.priorities() for one in (alone, agent)]
    if further:
        found |= dict(configured(Path(path).parent))
    np.savez(path, **found)


if __name__ == "__main__":
    main(sys.argv[1], sys.argv[2:] == ["further"])
