"""Values of the actions taken, in Keras."""

import numpy as np
import tensorflow as tf

from note_rl.agents.shared.keras.distributions import at_action


def test_it_takes_those_of_the_actions_and_gives_them_all_of_the_gradient():
    values = tf.constant([[[1.0, 2.0, 3.0], [4.0, 5.0, np.nan]], [[7.0, 8.0, -np.inf], [-1.0, -2.0, -3.0]]])
    a = tf.constant([[2, 0], [1, 1]])
    with tf.GradientTape() as tape:
        tape.watch(values)
        taken = at_action(values, a)
        gradient = tape.gradient(taken, values, output_gradients=tf.constant([[1.0, 2.0], [3.0, 4.0]]))
    np.testing.assert_array_equal(taken, [[3.0, 4.0], [8.0, -2.0]])
    np.testing.assert_array_equal(gradient, [[[0, 0, 1], [2, 0, 0]], [[0, 3, 0], [0, 4, 0]]])
