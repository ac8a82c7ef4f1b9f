"""What is meant for training only is not met in evaluation, by random play or in films."""

import gymnasium
import numpy as np
import pytest
from gymnasium.wrappers import ClipReward, FrameStackObservation, RescaleAction

from note_rl.collect.evaluation import random_policy_returns
from note_rl.environments import EnvFactory, VectorEnvironment, for_evaluation, training_environments
from note_rl.errors import EnvironmentMismatchError
from note_rl.policy import EpsGreedyQPolicy
from tests.note_rl.frameworks import frameworks
from tests.note_rl.small_environments import Counting

gymnasium.register("NoteRLCounting-v0", Counting, kwargs={"length": 4})  # rewards 1 + 2 + 3 + 4


def clip(env):
    return ClipReward(env, 0.0, 0.5)


CLIPPED = EnvFactory("NoteRLCounting-v0", training_wrappers=(clip,))


def test_they_are_outside_of_the_others_and_left_out_in_evaluation():
    factory = EnvFactory(
        "NoteRLCounting-v0", wrappers=(lambda env: FrameStackObservation(env, 2),), training_wrappers=(clip,)
    )
    env = factory()
    assert isinstance(env, ClipReward)
    assert isinstance(env.env, FrameStackObservation)
    env = for_evaluation(factory)()
    assert isinstance(env, FrameStackObservation)
    assert [type(one) for one in for_evaluation(["CartPole-v1", factory])] == [str, EnvFactory]
    assert for_evaluation([factory])[0].training_wrappers == ()


def test_random_play_does_without():
    assert random_policy_returns(CLIPPED, 2, 0).tolist() == [10.0, 10.0]


def test_own_vector_implementations_are_not_used_with_them():
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
    assert result.returns == [2.0, 2.0]
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
