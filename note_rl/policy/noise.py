"""Noise that is added to continuous actions to explore.

A process draws for all environments at once with the caller's generator; `sample` is the single-vector form of the
manuals and uses a generator of the process's own. Standard deviations may fall over time by themselves
(`sigma_min`, `n_steps_annealing`); steps of all environments together are counted, as everywhere in a training budget.
"""

import math
from abc import abstractmethod
from collections.abc import Mapping, Sequence

import numpy as np

from note_rl.errors import CheckpointError, SettingsError
from note_rl.policy.restartable import Restartable
from note_rl.support.value_kinds import Count, Number
from note_rl.types import Array, FloatArray, IntArray, nested_parts, under


class NoiseProcess(Restartable):
    """Something to be added to actions.

    Args:
        size: Numbers that `sample` returns. In training the environment's action says how many are needed; a size
            that contradicts it is refused.
    """

    def __init__(self, size: int = 1) -> None:
        self.size = Count()("size", size)
        self._generator: np.random.Generator | None = None

    @abstractmethod
    def draw(self, shape: tuple[int, ...], rng: np.random.Generator) -> FloatArray:
        """Noise of the given shape [E, ..., A] for one step of every environment."""

    def reset(self, env_indices: IntArray) -> None:
        """Begins anew in the environments [k] whose episode has just started."""

    def sample(self) -> FloatArray:
        """Noise [size] for one step of a single environment."""
        if self._generator is None:
            self._generator = np.random.default_rng()
        one: FloatArray = self.draw((1, self.size), self._generator)[0]
        return one

    def reset_states(self) -> None:
        """Begins anew, as at the start of an episode."""
        self.reset(np.zeros(1, np.int64))

    def get_state(self) -> dict[str, Array]:
        """The state that a checkpoint needs to go on exactly."""
        return {}

    def set_state(self, state: Mapping[str, Array]) -> None:
        """Takes over a stored state."""

    def __add__(self, other: "NoiseProcess") -> "NoiseSum":
        return NoiseSum([self, other])

    def check_size(self, num_numbers: int) -> None:
        """Refuses a `size` that is neither 1, which fits every action, nor the action's own (SettingsError)."""
        if self.size not in (1, num_numbers):
            raise SettingsError(
                f"{type(self).__name__}(size={self.size}) does not fit an action of {num_numbers} numbers; "
                f"use size={num_numbers} or leave it out"
            )


def _check_finite(**values: float) -> None:
    for name, value in values.items():
        Number()(name, value)


class AnnealedNoise(NoiseProcess):
    """Noise whose standard deviation falls in a straight line.

    Args:
        mu: Mean.
        sigma: Standard deviation at the start.
        sigma_min: Standard deviation after `n_steps_annealing` steps; None: it stays.
        n_steps_annealing: Environment steps, all environments together.
        size: See `NoiseProcess`.
    """

    def __init__(self, mu: float, sigma: float, sigma_min: float | None, n_steps_annealing: int, size: int) -> None:
        super().__init__(size)
        _check_finite(mu=mu)
        Number(0.0)("sigma", sigma)
        if sigma_min is not None:
            Number(0.0, sigma, hint="; leave it out for noise that does not fall")("sigma_min", sigma_min)
        self.mu = mu
        self.sigma = sigma
        self.sigma_min = sigma_min
        self.n_steps_annealing = Count()("n_steps_annealing", n_steps_annealing)
        self.num_steps = 0

    @property
    def current_sigma(self) -> float:
        """Standard deviation of the next step."""
        if self.sigma_min is None:
            return self.sigma
        left = max(1.0 - self.num_steps / self.n_steps_annealing, 0.0)
        return self.sigma_min + (self.sigma - self.sigma_min) * left

    def get_state(self) -> dict[str, Array]:
        """How far annealing has come."""
        return {"num_steps": np.array(self.num_steps, np.int64)}

    def set_state(self, state: Mapping[str, Array]) -> None:
        """Takes over a stored state."""
        self.num_steps = int(state["num_steps"])


class GaussianWhiteNoiseProcess(AnnealedNoise):
    """Independent normal noise in every step and every number of the action; see `AnnealedNoise` for the arguments."""

    def __init__(
        self,
        mu: float = 0.0,
        sigma: float = 1.0,
        sigma_min: float | None = None,
        n_steps_annealing: int = 1000,
        size: int = 1,
    ) -> None:
        super().__init__(mu, sigma, sigma_min, n_steps_annealing, size)

    def draw(self, shape: tuple[int, ...], rng: np.random.Generator) -> FloatArray:
        """Noise [E, ..., A]."""
        noise: FloatArray = self.mu + self.current_sigma * rng.standard_normal(shape)
        self.num_steps += shape[0]
        return noise


class OrnsteinUhlenbeckProcess(AnnealedNoise):
    """Noise that wanders around `mu`, so that a push lasts for some steps (Uhlenbeck & Ornstein 1930).

    x <- x + theta * (mu - x) * dt + sigma * sqrt(dt) * N(0, 1), as in Lillicrap et al. 2016, section 7. Over a long
    episode its deviation settles at sigma / sqrt(theta * (2 - theta * dt)). Each episode starts at N(mu, sigma).

    Args:
        theta: How strongly it is drawn back to the mean, per unit of time.
        mu: Mean.
        sigma: Standard deviation of what pushes it, per root of a unit of time.
        dt: Time that a step takes.
        size, sigma_min, n_steps_annealing: See `AnnealedNoise`.
    """

    def __init__(
        self,
        theta: float,
        mu: float = 0.0,
        sigma: float = 1.0,
        dt: float = 1e-2,
        size: int = 1,
        sigma_min: float | None = None,
        n_steps_annealing: int = 1000,
    ) -> None:
        super().__init__(mu, sigma, sigma_min, n_steps_annealing, size)
        _check_finite(theta=theta, dt=dt)
        if theta <= 0.0 or dt <= 0.0 or theta * dt >= 2.0:
            raise SettingsError(
                f"theta and dt must be above 0 and theta * dt below 2, or the noise grows without end; got "
                f"theta={theta}, dt={dt}"
            )
        self.theta = theta
        self.dt = dt
        self._x: FloatArray | None = None  # [E, ..., A]
        self._starts = np.zeros(0, np.bool_)  # [E], where the next step is the first of an episode

    def draw(self, shape: tuple[int, ...], rng: np.random.Generator) -> FloatArray:
        """Noise [E, ..., A]."""
        if self._x is None or self._x.shape != shape:
            self._x = np.zeros(shape)
            self._starts = np.ones(shape[0], np.bool_)
        sigma = self.current_sigma
        if self._starts.any():
            self._x[self._starts] = self.mu + sigma * rng.standard_normal(self._x[self._starts].shape)
            self._starts[:] = False
        push = sigma * math.sqrt(self.dt) * rng.standard_normal(shape)
        self._x = self._x + self.theta * (self.mu - self._x) * self.dt + push
        self.num_steps += shape[0]
        return self._x.copy()

    def reset(self, env_indices: IntArray) -> None:
        """The next step in these environments starts from N(mu, sigma)."""
        if self._x is not None:
            self._starts[env_indices] = True

    def get_state(self) -> dict[str, Array]:
        """Where it is, and how far annealing has come."""
        if self._x is None:
            return super().get_state()
        return {**super().get_state(), "x": self._x, "starts": self._starts}

    def set_state(self, state: Mapping[str, Array]) -> None:
        """Takes over a stored state."""
        super().set_state(state)
        self._x = np.array(state["x"]) if "x" in state else None
        self._starts = np.array(state["starts"]) if "starts" in state else np.zeros(0, np.bool_)


class ClippedNoise(NoiseProcess):
    """Another noise, cut off at +-`limit`: no single step is pushed further than that."""

    def __init__(self, noise: NoiseProcess, limit: float) -> None:
        super().__init__(noise.size)
        self.noise = noise
        self.limit = Number(0.0, above=True)("limit", limit)

    def draw(self, shape: tuple[int, ...], rng: np.random.Generator) -> FloatArray:
        """Noise [E, ..., A] in [-limit, limit]."""
        clipped: FloatArray = np.clip(self.noise.draw(shape, rng), -self.limit, self.limit)
        return clipped

    def reset(self, env_indices: IntArray) -> None:
        """Begins anew in these environments."""
        self.noise.reset(env_indices)

    def _inner(self) -> Sequence[Restartable]:
        """The other noise."""
        return [self.noise]

    def get_state(self) -> dict[str, Array]:
        """That of the noise inside."""
        return self.noise.get_state()

    def set_state(self, state: Mapping[str, Array]) -> None:
        """Takes over a stored state."""
        self.noise.set_state(state)


class SeveralNoises(NoiseProcess):
    """Common base of processes made of several others."""

    def __init__(self, noises: Sequence[NoiseProcess]) -> None:
        if not noises:
            raise SettingsError("an empty list of noises; give at least one, or leave noise out")
        super().__init__(max(noise.size for noise in noises))
        self.noises = list(noises)

    def _inner(self) -> Sequence[Restartable]:
        """All of them."""
        return self.noises

    def get_state(self) -> dict[str, Array]:
        """Those of its parts, numbered."""
        return nested_parts(noise.get_state() for noise in self.noises)

    def set_state(self, state: Mapping[str, Array]) -> None:
        """Takes over a stored state."""
        if any(int(name.partition("/")[0]) >= len(self.noises) for name in state):
            raise CheckpointError(f"the checkpoint holds more than the {len(self.noises)} noises there are here")
        for index, noise in enumerate(self.noises):
            noise.set_state(under(str(index), state))


class NoiseSum(SeveralNoises):
    """Several noises at once, for example slow wandering with white noise on top: `NoiseSum([a, b])` or `a + b`."""

    def draw(self, shape: tuple[int, ...], rng: np.random.Generator) -> FloatArray:
        """Noise [E, ..., A]."""
        total: FloatArray = np.sum([noise.draw(shape, rng) for noise in self.noises], axis=0)
        return total

    def reset(self, env_indices: IntArray) -> None:
        """Begins anew in these environments."""
        for noise in self.noises:
            noise.reset(env_indices)
