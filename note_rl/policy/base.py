"""Interface between the training core and a policy."""

from abc import abstractmethod
from collections.abc import Mapping
from typing import Any

import numpy as np

from note_rl.policy.restartable import Restartable
from note_rl.types import Array, BoolArray, FloatArray, IntArray


class Policy(Restartable):
    """Chooses actions from the agent's answers to a batch of observations.

    Attributes:
        chooses_several: Whether it can make several choices at once, as MultiDiscrete actions ask for.
        tells_importance: Whether it chooses otherwise than by the agent's probabilities, but any action with a
            probability above 0, so that a loss can weigh what it chose; see `likelihoods`.
        is_state_dependent: Whether it takes the answers of an agent with state-dependent exploration, and no others.
    """

    chooses_several = False
    tells_importance: bool = False
    is_state_dependent: bool = False

    def __init__(self) -> None:
        self._generator: np.random.Generator | None = None

    def bind(self, action_space: Any, num_envs: int) -> None:
        """Called once before steps are collected with this policy.

        Args:
            action_space: Of one environment.
            num_envs: E, how many environments are stepped together.

        Raises:
            EnvironmentMismatchError, SettingsError: The policy cannot act there.
        """
        self.use_space(action_space)

    def use_space(self, action_space: Any) -> None:
        """Learns which actions there are; enough to act without exploration. May be called again and again.

        Raises:
            EnvironmentMismatchError: The policy does not choose such actions.
        """

    def num_answers(self, action_space: Any) -> int | None:
        """How many numbers action() must give per observation; None: it is not known."""
        return None

    def masked(self, scores: FloatArray, mask: BoolArray) -> FloatArray:
        """The agent's answers [E, A] where only the actions in a mask [E, A] are allowed: -inf for all others.

        The environment says which, and select() and greedy() never choose one of those.
        """
        return np.where(mask, scores, np.float32(-np.inf))

    @abstractmethod
    def select(self, scores: FloatArray, rng: np.random.Generator) -> Array:
        """Explored actions, [E] int or [E, A] float, for the agent's answers [E, ...]."""

    def greedy(self, scores: FloatArray) -> Array:
        """Actions without exploration, as the environment takes them; here [E], the highest of scores [E, A]."""
        action: IntArray = np.argmax(scores, axis=-1)
        return action

    def log_prob(self, scores: FloatArray, action: Array) -> FloatArray | None:
        """Log-probability (or density) [E] of having chosen `action`, or None where the policy does not define one."""
        return None

    def likelihoods(self, scores: FloatArray, action: Array) -> tuple[FloatArray | None, FloatArray | None]:
        """How likely `action` was, for a loss that reads `importance_ratio`.

        Returns:
            log mu(a|s) [E] of this policy mu, as `log_prob` tells it elsewhere, and pi(a|s) / mu(a|s) [E], where the
            scores are probabilities pi of the agent; None for the ratio where actions are drawn from these.
        """
        return self.log_prob(scores, action), None

    def for_env(self, action: Array) -> Array:
        """The action given to the environments where select() chose `action`; the same, unless it has to be clipped."""
        return action

    def reset(self, env_indices: IntArray) -> None:
        """Called with the environments [k] whose episode has just started."""

    def get_state(self) -> dict[str, Array]:
        """The state that a checkpoint needs, besides the generator, to go on exactly."""
        return {}

    def set_state(self, state: Mapping[str, Array]) -> None:
        """Takes over a stored state."""

    def _own_generator(self) -> np.random.Generator:
        if self._generator is None:
            self._generator = np.random.default_rng()
        return self._generator
