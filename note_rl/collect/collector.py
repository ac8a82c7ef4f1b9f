"""Collecting experience in this process."""

from collections.abc import Callable

import numpy as np

from note_rl.environments import VectorEnvironment
from note_rl.policy import Policy
from note_rl.types import Array, Episode, FloatArray, Steps

Act = Callable[[Array], FloatArray]


class Collector:
    """Lets a policy act in E environments and keeps account of their episodes."""

    def __init__(self, envs: VectorEnvironment, policy: Policy, rng: np.random.Generator) -> None:
        self.envs = envs
        self.policy = policy
        self.rng = rng
        self._return = np.zeros(len(envs))
        self._length = np.zeros(len(envs), np.int64)

    def collect(self, act: Act, num_steps: int | None) -> tuple[Steps, list[Episode]]:
        """Goes on from where the last call stopped.

        Args:
            act: Scores [E, A] for observations [E, *obs].
            num_steps: Steps per environment; None: until an episode ends.

        Returns:
            The steps taken [T, E] and the episodes that ended in them, in order.
        """
        rows: list[tuple[Array, ...]] = []
        log_probs: list[FloatArray] = []
        episodes: list[Episode] = []
        while num_steps is None or len(rows) < num_steps:
            scores = act(self.envs.obs)
            action = self.policy.select(scores, self.rng)
            log_prob = self.policy.log_prob(scores, action)
            obs, reward, next_obs, terminated, ended = self.envs.step(action)
            rows.append((obs, action, reward, next_obs, terminated, ended))
            if log_prob is not None:
                log_probs.append(log_prob)
            self._return += reward
            self._length += 1
            if ended.any():
                episodes.extend(self._finish(ended))
                if num_steps is None:
                    break
        obs, action, reward, next_obs, terminated, ended = (np.stack(column) for column in zip(*rows, strict=True))
        stacked = np.stack(log_probs).astype(np.float32) if log_probs else None
        return Steps(obs, action, reward, next_obs, terminated, ended, stacked), episodes

    def _finish(self, ended: Array) -> list[Episode]:
        finished = [
            Episode(float(self._return[index]), int(self._length[index]), int(index)) for index in np.flatnonzero(ended)
        ]
        self._return[ended] = 0.0
        self._length[ended] = 0
        return finished

    def get_state(self) -> dict[str, Array]:
        """Where the environments are and what their running episodes have gathered."""
        return {"return": self._return, "length": self._length, **self.envs.get_state()}

    def set_state(self, state: dict[str, Array]) -> bool:
        """Takes over a stored state; False if the environments could not be brought back exactly."""
        exact = self.envs.set_state(state)
        self._return = np.array(state["return"]) if exact else np.zeros(len(self.envs))
        self._length = np.array(state["length"]) if exact else np.zeros(len(self.envs), np.int64)
        return exact
