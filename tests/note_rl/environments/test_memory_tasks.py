"""Tasks for agents with a memory: what they show, their rewards and their limits."""

import gymnasium
import numpy as np
import pytest

MODULE = "note_rl.examples.memory_tasks"


@pytest.mark.parametrize(
    ("name", "other", "shown", "limit"),
    [
        ("CartPolePositions-v0", "CartPole-v1", [0, 2], 500),
        ("PendulumPositions-v0", "Pendulum-v1", [0, 1], 200),
    ],
)
def test_positions_are_those_of_the_whole_task(name, other, shown, limit):
    env, whole = gymnasium.make(f"{MODULE}:{name}"), gymnasium.make(other)
    assert env.spec.max_episode_steps == limit
    obs, everything = env.reset(seed=3)[0], whole.reset(seed=3)[0]
    whole.action_space.seed(0)
    for _ in range(5):
        np.testing.assert_array_equal(obs, everything[shown])
        assert env.observation_space.contains(obs)
        action = whole.action_space.sample()
        (obs, reward, *_), (everything, other_reward, *_) = env.step(action), whole.step(action)
        assert reward == other_reward


@pytest.mark.parametrize("is_right", [True, False])
def test_a_cue_is_shown_once_and_asked_for_after_the_delay(is_right):
    env = gymnasium.make(f"{MODULE}:RecallCue-v0", delay=4)
    cues = set()
    for seed in range(8):
        first, _ = env.reset(seed=seed)
        cues.add(first[0])
        steps = []
        for _ in range(5):
            action = int(first[0] > 0) if is_right else int(first[0] < 0)
            steps.append(env.step(action))
        assert [obs[0] for obs, *_ in steps] == [0.0] * 5
        assert [float(obs[1]) for obs, *_ in steps] == [0.25, 0.5, 0.75, 1.0, 1.0]
        assert [reward for _, reward, *_ in steps] == [0.0] * 4 + [float(is_right)]
        assert [over for _, _, over, *_ in steps] == [False] * 4 + [True]
    assert cues == {-1.0, 1.0}
