"""The pool of an agent holds what its environments have seen, done and given: by their own journals."""

from typing import Any

import gymnasium
import numpy as np
import pytest
from gymnasium import spaces
from gymnasium.vector import AutoresetMode, SyncVectorEnv
from gymnasium.wrappers import TimeLimit

from note_rl.policy import EpsGreedyQPolicy
from tests.note_rl.frameworks import frameworks

GAMMA = 0.5
NUM_ENVS, TOTAL_STEPS = 2, 60


class Journal(gymnasium.Env[Any, Any]):
    """Shows its number, the episode and the step; keeps a journal of its episodes.

    Episodes take 2, 3, 4, 2 ... steps, and every other one ends by the task, the rest by the clock.
    """

    made: list["Journal"] = []  # noqa: RUF012

    def __init__(self) -> None:
        self.observation_space = spaces.Box(-1, 1e4, (3,), np.float32)
        self.action_space = spaces.Discrete(3)
        self.number = len(self.made)
        self.made.append(self)
        self.episodes: list[list[tuple[Any, ...]]] = []
        self.t = 0

    def shown(self) -> Any:
        return np.array([self.number, len(self.episodes), self.t], np.float32)

    def reset(self, *, seed: int | None = None, options: Any = None) -> Any:
        super().reset(seed=seed)
        self.episodes.append([])
        self.t = 0
        return self.shown(), {}

    def step(self, action: Any) -> Any:
        before = self.shown()
        self.t += 1
        reward = 10.0 * self.t + float(action)
        over = self.t >= 2 + len(self.episodes) % 3
        terminated = over and len(self.episodes) % 2 == 0
        truncated = over and not terminated
        self.episodes[-1].append((before, int(action), reward, self.shown(), terminated))
        return self.shown(), reward, terminated, truncated, {}


def expected(num_frames: int, n: int) -> dict[tuple[float, ...], tuple[Any, ...]]:
    """From the journals, for each step: frames, action, n-step reward, frames behind it, discount."""
    found: dict[tuple[float, ...], tuple[Any, ...]] = {}
    for episode in (one for env in Journal.made for one in env.episodes):
        frames = [step[0] for step in episode] + [step[3] for step in episode[-1:]]
        for t, (obs, action, *_) in enumerate(episode):
            taken = episode[t : t + n]
            reward = sum(GAMMA**k * step[2] for k, step in enumerate(taken))
            discount = GAMMA ** len(taken) * (not taken[-1][4])
            found[tuple(obs)] = (
                stacked(frames, t, num_frames),
                action,
                reward,
                stacked(frames, t + len(taken), num_frames),
                discount,
            )
    return found


def stacked(frames: list[Any], last: int, number: int) -> Any:
    """The first frame stands for those before it."""
    return np.concatenate([frames[max(t, 0)] for t in range(last - number + 1, last + 1)])


def one_step_each() -> gymnasium.Env[Any, Any]:
    return TimeLimit(Journal(), 1)


def vector(mode: AutoresetMode) -> SyncVectorEnv:
    return SyncVectorEnv([Journal] * NUM_ENVS, autoreset_mode=mode)


@pytest.mark.slow_in_keras
@pytest.mark.parametrize("framework", frameworks())
@pytest.mark.parametrize(
    ("env", "num_frames", "n"),
    [
        (Journal, 3, 1),
        (Journal, 1, 3),
        (one_step_each, 1, 1),
        (one_step_each, 3, 3),
        *((mode, 3, 3) for mode in AutoresetMode),
    ],
    ids=lambda value: getattr(value, "name", None),
)
def test_each_transition_is_one_of_the_journal(framework: Any, env: Any, num_frames: int, n: int) -> None:
    Journal.made.clear()
    given = vector(env) if isinstance(env, AutoresetMode) else env
    agent = framework.agents.DQN(hidden_size=4, gamma=GAMMA, frame_stack=num_frames, env=given)
    agent.set(
        policy=EpsGreedyQPolicy(0.7),
        num_envs=NUM_ENVS,
        pool_size=1000,
        learning_starts=1000,
        train_freq=7,
        seed=0,
        num_steps=n,
        frame_stack=num_frames,
    )
    agent.train(optimizer=framework.optimizers.adam(agent.param), total_steps=TOTAL_STEPS, p=0)
    wanted = expected(num_frames, n)
    buffer = agent._trainer.experience.buffer
    read = buffer.sample((8, 250), GAMMA, np.zeros(8, bool), np.random.default_rng(0))
    found = set()
    for place in np.ndindex(8, 250):
        step = tuple(read.obs[place].reshape(-1)[-3:])
        obs, action, reward, next_obs, discount = wanted[step]
        np.testing.assert_array_equal(read.obs[place].reshape(-1), obs)
        np.testing.assert_array_equal(read.next_obs[place].reshape(-1), next_obs)
        assert (int(read.action[place]), float(read.reward[place])) == (action, reward)
        assert float(read.discount[place]) == discount
        found.add(step)
    assert len(buffer) == len(found) == len(wanted) >= TOTAL_STEPS
