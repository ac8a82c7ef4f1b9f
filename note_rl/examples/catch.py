"""A small game on a screen like that of Atari games: what agents for images learn in minutes.

Importing this module registers it: `env="note_rl.examples.catch:Catch-v0"` makes one by its id.
"""

from typing import Any

import gymnasium
import numpy as np
from gymnasium import spaces

from note_rl.types import Array

_CELLS = 7  # a side
_PIXELS = 12  # of a cell a side
_MOST_BALLS = 10


class Catch(gymnasium.Env[Array, Any]):
    """Balls fall one after the other, straight or aslant, and are to be caught at the bottom.

    A ball that is caught is worth 1, one that is missed takes a life. The game ends with the last life, or after ten
    balls. Which way a ball goes is seen in two frames only.

    Observations are bytes [84, 84], actions left, stay and right.

    Args:
        lives: Misses that there may be before the game is over, and the one that ends it.
    """

    def __init__(self, lives: int = 3) -> None:
        self.observation_space = spaces.Box(0, 255, (_CELLS * _PIXELS, _CELLS * _PIXELS), np.uint8)
        self.action_space = spaces.Discrete(3)
        self.lives = lives
        self._lives = lives
        self._num_balls = 0
        self._column = 0  # of what catches, in the lowest row
        self._ball = (0, 0)  # row and column
        self._drift = 0  # columns that it moves in a step, as long as there are walls to bounce off

    def reset(self, *, seed: int | None = None, options: Any = None) -> tuple[Array, dict[str, Any]]:
        """Begins a game in the middle."""
        super().reset(seed=seed)
        self._lives, self._num_balls, self._column = self.lives, 0, _CELLS // 2
        self._throw()
        return self._screen(), {"lives": self._lives}

    def _throw(self) -> None:
        self._ball = (0, int(self.np_random.integers(_CELLS)))
        self._drift = int(self.np_random.integers(-1, 2))

    def step(self, action: int) -> tuple[Array, float, bool, bool, dict[str, Any]]:
        """Moves by a cell, and the ball by a row."""
        self._column = min(max(self._column + int(action) - 1, 0), _CELLS - 1)
        row, column = self._ball
        if not 0 <= column + self._drift < _CELLS:
            self._drift = -self._drift
        self._ball = (row + 1, column + self._drift)
        if row + 1 < _CELLS - 1:
            return self._screen(), 0.0, False, False, {"lives": self._lives}
        is_caught = self._ball[1] == self._column
        screen = self._screen()
        self._num_balls += 1
        self._lives -= not is_caught
        is_over = self._lives == 0 or self._num_balls == _MOST_BALLS
        if not is_over:
            self._throw()
        return screen, float(is_caught), is_over, False, {"lives": self._lives}

    def _screen(self) -> Array:
        cells = np.zeros((_CELLS, _CELLS), np.uint8)
        cells[_CELLS - 1, self._column] = 128
        cells[self._ball] = 255
        return cells.repeat(_PIXELS, axis=0).repeat(_PIXELS, axis=1)


gymnasium.register("Catch-v0", f"{__name__}:Catch")
