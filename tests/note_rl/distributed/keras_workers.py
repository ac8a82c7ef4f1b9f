"""One of two workers of manual 000 that train together: python -m tests.note_rl.distributed.keras_workers RANK ...

Arguments: its rank, the addresses of both workers, the folder that files go to, and "train", or
"wait": then training has no end, and a file says that it has begun.
"""

import json
import os
import sys
from pathlib import Path

import numpy as np
import tensorflow as tf

from note_rl.agents.keras import DQN
from note_rl.distributed import channel
from note_rl.errors import PeerError
from note_rl.learners.base import parameter_groups
from note_rl.optimizers.keras import adam
from note_rl.policy import EpsGreedyQPolicy
from note_rl.seeding import seed_everything
from note_rl.training.callbacks import Callback

REPLAY = {"pool_size": 200, "train_freq": 8, "num_updates": 4, "learning_starts": 32, "update_batches": 4}
PER_WORKER_BATCH = 8


def made():
    seed_everything(0)
    model = DQN(hidden_size=(8,))
    model.set(policy=EpsGreedyQPolicy(0.2), **REPLAY, batch=2 * PER_WORKER_BATCH, PR=True, max_grad_norm=0.05, seed=1)
    return model, adam(model.param, 1e-3)


class Telling(Callback):
    def __init__(self, folder):
        self.folder = folder

    def on_phase_end(self, phase, logs):
        if phase == 8:
            (self.folder / "training").touch()


def keep(path, model, result):
    variables = [variable for group in parameter_groups(model.param) for variable in group]
    parameters = np.concatenate([variable.numpy().ravel() for variable in variables])
    np.savez(path, parameters=parameters, losses=result.losses, steps=result.num_env_steps)


def main(rank, addresses, folder, how):
    os.environ["TF_CONFIG"] = json.dumps({"cluster": {"worker": addresses}, "task": {"type": "worker", "index": rank}})
    strategy = tf.distribute.MultiWorkerMirroredStrategy()
    with strategy.scope():
        model, optimizer = made()
    if how == "wait":
        channel.SILENCE_S = 5.0
        try:
            model.distributed_training(optimizer, strategy, total_steps=10**8, callbacks=Telling(folder), p=0)
        except PeerError as error:
            (folder / "said").write_text(str(error))
            os._exit(3)
    result = model.distributed_training(optimizer=optimizer, strategy=strategy, num_episodes=8, pool_network=False, p=0)
    keep(folder / f"{rank}.npz", model, result)
    if rank == 0:
        alone, optimizer = made()
        keep(folder / "alone.npz", alone, alone.train(optimizer=optimizer, episodes=8, jit_compile=False, p=0))


if __name__ == "__main__":
    main(int(sys.argv[1]), sys.argv[2:4], Path(sys.argv[4]), sys.argv[5])
