"""One test for each private name of Keras: it says what breaks if the name is gone or means something else."""

import threading

import keras
import numpy as np
import pytest
from keras.src.layers import layer as layers

from note_rl.learners.keras import keras_internals as internals


class Seen(keras.layers.Layer):
    """Notes the mode that it is called in."""

    def __init__(self):
        super().__init__()
        self.modes = []

    def call(self, x, training=None):
        self.modes.append(training)
        return x


def test_the_mode_of_outermost_layers():
    """CallContext: without it, dropout and batch normalisation of our agents run in the wrong mode, silently."""
    seen = Seen()
    network = keras.Sequential([seen])
    x = np.ones((1, 1), np.float32)
    network(x)  # which calls it while it builds, too
    seen.modes.clear()
    with internals.training_decided_by(lambda layer: layer is network):
        network(x)
        seen(x)
        network(x, training=False)
        with internals.training_decided_by(lambda layer: False):
            network(x)
        network(x)
    network(x)
    assert seen.modes == [True, False, False, False, True, None]


def test_other_programs_of_the_process_keep_their_own_class():
    """It is replaced in blocks only, also where several overlap, and other threads are not concerned."""
    own, seen, x = layers.CallContext, Seen(), np.ones((1, 1), np.float32)
    within, done = threading.Event(), threading.Event()

    def overlap():
        with internals.training_decided_by(lambda layer: True):
            within.set()
            done.wait()

    other = threading.Thread(target=overlap)
    other.start()
    within.wait()
    seen(x)
    with internals.training_decided_by(lambda layer: False):
        seen(x)
    assert layers.CallContext is not own, "the other block is at work"
    done.set()
    other.join()
    assert layers.CallContext is own
    assert seen.modes == [None, False]
    with pytest.raises(KeyError), internals.training_decided_by(lambda layer: True):
        raise KeyError
    assert layers.CallContext is own


def test_which_layers_take_a_mode():
    """Layer._call_has_training_arg: without it, `training=False` is given to layers that do not know the word."""
    assert internals.takes_training(keras.layers.Dropout(0.5))
    assert not internals.takes_training(keras.layers.Flatten())


def test_layers_within():
    """Layer._flatten_layers, _layers: without them, layers within layers are neither watched nor restored."""
    inner = keras.layers.Dense(1)
    network = keras.Sequential([keras.Sequential([inner])])
    assert internals.all_layers(network)[0] is network
    assert any(layer is inner for layer in internals.all_layers(network))
    assert internals.has_sublayers(network)
    assert not internals.has_sublayers(inner)


def test_the_kernel_of_a_dense_layer():
    """Dense._kernel: without it, gradient noise finds the wrong variable where the kernel is worked out."""
    layer = keras.layers.Dense(2)
    layer.build((None, 3))
    assert internals.kernel_of(layer) is layer.trainable_variables[0]


def test_the_rate_of_an_optimizer():
    """Optimizer._learning_rate: without it, a schedule of Keras' own cannot be distinguished from a number."""
    schedule = keras.optimizers.schedules.ExponentialDecay(0.1, 10, 0.9)
    assert internals.rate_of(keras.optimizers.SGD(schedule)) is schedule
    optimizer = keras.optimizers.SGD(0.25)
    assert internals.rate_of(optimizer) is optimizer.learning_rate
    assert float(internals.rate_of(optimizer)) == 0.25


def test_another_count_of_an_optimizer_s_steps():
    """Optimizer._iterations: without it, Adam takes the steps of groups that wait for as many as those of all."""
    optimizer, variables = keras.optimizers.Adam(0.1), [keras.Variable([1.0]), keras.Variable([1.0])]
    optimizer.build(variables)
    optimizer.apply([keras.ops.ones(1)], variables[:1])
    optimizer.apply([keras.ops.ones(1)], variables[:1])
    count = keras.Variable(0, dtype="int32", trainable=False)
    own = internals.count_of(optimizer)
    assert own is optimizer.iterations
    with internals.counting_in(optimizer, count, own):
        optimizer.apply([keras.ops.ones(1)], variables[1:])
        with internals.counting_in(optimizer, count, own):  # as another replica has it, side by side
            pass
    assert internals.count_of(optimizer) is own
    assert (int(count), int(optimizer.iterations)) == (1, 2)
    np.testing.assert_allclose(variables[1], [0.9], rtol=1e-5)


def test_variables_of_an_optimizer():
    """Optimizer._trainable_variables: without it, an optimizer of another agent is taken without a word."""
    variable = keras.Variable([1.0, 2.0])
    optimizer = keras.optimizers.SGD(0.1)
    optimizer.build([variable])
    assert [one is variable for one in internals.variables_of(optimizer)] == [True]


@pytest.mark.parametrize("momentum", [0.0, 0.9])
def test_slots_of_rmsprop(momentum):
    """_get_variable_index, _velocities, _momentums: without them, our RMSprop has no slots."""
    variables = [keras.Variable([1.0]), keras.Variable([1.0, 2.0])]
    optimizer = keras.optimizers.RMSprop(0.1, momentum=momentum)
    optimizer.build(variables)
    velocity, moment = internals.velocity_and_momentum(optimizer, variables[1])
    assert velocity.shape == (2,)
    assert (moment is None) == (momentum == 0.0)
    assert moment is None or moment.shape == (2,)


def test_what_a_variable_holds():
    """Variable._value: without it, one variable of both libraries counts as two."""
    variable = keras.Variable([1.0])
    held = internals.held_by(variable)
    held.assign([3.0])
    assert float(variable[0]) == 3.0
    assert internals.identity(variable) == internals.identity(held) == id(held)
