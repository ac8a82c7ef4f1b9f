"""Sampling from a softmax by the Gumbel trick."""

from typing import Any

import numpy as np
from gymnasium import spaces

from note_rl.policy.discrete import DiscretePolicy, check_positive, check_probability, with_random_rows
from note_rl.types import Array, FloatArray, IntArray


class GumbelSoftmaxPolicy(DiscretePolicy):
    """Samples from softmax(logits) by the Gumbel trick; with probability `eps` any action (Jang et al. 2017).

    Where the environment takes vectors, the action is a one-hot vector instead of a number.

    Args:
        temperature: Of the soft samples; the lower, the nearer to one-hot. The action chosen does not depend on it.
        eps: Probability of any action, each equally likely.
    """

    def __init__(self, temperature: float = 1.0, eps: float = 0.01) -> None:
        super().__init__()
        check_positive(temperature=temperature)
        check_probability(eps=eps)
        self.temperature = temperature
        self.eps = eps
        self._one_hot = False

    def use_space(self, action_space: Any) -> None:
        """Vectors are one-hot, numbers are indices."""
        self._one_hot = isinstance(action_space, spaces.Box)

    def select(self, scores: FloatArray, rng: np.random.Generator) -> Array:
        """Actions [E], or [E, A] one-hot, for logits [E, A]."""
        perturbed = scores + rng.gumbel(size=scores.shape)
        return self._as_action(with_random_rows(np.argmax(perturbed, axis=-1), self.eps, scores, rng), scores)

    def greedy(self, scores: FloatArray) -> Array:
        """The action of the highest logit."""
        return self._as_action(np.argmax(scores, axis=-1), scores)

    def _as_action(self, index: IntArray, scores: FloatArray) -> Array:
        return np.eye(scores.shape[-1], dtype=np.float32)[index] if self._one_hot else index

    def onehot_from_logits(self, logits: Any) -> FloatArray:
        """One-hot vectors [..., A] of the highest logits [..., A], a share `eps` of them of any action instead."""
        logits = np.asarray(logits)
        index = np.asarray(np.argmax(logits, axis=-1))  # of a single vector, too, something that can be written to
        chosen = with_random_rows(index, self.eps, logits, self._own_generator())
        one_hot: FloatArray = np.eye(logits.shape[-1])[chosen]
        return one_hot

    def sample_gumbel(self, shape: int | tuple[int, ...], eps: float = 1e-20) -> FloatArray:
        """Gumbel noise -log(-log(U)); `eps` keeps the logarithms finite."""
        uniform = self._own_generator().random(shape)
        noise: FloatArray = -np.log(-np.log(uniform + eps) + eps)
        return noise

    def gumbel_softmax_sample(self, logits: Any) -> FloatArray:
        """Soft samples [..., A]: softmax((logits + Gumbel noise) / temperature)."""
        logits = np.asarray(logits)
        perturbed = (logits + self.sample_gumbel(logits.shape)) / self.temperature
        shares: FloatArray = np.exp(perturbed - perturbed.max(axis=-1, keepdims=True))
        shares /= shares.sum(axis=-1, keepdims=True)
        return shares

    def gumbel_softmax(self, logits: Any) -> FloatArray:
        """One-hot samples [..., A]."""
        return self.onehot_from_logits(self.gumbel_softmax_sample(logits))
