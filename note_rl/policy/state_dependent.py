"""Generalised state-dependent exploration, gSDE (Raffin et al. 2022, https://arxiv.org/abs/2005.05719).

Noise is a linear function of what the last hidden layer of the policy makes of the state: features h [F] times a noise
matrix [F, A] of normal numbers with deviations sigma [F, A], which are learned. A matrix lasts for some steps. Within
them the same state gets the same noise, so exploring is smooth and reaches further than noise that is new in each step.

An agent answers each observation with means [A] and pushes [A, F], sigma * h in one row: what a matrix of standard
normal numbers is multiplied with. In each state by itself, noise is normal with a variance of the sum over F of the
squared pushes, and so is log_prob().
"""

import math
from collections.abc import Mapping

import numpy as np

from note_rl.errors import AgentContractError
from note_rl.policy.continuous import ContinuousPolicy
from note_rl.support.value_kinds import Count
from note_rl.types import Array, FloatArray, nested, under

SMALLEST_VARIANCE = 1e-6
"""Added to variances, so that features that are all 0 leave a density (Stable-Baselines3 adds the same)."""


class NoiseMatrix:
    """Standard normal numbers [E, A, F] that are drawn anew after a number of steps.

    Args:
        hold: Steps of an environment that they last for.
    """

    def __init__(self, hold: int) -> None:
        self.hold = Count()("hold", hold)
        self._numbers = np.zeros((0, 0, 0), np.float32)
        self._left = 0  # steps that they last for yet

    def noise(self, pushes: FloatArray, rng: np.random.Generator) -> FloatArray:
        """Returns the noise [E, A] of one step for pushes [E, A, F]."""
        if self._left == 0 or self._numbers.shape != pushes.shape:
            self._numbers = rng.standard_normal(pushes.shape, np.float32)
            self._left = self.hold
        self._left -= 1
        noise: FloatArray = np.einsum("eaf,eaf->ea", pushes, self._numbers)
        return noise

    def get_state(self) -> dict[str, Array]:
        """The state that a checkpoint needs to go on exactly."""
        return {"numbers": self._numbers, "left": np.array(self._left, np.int64)}

    def set_state(self, state: Mapping[str, Array]) -> None:
        """Takes over a stored state."""
        self._numbers = np.array(state["numbers"], np.float32)
        self._left = min(int(state["left"]), self.hold)  # which may have been longer


class _StateDependent(ContinuousPolicy):
    """Common base of both: a noise matrix, and answers of means and pushes.

    Args:
        hold: Steps of an environment that a noise matrix lasts for; it may reach from one episode into the next.
        num_random_steps: See `ContinuousPolicy`.
    """

    is_state_dependent = True

    def __init__(self, hold: int = 8, num_random_steps: int = 0) -> None:
        super().__init__(num_random_steps)
        self._matrix = NoiseMatrix(hold)

    @property
    def hold(self) -> int:
        """Steps of an environment that a noise matrix lasts for."""
        return self._matrix.hold

    def num_answers(self, action_space: object) -> int | None:
        """As many as the network has features, which is not known here."""
        return None

    def _means_and_pushes(self, scores: FloatArray) -> tuple[FloatArray, FloatArray]:
        assert self._bounds is not None, "bind() or use_space() comes first"
        num_actions = self._bounds[0].size
        if scores.ndim != 2 or scores.shape[1] <= num_actions or scores.shape[1] % num_actions:
            raise AgentContractError(
                f"{type(self).__name__} takes means [A] and pushes [A, F] in one row for each observation, with A = "
                f"{num_actions} here; action() returned the shape {list(scores.shape)}"
            )
        return scores[:, :num_actions], scores[:, num_actions:].reshape(len(scores), num_actions, -1)

    def _explored(self, scores: FloatArray, rng: np.random.Generator) -> FloatArray:
        mean, pushes = self._means_and_pushes(scores)
        explored: FloatArray = mean + self._matrix.noise(pushes, rng)
        return explored

    def get_state(self) -> dict[str, Array]:
        """With the noise matrix."""
        return {**super().get_state(), **nested("matrix", self._matrix.get_state())}

    def set_state(self, state: Mapping[str, Array]) -> None:
        """Takes over a stored state."""
        super().set_state(state)
        matrix = under("matrix", state)
        if matrix:
            self._matrix.set_state(matrix)


class GSDEPolicy(_StateDependent):
    """State-dependent exploration for agents that learn a normal distribution: PPO, A2C and TRPO with `gsde`.

    What is sampled is stored as it is, since its likelihood is that of the unclipped action; the environment gets it
    clipped to the action space.

    Args:
        hold: Steps of an environment that a noise matrix lasts for; it may reach from one episode into the next, and
            from one rollout into the next one, with deviations as they are then. The length of a rollout stands for a
            matrix per rollout.
    """

    def __init__(self, hold: int = 8) -> None:
        super().__init__(hold)

    def select(self, scores: FloatArray, rng: np.random.Generator) -> Array:
        """Unclipped actions [E, A]."""
        return self._explored(scores, rng).astype(np.float32, copy=False)

    def greedy(self, scores: FloatArray) -> Array:
        """The means [E, A], clipped."""
        return self._clip(self._means_and_pushes(scores)[0])

    def for_env(self, action: Array) -> Array:
        """Clipped to the action space."""
        return self._clip(action)

    def log_prob(self, scores: FloatArray, action: Array) -> FloatArray:
        """log-density [E] of N(mean, deviation), summed over the A numbers of the action."""
        mean, pushes = self._means_and_pushes(scores)
        variance = np.einsum("eaf,eaf->ea", pushes, pushes) + SMALLEST_VARIANCE
        squared = (action - mean) ** 2 / variance
        density: FloatArray = (-0.5 * (squared + np.log(variance) + math.log(2.0 * math.pi))).sum(axis=-1)
        return density


class SquashedGSDEPolicy(_StateDependent):
    """State-dependent exploration for SAC and TQC with `gsde`, which squash what they sample into the action's range.

    Args:
        hold: Steps of an environment that a noise matrix lasts for; it may reach from one episode into the next.
        num_random_steps: See `ContinuousPolicy`.
    """

    def _needs_bounds(self) -> bool:
        return True

    def select(self, scores: FloatArray, rng: np.random.Generator) -> Array:
        """Actions [E, A] within the bounds."""
        if self._counts_random_step(len(scores)):
            return self._uniform(self._means_and_pushes(scores)[0].shape, rng)
        return self._squash(self._explored(scores, rng))

    def greedy(self, scores: FloatArray) -> Array:
        """tanh(mean) [E, A], scaled to the action space."""
        return self._squash(self._means_and_pushes(scores)[0])
