"""Learning rates that are schedules of the framework."""

import keras

from note_rl.optimizers import keras as keras_optimizers


def test_a_schedule_of_the_framework_is_taken_as_a_rate():
    schedule = keras.optimizers.schedules.ExponentialDecay(0.5, 10, 0.9)
    assert float(keras_optimizers.sgd([], schedule).learning_rate) == 0.5
