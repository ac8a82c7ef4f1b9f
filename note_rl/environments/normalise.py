"""Running statistics, and observations and rewards brought to unit scale by them.

What is stored stays as it came. Observations are normalised when the agent acts and when it is trained; the statistics
move between training phases only, so that within one rollout the agent always sees the same thing.
"""

from collections.abc import Mapping

import numpy as np

from note_rl.types import Array, BoolArray, FloatArray, Steps

_EPSILON = 1e-8


class RunningMoments:
    """Mean and variance of everything seen, per entry, in double precision (Chan et al. 1979, eq. 2.1).

    Args:
        shape: Of one sample.
    """

    def __init__(self, shape: tuple[int, ...] = ()) -> None:
        self.count = 0
        self.mean: FloatArray = np.zeros(shape)
        self._squares: FloatArray = np.zeros(shape)  # sum of squared distances from the mean

    def update(self, samples: Array) -> None:
        """Takes in samples [N, *shape]."""
        number = len(samples)
        if number == 0:
            return
        samples = np.asarray(samples, np.float64)
        mean = samples.mean(axis=0)
        squares = ((samples - mean) ** 2).sum(axis=0)
        distance = mean - self.mean
        total = self.count + number
        self._squares = self._squares + squares + distance**2 * (self.count * number / total)
        self.mean = self.mean + distance * (number / total)
        self.count = total

    @property
    def std(self) -> FloatArray:
        """Standard deviation; 1 before there are two samples and where they were all the same."""
        if self.count < 2:
            return np.ones_like(self.mean)
        std: FloatArray = np.sqrt(self._squares / self.count)
        return np.where(std > _EPSILON, std, 1.0)

    def get_state(self) -> dict[str, Array]:
        """Count and moments."""
        return {"count": np.array(self.count, np.int64), "mean": self.mean, "squares": self._squares}

    def set_state(self, state: Mapping[str, Array]) -> None:
        """Takes over a stored state."""
        self.count = int(state["count"])
        self.mean = np.array(state["mean"])
        self._squares = np.array(state["squares"])


class ObservationNormaliser:
    """Observations with mean 0 and deviation 1 per entry, cut at +-`limit` deviations.

    Attributes:
        kept: Entries that are left as they are [*obs], as bytes are; None: there are none.
    """

    def __init__(self, limit: float = 10.0) -> None:
        self.limit = limit
        self.moments: RunningMoments | None = None
        self.kept: BoolArray | None = None

    def update(self, obs: Array) -> None:
        """Takes in observations [T, E, *obs]."""
        shape = obs.shape[2:]
        if self.moments is None:
            self.moments = RunningMoments(shape)
        self.moments.update(obs.reshape(-1, *shape))

    def __call__(self, obs: Array) -> Array:
        """Normalised observations [..., *obs] in single precision; as they are before any were taken in."""
        if self.moments is None:
            return obs  # bytes, too: networks divide them by 255
        mean, std, limit = self.scaling()
        normalised: FloatArray = np.clip((obs - mean) / std, -limit, limit).astype(np.float32)
        return normalised

    def scaling(self) -> tuple[FloatArray, FloatArray, FloatArray]:
        """Offset of each entry, its divisor, and the limit at which it is clipped, [*obs] each."""
        assert self.moments is not None, "observations were seen"
        mean, std = self.moments.mean, self.moments.std
        limit = np.full_like(mean, self.limit)
        if self.kept is None:
            return mean, std, limit
        return np.where(self.kept, 0.0, mean), np.where(self.kept, 1.0, std), np.where(self.kept, np.inf, limit)

    def get_state(self) -> dict[str, Array]:
        """The moments, and which entries are kept."""
        if self.moments is None:
            return {}
        return {**self.moments.get_state(), **({} if self.kept is None else {"kept": self.kept})}

    def set_state(self, state: Mapping[str, Array]) -> None:
        """Takes over a stored state."""
        self.moments, self.kept = None, None
        if state:
            self.moments = RunningMoments(state["mean"].shape)
            self.moments.set_state(state)
            self.kept = np.array(state["kept"], np.bool_) if "kept" in state else None


class RewardNormaliser:
    """Rewards divided by the deviation of the discounted return (Engstrom et al. 2020, section 2), cut at +-`limit`.

    The mean is left alone: moving it would make longer or shorter episodes better.
    """

    def __init__(self, limit: float = 10.0) -> None:
        self.limit = limit
        self.moments = RunningMoments()
        self._return: FloatArray | None = None  # [E], discounted, of the running episodes

    def update(self, steps: Steps, gamma: float) -> None:
        """Takes in what was collected [T, E]."""
        if self._return is None or len(self._return) != steps.reward.shape[1]:
            self._return = np.zeros(steps.reward.shape[1:])
        seen = np.empty(steps.reward.shape)
        for t, (reward, ended) in enumerate(zip(steps.reward, steps.ended, strict=True)):
            self._return = gamma * self._return + reward
            seen[t] = self._return
            self._return[ended] = 0.0
        self.moments.update(seen.reshape(-1))

    def __call__(self, reward: FloatArray) -> FloatArray:
        """Scaled rewards of any shape."""
        scaled: FloatArray = np.clip(reward / self.moments.std, -self.limit, self.limit).astype(np.float32)
        return scaled

    def get_state(self) -> dict[str, Array]:
        """The moments, and how far the running episodes have come."""
        running = {} if self._return is None else {"return": self._return}
        return {**self.moments.get_state(), **running}

    def set_state(self, state: Mapping[str, Array]) -> None:
        """Takes over a stored state."""
        self.moments.set_state(state)
        self._return = np.array(state["return"]) if "return" in state else None
