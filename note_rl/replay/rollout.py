"""On-policy experience: one rollout, its advantages, and the epochs of minibatches made of it."""

from collections.abc import Callable

import numpy as np

from note_rl.returns import generalised_advantage, standardise
from note_rl.types import Array, FloatArray, Sample, Steps

ValueFunction = Callable[[Array], FloatArray]


class Rollout:
    """T*E transitions of the current policy, ready to be read in shuffled minibatches and then forgotten."""

    def __init__(self, steps: Steps, gamma: float) -> None:
        self._columns = {
            name: _flatten(getattr(steps, name)) for name in ("obs", "action", "reward", "next_obs", "terminated")
        }
        self._extras: dict[str, FloatArray] = {}
        self._gamma = gamma
        self._steps = steps
        if steps.log_prob is not None:
            self._extras["log_prob_old"] = _flatten(steps.log_prob)

    def add_advantages(self, value: ValueFunction, gae_lambda: float, standardised: bool) -> None:
        """Adds advantage, return_ and value_old to what minibatches offer.

        Args:
            value: The agent's value function: [N, *obs] -> [N].
            gae_lambda: Weight of long against short returns, in [0, 1].
            standardised: Whether advantages get mean 0 and deviation 1 over the rollout. (Over the rollout, not the
                minibatch: samples of a minibatch then do not depend on each other.)
        """
        steps = self._steps
        shape = steps.reward.shape
        value_old = value(self._columns["obs"]).reshape(shape)
        next_value = value(self._columns["next_obs"]).reshape(shape)
        advantage, return_ = generalised_advantage(
            steps.reward, value_old, next_value, steps.terminated, steps.ended, self._gamma, gae_lambda
        )
        self._extras["advantage"] = _flatten(standardise(advantage) if standardised else advantage)
        self._extras["return_"] = _flatten(return_)
        self._extras["value_old"] = _flatten(value_old)

    def sample(self, num_epochs: int, batch_size: int, rng: np.random.Generator) -> Sample:
        """All minibatches of all epochs as one burst: each epoch reads every transition at most once, shuffled.

        Where T*E is no multiple of the batch size, each epoch leaves out a different random rest.
        """
        size = len(self._columns["reward"])
        num_batches = size // batch_size
        used = num_batches * batch_size
        order = np.concatenate([rng.permutation(size)[:used] for _ in range(num_epochs)])
        slots = order.reshape(num_epochs * num_batches, batch_size)
        terminated = self._columns["terminated"][slots].astype(np.float32)
        sync = np.zeros(len(slots), np.bool_)
        sync[-1] = True
        return Sample(
            obs=self._columns["obs"][slots],
            action=self._columns["action"][slots],
            reward=self._columns["reward"][slots],
            next_obs=self._columns["next_obs"][slots],
            terminated=terminated,
            discount=np.float32(self._gamma) * (1.0 - terminated),
            sync=sync,
            extras={name: values[slots] for name, values in self._extras.items()},
            slots=slots,
        )


def _flatten(values: Array) -> Array:
    """[T, E, ...] -> [T*E, ...]."""
    return values.reshape(-1, *values.shape[2:])
