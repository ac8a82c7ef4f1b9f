"""A small game for two that is only won together: what centralised critics are for.

Importing this module registers it: for agents trained with MARL=True, the environment's id is
"note_rl.examples.coordination:Coordination-v0".
"""

from typing import Any

import gymnasium
import numpy as np
from gymnasium import spaces

from note_rl.environments.multi_agent import JointEnvironment
from note_rl.types import Array

_WON, _LOST, _PASSED = 1.0, -1.0, 0.1


class CoordinationGame:
    """Two players see the same sign and press a button each; the numbers of their buttons must add up to the sign.

    Every player may also pass. Each step, both get 0.1 if anybody passes, 1 if the sum (modulo the number of buttons)
    is the sign, and -1 if it is not. A player who learns on its own finds that pressing any button loses on average,
    as long as the other tries out buttons, and passes for ever (relative overgeneralisation: Matignon et al. 2012,
    https://doi.org/10.1017/S0269888912000057). An agent that knows what the other does finds the button that wins.

    The players' summed return of an episode is 20 at best, 2 for passing, and about -5.6 for random buttons. The
    interface is that of PettingZoo's parallel environments.

    Args:
        num_buttons: Besides passing.
        num_signs: At most as many.
        length: Steps of an episode.
    """

    metadata = {"name": "coordination_v0", "render_modes": ["rgb_array"], "render_fps": 4}  # noqa: RUF012

    def __init__(self, num_buttons: int = 4, num_signs: int = 3, length: int = 10) -> None:
        self.num_buttons = num_buttons
        self.num_signs = num_signs
        self.length = length
        self.render_mode: str | None = None
        self._seen = spaces.Box(0.0, 1.0, (num_signs,), np.float32)
        self._buttons = spaces.Discrete(num_buttons + 1)
        self.possible_agents = ["left", "right"]
        self.agents: list[str] = []
        self._rng = np.random.default_rng()
        self._sign = 0
        self._step = 0
        self._pressed = (num_buttons, num_buttons)

    @property
    def unwrapped(self) -> "CoordinationGame":
        """Itself."""
        return self

    def observation_space(self, agent: str) -> spaces.Box:
        """The sign as a one-hot vector."""
        return self._seen

    def action_space(self, agent: str) -> spaces.Discrete[Any]:
        """A button; the last one passes."""
        return self._buttons

    def reset(self, seed: int | None = None, options: Any = None) -> tuple[dict[str, Array], dict[str, Any]]:
        """A new episode with a random sign."""
        if seed is not None:
            self._rng = np.random.default_rng(seed)
        self.agents = list(self.possible_agents)
        self._step = 0
        self._pressed = (self.num_buttons, self.num_buttons)
        self._sign = int(self._rng.integers(self.num_signs))
        return self._shown(), {name: {} for name in self.agents}

    def step(self, actions: dict[str, int]) -> tuple[dict[str, Any], ...]:
        """Both press; then the next sign is shown. Time is up after `length` steps."""
        left, right = (int(actions[name]) for name in self.possible_agents)
        self._pressed = (left, right)
        passed = self.num_buttons in (left, right)
        won = (left + right) % self.num_buttons == self._sign
        reward = _PASSED if passed else _WON if won else _LOST
        self._step += 1
        self._sign = int(self._rng.integers(self.num_signs))
        over = self._step >= self.length
        players = self.agents
        seen = self._shown()
        if over:
            self.agents = []
        return (
            seen,
            dict.fromkeys(players, reward),
            dict.fromkeys(players, False),
            dict.fromkeys(players, over),
            {name: {} for name in players},
        )

    def _shown(self) -> dict[str, Array]:
        sign = np.eye(self.num_signs, dtype=np.float32)
        return {name: sign[self._sign].copy() for name in self.agents}

    def render(self) -> Array:
        """The sign above, the buttons pressed last below; grey stands for passing. [120, 40 * buttons, 3] uint8."""
        picture = np.full((3, self.num_buttons, 3), 255, np.uint8)
        picture[0, self._sign] = (200, 60, 60)
        for row, button in enumerate(self._pressed, start=1):
            picture[row, slice(None) if button == self.num_buttons else button] = (
                (180, 180, 180) if button == self.num_buttons else (60, 90, 200)
            )
        return picture.repeat(40, axis=0).repeat(40, axis=1)

    def close(self) -> None:
        """Nothing to close."""


def joint_game(render_mode: str | None = None, **options: Any) -> JointEnvironment:
    """The game as a joint environment; see `CoordinationGame` for the options."""
    game = CoordinationGame(**options)
    game.render_mode = render_mode
    return JointEnvironment(game)


gymnasium.register(
    "Coordination-v0", f"{__name__}:joint_game", disable_env_checker=True, order_enforce=False
)  # the checker expects one reward
