"""Distributions of returns in both frameworks: numbers worked out by hand, and acting by their means in NumPy."""

import math

import numpy as np
import pytest

from note_rl.learners.numpy_policy import NumpyPolicy
from tests.note_rl.frameworks import frameworks

pytestmark = pytest.mark.parametrize("framework", frameworks())


def tensor(framework, values):
    if framework.package == "pytorch":
        import torch

        return torch.tensor(values)
    import tensorflow as tf

    return tf.constant(values)


def numbers(framework, *rows):
    return [tensor(framework, np.array(row, np.float32)) for row in rows]


def logits(shares):
    """Of which softmax gives these shares."""
    return np.log(np.maximum(np.array(shares), 1e-30))


def atoms(framework):
    """Returns 0, 1, 2, 3 and 4."""
    return framework.module("shared/action_values").Categorical(5, 0.0, 4.0)


@pytest.mark.parametrize(
    ("reward", "discount", "next_shares", "expected"),
    [
        pytest.param(0.5, 0.5, [0, 0, 1, 0, 0], [0, 0.5, 0.5, 0, 0], id="1.5 lies halfway between two atoms"),
        pytest.param(3.0, 1.0, [0.25, 0.25, 0.5, 0, 0], [0, 0, 0, 0.25, 0.75], id="3, 4 and 5, which is off the end"),
        pytest.param(-1.0, 1.0, [0.5, 0, 0, 0, 0.5], [0.5, 0, 0, 0.5, 0], id="-1, which is off the end, and 3"),
        pytest.param(2.25, 0.0, [0.2, 0.2, 0.2, 0.2, 0.2], [0, 0, 0.75, 0.25, 0], id="terminal: the reward alone"),
        pytest.param(9.0, 0.0, [1, 0, 0, 0, 0], [0, 0, 0, 0, 1], id="terminal, off the end"),
        pytest.param(1.0, 0.81, [0, 0, 0, 0, 1], [0, 0, 0, 0, 1], id="4.24: two steps of 0.9"),
        pytest.param(0.0, 0.81, [0, 0, 0, 0, 1], [0, 0, 0, 0.76, 0.24], id="3.24: two steps of 0.9"),
    ],
)
def test_projection_onto_the_atoms(framework, reward, discount, next_shares, expected):
    r, gamma, following = numbers(framework, [reward], [discount], [logits(next_shares)])
    target = framework.array(atoms(framework).target(r, gamma, following))
    np.testing.assert_allclose(target, [expected], atol=1e-5)


def test_loss_is_the_cross_entropy_and_the_error_the_divergence(framework):
    """Between (0, 1/2, 1/2, 0, 0) and itself the divergence is 0, and the cross-entropy ln 2."""
    found, half = [0.1, 0.2, 0.4, 0.2, 0.1], [0, 0.5, 0.5, 0, 0]
    taken, target = numbers(framework, [logits(found), logits(found), logits(half)], [half, [0, 0, 0, 0, 1], half])
    loss, error = (framework.array(one) for one in atoms(framework).losses(taken, target))
    entropy = np.array([math.log(2), 0.0, math.log(2)])
    np.testing.assert_allclose(loss, [-0.5 * math.log(0.2 * 0.4), -math.log(0.1), math.log(2)], rtol=1e-5)
    np.testing.assert_allclose(error, loss - entropy, atol=1e-6)


def test_share_of_what_is_to_be_learned_at_the_bounds_is_reported(framework):
    taken, target = numbers(framework, [logits([0, 0.5, 0, 0, 0.5])], [[0.25, 0.5, 0, 0, 0.25]])
    reported = {name: framework.array(one) for name, one in atoms(framework).reported(taken, target).items()}
    np.testing.assert_allclose(reported["at_bounds"], [0.5])
    np.testing.assert_allclose(reported["q_mean"], [2.5], rtol=1e-5)


@pytest.mark.parametrize(
    ("quantiles", "next_quantiles", "loss", "error", "gradient"),
    [
        # targets 1 and 3; of quantile 0 (tau 1/4): 1/4 (0.5 + 2.5) / 2; of 2 (tau 3/4): (1/4 0.5 + 3/4 0.5) / 2
        # slopes of the losses: 1/4 (1 + 1) / 2; (-1/4 + 3/4) / 2
        pytest.param([0.0, 2.0], [0.0, 4.0], 0.375 + 0.25, 1.0, [-0.25, -0.25], id="errors of 1 and more"),
        # quantiles that are the targets: their differences of 2 are no error
        pytest.param([1.0, 3.0], [0.0, 4.0], (0.25 * 1.5 + 0.25 * 1.5) / 2, 0.0, [-0.125, 0.125], id="learned"),
        # targets 0.5 and 4; both quantiles 1, errors -0.5 and 3: Huber losses 0.125 and 2.5, their slopes -0.5 and 1
        pytest.param(
            *([1.0, 1.0], [-1.0, 6.0]),
            *((0.75 * 0.125 + 0.25 * 2.5) / 2 + (0.25 * 0.125 + 0.75 * 2.5) / 2, 1.25),
            [(0.75 * 0.5 - 0.25) / 2, (0.25 * 0.5 - 0.75) / 2],
            id="a small one",
        ),
    ],
)
def test_quantile_huber_loss(framework, quantiles, next_quantiles, loss, error, gradient):
    head = framework.module("shared/action_values").Quantiles(2)
    r, gamma, following = numbers(framework, [1.0], [0.5], [next_quantiles])
    taken = framework.variable([quantiles])
    target = head.target(r, gamma, following)
    found = [framework.array(one).tolist() for one in head.losses(taken, target)]
    assert found == [pytest.approx([loss]), pytest.approx([error])]
    assert slopes(framework, lambda: head.losses(taken, target)[0], taken).tolist() == [pytest.approx(gradient)]


@pytest.mark.parametrize("num", [1, 7])
def test_quantile_huber_loss_falls_along_its_gradient(framework, num):
    """The gradient is written down, not derived: a small change of each quantile changes the loss by it."""
    rng, head = np.random.default_rng(3), framework.module("shared/action_values").Quantiles(num)
    quantiles, (target,) = rng.normal(size=(2, num)), numbers(framework, 1.5 * rng.normal(size=(2, num)))

    def loss(shift):
        return framework.array(head.losses(*numbers(framework, quantiles + shift), target)[0]).astype(float)

    taken = framework.variable(quantiles)
    found = slopes(framework, lambda: head.losses(taken, target)[0], taken)
    for index, shift in enumerate(1e-2 * np.eye(num)):
        np.testing.assert_allclose(found[:, index], (loss(shift) - loss(-shift)) / 2e-2, atol=5e-3)


def slopes(framework, losses, variable):
    """The gradient of the sum of losses."""
    if framework.package == "pytorch":
        import torch

        return torch.autograd.grad(losses().sum(), variable)[0].numpy()
    import tensorflow as tf

    with tf.GradientTape() as tape:
        total = tf.reduce_sum(losses())
    return tape.gradient(total, variable).numpy()


def test_targets_of_a_terminal_step_are_the_reward(framework):
    head = framework.module("shared/action_values").Quantiles(3)
    r, gamma, following = numbers(framework, [-7.0], [0.0], [[1.0, 2.0, 3.0]])
    assert framework.array(head.target(r, gamma, following)).tolist() == [[-7.0, -7.0, -7.0]]


def heads(framework):
    module = framework.module("shared/action_values")
    return {"categorical": module.Categorical(3, -2.0, 2.0), "quantiles": module.Quantiles(3)}


@pytest.mark.parametrize("kind", ["categorical", "quantiles"])
def test_action_is_chosen_by_the_mean_among_those_that_are_allowed(framework, kind):
    head = heads(framework)[kind]
    rows = {
        "categorical": [*logits([0.5, 0, 0.5]), *logits([0, 0.5, 0.5]), *logits([0, 0, 1])],  # means 0, 1, 2
        "quantiles": [-9.0, 0.0, 9.0, 1.0, 1.0, 1.0, 0.0, 0.0, 6.0],  # means 0, 1, 2
    }[kind]
    outputs, mask = numbers(framework, [rows, rows], [[1, 1, 1], [1, 1, 0]])
    np.testing.assert_allclose(framework.array(head.expected(outputs)), [[0, 1, 2]] * 2, atol=1e-5)
    assert framework.array(head.choice(outputs, mask)).tolist() == [2, 1]
    best = framework.array(head.best(outputs, mask))
    np.testing.assert_allclose(best, np.array([rows[6:], rows[3:6]], np.float32))


@pytest.mark.parametrize("kind", ["categorical", "quantiles"])
def test_layers_for_acting_give_the_means(framework, kind):
    head, rng = heads(framework)[kind], np.random.default_rng(0)
    kernel, bias = rng.normal(size=(4, 6)).astype(np.float32), rng.normal(size=6).astype(np.float32)
    obs = rng.normal(size=(5, 4)).astype(np.float32)
    found = NumpyPolicy(lambda: head.acting_layers([(kernel, bias, "linear")]))(obs)
    outputs = tensor(framework, obs @ kernel + bias)
    assert found.shape == (5, 2)
    np.testing.assert_allclose(found, framework.array(head.expected(outputs)), rtol=1e-4, atol=1e-5)
