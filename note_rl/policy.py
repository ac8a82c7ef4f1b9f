"""Exploration: from the agent's scores for a batch of observations to actions.

A policy owns no parameters of the agent. Its numbers (`eps`, `tau`) are plain attributes, so that schedules and
adjusters can move them. `select` works on a whole batch with the caller's generator; `select_action` is the
single-vector form of the manuals and uses a generator of the policy's own.
"""

from abc import ABC, abstractmethod

import numpy as np

from note_rl.errors import AgentContractError, SettingsError
from note_rl.types import Array, FloatArray, IntArray


class Policy(ABC):
    """Chooses actions from scores (values or probabilities, one per action)."""

    def __init__(self) -> None:
        self._generator: np.random.Generator | None = None

    @abstractmethod
    def select(self, scores: FloatArray, rng: np.random.Generator) -> IntArray:
        """Actions [E] for scores [E, A], explored."""

    def greedy(self, scores: FloatArray) -> IntArray:
        """Actions [E] for scores [E, A] without exploration: the highest score."""
        action: IntArray = np.argmax(scores, axis=-1)
        return action

    def log_prob(self, scores: FloatArray, action: IntArray) -> FloatArray | None:
        """log-probability [E] of having chosen `action` [E], or None where the policy does not define one."""
        return None

    def select_action(self, scores: Array) -> int:
        """The action for one vector of scores [A]."""
        if self._generator is None:
            self._generator = np.random.default_rng()
        return int(self.select(np.asarray(scores)[None], self._generator)[0])


def _check_probability(name: str, value: float) -> None:
    if not 0.0 <= value <= 1.0:
        raise SettingsError(f"{name} is a probability: between 0 and 1, got {value}")


def _sample_rows(probabilities: FloatArray, rng: np.random.Generator) -> IntArray:
    """One index per row of [E, A], by inversion of the cumulative sum."""
    cumulative = np.cumsum(probabilities, axis=-1)
    threshold = rng.random((len(probabilities), 1)) * cumulative[:, -1:]
    index: IntArray = np.minimum((cumulative <= threshold).sum(axis=-1), probabilities.shape[-1] - 1)
    return index


class GreedyQPolicy(Policy):
    """Always the action of the highest value."""

    def select(self, scores: FloatArray, rng: np.random.Generator) -> IntArray:
        """Actions [E]; the generator is not used."""
        return self.greedy(scores)


class EpsGreedyQPolicy(Policy):
    """With probability `eps` any action, each equally likely; else the one of the highest value."""

    def __init__(self, eps: float = 0.1) -> None:
        super().__init__()
        _check_probability("eps", eps)
        self.eps = eps

    def select(self, scores: FloatArray, rng: np.random.Generator) -> IntArray:
        """Actions [E]."""
        action: IntArray = self.greedy(scores)
        explore = rng.random(len(scores)) < self.eps
        if explore.any():
            action[explore] = rng.integers(scores.shape[-1], size=int(explore.sum()))
        return action


class BoltzmannQPolicy(Policy):
    """Actions with probability proportional to exp(value / tau), values clipped first (Sutton & Barto 2018, 2.8)."""

    def __init__(self, tau: float = 1.0, clip: tuple[float, float] = (-500.0, 500.0)) -> None:
        super().__init__()
        if tau <= 0.0:
            raise SettingsError(f"tau is a temperature: above 0, got {tau}")
        self.tau = tau
        self.clip = clip

    def select(self, scores: FloatArray, rng: np.random.Generator) -> IntArray:
        """Actions [E]."""
        logits = np.clip(np.asarray(scores, np.float64) / self.tau, *self.clip)
        return _sample_rows(np.exp(logits - logits.max(axis=-1, keepdims=True)), rng)


class SoftmaxPolicy(Policy):
    """Samples from the probabilities that the agent's action() returns, as actor-critic agents do."""

    def select(self, scores: FloatArray, rng: np.random.Generator) -> IntArray:
        """Actions [E]. Scores that are no probabilities are refused."""
        if scores.min() < 0.0 or abs(float(scores[0].sum()) - 1.0) > 1e-3:
            raise AgentContractError(
                "SoftmaxPolicy samples from probabilities, but action() returned scores that do not sum to 1 "
                f"(first row: {np.round(scores[0], 3).tolist()}); end it with a softmax or use BoltzmannQPolicy"
            )
        return _sample_rows(scores, rng)

    def log_prob(self, scores: FloatArray, action: IntArray) -> FloatArray:
        """log-probability [E] of the actions chosen."""
        chosen = np.take_along_axis(scores, action[:, None], axis=-1)[:, 0]
        return np.log(np.maximum(chosen, np.finfo(np.float32).tiny))
