"""Atari games stepped together by ALE, in C++ (extra `atari`)."""

from typing import Any

import gymnasium
import numpy as np
from ale_py.vector_env import AtariVectorEnv
from gymnasium import spaces

from note_rl.environments.training_only import LOST_LIFE
from note_rl.types import Array


class AtariVector(AtariVectorEnv):
    """Several games that show the same frames, bit for bit, as `note_rl.environments.atari.make_game`.

    Doing nothing at the start is drawn by ALE's random numbers, so games are others than those of single environments.
    FIRE is pressed before a game begins, and in place of the agent's action where a life begins. What is for training
    only is done to all games together.

    Args:
        game: As ALE calls it, in small letters.
        num_envs: E.
        noop_max, fire_start, frame_skip, screen_size, repeat_action_probability, full_action_space, max_frames: As for
            `make_game`.
        num_threads: Of ALE, which step games at the same time.
    """

    takes_seeds = True
    own_episodes = True
    tells_lost_lives = True

    def __init__(
        self,
        game: str,
        num_envs: int,
        *,
        noop_max: int = 30,
        fire_start: bool = True,
        frame_skip: int = 4,
        screen_size: int = 84,
        repeat_action_probability: float = 0.0,
        full_action_space: bool = False,
        max_frames: int = 108_000,
        num_threads: int = 1,
    ) -> None:
        super().__init__(
            game,
            num_envs,
            num_threads=num_threads,
            max_num_frames_per_episode=max_frames,
            repeat_action_probability=repeat_action_probability,
            full_action_space=full_action_space,
            img_height=screen_size,
            img_width=screen_size,
            stack_num=1,
            frameskip=frame_skip,
            noop_max=noop_max,
            reward_clipping=False,
            use_fire_reset=fire_start,
        )
        self.single_observation_space = spaces.Box(0, 255, (screen_size, screen_size), np.uint8)
        self.observation_space = gymnasium.vector.utils.batch_space(self.single_observation_space, num_envs)
        actions = [action.name for action in self.ale.get_action_set()]
        self._fire = actions.index("FIRE") if fire_start and "FIRE" in actions else None
        self._lives = np.zeros(num_envs, np.int64)  # [E]
        self._begins = np.zeros(num_envs, np.bool_)  # [E] whose next action begins a life

    def reset(self, *, seed: Any = None, options: dict[str, Any] | None = None) -> tuple[Any, dict[str, Any]]:
        """Begins games everywhere, or with a list of seeds [E] where `options["reset_mask"]` [E] says."""
        mask = (options or {}).get("reset_mask", np.ones(self.num_envs, np.bool_))
        if isinstance(seed, list):
            seed = np.array([one % 2**31 for one, begins in zip(seed, mask, strict=True) if begins], np.int64)
        obs, info = super().reset(seed=seed, options=options)
        self._lives, self._begins = np.where(mask, info["lives"], self._lives), self._begins & ~mask
        return obs[:, 0], info

    def step(self, actions: Array) -> tuple[Array, Array, Array, Array, dict[str, Any]]:
        """One step of each game, frames [E, H, W]."""
        actions = np.asarray(actions, np.int64)
        if self._fire is not None:
            actions = np.where(self._begins, self._fire, actions)
        obs, reward, terminated, truncated, info = super().step(actions)
        lost = (info["lives"] < self._lives) & ~terminated
        self._begins = lost & ~truncated
        self._lives = np.array(info["lives"])
        return obs[:, 0], reward, terminated, truncated, {**info, LOST_LIFE: lost}
