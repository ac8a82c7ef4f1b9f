"""Wrappers for training only are left out in evaluation, random play and films."""

from functools import partial

import gymnasium
import numpy as np
import pytest
from gymnasium.wrappers import ClipReward, FrameStackObservation, RescaleAction

from note_rl.collect.evaluation import random_policy_returns
from note_rl.environments import EnvFactory, VectorEnvironment, for_evaluation, training_environments
from note_rl.environments.training_only import LifeLoss, SignOfReward, vector_changes
from note_rl.errors import EnvironmentMismatchError
from note_rl.policy import EpsGreedyQPolicy
from tests.note_rl.frameworks import frameworks
from tests.note_rl.small_environments import Counting

gymnasium.register("NoteRLCounting-v0", Counting, kwargs={"length": 4})  # rewards 1 + 2 + 3 + 4


class ThreeLives(Counting):
    """Takes a life in every second step; the game is over with the third."""

    def __init__(self):
        super().__init__(length=6)

    def reset(self, *, seed=None, options=None):
        return super().reset(seed=seed)[0], {"lives": 3}

    def step(self, action):
        obs, reward, terminated, truncated, _ = super().step(action)
        return obs, reward, terminated, truncated, {"lives": 3 - self.step_number // 2}


gymnasium.register("NoteRLThreeLives-v0", ThreeLives)

LIVES = EnvFactory("NoteRLThreeLives-v0", training_wrappers=(LifeLoss, SignOfReward))


def clip(env):
    return ClipReward(env, 0.0, 0.5)


CLIPPED = EnvFactory("NoteRLCounting-v0", training_wrappers=(clip,))


def test_only_the_very_wrappers_say_what_they_do_to_environments_that_are_stepped_together() -> None:
    class Dearer(LifeLoss):
        """Takes something off for a lost life."""

    assert vector_changes([LifeLoss, partial(SignOfReward)]) == [LifeLoss.of_vector, SignOfReward.of_vector]
    assert vector_changes([]) == []
    for other in (Dearer, partial(SignOfReward, env=None), lambda env: env, clip):
        assert vector_changes([LifeLoss, other]) is None


def test_they_are_outside_of_the_others_and_left_out_in_evaluation():
    factory = EnvFactory(
        "NoteRLCounting-v0", wrappers=(lambda env: FrameStackObservation(env, 2),), training_wrappers=(clip,)
    )
    env = factory()
    assert isinstance(env, ClipReward)
    assert isinstance(env.env.env, FrameStackObservation), "within what adds up rewards"
    env = for_evaluation(factory)()
    assert isinstance(env, FrameStackObservation)
    assert [type(one) for one in for_evaluation(["CartPole-v1", factory])] == [str, EnvFactory]
    assert for_evaluation([factory])[0].training_wrappers == ()


def test_random_play_does_without():
    assert random_policy_returns(CLIPPED, 2, 0).tolist() == [10.0, 10.0]


def test_what_is_learned_ends_with_each_life_and_the_episode_with_the_last():
    envs = VectorEnvironment([LIVES(), LIVES()], seed=0)
    rows = [(*envs.step(np.zeros(2, np.int64)), envs.counted, envs.obs[:, 0]) for _ in range(7)]
    _, reward, next_obs, terminated, ended, counted, obs = (np.stack(column) for column in zip(*rows, strict=True))
    for env in (0, 1):
        assert next_obs[:, env, 0].tolist() == [1, 2, 3, 4, 5, 6, 1]
        assert obs[:, env].tolist() == [1, 2, 3, 4, 5, 0, 1]
        assert np.flatnonzero(terminated[:, env]).tolist() == [1, 3, 5]
        assert np.flatnonzero(ended[:, env]).tolist() == [5]
        assert reward[:, env].tolist() == [1.0] * 7
        assert counted[:, env].tolist() == [1, 2, 3, 4, 5, 6, 1]


def test_a_game_is_brought_back_in_its_second_life():
    envs, again = (VectorEnvironment([LIVES()], seed=0) for _ in range(2))
    for _ in range(3):
        envs.step(np.zeros(1, np.int64))
    assert again.set_state(envs.get_state())
    for _ in range(3):
        for one, other in zip(envs.step(np.zeros(1, np.int64)), again.step(np.zeros(1, np.int64)), strict=True):
            np.testing.assert_array_equal(one, other)
        assert envs.counted == again.counted


def test_signs_of_rewards():
    env = SignOfReward(gymnasium.make("Pendulum-v1"))
    env.reset(seed=0)
    assert env.step(np.zeros(1, np.float32))[1] == -1.0
    assert [env.func(reward) for reward in (-200.0, -0.5, 0.0, 0.1, 7)] == [-1.0, -1.0, 0.0, 1.0, 1.0]


def test_own_vector_implementations_are_not_used_with_those_that_are_for_single_environments():
    factory = EnvFactory("CartPole-v1", training_wrappers=(clip,))
    envs = training_environments(factory, 64, 0)
    assert isinstance(envs, VectorEnvironment)
    assert envs.step(np.zeros(64, np.int64))[1].tolist() == [0.5] * 64


@pytest.mark.parametrize(
    ("env_id", "wrapper", "said"),
    [
        (
            "NoteRLCounting-v0",
            lambda env: FrameStackObservation(env, 2),
            r"FrameStackObservation is .*\(2,\).*\(2, 2\)",
        ),
        (
            "Pendulum-v1",
            lambda env: RescaleAction(env, np.float32(-1.0), np.float32(1.0)),
            "RescaleAction is .*actions Box",
        ),
    ],
)
def test_what_changes_what_an_agent_sees_or_does_is_refused(env_id, wrapper, said):
    with pytest.raises(EnvironmentMismatchError, match=said):
        EnvFactory(env_id, training_wrappers=(wrapper,))()


@pytest.mark.parametrize("framework", frameworks())
def test_agents_learn_with_them_and_are_judged_without(framework):
    agent = framework.agents.DQN(env=CLIPPED, hidden_size=(4,))
    agent.set(policy=EpsGreedyQPolicy(0.5), pool_size=50, batch=4, learning_starts=100, train_freq=4, seed=0)
    result = agent.train(optimizer=framework.optimizers.adam(agent.param, 1e-3), total_steps=8, p=0)
    assert result.returns == [10.0, 10.0]
    assert agent.evaluate(2).returns.tolist() == [10.0, 10.0]


@pytest.mark.parametrize("framework", frameworks())
def test_an_agent_may_be_given_another_environment_to_be_judged_in(framework):
    agent = framework.agents.DQN(env=lambda: clip(Counting(4)), hidden_size=(4,))
    assert agent.evaluate(2).returns.tolist() == [2.0, 2.0]
    agent.evaluation_env = lambda: Counting(4)
    assert agent.evaluate(2).returns.tolist() == [10.0, 10.0]
    agent.evaluation_env = "CartPole-v1"
    with pytest.raises(EnvironmentMismatchError, match="evaluation_env is unlike env: observations"):
        agent.evaluate(2)
