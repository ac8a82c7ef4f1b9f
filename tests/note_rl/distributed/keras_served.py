"""One process of a ParameterServerStrategy: python -m tests.note_rl.distributed.keras_served ...

TF_CONFIG says which process it is. Arguments: the folder that files go to, and "train", or "wait": then training has no
end, and each training phase is reported by a file.
"""

import os
import sys
from pathlib import Path

import numpy as np
import tensorflow as tf

from note_rl.agents.keras import DQN, PPO, TRPO
from note_rl.distributed.keras.server import serve
from note_rl.errors import NoteRLError, PeerError
from note_rl.learners.base import parameter_groups
from note_rl.optimizers.keras import adam
from note_rl.policy import EpsGreedyQPolicy, SoftmaxPolicy
from note_rl.seeding import seed_everything
from note_rl.settings import Adaptive
from note_rl.training.callbacks import Callback

CLIP = 0.05
REPLAY = {"batch": 16, "pool_size": 200, "train_freq": 8, "learning_starts": 32, "update_batches": 4}


def dqn(**settings):
    seed_everything(0)
    agent = DQN(hidden_size=(8,))
    agent.set(policy=EpsGreedyQPolicy(0.2), **{**REPLAY, **settings}, PR=True, max_grad_norm=CLIP, seed=1)
    return agent, adam(agent.param, 1e-3)


def ppo():
    seed_everything(0)
    agent = PPO(hidden_size=(8,))
    rollouts = {"rollout_steps": 32, "num_epochs": 1, "batch": 64}
    agent.set(policy=SoftmaxPolicy(), PPO=True, **rollouts, num_envs=2, max_grad_norm=CLIP, seed=1)
    return agent, [adam(agent.param[0], 1e-3), adam(agent.param[1], 5e-3)]


def one_step_at_a_time():
    """DQN whose phases have one step: workers take turns, so that the numbers are those of one process."""
    return dqn(num_updates=1, train_freq=2, learning_starts=16)


def several_at_once():
    return dqn(num_updates=8)


class Telling(Callback):
    def __init__(self, folder):
        self.folder = folder

    def on_phase_end(self, phase, logs):
        (self.folder / "phase").write_text(str(phase))


def parameters(agent):
    return np.concatenate([variable.numpy().ravel() for group in parameter_groups(agent.param) for variable in group])


def refusals(strategy):
    """Errors of calls that cannot be distributed."""
    outside = one_step_at_a_time()
    with strategy.scope():
        adapted = dqn(num_updates=1, adaptive=Adaptive(signals=["priority_ess"], parameters={"batch_size": {}}))
        alone = TRPO(hidden_size=(8,))
        alone.set(policy=SoftmaxPolicy(), PPO=True, rollout_steps=32)
    for agent, optimizer in (outside, adapted, (alone, None)):
        try:
            agent.distributed_training(optimizer, strategy, num_episodes=1, p=0)
        except NoteRLError as error:
            yield str(error)


def main(folder, how):
    if serve():
        return
    strategy = tf.distribute.experimental.ParameterServerStrategy(
        tf.distribute.cluster_resolver.TFConfigClusterResolver()
    )
    if how == "wait":
        with strategy.scope():
            agent, optimizer = several_at_once()
        try:
            agent.distributed_training(optimizer, strategy, total_steps=10**8, callbacks=Telling(folder), p=0)
        except PeerError as error:
            (folder / "said").write_text(str(error))
            os._exit(3)
    found = {"refusals": list(refusals(strategy))}
    for make in (one_step_at_a_time, ppo, several_at_once):
        with strategy.scope():
            agent, optimizer = make()
        result = agent.distributed_training(optimizer, strategy, num_episodes=4, p=0)
        alone, own = make()
        expected = alone.train(optimizer=own, episodes=4, jit_compile=False, p=0)
        for which, trained, came_to in (("served", agent, result), ("alone", alone, expected)):
            found[f"{make.__name__} {which} parameters"] = parameters(trained)
            found[f"{make.__name__} {which} losses"] = came_to.losses
            found[f"{make.__name__} {which} steps"] = came_to.num_gradient_steps
        found[f"{make.__name__} counted"] = [int(one.iterations.numpy()) for one, _ in agent.learner._optimizers]
        found[f"{make.__name__} norm"] = max(v for k, v in agent.reported.items() if k.startswith("gradient_norm"))
    agent.save(folder / "saved", save_data=False)
    np.savez(folder / "found.npz", **found)


if __name__ == "__main__":
    main(Path(sys.argv[1]), sys.argv[2])
