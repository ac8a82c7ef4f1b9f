"""A collector of recorded steps, for runs in which no environment is stepped."""

from collections.abc import Mapping

import numpy as np

from note_rl.collect.base import Collecting
from note_rl.collect.policy_runner import PolicyRunner
from note_rl.environments import EnvLike, as_factory, flat_observations
from note_rl.environments.goals import goal_layout
from note_rl.learners.base import Learner
from note_rl.policy import Policy
from note_rl.settings import Settings
from note_rl.types import Array, Episode, Steps


class RecordedCollector(Collecting):
    """Shows recorded steps, in order and again and again, as if they were taken now; no environment is stepped.

    They are for counts and running moments: what is learned from is the pool, which holds all of them. The episodes
    in them are those of other agents, and not reported.

    Args:
        recorded: The steps, [T, E].
        env: Where they were taken.
        policy: How the agent would explore.
    """

    def __init__(self, recorded: Steps, env: EnvLike, policy: Policy) -> None:
        probe = flat_observations(as_factory(env)())
        self.action_space, self.observation_space = probe.action_space, probe.observation_space
        self.goal_layout = goal_layout(probe)
        probe.close()
        self.num_envs = recorded.ended.shape[1]
        policy.bind(self.action_space, self.num_envs)
        self._recorded = recorded
        self._position = 0

    def collect(self, act: PolicyRunner[Learner], num_steps: int | None) -> tuple[Steps, list[Episode]]:
        """The next rows; where they are to reach to the end of an episode, up to one in the first environment."""
        length = len(self._recorded.ended)
        if num_steps is None:
            ends = np.flatnonzero(self._recorded.ended[self._position :, 0])
            num_steps = int(ends[0]) + 1  # the last row ends all of them
        rows = (self._position + np.arange(num_steps)) % length
        self._position = (self._position + num_steps) % length
        recorded = self._recorded
        steps = Steps(
            recorded.obs[rows],
            recorded.action[rows],
            recorded.reward[rows],
            recorded.next_obs[rows],
            recorded.terminated[rows],
            recorded.ended[rows],
        )
        return steps, []

    def explore_with(self, policy: Policy, settings: Settings) -> None:
        """See `Collecting`."""
        policy.bind(self.action_space, self.num_envs)

    def get_state(self) -> dict[str, Array]:
        """How far it has got, as environments would tell it: `episode` is the row that comes next."""
        return {
            "episode": np.full(self.num_envs, self._position, np.int64),
            "return": np.zeros(self.num_envs),
            "length": np.zeros(self.num_envs, np.int64),
            "starts": np.ones(self.num_envs, np.bool_),
            "obs": self._recorded.obs[self._position],
        }

    def set_state(self, state: Mapping[str, Array]) -> bool:
        """Goes on from there."""
        self._position = int(state["episode"][0]) % len(self._recorded.ended)
        return True

    def close(self) -> None:
        """Nothing is open."""
