"""When updates of agents written in Keras are compiled by XLA."""

import logging

import keras
import numpy as np
import pytest
import tensorflow as tf
from keras import layers
from tensorflow.python.eager.polymorphic_function import autograph_util

from note_rl import RL, errors
from note_rl.agents.keras import DQN
from note_rl.agents.shared.keras.networks import MLP
from note_rl.learners.keras.xla import Compilation
from note_rl.types import Sample
from tests.note_rl.environments.test_images import Picture

pytestmark = pytest.mark.xla


def compiles(function):
    """Whether a concrete function is handed to XLA, as TensorFlow itself notes it."""
    return bool(function.function_def.attr["_XlaMustCompile"].b)


def gradients_of(*parts):
    """A function of pictures that gives the gradients of a network with these layers."""
    net = keras.Sequential([*parts, layers.Flatten(), layers.Dense(2)])

    def gradients(x):
        with tf.GradientTape() as tape:
            loss = tf.reduce_mean(net(x, training=True))
        return tape.gradient(loss, net.trainable_variables)

    return gradients


class Kernels(layers.Layer):
    """Applies its weights by a plain function."""

    def __init__(self, convolve):
        super().__init__()
        self.convolve = convolve
        self.kernel = self.add_weight(shape=(3, 3, 2, 4), initializer="glorot_uniform")

    def call(self, x):
        return self.convolve(x, self.kernel)


@tf.function
def within(x, kernel):
    return tf.nn.convolution(x, kernel)


def nested():
    return keras.Sequential([keras.Sequential([keras.Sequential([layers.Conv2D(2, 3)])])])


SLOW = {
    "Conv2D": lambda: [layers.Conv2D(2, 3)],
    "nested": lambda: [nested()],
    "Conv1D": lambda: [layers.Reshape((64, 2)), layers.Conv1D(2, 3)],
    "Conv3D": lambda: [layers.Reshape((4, 4, 4, 2)), layers.Conv3D(2, 3)],
    "DepthwiseConv2D": lambda: [layers.DepthwiseConv2D(3)],
    "ConvLSTM1D": lambda: [layers.ConvLSTM1D(2, 3)],
    "keras.ops.conv": lambda: [Kernels(keras.ops.conv)],
    "tf.nn.conv2d": lambda: [Kernels(lambda x, kernel: tf.nn.conv2d(x, kernel, 1, "SAME"))],
    "a function within": lambda: [Kernels(lambda x, kernel: within(x, tf.convert_to_tensor(kernel)))],
    "MaxPool2D": lambda: [layers.Dense(2), layers.MaxPool2D()],
}

QUICK = {
    "Dense": lambda: [layers.Flatten(), layers.Dense(4, "relu")],
    "normalised": lambda: [layers.Dense(4), layers.LayerNormalization(), layers.BatchNormalization()],
    "GRU": lambda: [layers.Reshape((8, 16)), layers.GRU(4)],
    "AveragePooling2D": lambda: [layers.Dense(4), layers.AveragePooling2D(2)],
}

PICTURES = tf.TensorSpec((None, 8, 8, 2), tf.float32)


@pytest.fixture(autouse=True)
def nothing_said(monkeypatch):
    monkeypatch.setattr(errors, "_said", set())


@pytest.mark.parametrize(
    "name", [pytest.param(name, marks=[pytest.mark.slow] * (name == "ConvLSTM1D")) for name in SLOW]
)
def test_what_xla_does_slowly_on_a_cpu_is_not_given_to_it(name):
    compilation = Compilation("auto", True, object)
    function = compilation.traced(gradients_of(keras.Input(PICTURES.shape[1:]), *SLOW[name]()), PICTURES)
    assert not compilation.uses_xla
    assert not compiles(function)


@pytest.mark.parametrize("name", QUICK)
def test_everything_else_is(name):
    compilation = Compilation("auto", True, object)
    assert compiles(compilation.traced(gradients_of(keras.Input(PICTURES.shape[1:]), *QUICK[name]()), PICTURES))
    assert compilation.uses_xla


@pytest.mark.parametrize(
    ("asked", "on_cpu", "expected"), [(True, True, True), ("auto", False, True), (False, True, False)]
)
def test_what_was_asked_for_counts_and_where_the_parameters_are(asked, on_cpu, expected):
    compilation = Compilation(asked, on_cpu, object)
    function = compilation.traced(gradients_of(keras.Input((8, 8, 2)), *SLOW["Conv2D"]()), PICTURES)
    assert compiles(function) == compilation.uses_xla == expected


def blocks_of(num, shape, dtype, batch=4):
    """Minibatches [num, batch] of anything."""
    rng = np.random.default_rng(0)
    obs = rng.integers(0, 200, (num, batch, *shape)).astype(dtype)
    action = rng.integers(0, 2, (num, batch))
    reward = rng.random((num, batch)).astype(np.float32)
    discount = np.full((num, batch), 0.9, np.float32)
    return Sample(obs, action, reward, obs, 1.0 - discount, discount, np.zeros(num, bool))


def prepared(agent, jit="auto"):
    agent.learner.prepare(keras.optimizers.Adam(1e-3), None, [], jit)
    return agent.learner


def traced(learner):
    return [traced.function for traced, _ in learner._update._traced.values()]


def test_an_agent_that_sees_numbers_is_trained_with_it():
    agent = DQN(env="CartPole-v1", network=lambda shape, outputs: MLP(shape, outputs, (8,)))
    learner = prepared(agent)
    obs = np.linspace(-1.0, 1.0, 12, dtype=np.float32).reshape(3, 4)
    before = learner.act(obs)
    learner.update(blocks_of(2, (4,), np.float32), {})
    assert [compiles(one) for one in traced(learner)] == [True]
    assert learner.num_traces == 1
    assert str(agent.how_steps_are_taken()) == "whole"
    assert not np.array_equal(learner.act(obs), before)
    np.testing.assert_allclose(learner.act(obs), learner._framework_act(obs), rtol=1e-5, atol=1e-6)


class Convolving(RL):
    """Has no layer at all."""

    def __init__(self):
        super().__init__()
        self.kernel = tf.Variable(tf.random.normal((3, 3, 1, 2), stddev=0.1))
        self.param = [self.kernel]
        self.env = Picture

    def action(self, s):
        return tf.reduce_mean(keras.ops.conv(tf.cast(s, tf.float32)[..., None] / 255.0, self.kernel), axis=(1, 2))

    def __call__(self, s, a, next_s, r, d):
        return tf.square(r - tf.gather(self.action(s), a, axis=1, batch_dims=1))


def test_what_sees_pictures_is_trained_without_xla_and_it_is_said_once(caplog):
    learner = prepared(Convolving())
    sample = blocks_of(1, (36, 36), np.uint8, batch=8)
    with caplog.at_level(logging.WARNING):
        for _ in range(2):  # the first measurement compiles nothing
            learner.gradient_noise(sample, None)
        assert not learner._update.compilation.uses_xla
        assert [compiles(one) for one in learner._measurements._noise._functions.values()] == [False]
        learner.update(sample, {})
        learner.update(blocks_of(3, (36, 36), np.uint8, batch=8), {})
        learner.update(sample, {})
        again = prepared(Convolving())
        again.update(sample, {})
    assert [compiles(one) for one in traced(learner)] == [False, False]
    assert learner.num_traces == 2  # known by the first measurement
    assert [compiles(one) for one in traced(again)] == [False]
    said = [record.message for record in caplog.records if "XLA" in record.message]
    assert len(said) == 1
    assert "jit_compile=auto: Convolving is trained without XLA" in said[0]
    assert "Conv2DBackpropFilter" in said[0]
    assert "jit_compile=True" in said[0]


class OneSided(DQN):
    """Loses more where its values are too high."""

    couples_samples = True
    aim = 0.0

    def __call__(self, s, a, next_s, r, d):
        error = tf.reduce_mean(tf.gather(self.action(s), a, axis=1, batch_dims=1)) - self.aim
        if error > 0.0:
            error = 2.0 * error
        return tf.square(error)


@pytest.fixture
def converted(monkeypatch):
    """The functions whose source AutoGraph is asked to read."""
    functions, convert = [], autograph_util.api.converted_call

    def converted_call(function, *arguments, **options):
        functions.append(function)
        return convert(function, *arguments, **options)

    monkeypatch.setattr(autograph_util.api, "converted_call", converted_call)
    return functions


def test_conditions_on_tensors_may_be_written_as_python_has_them(converted):
    agent, sample = OneSided(env="CartPole-v1", hidden_size=(8,)), blocks_of(1, (4,), np.float32)
    for aim, factor in ((100.0, 1.0), (-100.0, 2.0)):
        agent.aim = aim
        learner = prepared(agent, jit=False)
        values = agent.action(sample.obs[0]).numpy()[np.arange(4), sample.action[0]]
        expected = (factor * (values.mean() - aim)) ** 2
        np.testing.assert_allclose(learner.update(sample, {}).loss, [[expected]], rtol=1e-5)
        assert not learner._update.compilation.untraced
    assert converted


def test_of_own_agents_their_own_source_is_read_alone(monkeypatch):
    """That of the learner takes AutoGraph seconds."""
    read, convert = [], autograph_util.api._convert_actual
    monkeypatch.setattr(
        autograph_util.api, "_convert_actual", lambda one, *more: read.append(one) or convert(one, *more)
    )
    agent = OneSided(env="CartPole-v1", hidden_size=(8,))
    prepared(agent, jit=False).update(blocks_of(1, (4,), np.float32), {})
    assert OneSided.__call__ in read
    assert {one.__name__ for one in read if one.__module__.startswith("note_rl.learners")} == {"named"}


def test_the_source_of_built_in_agents_is_not_read(converted):
    agent = DQN(env="CartPole-v1", hidden_size=(8,))
    prepared(agent, jit=False).update(blocks_of(1, (4,), np.float32), {})
    agent.learner._framework_act(np.zeros((1, 4), np.float32))
    assert converted == []


def test_equal_functions_have_equal_names_whatever_came_before():
    def doubled(x):
        return tf.cond(tf.reduce_sum(x) > 0.0, lambda: 2.0 * x, lambda: x)

    def names():
        traced = Compilation(True, True, RL).traced(doubled, tf.ones(2))
        inner = traced.graph.as_graph_def().library.function
        numbers = [int(name.rpartition("_")[2]) for name in (traced.name.decode(), *(f.signature.name for f in inner))]
        return sorted(number % 2**16 for number in numbers)

    first = names()
    for _ in range(7):
        tf.zeros(2) + 1.0
    tf.function(doubled).get_concrete_function(tf.ones(3))
    assert names() == first
    assert len(first) == 3


@pytest.mark.parametrize(
    ("error", "uses_xla", "again"),
    [
        (tf.errors.DataLossError(None, None, "Can't parse /cache/note_rl__1.pb as binary proto"), True, True),
        (tf.errors.ResourceExhaustedError(None, None, "/cache/note_rl__1.pb.tmp; No space left on device"), True, True),
        (tf.errors.ResourceExhaustedError(None, None, "OOM when allocating tensor with shape[1024,1024]"), True, False),
        (tf.errors.DataLossError(None, None, "Can't parse /cache/note_rl__1.pb as binary proto"), False, False),
    ],
)
def test_only_what_was_kept_is_given_up(monkeypatch, error, uses_xla, again):
    """A block is taken anew only where nothing of it has been done: one that is not compiled may be half-way."""
    cleared = []
    monkeypatch.setattr("note_rl.learners.keras.xla.clear_xla_cache", lambda: not cleared.append(1))
    assert Compilation(uses_xla, True, RL).recovers(error) == again
    assert cleared == [1] * again


class Dropping(RL):
    """Learns the reward by a network with dropout."""

    couples_samples = True

    def __init__(self):
        super().__init__()
        dropout = layers.Dropout(0.5)
        dropout.rate = 0.0
        self.net = keras.Sequential([keras.Input((2,)), layers.Dense(8), dropout, layers.Dense(1)])
        self.param = self.net.trainable_variables

    def action(self, s):
        return self.net(s)

    def __call__(self, s, a, next_s, r, d):
        return tf.reduce_mean(tf.square(self.net(s)[:, 0] - r))


@pytest.mark.slow  # without XLA: test_changes.py
def test_a_rate_of_dropout_that_changes_is_followed_in_compiled_code():
    agent = Dropping()
    agent.learner.prepare(keras.optimizers.SGD(0.1), None, (), True)
    before = agent.net.get_weights()
    agent.learner.update(blocks_of(1, (2,), np.float32), {})
    *kernels, bias = agent.net.get_weights()
    assert all(not np.array_equal(one, other) for one, other in zip(before, kernels, strict=False))
    agent.net.layers[1].rate = 1.0 - 1e-6  # every unit is dropped, and nothing learns but the last bias
    sample = blocks_of(1, (2,), np.float32)
    agent.learner.update(sample, {})
    *now, last = agent.net.get_weights()
    np.testing.assert_equal(now, kernels)
    np.testing.assert_allclose(last, bias - 0.1 * 2.0 * (bias - sample.reward.mean()), rtol=1e-4)
    assert agent.learner.num_traces == 2
    assert all(map(compiles, traced(agent.learner)))
