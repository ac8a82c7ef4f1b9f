"""`agent.predict`, as people who come from Stable-Baselines3 know it."""

import gymnasium
import numpy as np
import pytest
import torch

from note_rl.agents.pytorch import DQN, PPO
from note_rl.errors import EnvironmentMismatchError, SettingsError
from note_rl.policy import EpsGreedyQPolicy, GaussianPolicy
from tests.note_rl.dictionaries import Signs


def test_one_observation_or_several() -> None:
    torch.manual_seed(7)
    agent = DQN(hidden_size=8)
    env = gymnasium.make("CartPole-v1")
    obs = np.random.default_rng(0).normal(size=(6, 4)).astype(np.float32)
    wanted = agent.learner.act(obs).argmax(1)
    assert len(set(wanted)) == 2
    actions, state = agent.predict(obs)
    assert state is None
    np.testing.assert_array_equal(actions, wanted)
    for one, action in zip(obs, wanted, strict=True):
        found, _ = agent.predict(one, deterministic=True)
        assert found == action
        assert env.action_space.contains(found)
    with pytest.raises(EnvironmentMismatchError, match=r"CartPole-v1 has the shape \[4\].*this one has \[3\]"):
        agent.predict(np.zeros(3))


def test_a_row_where_a_dictionary_is_wanted_is_refused_in_words() -> None:
    agent = DQN(env=Signs, hidden_size=8)
    with pytest.raises(EnvironmentMismatchError, match="a dictionary with 'image', 'sign'; this is a ndarray"):
        agent.predict(np.zeros((2, 37), np.float32))
    with pytest.raises(EnvironmentMismatchError, match="a dictionary with 'image', 'sign'; this is a dict"):
        agent.predict({"sign": np.zeros(1, np.float32)})


def test_exploring_is_that_of_set_and_a_later_set_holds() -> None:
    agent = DQN(hidden_size=8)
    obs = np.zeros((4000, 4), np.float32)
    with pytest.raises(SettingsError, match="set"):
        agent.predict(obs, deterministic=False)
    for eps in (0.5, 0.1):
        agent.set(policy=EpsGreedyQPolicy(eps))
        greedy, explored = (agent.predict(obs, deterministic=one)[0] for one in (True, False))
        assert np.mean(greedy != explored) == pytest.approx(eps / 2, abs=0.03)


def test_another_environment_is_asked_anew_and_normalisation_is_inside() -> None:
    agent = PPO(env="Pendulum-v1", hidden_size=8)
    agent.set(policy=GaussianPolicy(), PPO=True, normalise_obs=True)
    agent.obs_normaliser.update(np.random.default_rng(0).normal(5.0, 2.0, (40, 1, 3)))
    obs = np.random.default_rng(1).normal(5.0, 2.0, (7, 3)).astype(np.float32)
    mean = agent.learner.act(agent.obs_normaliser(obs))[:, :1]
    np.testing.assert_allclose(agent.predict(obs)[0], np.clip(mean, -2.0, 2.0), rtol=1e-5)
    narrow = gymnasium.wrappers.RescaleAction(gymnasium.make("Pendulum-v1"), np.float32(-1e-4), np.float32(1e-4))
    agent.env = narrow
    np.testing.assert_allclose(agent.predict(obs)[0], np.clip(mean, -1e-4, 1e-4), rtol=1e-5)
