"""Small tasks of which every step, prior and value stands in a table."""

from dataclasses import dataclass

import numpy as np

from note_rl.tree_search import Simulated


@dataclass(frozen=True)
class Table:
    """States are numbers, and are shown as they are, [B, 1].

    Attributes:
        next_state, reward, terminated: Of each state and action. [S, A]
        prior: Of each state and action. [S, A]
        value: Of each state. [S]
    """

    next_state: np.ndarray
    reward: np.ndarray
    terminated: np.ndarray
    prior: np.ndarray
    value: np.ndarray

    def begin(self, obs):
        return obs[:, 0].astype(np.int64)

    def step(self, states, action):
        reached = self.next_state[states, action]
        ends = self.terminated[states, action]
        return Simulated(reached, reached[:, None].astype(np.float32), self.reward[states, action], ends)

    def evaluate(self, obs):
        states = obs[:, 0].astype(np.int64)
        return self.prior[states], self.value[states]


def random_table(num_states=30, num_actions=3, seed=0):
    """Rewards and values of any sign, and one step in six that ends the task."""
    rng = np.random.default_rng(seed)
    shape = (num_states, num_actions)
    return Table(
        next_state=rng.integers(num_states, size=shape),
        reward=rng.normal(size=shape),
        terminated=rng.random(shape) < 1 / 6,
        prior=rng.dirichlet(np.ones(num_actions), num_states),
        value=3.0 * rng.normal(size=num_states),
    )


TWO_WAYS = Table(  # action 0 leads from 0 to 1, and from there it ends the task with a reward of 3
    next_state=np.array([[1, 2], [2, 2], [2, 2]]),
    reward=np.array([[1.0, 0.0], [3.0, 0.0], [0.0, 0.0]]),
    terminated=np.array([[False, False], [True, False], [False, False]]),
    prior=np.array([[0.75, 0.25], [0.5, 0.5], [0.5, 0.5]]),
    value=np.array([0.0, 2.0, 2.0]),
)
ROOT = np.zeros((1, 1), np.float32)
