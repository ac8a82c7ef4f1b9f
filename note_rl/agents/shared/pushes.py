"""State-dependent exploration in no framework: answers for acting in NumPy, and what networks must show for it."""

from functools import partial
from typing import Any

import numpy as np

from note_rl.errors import SettingsError
from note_rl.learners.numpy_policy import DenseLayer, with_hidden_beside
from note_rl.types import FloatArray

_SHOWN = ("features", "last_hidden", "output_layer")


def check_shows_hidden(network: Any) -> None:
    """Refuses a network that does not show its last hidden layer, which state-dependent noise is made of.

    Raises:
        SettingsError: Naming its class.
    """
    if not all(hasattr(network, name) for name in _SHOWN):
        raise SettingsError(
            f"gsde takes what the last hidden layer of the policy's network gives, and {type(network).__name__} does "
            "not show it: use an MLP, a CNN or a list of layers, or give yours features(x), last_hidden(features) and "
            "output_layer as MLP has them"
        )


def means_and_pushes(outputs: FloatArray, deviations: FloatArray, clip_mean: float | None) -> FloatArray:
    """Answers [E, A + A*F] for outputs [E, A + F] of a network, which are means and features.

    Args:
        outputs: These.
        deviations: Of the noise matrix, [A, F].
        clip_mean: The farthest from 0 that a mean may be; None: anywhere.
    """
    num_actions = len(deviations)
    mean, hidden = outputs[:, :num_actions], outputs[:, num_actions:]
    if clip_mean is not None:
        mean = np.clip(mean, -clip_mean, clip_mean)
    pushes = (hidden[:, None, :] * deviations).reshape(len(outputs), -1)
    return np.concatenate([mean, pushes], axis=1)


def layers_with_pushes(layers: list[DenseLayer], deviations: FloatArray, clip_mean: float | None) -> list[DenseLayer]:
    """Returns the layers of a policy's means [A] as those of its answers; see `means_and_pushes`."""
    return with_hidden_beside(layers, partial(means_and_pushes, deviations=deviations, clip_mean=clip_mean))
