"""Cells by their equations in NumPy: single steps, sequences with episodes that begin within, and gradients."""

from functools import partial

import numpy as np
import pytest

from note_rl.agents.shared.memories import MemorySettings
from note_rl.errors import SettingsError
from tests.note_rl.frameworks import frameworks

pytestmark = pytest.mark.parametrize("framework", frameworks())

UNITS = 3


def sigmoid(x):
    return 1 / (1 + np.exp(-x))


def naive_step(cell, gates, state, recurrent):
    """One step of one environment in double precision: (what the head sees, the state behind it)."""
    hidden, parts = state[:UNITS], np.split(gates, len(gates) // UNITS)
    products = np.split(hidden @ recurrent, len(gates) // UNITS)
    if cell == "lstm":
        take, keep, show = (sigmoid(part + product) for part, product in zip(parts[:3], products[:3], strict=True))
        remembered = keep * state[UNITS:] + take * np.tanh(parts[3] + products[3])
        hidden = show * np.tanh(remembered)
        return hidden, np.concatenate([hidden, remembered])
    reset, keep = (sigmoid(part + product) for part, product in zip(parts[:2], products[:2], strict=True))
    hidden = keep * hidden + (1 - keep) * np.tanh(parts[2] + reset * products[2])
    return hidden, hidden


def naive_sequences(cell, gates, first, starts, recurrent):
    """[n, L, gates], [n, S], [n, L] -> what the head sees, [n, L, UNITS]."""
    seen = np.zeros((*starts.shape, UNITS))
    for number, state in enumerate(first):
        for step in range(starts.shape[1]):
            state = np.zeros_like(state) if starts[number, step] else state
            seen[number, step], state = naive_step(cell, gates[number, step], state, recurrent)
    return seen


def memory_of(framework, cell):
    made = framework.module("shared/recurrent").Memory
    return made(MemorySettings(cell=cell, units=UNITS, hidden_sizes=(4,)).plan((2,), 1))


def passed(framework, memory, x, first, starts):
    """State of a memory beside that of another one; they must not change places."""
    other = memory_of(framework, memory.cell)
    through = framework.module("shared/recurrent").through_sequences
    alone, (beside, _) = through([memory], x, [first], starts)[0], through([memory, other], x, [first, first], starts)
    np.testing.assert_allclose(framework.array(alone), framework.array(beside), atol=1e-6)
    return alone


def tensor(framework, values):
    if framework.package == "pytorch":
        import torch

        return torch.tensor(values, dtype=torch.float32)
    import tensorflow as tf

    return tf.constant(values, tf.float32)


def drawn(cell, num, length):
    rng = np.random.default_rng(3)
    size = {"lstm": 2, "gru": 1}[cell] * UNITS
    starts = (rng.random((num, length)) < 0.3).astype(np.float32)
    return rng.normal(size=(num, length, 2)), rng.normal(size=(num, size)), starts


def recurrent_of(framework, memory):
    value = memory.recurrent
    return framework.array(value if framework.package == "pytorch" else value.value).astype(np.float64)


@pytest.mark.parametrize("cell", ["lstm", "gru"])
def test_a_step_is_the_equations(framework, cell):
    memory = memory_of(framework, cell)
    obs, states, _ = drawn(cell, 4, 1)
    seen, after = memory.step(tensor(framework, obs[:, 0]), tensor(framework, states))
    gates = framework.array(memory.encoder(tensor(framework, obs[:, 0]))).astype(np.float64)
    for number in range(4):
        hidden, behind = naive_step(cell, gates[number], states[number], recurrent_of(framework, memory))
        np.testing.assert_allclose(framework.array(seen)[number], hidden, atol=1e-6)
        np.testing.assert_allclose(framework.array(after)[number], behind, atol=1e-6)


@pytest.mark.parametrize("cell", ["lstm", "gru"])
def test_sequences_are_their_steps_and_forget_where_an_episode_begins(framework, cell):
    memory = memory_of(framework, cell)
    obs, first, starts = drawn(cell, 3, 6)
    assert 0 < starts[:, 1:].sum() < 15
    flat = obs.reshape(18, 2)
    gates = framework.array(memory.encoder(tensor(framework, flat))).astype(np.float64).reshape(3, 6, -1)
    found = passed(framework, memory, *(tensor(framework, one) for one in (flat, first, starts.ravel())))
    expected = naive_sequences(cell, gates, first, starts, recurrent_of(framework, memory))
    np.testing.assert_allclose(framework.array(found).reshape(3, 6, UNITS), expected, atol=1e-6)


@pytest.mark.parametrize("cell", ["lstm", "gru"])
def test_the_gradient_goes_back_through_the_steps_of_an_episode_alone(framework, cell):
    """Of two steps, along the recurrent weights; by differences of the naive loop."""
    memory = memory_of(framework, cell)
    obs, first, _ = drawn(cell, 2, 2)
    starts = np.array([[0, 0], [0, 1]], np.float32)
    flat = tensor(framework, obs.reshape(4, 2))
    gates = framework.array(memory.encoder(flat)).astype(np.float64).reshape(2, 2, -1)
    weights = np.arange(1.0, UNITS + 1)

    def loss(recurrent):
        return (naive_sequences(cell, gates, first, starts, recurrent)[:, 1] * weights).sum()

    recurrent, expected = recurrent_of(framework, memory), np.zeros_like(recurrent_of(framework, memory))
    for place in np.ndindex(recurrent.shape):
        moved = np.zeros_like(recurrent)
        moved[place] = 1e-5
        expected[place] = (loss(recurrent + moved) - loss(recurrent - moved)) / 2e-5
    found = gradient(framework, memory, (flat, tensor(framework, first), tensor(framework, starts.ravel())), weights)
    np.testing.assert_allclose(found, expected, atol=2e-5)
    assert np.abs(expected).max() > 0.1


def gradient(framework, memory, arguments, weights):
    if framework.package == "pytorch":
        import torch

        seen = passed(framework, memory, *arguments).view(2, 2, UNITS)[:, 1]
        return torch.autograd.grad((seen * torch.tensor(weights)).sum(), memory.recurrent)[0].numpy()
    import tensorflow as tf

    with tf.GradientTape() as tape:
        seen = tf.reshape(passed(framework, memory, *arguments), (2, 2, UNITS))[:, 1]
        total = tf.reduce_sum(seen * tf.constant(weights, tf.float32))
    return tape.gradient(total, memory.recurrent.value).numpy()


@pytest.mark.parametrize(("cell", "place"), [("lstm", 1), ("gru", 1)])
def test_gates_that_keep_begin_open(framework, cell, place):
    memory = memory_of(framework, cell)
    for _ in range(2):
        bias = framework.array(memory.encoder.output_layer.bias).reshape(-1, UNITS)
        assert (bias[place] == 1.0).all()
        assert (np.abs(np.delete(bias, place, 0)) < 1.0).all()
        memory.start_orthogonal()
    recurrent = recurrent_of(framework, memory)
    np.testing.assert_allclose(recurrent @ recurrent.T, np.eye(UNITS), atol=1e-5)
    assert (np.delete(bias, place, 0) == 0.0).all()


@pytest.mark.parametrize("shared", [False, True])
def test_policy_and_value_have_one_memory_or_two(framework, shared):
    make = partial(framework.module("shared/recurrent").recurrent_network, units=UNITS, shared=shared)
    policy = make((2,), 2)
    value = policy.value_network()
    assert (policy.memory is value.memory) is shared
    before = recurrent_of(framework, policy.memory)
    value.start_orthogonal(1.0)
    assert np.array_equal(before, recurrent_of(framework, policy.memory))


def test_values_out_of_range_are_refused_by_name(framework):
    make = framework.module("shared/recurrent").recurrent_network
    for wrong, message in (({"cell": "rnn"}, "cell must be one of lstm, gru"), ({"units": 0}, "units")):
        with pytest.raises(SettingsError, match=message):
            make((2,), 1, **wrong)
