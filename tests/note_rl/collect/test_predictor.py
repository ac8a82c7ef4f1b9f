"""`agent.predict`, as people who come from Stable-Baselines3 know it."""

from typing import Any

import gymnasium
import numpy as np
import pytest
import torch
from gymnasium import spaces

from note_rl.agents.pytorch import DDPG, DQN, PPO
from note_rl.collect.policy_runner import PolicyRunner
from note_rl.collect.predictor import Exploring
from note_rl.errors import EnvironmentMismatchError, SettingsError
from note_rl.policy import EpsGreedyQPolicy, GaussianPolicy
from note_rl.policy.noise import OrnsteinUhlenbeckProcess
from tests.note_rl.dictionaries import Signs
from tests.note_rl.frameworks import Framework, frameworks
from tests.note_rl.small_environments import Counting


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


def test_frames_are_one_history_whichever_way_actions_are_chosen(monkeypatch: pytest.MonkeyPatch) -> None:
    agent = DQN(hidden_size=4, frame_stack=3)
    agent.set(policy=EpsGreedyQPolicy(0.5), frame_stack=3)
    shown: list[list[float]] = []
    answer = PolicyRunner.__call__

    def recorded(self: PolicyRunner, obs: Any, *given: Any) -> Any:
        shown.append(obs[0, ::4].tolist())
        return answer(self, obs, *given)

    monkeypatch.setattr(PolicyRunner, "__call__", recorded)
    for number, deterministic in enumerate([True, False, False, True, False]):
        agent.predict(np.full(4, number, np.float32), deterministic=deterministic)
    assert shown == [[0, 0, 0], [0, 0, 1], [0, 1, 2], [1, 2, 3], [2, 3, 4]]


def test_an_episode_that_begins_in_one_way_begins_for_the_noise_too() -> None:
    agent = DDPG(env="Pendulum-v1", hidden_size=4)
    agent.set(noise=OrnsteinUhlenbeckProcess(theta=1e-6, sigma=0.3, dt=1e-12))  # it moves where an episode begins
    obs = np.zeros(3, np.float32)
    agent.predict(obs)
    pushed = [agent.predict(obs, deterministic=False)[0] for _ in range(2)]
    np.testing.assert_allclose(*pushed, atol=1e-4)
    agent.predict(obs, episode_start=True)
    assert abs(agent.predict(obs, deterministic=False)[0] - pushed[1]) > 1e-3


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


@pytest.mark.parametrize(
    ("masks", "message"),
    [
        ([0, 0], "action_masks allows no action"),
        ([1, 0, 1], r"one entry for each of the 2 actions.* got the shape \[3\]"),
        ([[1, 0], [0, 1]], "got 2 of them for 1"),
        ([0.0, -np.inf], "action_masks holds -inf"),
        (1, "got 1 of them for 1|got the shape"),
    ],
)
def test_masks_that_are_none_are_refused(masks, message) -> None:
    agent = DQN(hidden_size=8)
    with pytest.raises(EnvironmentMismatchError, match=message):
        agent.predict(np.zeros(4), action_masks=masks)
    assert agent.predict(np.zeros(4), action_masks=[0, 1])[0] == 1
    assert agent.predict(np.zeros((2, 4)), action_masks=[[0, 1], [1, 0]])[0].tolist() == [1, 0]


@pytest.mark.parametrize(
    "space",
    [gymnasium.spaces.MultiDiscrete([2, 3]), gymnasium.spaces.MultiBinary(3), gymnasium.spaces.Box(-1, 1, (2,))],
)
def test_masks_of_other_actions_are_refused(space) -> None:
    env = Counting()
    env.action_space = space
    agent = PPO(hidden_size=(8,), env=env)
    for masks in ([1, 0, 1, 1, 0], [1, 0], [[True] * 5] * 2):
        with pytest.raises(
            EnvironmentMismatchError, match=r"action_masks are for Discrete actions, .* takes (Mult|Box)"
        ):
            agent.predict(np.zeros(2), action_masks=masks)


def test_what_is_no_observation_is_refused_in_words() -> None:
    agent, dictionaries = DQN(hidden_size=8), DQN(env=Signs, hidden_size=8)
    with pytest.raises(EnvironmentMismatchError, match="these are lists of unlike lengths"):
        agent.predict([[1.0, 2.0], [3.0]])
    with pytest.raises(EnvironmentMismatchError, match=r"has the shape \[4\].*this one has \[0, 4\]"):
        agent.predict(np.zeros((0, 4)))
    with pytest.raises(EnvironmentMismatchError, match=r"episode_start has the shape \[3\], and there are 2"):
        agent.predict(np.zeros((2, 4)), episode_start=[True] * 3)
    space = dictionaries.env().observation_space
    parts = {name: np.stack([one.sample()] * (3 if name == "sign" else 2)) for name, one in space.items()}
    with pytest.raises(EnvironmentMismatchError, match="whose parts are not of one number"):
        dictionaries.predict(parts)


@pytest.mark.parametrize(
    "space",
    [
        gymnasium.spaces.Text(5),
        gymnasium.spaces.OneOf((gymnasium.spaces.Box(-1, 1, (2,)), gymnasium.spaces.Discrete(3))),
    ],
    ids=str,
)
def test_observations_that_are_no_arrays_are_taken_one_by_one(space) -> None:
    class Shows(gymnasium.Env):
        observation_space, action_space = space, gymnasium.spaces.Discrete(2)

    agent = DQN(hidden_size=8, env=Shows())
    for _ in range(3):
        seen = space.sample()
        wanted = agent.learner.act(np.float32(gymnasium.spaces.flatten(space, seen))[None]).argmax()
        assert agent.predict(seen)[0] == wanted


@pytest.mark.parametrize("framework", frameworks())
@pytest.mark.parametrize(("kind", "options"), [("DQN", {"values": "quantiles", "num_quantiles": 3}), ("CrossQ", {})])
def test_answers_are_those_of_weights_that_were_changed_since(framework: Framework, kind: str, options: Any) -> None:
    """By hand, or by another agent with the same network: a predictor keeps nothing of former weights."""
    env = "CartPole-v1" if kind == "DQN" else "Pendulum-v1"
    agent = getattr(framework.agents, kind)(env=env, hidden_size=(4,), **options)
    obs = np.random.default_rng(0).normal(size=(50, 4 if kind == "DQN" else 3)).astype(np.float32)
    former, _ = agent.predict(obs)
    for parameter in agent.param if kind == "DQN" else agent.param[0]:
        framework.set(parameter, -3.0 * framework.array(parameter))
    if kind == "DQN":  # evaluation.policy=sampled makes such a one by itself
        agent.set(policy=EpsGreedyQPolicy(0.0))
        sampled = Exploring(agent, spaces.Discrete(2), np.random.default_rng(0))(obs, np.ones(50, np.bool_))
        np.testing.assert_array_equal(sampled, agent.learner._framework_act(obs).argmax(1))
    changed, _ = agent.predict(obs)
    assert not np.array_equal(changed, former)
    agent._predictor = None
    np.testing.assert_array_equal(changed, agent.predict(obs)[0])
