"""Where the next part of training is expected to gain most, from what all parts so far have gained.

The model is that of PB2 (Parker-Holder et al. 2020, "Provably Efficient Online Hyperparameter Optimization with
Population-Based Bandits", section 4): a Gaussian process over hyperparameters whose kernel forgets with time, since
what is best now need not be so later. Of a few hundred points that with the highest upper confidence bound is proposed;
whatever is proposed for one member is held to have come true for the next, so that they do not all try the same.
"""

import itertools
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TypeAlias

import numpy as np
from numpy.typing import NDArray
from optuna.distributions import BaseDistribution, FloatDistribution, IntDistribution

from note_rl.seeding import generator
from tuner.results.records import Scalar
from tuner.study.space.drawn_points import anywhere
from tuner.study.space.space import Parameter

Floats: TypeAlias = NDArray[np.float64]

_NUM_POINTS = 500
_BOUND = 1.0
"""Standard deviations above the mean at which a point is judged."""
_LENGTHS = (0.1, 0.2, 0.4, 0.8)
_FORGETTING = (0.0, 0.1, 0.3)
_NOISE = (0.03, 0.1, 0.3, 1.0)


@dataclass(frozen=True)
class TrainedPart:
    """A member in one generation.

    Attributes:
        generation: Which.
        drawn: Its point of the space.
        gain: By how much its score rose; from nothing in the first generation.
    """

    generation: int
    drawn: Mapping[str, Scalar]
    gain: float


@dataclass(frozen=True)
class Kernel:
    """How alike two parts are.

    Attributes:
        length: Distance, in widths of the search range, over which gains change.
        forgetting: Share of what is known that is lost every two generations.
        noise: Variance of a gain about what it is at that point, in variances of all gains.
    """

    length: float
    forgetting: float
    noise: float

    def __call__(self, one: Floats, other: Floats) -> Floats:
        """Covariances, [N, M], of parts [N, 1 + D] and [M, 1 + D]: generation, then coordinates."""
        apart = one[:, None, :] - other[None, :, :]
        near = np.exp(-0.5 * np.square(apart[..., 1:] / self.length).sum(axis=-1))
        return np.asarray(near * (1.0 - self.forgetting) ** (0.5 * np.abs(apart[..., 0])))


class GainModel:
    """Gains of parts of training, modelled with the kernel under which the observed gains are most likely.

    Args:
        parts: Generation and coordinates, [N, 1 + D].
        gains: Of each, [N].
    """

    def __init__(self, parts: Floats, gains: Floats) -> None:
        kernels = (Kernel(*values) for values in itertools.product(_LENGTHS, _FORGETTING, _NOISE))
        self._kernel = max(kernels, key=lambda kernel: _log_likelihood(kernel, parts, gains))
        self._parts, self._gains = parts, gains

    def predict(self, parts: Floats) -> tuple[Floats, Floats]:
        """Mean and standard deviation of what parts [M, 1 + D] gain, each [M]."""
        root = _root(self._kernel, self._parts)
        across = np.linalg.solve(root, self._kernel(self._parts, parts))
        mean = across.T @ np.linalg.solve(root, self._gains)
        return mean, np.sqrt(np.maximum(1.0 - np.square(across).sum(axis=0), 0.0))

    def believe(self, part: Floats) -> None:
        """Takes in a part [1 + D] that is under way, as if it gained what is expected of it."""
        mean, _ = self.predict(part[None])
        self._parts, self._gains = np.vstack([self._parts, part]), np.append(self._gains, mean)


class GainSeeker:
    """Proposes values for one generation after the other.

    Args:
        evolving: The parameters that change.
        past: All that has been trained.
        generation: That begins.
        seed: Of the study.
    """

    def __init__(self, evolving: Sequence[Parameter], past: Sequence[TrainedPart], generation: int, seed: int) -> None:
        self._evolving, self._generation, self._seed = evolving, generation, seed
        known = [part for part in past if all(parameter.name in part.drawn for parameter in evolving)]
        parts = np.array([[part.generation, *self._coordinates(part.drawn)] for part in known], dtype=np.float64)
        self._model = GainModel(parts, _within_generations(known)) if known else None

    def propose(self, member: int) -> dict[str, Scalar]:
        """Values of the parameters that change; to be asked for one member after the other."""
        rng = generator(self._seed, "gains", self._generation, member)
        points = [{one.name: anywhere(one.distribution, rng) for one in self._evolving} for _ in range(_NUM_POINTS)]
        if self._model is None:
            return points[0]
        parts = np.array([[self._generation, *self._coordinates(point)] for point in points])
        mean, deviation = self._model.predict(parts)
        best = int(np.argmax(mean + _BOUND * deviation))
        self._model.believe(parts[best])
        return points[best]

    def _coordinates(self, drawn: Mapping[str, Scalar]) -> list[float]:
        return [_coordinate(one.distribution, drawn[one.name]) for one in self._evolving]


def _coordinate(distribution: BaseDistribution, value: Scalar) -> float:
    """Where a value lies in its range, from 0 to 1."""
    assert isinstance(distribution, FloatDistribution | IntDistribution)
    assert isinstance(value, int | float)
    low, high, point = float(distribution.low), float(distribution.high), float(value)
    if distribution.log:
        low, high, point = np.log([low, high, point])
    return float((point - low) / (high - low)) if high > low else 0.0


def _within_generations(parts: Sequence[TrainedPart]) -> Floats:
    """Gains, each beside the others of its generation: later parts gain less, whatever their values are."""
    gains = np.array([part.gain for part in parts], dtype=np.float64)
    generations = np.array([part.generation for part in parts])
    for generation in np.unique(generations):
        own = generations == generation
        gains[own] = (gains[own] - gains[own].mean()) / (gains[own].std() or 1.0)
    return gains


def _root(kernel: Kernel, parts: Floats) -> Floats:
    return np.asarray(np.linalg.cholesky(kernel(parts, parts) + kernel.noise * np.eye(len(parts))), dtype=np.float64)


def _log_likelihood(kernel: Kernel, parts: Floats, gains: Floats) -> float:
    """Rasmussen and Williams 2006, eq. 2.30, without its constant."""
    root = _root(kernel, parts)
    return float(-0.5 * np.square(np.linalg.solve(root, gains)).sum() - np.log(np.diag(root)).sum())
