"""Arrays that go into compiled code as one, results that come back as one, and variables that are read at once."""

import numpy as np
import pytest
import tensorflow as tf

from note_rl.learners.keras.tensor_packing import PackedRows, Packing
from note_rl.learners.keras.tensorflow_internals import quick_call
from note_rl.learners.keras.variables import ReadTogether, as_array


def arrays():
    """Of all kinds; as floats, some of the integers would be nan, infinite and denormal."""
    return {
        "obs": np.arange(6, dtype=np.float32).reshape(2, 3),
        "action": np.array([-1, 2**31 - 1, 0x7F800001, 1], np.int32),
        "image": np.arange(4, dtype=np.uint8).reshape(2, 2),
        "reward": np.array([np.nan, -np.inf, -0.0], np.float32),
        "done": np.array([True, False]),
        "nothing": np.zeros(0, np.float32),
        "large": np.array([2**40], np.int64),
    }


@pytest.mark.parametrize("compiled", [False, pytest.param(True, marks=pytest.mark.xla)])
def test_what_was_packed_is_the_same_to_the_bit(compiled):
    given = arrays()
    packing = Packing(given)
    tensors = packing.packed(given)
    assert len(tensors) == 4  # the buffer, bytes, truth values and integers of 64 bits
    found = tf.function(lambda *tensors: packing.unpacked(tensors), jit_compile=compiled)(*tensors)
    assert list(found) == list(given)
    for name, array in given.items():
        assert found[name].dtype == array.dtype
        assert found[name].numpy().tobytes() == array.tobytes()
        assert found[name].shape == array.shape


def test_packed_tensors_do_not_follow_the_arrays():
    given = {"obs": np.zeros(3, np.float32)}
    tensors = Packing(given).packed(given)
    given["obs"] += 1.0
    assert not tensors[0].numpy().any()


def test_rows_come_back_in_their_shapes():
    rows = PackedRows()
    function = tf.function(lambda x: rows.packed({"loss": x, "sound": tf.reduce_all(x > 0.0), "row": x[0]}))
    flat = function(tf.constant([[1.0, 2.0], [3.0, -4.0]])).numpy()
    found = rows.unpacked(flat)
    np.testing.assert_array_equal(found["loss"], [[1.0, 2.0], [3.0, -4.0]])
    assert found["sound"].shape == ()
    assert not found["sound"]
    np.testing.assert_array_equal(found["row"], [1.0, 2.0])


def test_a_quick_call_does_what_the_function_does():
    total = tf.Variable(1.0)

    @tf.function
    def add(x, y):
        return total.assign_add(x * y)

    function = add.get_concrete_function(tf.constant(0.0), tf.constant(0.0))
    call = quick_call(function)
    assert call is not function
    assert [float(call(tf.constant(2.0), tf.constant(3.0))) for _ in range(2)] == [7.0, 13.0]
    total.assign(0.0)
    assert float(tf.function(lambda: call(tf.constant(2.0), tf.constant(3.0)))()) == 6.0  # within another graph


def test_functions_of_several_results_are_called_the_ordinary_way():
    function = tf.function(lambda x: (x, 2.0 * x)).get_concrete_function(tf.constant(0.0))
    assert quick_call(function) is function


def test_variables_are_read_anew_in_each_call_whichever_they_are():
    variables = [tf.Variable([float(index)]) for index in range(3)]
    wanted = [0, 1]
    read = ReadTogether(lambda: [as_array(variables[index]) for index in wanted])
    assert np.ravel(read()).tolist() == [0.0, 1.0]
    variables[1].assign([5.0])
    assert np.ravel(read()).tolist() == [0.0, 5.0]
    wanted[:] = [2, 1, 2]  # others, and one of them twice
    for _ in range(2):
        first, _, again = read()
        first += 1.0
        assert again.tolist() == variables[2].numpy().tolist() == [2.0]


def test_what_fails_leaves_no_trace():
    variable = tf.Variable([1.0])

    def fail():
        as_array(variable)
        raise ValueError

    read = ReadTogether(fail)
    for _ in range(2):
        with pytest.raises(ValueError):  # noqa: PT011
            read()
    variable.assign([2.0])
    assert as_array(variable).tolist() == [2.0]
