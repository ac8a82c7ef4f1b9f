"""The root of a search: noise on its priors before the search, probabilities of actions after it."""

import numpy as np

from note_rl.types import FloatArray, IntArray


def with_root_noise(prior: FloatArray, alpha: float, fraction: float, rng: np.random.Generator) -> FloatArray:
    """Returns priors [B, A] mixed with noise, so that a search also tries actions that the policy considers unlikely.

    (1 - fraction) * prior + fraction * eta, with eta from a Dirichlet distribution, new in each row (Silver et al.
    2018, https://doi.org/10.1126/science.aar6404).

    Args:
        prior: Probabilities of the policy. [B, A]
        alpha: Concentration of the Dirichlet distribution, the same for each action.
        fraction: Weight of the noise, from 0 to 1.
        rng: Draws it.
    """
    noise = rng.dirichlet(np.full(prior.shape[1], alpha), len(prior))
    mixed: FloatArray = (1.0 - fraction) * prior + fraction * noise
    return mixed


def visit_probabilities(visits: IntArray, temperature: float) -> FloatArray:
    """Returns probabilities [B, A] in proportion to visits^(1 / temperature).

    Args:
        visits: How often each action of the root was chosen; one of a row at least once. [B, A]
        temperature: 1: in proportion to visits; below 1: nearer to the action with the most visits; 0: this one alone.
            Of several, it is the first.
    """
    if temperature == 0.0:
        chosen = visits.argmax(axis=1)
        alone: FloatArray = (np.arange(visits.shape[1]) == chosen[:, None]).astype(np.float32)
        return alone
    share = visits / visits.max(axis=1, keepdims=True)  # at most 1: a power of it cannot overflow
    powers = share ** (1.0 / temperature)
    probabilities: FloatArray = (powers / powers.sum(axis=1, keepdims=True)).astype(np.float32)
    return probabilities
