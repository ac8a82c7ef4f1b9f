"""What ranks that have environments of their own have learned from, and the same as if one process had drawn it."""

import numpy as np

from note_rl.types import Sample


class Recorder:
    """Writes down the minibatches that a learner is given, with the numbers that come with them."""

    def __init__(self, agent):
        self.samples, self._update = [], agent.learner.update
        agent.learner.update = self

    def __call__(self, sample, hyperparameters):
        self.samples.append((sample, dict(hyperparameters)))
        return self._update(sample, hyperparameters)


def concatenated(samples):
    """What one process would have been given: the rows of all ranks, [K, B]."""
    first = samples[0]

    def whole(name, values):
        if values is None or name == "sync":
            return values
        return np.concatenate([one.extras[name] if name in one.extras else getattr(one, name) for one in samples], 1)

    names = ("obs", "action", "reward", "next_obs", "terminated", "discount", "weights", "sync")
    columns = {name: whole(name, getattr(first, name)) for name in names}
    return Sample(**columns, extras={name: whole(name, values) for name, values in first.extras.items()})
