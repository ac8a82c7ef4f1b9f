"""Atari 2600 games (extra `atari`), shown as agents are used to see them: ids such as `Atari/pong-v0`.

Importing this module registers all games that ALE has a ROM of:
`env="note_rl.environments.atari:Atari/space_invaders-v0"` makes one by its id, and imports the module by itself. Frames
are stored one by one and stacked by the agent (`frame_stack`). What only learning sees, the sign of rewards and lost
lives, is in `training_only`.
"""

from typing import Any

import ale_py
import cv2  # AtariPreprocessing asks for it when it shows the first frame
import gymnasium
from ale_py.env import AtariEnv
from gymnasium.wrappers import AtariPreprocessing

from note_rl.environments.base import Env
from note_rl.errors import EnvironmentMismatchError
from note_rl.support.value_kinds import Count, Number

_FRAMES_PER_SECOND = 60  # of the console
ale_py.ALEInterface.setLoggerMode(ale_py.LoggerMode.Error)  # it greets on stderr
cv2.setNumThreads(1)  # a frame is too small for more


class FireStart(gymnasium.Wrapper[Any, Any, Any, Any]):
    """Presses FIRE where a game or a life begins, for which some games wait; those without that button are left alone.

    The agent does not see the step in between. What it earns is added to the reward.
    """

    def __init__(self, env: Env) -> None:
        super().__init__(env)
        meanings = self.get_wrapper_attr("get_action_meanings")()
        self._fire = meanings.index("FIRE") if "FIRE" in meanings else None
        self._lives = 0

    def reset(self, *, seed: int | None = None, options: dict[str, Any] | None = None) -> tuple[Any, dict[str, Any]]:
        """Begins a game."""
        obs, info = self.env.reset(seed=seed, options=options)
        if self._fire is not None:
            obs, _, terminated, truncated, info = self.env.step(self._fire)
            if terminated or truncated:
                obs, info = self.env.reset(options=options)
        self._lives = int(info.get("lives", 0))
        return obs, info

    def step(self, action: Any) -> tuple[Any, Any, bool, bool, dict[str, Any]]:
        """One step, or two where it takes a life."""
        obs, reward, terminated, truncated, info = self.env.step(action)
        before, self._lives = self._lives, int(info.get("lives", 0))
        if self._lives < before and self._fire is not None and not (terminated or truncated):
            obs, more, terminated, truncated, info = self.env.step(self._fire)
            reward, self._lives = float(reward) + float(more), int(info.get("lives", 0))
        return obs, reward, terminated, truncated, info


def make_game(
    game: str,
    *,
    noop_max: int = 30,
    fire_start: bool = True,
    frame_skip: int = 4,
    screen_size: int = 84,
    repeat_action_probability: float = 0.0,
    full_action_space: bool = False,
    max_frames: int | None = 108_000,
    mode: int | None = None,
    difficulty: int | None = None,
    render_mode: Any = None,
    frameskip: Any = None,
) -> Env:
    """Makes a game that shows grey frames, bytes [screen_size, screen_size], through Gymnasium's AtariPreprocessing.

    Args:
        game: As ALE calls it, in small letters: pong, space_invaders.
        noop_max: Most steps of doing nothing at the start of a game, at least 1; 0: none.
        fire_start: Whether FIRE is pressed where a game or a life begins.
        frame_skip: Frames for which an action is repeated. What is shown is the maximum of the last two.
        screen_size: Pixels a side.
        repeat_action_probability: Of a frame to repeat the former action instead (sticky actions).
        full_action_space: All 18 actions of the console instead of those that do something in this game.
        max_frames: After this many, the game is cut off; None: never.
        mode: Of the game; None: its first.
        difficulty: Of the game; None: its first.
        render_mode: As Gymnasium has it.
        frameskip: ALE's own name of `frame_skip`, which is refused.

    Raises:
        EnvironmentMismatchError: Frames would be skipped twice, or the game has no such mode or difficulty.
        SettingsError: A value out of range.
    """
    if frameskip is not None:
        raise EnvironmentMismatchError(
            f"frameskip={frameskip} would skip frames a second time, as frame_skip={frame_skip} does already: leave "
            "frameskip out and set frame_skip"
        )
    made = AtariEnv(
        game=game,
        mode=mode,
        difficulty=difficulty,
        frameskip=1,
        repeat_action_probability=Number(0.0, 1.0)("repeat_action_probability", repeat_action_probability),
        full_action_space=full_action_space,
        max_num_frames_per_episode=None if max_frames is None else Count()("max_frames", max_frames),
        render_mode=render_mode,
    )
    env: Env = AtariPreprocessing(
        made,
        noop_max=Count(0)("noop_max", noop_max),
        frame_skip=Count()("frame_skip", frame_skip),
        screen_size=Count()("screen_size", screen_size),
    )
    env.metadata = {**env.metadata, "render_fps": max(_FRAMES_PER_SECOND // frame_skip, 1)}
    return FireStart(env) if fire_start else env


GAMES = tuple(
    sorted(spec.kwargs["game"] for spec in gymnasium.registry.values() if spec.namespace == "ALE" and spec.version == 5)
)
"""For one player."""

for _game in GAMES:
    gymnasium.register(
        f"Atari/{_game}-v0",
        f"{__name__}:make_game",
        vector_entry_point="note_rl.environments.atari_vector:AtariVector",
        kwargs={"game": _game},
    )
