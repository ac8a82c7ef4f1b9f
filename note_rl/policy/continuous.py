"""Choosing vectors of numbers."""

import math
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from gymnasium import spaces

from note_rl.errors import AgentContractError, EnvironmentMismatchError, SettingsError
from note_rl.errors.wording import choice
from note_rl.policy.base import Policy
from note_rl.policy.noise import NoiseProcess
from note_rl.policy.restartable import Restartable
from note_rl.support.precision import OTHER_BOUNDS, are_finite, in_single_precision
from note_rl.support.value_kinds import Count
from note_rl.types import Array, FloatArray, IntArray, nested, under

LOG_STD_RANGE = (-20.0, 2.0)
"""Where log deviations of squashed Gaussians are cut (Haarnoja et al. 2018, their code)."""


class ContinuousPolicy(Policy):
    """Base of the policies that choose vectors [E, A] within the bounds of the action space.

    Args:
        num_random_steps: This many environment steps at the beginning are uniformly random; needs finite bounds.
    """

    _per_number = 1  # numbers in the agent's answer for each of an action

    def __init__(self, num_random_steps: int = 0) -> None:
        super().__init__()
        self.num_random_steps = Count(0)("num_random_steps", num_random_steps)
        self.num_steps = 0
        self._bounds: tuple[FloatArray, FloatArray] | None = None  # lowest and highest, in the shape of the space

    def use_space(self, action_space: Any) -> None:
        """Takes the bounds; refuses discrete actions, and infinite bounds where finite ones are needed."""
        if not isinstance(action_space, spaces.Box):
            raise EnvironmentMismatchError(
                "{} chooses vectors of numbers, but the environment takes {}; take an agent that chooses among "
                "actions ({}), or {}",
                type(self).__name__,
                action_space,
                choice("SoftmaxPolicy or EpsGreedyQPolicy"),
                choice("an environment with continuous actions"),
            )
        low, high = action_space.low, action_space.high
        self._bounds = (in_single_precision(low), in_single_precision(high))
        if self._needs_bounds() and not are_finite(low, high):
            raise EnvironmentMismatchError(
                "{} needs actions with finite bounds, but the environment takes {}: {}",
                *(type(self).__name__, action_space, OTHER_BOUNDS),
            )

    def num_answers(self, action_space: Any) -> int | None:
        """Those of the action; twice as many where deviations come with them. Of several agents it is not known."""
        return math.prod(action_space.shape) * self._per_number if isinstance(action_space, spaces.Box) else None

    def _needs_bounds(self) -> bool:
        return self.num_random_steps > 0

    def _low_and_high(self, shape: tuple[int, ...]) -> tuple[FloatArray, FloatArray]:
        """The bounds of actions [E, ...], in the shape that these have behind E."""
        assert self._bounds is not None, "bind() or use_space() comes first"
        low, high = self._bounds
        return low.reshape(shape[1:]), high.reshape(shape[1:])

    def _clip(self, action: FloatArray) -> FloatArray:
        clipped: FloatArray = np.clip(action, *self._low_and_high(action.shape)).astype(np.float32, copy=False)
        return clipped

    def _squash(self, x: FloatArray) -> FloatArray:
        """Tanh of numbers [E, ...], scaled to the bounds."""
        low, high = self._low_and_high(x.shape)
        return self._clip(low + 0.5 * (np.tanh(x) + 1.0) * (high - low))

    def _counts_random_step(self, num_envs: int) -> bool:
        """Counts a step of E environments; whether it is to be a random one."""
        self.num_steps += num_envs
        return self.num_steps - num_envs < self.num_random_steps

    def _uniform(self, shape: tuple[int, ...], rng: np.random.Generator) -> FloatArray:
        return rng.uniform(*self._low_and_high(shape), shape).astype(np.float32)

    def get_state(self) -> dict[str, Array]:
        """How many steps it has chosen."""
        return {"num_steps": np.array(self.num_steps, np.int64)}

    def set_state(self, state: Mapping[str, Array]) -> None:
        """Takes over a stored state."""
        self.num_steps = int(state["num_steps"])


class NoisyPolicy(ContinuousPolicy):
    """The action that the agent's action() returns, plus noise, clipped to the action space.

    Args:
        noise: None: no noise.
        relative: Whether noise is measured in units of half the range of each number of the action (so that sigma=0.1
            is as much in any environment) instead of the environment's own.
        num_random_steps: See `ContinuousPolicy`.
    """

    def __init__(self, noise: NoiseProcess | None = None, relative: bool = False, num_random_steps: int = 0) -> None:
        super().__init__(num_random_steps)
        if noise is not None and not isinstance(noise, NoiseProcess):
            raise SettingsError(
                f"noise must be a noise process such as GaussianWhiteNoiseProcess(sigma=0.1), got {noise!r}"
            )
        self.noise = noise
        self.relative = relative

    @property
    def sigma(self) -> float:
        """Standard deviation of the noise, if it has one; schedules move it."""
        value: float = self.noise.sigma  # type: ignore[union-attr]  # an AttributeError says that it has none
        return value

    @sigma.setter
    def sigma(self, value: float) -> None:
        self.noise.sigma = value  # type: ignore[union-attr]

    def _needs_bounds(self) -> bool:
        return super()._needs_bounds() or self.relative

    def use_space(self, action_space: Any) -> None:
        """Takes the bounds and compares the size of the noise."""
        super().use_space(action_space)
        if self.noise is not None:
            self.noise.check_size(int(action_space.shape[-1]) if action_space.shape else 1)

    def select(self, scores: FloatArray, rng: np.random.Generator) -> Array:
        """Actions [E, A] for the agent's actions [E, A]."""
        if self._counts_random_step(len(scores)):
            return self._uniform(scores.shape, rng)
        return self._with_noise(scores, rng)

    def _with_noise(self, action: FloatArray, rng: np.random.Generator) -> FloatArray:
        if self.noise is None:
            return self._clip(action)
        noise = self.noise.draw(action.shape, rng)
        if self.relative:
            low, high = self._low_and_high(action.shape)
            noise = noise * (0.5 * (high - low))
        return self._clip(action + noise)

    def greedy(self, scores: FloatArray) -> Array:
        """The agent's actions [E, A], clipped."""
        return self._clip(scores)

    def _inner(self) -> Sequence[Restartable]:
        """The noise, if there is any."""
        return [] if self.noise is None else [self.noise]

    def reset(self, env_indices: IntArray) -> None:
        """The noise begins anew there."""
        if self.noise is not None:
            self.noise.reset(env_indices)

    def get_state(self) -> dict[str, Array]:
        """With that of the noise."""
        inner = {} if self.noise is None else self.noise.get_state()
        return {**super().get_state(), **nested("noise", inner)}

    def set_state(self, state: Mapping[str, Array]) -> None:
        """Takes over a stored state."""
        super().set_state(state)
        if self.noise is not None:
            self.noise.set_state(under("noise", state))


def _mean_and_log_std(scores: FloatArray, policy: str) -> tuple[FloatArray, FloatArray]:
    if scores.shape[-1] % 2:
        raise AgentContractError(
            f"{policy} needs a mean and a log deviation for every number of the action, [E, 2A] in all; action() "
            f"returned the shape {list(scores.shape)}"
        )
    mean, log_std = np.split(scores, 2, axis=-1)
    return mean, log_std


class GaussianPolicy(ContinuousPolicy):
    """Samples N(mean, deviation) from the agent's answer [E, 2A]: means, then logarithms of deviations.

    What is sampled is stored as it is, since its likelihood is that of the unclipped action; the environment gets it
    clipped to the action space.

    Args:
        hold: Steps of an environment that one draw of noise lasts for, until its episode ends at most. A push that
            lasts explores where single ones cancel each other, as in Pendulum (Raffin et al. 2022, section 3,
            https://arxiv.org/abs/2005.05719; not as a function of the state here). Each step by itself is as likely as
            with 1, which is what log_prob() says.
    """

    _per_number = 2

    def __init__(self, hold: int = 1) -> None:
        super().__init__()
        self.hold = Count()("hold", hold)
        self._noise: FloatArray | None = None  # [E, A] of the last step, if it may last
        self._left = np.zeros(0, np.int64)  # [E], steps that it lasts for yet

    def select(self, scores: FloatArray, rng: np.random.Generator) -> Array:
        """Unclipped actions [E, A]."""
        mean, log_std = _mean_and_log_std(scores, "GaussianPolicy")
        action: FloatArray = mean + np.exp(log_std) * self._draw(mean.shape, rng)
        return action.astype(np.float32, copy=False)

    def _draw(self, shape: tuple[int, ...], rng: np.random.Generator) -> FloatArray:
        """Standard normal noise, the same for `hold` steps."""
        if self.hold == 1:
            return rng.standard_normal(shape)
        if self._noise is None or self._noise.shape != shape:
            self._noise, self._left = np.zeros(shape), np.zeros(shape[0], np.int64)
        over = self._left == 0
        if over.any():
            self._noise = np.where(over.reshape(-1, *[1] * (len(shape) - 1)), rng.standard_normal(shape), self._noise)
        self._left = np.where(over, self.hold, self._left) - 1
        return self._noise

    def reset(self, env_indices: IntArray) -> None:
        """The noise begins anew there."""
        if self._noise is not None:
            self._left[env_indices] = 0

    def get_state(self) -> dict[str, Array]:
        """With the noise of the last step."""
        if self._noise is None:
            return super().get_state()
        return {**super().get_state(), "noise": self._noise, "left": self._left}

    def set_state(self, state: Mapping[str, Array]) -> None:
        """Takes over a stored state."""
        super().set_state(state)
        self._noise = np.array(state["noise"]) if "noise" in state else None
        self._left = np.array(state["left"]) if "left" in state else np.zeros(0, np.int64)

    def greedy(self, scores: FloatArray) -> Array:
        """The means [E, A], clipped."""
        return self._clip(_mean_and_log_std(scores, "GaussianPolicy")[0])

    def for_env(self, action: Array) -> Array:
        """Clipped to the action space."""
        return self._clip(action)

    def log_prob(self, scores: FloatArray, action: Array) -> FloatArray:
        """log-density [E], summed over the A numbers: -((a - mean) / std)^2 / 2 - log_std - log(2 pi) / 2."""
        mean, log_std = _mean_and_log_std(scores, "GaussianPolicy")
        distance = (action - mean) * np.exp(-log_std)
        density: FloatArray = (-0.5 * distance**2 - log_std - 0.5 * math.log(2.0 * math.pi)).sum(axis=-1)
        return density


class SquashedGaussianPolicy(NoisyPolicy):
    """Samples tanh(N(mean, deviation)), scaled to the action space, from the agent's answer [E, 2A].

    As soft actor-critic acts (Haarnoja et al. 2018, appendix C). Log deviations are cut to `LOG_STD_RANGE`. Noise that
    lasts for some steps may be added where exploring step by step leads nowhere.

    Args:
        noise: See `NoisyPolicy`.
        relative: See `NoisyPolicy`.
        num_random_steps: See `ContinuousPolicy`.
    """

    _per_number = 2

    def __init__(self, noise: NoiseProcess | None = None, relative: bool = True, num_random_steps: int = 0) -> None:
        super().__init__(noise, relative, num_random_steps)

    def _needs_bounds(self) -> bool:
        return True

    def select(self, scores: FloatArray, rng: np.random.Generator) -> Array:
        """Actions [E, A] within the bounds."""
        mean, log_std = _mean_and_log_std(scores, "SquashedGaussianPolicy")
        if self._counts_random_step(len(scores)):
            return self._uniform(mean.shape, rng)
        std = np.exp(np.clip(log_std, *LOG_STD_RANGE))
        return self._with_noise(self._squash(mean + std * rng.standard_normal(mean.shape)), rng)

    def greedy(self, scores: FloatArray) -> Array:
        """tanh(mean) [E, A], scaled to the action space."""
        return self._squash(_mean_and_log_std(scores, "SquashedGaussianPolicy")[0])
