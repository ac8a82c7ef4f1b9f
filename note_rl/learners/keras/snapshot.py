"""The parameters that an agent goes back to when an update block of gradient steps has made them not finite."""

from collections.abc import Sequence
from typing import Any

import keras
import tensorflow as tf


class ParameterSnapshot:
    """The variables as they are where this is made: within the function that an update is traced into.

    XLA copies them in the time of a fraction of a gradient step.

    Args:
        variables: That the update block may change.
        learning: Those that optimizers change.
    """

    def __init__(self, variables: Sequence[Any], learning: Sequence[Any]) -> None:
        self._variables = variables
        self._learning = learning
        self._before = [tf.identity(value_of(variable)) for variable in variables]

    def unless_sound(self, losses: Any) -> Any:
        """Goes back unless all losses and all that was learned is finite; returns whether it did, []."""
        learned = map(value_of, self._learning)
        sound = tf.reduce_all([tf.reduce_all(tf.math.is_finite(tensor)) for tensor in (losses, *learned)])
        tf.cond(sound, lambda: 0, self._go_back)
        return tf.logical_not(sound)

    def _go_back(self) -> int:
        for variable, values in zip(self._variables, self._before, strict=True):
            variable.assign(values)
        return 0


def value_of(variable: Any) -> Any:
    """Returns what a variable of Keras or TensorFlow holds."""
    return variable.value if isinstance(variable, keras.Variable) else variable.read_value()
