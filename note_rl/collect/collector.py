"""Collecting experience in this process."""

from collections.abc import Mapping

import numpy as np

from note_rl.acting import Act
from note_rl.checkpoint import nested, under
from note_rl.collect.base import Collecting
from note_rl.environments import Env, VectorEnvironment
from note_rl.errors import CheckpointError
from note_rl.frames import FrameStack
from note_rl.policy import Policy
from note_rl.settings import Settings
from note_rl.types import Array, Episode, FloatArray, Steps


class Collector(Collecting):
    """Lets a policy act in E environments and keeps account of their episodes.

    Args:
        envs: The environments.
        policy: Chooses actions.
        rng: All randomness of exploration.
        frame_stack: Frames that are shown to the agent together; what is collected holds each of them once.
    """

    def __init__(self, envs: VectorEnvironment, policy: Policy, rng: np.random.Generator, frame_stack: int = 1) -> None:
        self.envs = envs
        self.policy = policy
        self.rng = rng
        self.num_envs = len(envs)
        policy.bind(envs.action_space, len(envs))
        self._frames = FrameStack(frame_stack)
        self._starts = np.ones(len(envs), np.bool_)  # where the next step is the first of an episode
        self._return = np.zeros(len(envs))
        self._length = np.zeros(len(envs), np.int64)

    @property
    def pattern(self) -> Env:  # type: ignore[override]  # nobody sets it
        """The first environment."""
        return self.envs.envs[0]

    def explore_with(self, policy: Policy, settings: Settings) -> None:
        """See `Collecting`."""
        policy.bind(self.envs.action_space, len(self.envs))
        self.policy = policy

    def collect(self, act: Act, num_steps: int | None) -> tuple[Steps, list[Episode]]:
        """Goes on from where the last call stopped.

        Args:
            act: Scores [E, A] for observations [E, *obs].
            num_steps: Steps per environment; None: until an episode ends.

        Returns:
            The steps taken [T, E] and the episodes that ended in them, in order.
        """
        rows = _Rows()
        episodes: list[Episode] = []
        while num_steps is None or len(rows) < num_steps:
            scores = act(self._frames.show(self.envs.obs, self._starts))
            action = self.policy.select(scores, self.rng)
            log_prob = self.policy.log_prob(scores, action)
            obs, reward, next_obs, terminated, ended = self.envs.step(self.policy.for_env(action))
            rows.add((obs, action, reward, next_obs, terminated, ended), log_prob, self.envs.achieved_goal)
            self._return += reward if reward.ndim == 1 else reward.sum(axis=-1)
            self._length += 1
            self._starts = ended
            if ended.any():
                episodes.extend(self._finish(ended))
                self.policy.reset(np.flatnonzero(ended))
                if num_steps is None:
                    break
        return rows.stacked(), episodes

    def _finish(self, ended: Array) -> list[Episode]:
        finished = [
            Episode(float(self._return[index]), int(self._length[index]), int(index)) for index in np.flatnonzero(ended)
        ]
        self._return[ended] = 0.0
        self._length[ended] = 0
        return finished

    def get_state(self) -> dict[str, Array]:
        """Where the environments are, what their running episodes have gathered, and how far exploration has come."""
        return {
            "return": self._return,
            "length": self._length,
            "starts": self._starts,
            **nested("policy", self.policy.get_state()),
            **nested("frames", self._frames.get_state()),
            **self.envs.get_state(),
        }

    def set_state(self, state: Mapping[str, Array]) -> bool:
        """Takes over a stored state; see `Collecting`."""
        if "workers" in state:
            raise CheckpointError(
                f"the checkpoint was written while {int(state['workers'].max()) + 1} worker processes stepped the "
                "environments: train with pool_network=True and as many processes, or take over the parameters only "
                "(restore_param)"
            )
        policy = under("policy", state)
        if policy:
            self.policy.set_state(policy)
        self._frames.set_state(under("frames", state))
        exact = self.envs.set_state(state)
        num_envs = len(self.envs)
        self._return = np.array(state["return"]) if exact else np.zeros(num_envs)
        self._length = np.array(state["length"]) if exact else np.zeros(num_envs, np.int64)
        self._starts = np.array(state["starts"]) if exact else np.ones(num_envs, np.bool_)
        return exact

    def close(self) -> None:
        """Closes all environments."""
        self.envs.close()


class _Rows:
    """The steps of one call, one row per step of all environments."""

    def __init__(self) -> None:
        self._columns: list[tuple[Array, ...]] = []
        self._log_probs: list[FloatArray] = []
        self._achieved: list[FloatArray] = []

    def __len__(self) -> int:
        return len(self._columns)

    def add(self, row: tuple[Array, ...], log_prob: FloatArray | None, achieved_goal: FloatArray | None) -> None:
        self._columns.append(row)
        if log_prob is not None:
            self._log_probs.append(log_prob)
        if achieved_goal is not None:
            self._achieved.append(achieved_goal)

    def stacked(self) -> Steps:
        obs, action, reward, next_obs, terminated, ended = (np.stack(c) for c in zip(*self._columns, strict=True))
        return Steps(
            obs=obs,
            action=action,
            reward=reward,
            next_obs=next_obs,
            terminated=terminated,
            ended=ended,
            log_prob=np.stack(self._log_probs).astype(np.float32) if self._log_probs else None,
            extras={"achieved_goal": np.stack(self._achieved)} if self._achieved else {},
        )
