"""Episodes without an end are cut off in evaluations, and said in training."""

from typing import Any

import gymnasium
import pytest
import torch
from gymnasium import spaces

from note_rl.agents.pytorch import DQN
from note_rl.collect.evaluation import evaluate, random_policy_returns
from note_rl.environments.long_episodes import LONGEST, limited
from note_rl.policy import EpsGreedyQPolicy
from tests.note_rl.environments.odd_environments import Endless, Plain
from tests.note_rl.environments.ways import first
from tests.note_rl.frameworks import frameworks


def test_an_episode_of_an_evaluation_ends(short: pytest.LogCaptureFixture) -> None:
    result = evaluate(first, Endless, 12, seed=0)
    assert (result.returns.tolist(), result.lengths.tolist()) == ([30.0] * 12, [30] * 12)
    told = short.text
    assert told.count("Endless has not ended after 20 steps, and there is no time limit: it is cut off after 30") == 1
    assert told.count("Endless was cut off after 30 steps, and its return until then counts; gymnasium.") == 1


def test_a_random_policy_plays_no_longer_than_is_said(short: pytest.LogCaptureFixture) -> None:
    assert random_policy_returns(Endless, 3, seed=0).tolist() == [20.0] * 3
    cut = "an episode of the random policy in Endless was cut off after 20 steps, and its return until then counts."
    assert short.text.count(cut) == 1
    assert "Episodes of an agent go on for up to 30 steps, so their returns may be on another scale; " in short.text
    assert "has not ended" not in short.text


def test_an_episode_of_a_hundred_thousand_steps_is_played_whole(short: pytest.LogCaptureFixture) -> None:
    class Long(gymnasium.Env[Any, Any]):
        observation_space = spaces.Discrete(1)
        action_space = spaces.Discrete(1)
        answer: Any = (0, 1.0, False, False, {})

        def step(self, action: Any) -> Any:
            return self.answer

    long = limited(Long())
    assert LONGEST == 1_000_000
    assert not any(long.step(0)[3] for _ in range(29)), "the fixture cuts off after 30"
    assert long.step(0)[3]
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("note_rl.environments.long_episodes.LONGEST", LONGEST)
        assert not any(long.step(0)[3] for _ in range(100_000))


def test_a_time_limit_is_heeded_however_long(short: pytest.LogCaptureFixture) -> None:
    result = evaluate(first, lambda: gymnasium.wrappers.TimeLimit(Endless(), 45), 2, seed=0)
    assert result.lengths.tolist() == [45, 45]
    assert evaluate(first, Plain, 2, seed=0).lengths.tolist() == [10, 10]
    assert short.text == ""


class EnoughError(Exception):
    """Ends what would not end."""


class Stuck(Endless):
    """Ends everything at its 60th step."""

    def step(self, action: Any) -> Any:
        if self.t == 60:
            raise EnoughError
        return super().step(action)


@pytest.mark.parametrize("framework", frameworks())
@pytest.mark.parametrize(
    ("budget", "settings", "said"),
    [
        ({"episodes": 3}, {"train_freq": 8}, "train(episodes=3) goes on until 3 have: total_steps="),
        ({"total_steps": 30}, {}, "waits for the end of one: train_freq (buffer.train_freq) says after how many steps"),
    ],
    ids=["episodes", "phases"],
)
def test_training_that_waits_for_the_end_of_an_episode_says_so(
    short: pytest.LogCaptureFixture, framework: Any, budget: Any, settings: Any, said: str
) -> None:
    agent = framework.agents.DQN(hidden_size=4, env=Stuck)
    agent.set(policy=EpsGreedyQPolicy(0.5), num_envs=2, learning_starts=1000, seed=0, **settings)
    with pytest.raises(EnoughError):
        agent.train(optimizer=framework.optimizers.adam(agent.param), p=0, **budget)
    assert short.text.count("no episode of training has ended in 20 steps of each environment, and") == 1
    assert said in short.text


@pytest.mark.parametrize(("env", "budget"), [(Endless, {"total_steps": 100}), (Plain, {"episodes": 12})])
def test_training_that_waits_for_nothing_says_nothing(short: pytest.LogCaptureFixture, env: Any, budget: Any) -> None:
    agent = DQN(hidden_size=4, env=env)
    agent.set(policy=EpsGreedyQPolicy(0.5), num_envs=2, learning_starts=1000, train_freq=8, seed=0)
    agent.train(torch.optim.Adam(agent.param), p=0, **budget)
    assert "no episode" not in short.text
