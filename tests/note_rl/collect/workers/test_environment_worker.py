"""A worker and its environments."""

import os
from contextlib import nullcontext
from dataclasses import replace

import numpy as np
import pytest

from note_rl.errors import EnvironmentMismatchError, WorkerError
from note_rl.policy import NoisyPolicy
from note_rl.settings import WorkerSettings
from tests.note_rl.collect.counting import Inside, OldGym, Tidy, running_pool
from tests.note_rl.collect.workers.pool_agents import TURNS, agent, workers_left


def test_environments_have_the_same_episodes_whichever_worker_they_belong_to():
    def marks(workers):
        made = agent(workers, num_envs=6)
        with running_pool(made, NoisyPolicy(), seed=6) as (pool, act):
            steps, _ = pool.collect(act, 20)
        return pool._places, steps.obs

    balanced, obs = marks(TURNS)
    drawn, obs_drawn = marks(replace(TURNS, random_places=True))
    three, obs_three = marks(WorkerSettings(processes=3))
    assert balanced == [[0, 1, 2], [3, 4, 5]]
    assert three == [[0, 1], [2, 3], [4, 5]]
    assert drawn != balanced
    assert sorted(np.concatenate(drawn).tolist()) == list(range(6))
    np.testing.assert_array_equal(obs, obs_drawn)
    np.testing.assert_array_equal(obs, obs_three)


def test_each_object_of_a_list_goes_to_one_worker():
    made = agent(TURNS, env=[Inside() for _ in range(3)], num_envs=None, rollout=None)
    made.settings = replace(made.settings, num_envs=None)
    with running_pool(made, NoisyPolicy()) as (pool, act):
        steps, _ = pool.collect(act, 4)
    pids = [set(steps.obs[:, place, 0].tolist()) for place in range(3)]
    assert pids[0] == pids[1] != pids[2]
    assert float(os.getpid()) not in pids[0] | pids[2]
    assert not steps.obs[..., 1].any()  # no framework was imported there


def test_an_environment_that_breaks_the_rules_is_refused_as_in_this_process():
    made = agent(TURNS, env=OldGym, rollout=3)
    with pytest.raises(EnvironmentMismatchError, match=r"^step\(\) of OldGym gave a tuple of 4, .*give them\)$"):
        made.train(total_steps=1000)
    assert workers_left() == []


@pytest.mark.parametrize("fails_at", [None, 2.0])
def test_workers_close_their_environments_and_say_their_last_words(fails_at, tmp_path, capfd):
    made = agent(TURNS, env=lambda: Tidy(str(tmp_path), fails_at=fails_at), rollout=3)
    with nullcontext() if fails_at is None else pytest.raises(WorkerError, match="the bridge has collapsed"):
        made.train(total_steps=36)
    assert workers_left() == []
    assert len(list(tmp_path.iterdir())) == made.settings.num_envs
    assert capfd.readouterr().out.count("closed") == made.settings.num_envs
