"""One test for each private name of TensorFlow: it says what breaks if the name is gone or means something else."""

import numpy as np
import pytest
import tensorflow as tf

from note_rl.learners.keras import tensorflow_internals as internals


def test_variables_are_read_together():
    """execute, context, _ReadVariablesOp: without them, acting reads one variable after the other."""
    variables = [tf.Variable([1.0, 2.0]), tf.Variable(3, dtype=tf.int64)]
    assert internals.READS_SEVERAL
    first, second = internals.read_variables(variables)
    assert (first.numpy().tolist(), int(second)) == ([1.0, 2.0], 3)


def test_a_concrete_function_is_called_by_its_name(monkeypatch):
    """_captured_inputs, _inference_function, call_function: without them, a call takes some 50 us more."""
    offset = tf.Variable(1.0)
    function = tf.function(lambda x: x + offset).get_concrete_function(tf.TensorSpec((), tf.float32))
    monkeypatch.setattr(type(function), "__call__", lambda *_: pytest.fail("it takes the long way"))
    assert float(internals.quick_call(function)(tf.constant(2.0))) == 3.0


def test_variables_become_constants():
    """convert_variables_to_constants_v2: without it, no ONNX model is written of an agent in Keras."""
    weight = tf.Variable([[2.0]])
    function = tf.function(lambda x: x @ weight).get_concrete_function(tf.TensorSpec((1, 1), tf.float32))
    constant = internals.frozen(function)
    weight.assign([[5.0]])
    assert not constant.variables
    np.testing.assert_array_equal(constant(tf.constant([[3.0]]))[0], [[6.0]])


def branching(x):
    return call_within(sign, x) if x.shape == () else x


def sign(x):
    if x > 0.0:
        x = tf.ones([])
    return x


def call_within(function, *arguments):
    return internals.call_read(function, arguments)


def test_what_is_left_unread_has_others_read(monkeypatch):
    """autograph_info__, converted_call, control_status_ctx: without them, AutoGraph reads all of the learner's source.

    That is right, too, and takes three seconds more in each process.
    """
    read, convert = [], internals.api._convert_actual
    monkeypatch.setattr(internals.api, "_convert_actual", lambda one, *more: read.append(one) or convert(one, *more))
    unread = internals.left_unread(branching)
    traced = tf.function(lambda x: unread(x)).get_concrete_function(tf.TensorSpec((), tf.float32))
    assert [float(traced(tf.constant(value))) for value in (-2.0, 0.5)] == [-2.0, 1.0]
    assert [one.__name__ for one in read] == ["<lambda>", "sign"]
    assert float(branching(tf.constant(0.5))) == 1.0  # untraced, as it is written
    read.clear()
    plain = tf.function(lambda x: unread(x), autograph=False)
    with pytest.raises(tf.errors.OperatorNotAllowedInGraphError):
        plain.get_concrete_function(tf.TensorSpec((), tf.float32))
    assert read == []


def test_numbers_of_names():
    """TFE_Py_UID: without it, XLA compiles an equal program once more in each process."""
    first = internals.next_number()
    assert internals.next_number() == first + 1
    internals.skip_numbers(3)
    assert internals.next_number() == first + 5


def test_exchanges_can_be_aborted():
    """Context.abort_collective_ops: without it, a lost process is found out after minutes."""
    assert callable(internals.context.context().abort_collective_ops)


def test_the_cluster_of_parameter_servers():
    """ParameterServerStrategy._cluster_resolver: without it, nobody knows which tasks to ask for signs of life."""

    class Resolver:
        def cluster_spec(self):
            return tf.train.ClusterSpec({"ps": ["a:1"], "worker": ["b:1", "c:1"]})

    class Strategy:
        _cluster_resolver = Resolver()

    assert internals.cluster_of(Strategy()) == {"ps": ["a:1"], "worker": ["b:1", "c:1"]}
    import inspect

    assert "_cluster_resolver" in inspect.getsource(
        tf.distribute.ParameterServerStrategy.__init__.__globals__["ParameterServerStrategyV2"]
    )
