"""Returns and advantages as pure functions over [T, E] arrays."""

import numpy as np

from note_rl.types import BoolArray, FloatArray


def generalised_advantage(
    reward: FloatArray,  # [T, E]
    value: FloatArray,  # [T, E] V(obs)
    next_value: FloatArray,  # [T, E] V(next_obs), the true last observation at episode ends
    terminated: BoolArray,  # [T, E]
    ended: BoolArray,  # [T, E]
    gamma: float,
    gae_lambda: float,
) -> tuple[FloatArray, FloatArray]:
    """Advantages and value targets, [T, E] each.

    A_t = sum_l (gamma*lambda)^l delta_{t+l},  delta_t = r_t + gamma*V(s_{t+1}) - V(s_t)
    (Schulman et al. 2016, eq. 16, https://arxiv.org/abs/1506.02438), the sum cut where an episode ends. A terminated
    task has no future value; a time limit cuts the sum but keeps gamma*V(last observation).
    """
    delta = reward + gamma * next_value * ~terminated - value
    carry = (gamma * gae_lambda) * ~(ended | terminated)  # a task may end within an episode: a lost life
    advantage = np.empty_like(delta)
    following = np.zeros(delta.shape[1:], delta.dtype)
    for t in range(len(delta) - 1, -1, -1):
        following = delta[t] + carry[t] * following
        advantage[t] = following
    return advantage, advantage + value


def standardise(values: FloatArray, epsilon: float = 1e-8) -> FloatArray:
    """Zero mean and unit standard deviation over all entries."""
    standardised: FloatArray = (values - values.mean()) / (np.sqrt(values.var()) + epsilon)
    return standardised


def standardise_rows(values: FloatArray, epsilon: float = 1e-8) -> FloatArray:
    """Zero mean and unit sample deviation of each row of [K, B]; rows of one number are left as they are."""
    if values.shape[1] == 1:
        return values
    centred = values - values.mean(axis=1, keepdims=True)
    standardised: FloatArray = centred / (values.std(axis=1, ddof=1, keepdims=True) + epsilon)
    return standardised


def explained_variance(prediction: FloatArray, target: FloatArray) -> float:
    """Share of the target's variance that a prediction explains: 1 - Var(target - prediction) / Var(target).

    1 is perfect, 0 no better than a constant, below 0 worse; nan where the target is a constant.
    """
    variance = float(np.var(target))
    return 1.0 - float(np.var(target - prediction)) / variance if variance > 0.0 else float("nan")
