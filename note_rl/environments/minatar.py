"""MinAtar's five games (extra `minatar`; Young and Tian 2019): ids such as `MinAtar/breakout-v0`.

Importing this module registers them: `env="note_rl.environments.minatar:MinAtar/breakout-v0"` makes one by its id, and
imports the module by itself. They keep what makes Atari's games hard to play, without what makes them hard to see, and
are learned in minutes on a CPU where those take days.
"""

from typing import Any

import gymnasium
import numpy as np
from gymnasium import spaces
from minatar import Environment

from note_rl.support.value_kinds import Number
from note_rl.types import Array

GAMES = ("asterix", "breakout", "freeway", "seaquest", "space_invaders")
_CELL = 16  # pixels a side, drawn
_BYTE = 255
# Of what is drawn, one for each channel: seaquest has ten.
_COLORS = np.array(
    [
        *((0, 0, 0), (86, 180, 233), (240, 228, 66), (213, 94, 0), (0, 158, 115), (204, 121, 167)),
        *((0, 114, 178), (230, 159, 0), (255, 255, 255), (148, 103, 189), (140, 140, 140)),
    ],
    np.uint8,
)


class MinAtar(gymnasium.Env[Array, Any]):
    """A game on a board of 10x10 cells, where each channel shows one kind of thing.

    Observations are bytes [10, 10, channels], 255 where a thing is and 0 elsewhere. What moves leaves a trail in a
    channel of its own, so that one frame shows which way it goes. A seed and the actions decide a game; MinAtar's own
    environment takes the last action of the game before along.

    Args:
        game: One of `GAMES`.
        sticky_action_prob: Probability of a step to repeat the former action instead.
        difficulty_ramping: Whether the game becomes harder the longer it lasts, in those that do.
        full_action_space: All six actions instead of those that do something in this game.
        render_mode: `rgb_array`, or None.

    Raises:
        SettingsError: `sticky_action_prob` is no probability.
    """

    def __init__(
        self,
        game: str,
        *,
        sticky_action_prob: float = 0.1,
        difficulty_ramping: bool = True,
        full_action_space: bool = False,
        render_mode: str | None = None,
    ) -> None:
        sticky = Number(0.0, 1.0)("sticky_action_prob", sticky_action_prob)
        self._game = Environment(game, sticky_action_prob=sticky, difficulty_ramping=difficulty_ramping)
        self._actions = range(self._game.num_actions()) if full_action_space else self._game.minimal_action_set()
        self.observation_space = spaces.Box(0, _BYTE, self._game.state_shape(), np.uint8)
        self.action_space = spaces.Discrete(len(self._actions))
        self.render_mode = render_mode
        self.metadata = {"render_modes": ["rgb_array"], "render_fps": 30}

    def reset(self, *, seed: int | None = None, options: Any = None) -> tuple[Array, dict[str, Any]]:
        """Begins a game."""
        super().reset(seed=seed)
        self._game.seed(int(self.np_random.integers(2**31)))
        self._game.last_action = 0
        self._game.reset()
        return self._board(), {}

    def step(self, action: int) -> tuple[Array, float, bool, bool, dict[str, Any]]:
        """Lets a frame pass."""
        reward, over = self._game.act(self._actions[int(action)])
        return self._board(), float(reward), bool(over), False, {}

    def _board(self) -> Array:
        board: Array = self._game.state().astype(np.uint8) * np.uint8(_BYTE)
        return board

    def render(self) -> Any:
        """The board [160, 160, 3], a colour for each channel; None without a `render_mode`."""
        if self.render_mode is None:
            return None
        board = self._game.state()
        shown = np.max(board * np.arange(1, board.shape[-1] + 1), axis=-1)
        return _COLORS[shown].repeat(_CELL, axis=0).repeat(_CELL, axis=1)


for _game in GAMES:
    gymnasium.register(f"MinAtar/{_game}-v0", f"{__name__}:MinAtar", max_episode_steps=10_000, kwargs={"game": _game})
