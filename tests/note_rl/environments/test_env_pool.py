"""Environments of EnvPool, by a stand-in with its interface."""

import sys
import types

import numpy as np
import pytest

from note_rl.environments import EnvFactory, training_environments
from note_rl.environments.env_pool import EnvPoolVector
from note_rl.errors import EnvironmentMismatchError
from tests.note_rl.environments.vectors import Numbered, collected


class Pool(Numbered):
    """EnvPool's interface as version 1.2 has it: seeded when made; reset(indices) gives the rows of these only."""

    def __init__(self, num_envs, seed, max_episode_steps=3):
        super().__init__(tuple(range(2, 2 + num_envs)))
        self.seed, self.limit, self.closed_ = seed, max_episode_steps, False
        self.lengths = np.minimum(self.lengths, max_episode_steps)

    def reset(self, env_id=None):
        if env_id is None:
            return super().reset()
        assert env_id.dtype == np.int32
        mask = np.isin(np.arange(self.num_envs), env_id)
        obs, _ = super().reset(options={"reset_mask": mask})
        return obs[env_id], {"env_id": env_id}

    def step(self, actions):
        assert not self.dead.any()
        return super().step(actions)

    def close(self):
        self.closed_ = True


@pytest.fixture
def envpool(monkeypatch):
    made = []

    def make_gymnasium(task, **kwargs):
        assert task == "Count-v0", f"{task} is not supported"
        made.append(Pool(**kwargs))
        return made[-1]

    module = types.ModuleType("envpool")
    module.make_gymnasium = make_gymnasium
    monkeypatch.setitem(sys.modules, "envpool", module)
    return made


def test_environments_of_envpool(envpool):
    steps, _ = collected(training_environments("envpool:Count-v0", 2, seed=5), 12)
    assert steps["obs"][:, :, 0].T.tolist() == [[0, 1] * 6, [0, 1, 2] * 4]
    assert steps["next_obs"][:, :, 0].T.tolist() == [[1, 2] * 6, [1, 2, 3] * 4]
    assert 0 <= envpool[0].seed < 2**31
    assert len(envpool) == 1
    single = EnvFactory("envpool:Count-v0", max_episode_steps=1)()
    assert single.reset(seed=11)[0].tolist() == [0]
    seed = envpool[-1].seed
    single.reset(seed=12)
    assert envpool[-1].seed != seed  # a seed can only be given to a new pool
    single.reset(seed=11)
    assert (envpool[-1].seed, envpool[-1].limit, envpool[-2].closed_) == (seed, 1, True)
    assert single.step(0)[2]
    single.close()
    assert envpool[-1].closed_
    with pytest.raises(EnvironmentMismatchError, match="No-v0 is not supported"):
        EnvPoolVector("envpool:No-v0", 2)
    with pytest.raises(EnvironmentMismatchError, match="cannot be wrapped"):
        training_environments(EnvFactory("envpool:Count-v0", wrappers=[lambda env: env]), 2, seed=0)


def test_envpool_that_is_not_installed_is_named(monkeypatch):
    monkeypatch.setitem(sys.modules, "envpool", None)
    with pytest.raises(EnvironmentMismatchError, match=r"note-rl\[envpool\]"):
        training_environments("envpool:CartPole-v1", 2, seed=0)
