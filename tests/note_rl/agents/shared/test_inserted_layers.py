"""Layers between those of perceptrons, and batch renormalisation by numbers worked out by hand."""

from typing import Any

import numpy as np
import pytest

from note_rl.agents.shared import inserted_layers
from note_rl.agents.shared.inserted_layers import Affine, folded, normalising, regularised, renormalised
from note_rl.agents.shared.layer_kinds import Activate, Dense, Dropout, Flatten, Norm
from note_rl.agents.shared.perceptrons import MLPSettings
from tests.note_rl.frameworks import frameworks

BOTH = pytest.mark.parametrize("framework", frameworks())


def layers(architecture: Any, shape: tuple[int, ...] = (3,)) -> list[Any]:
    plan = architecture.plan(shape, 1)
    return [one.layer for one in (*plan.trunk, *plan.head)]


def test_where_layers_are_put() -> None:
    settings = MLPSettings((5, 4), "tanh", "he_uniform")
    norm, output = Norm("batch_renorm"), Dense(1, "linear", "he_uniform")
    first, second = (Dense(units, "tanh", "he_uniform") for units in (5, 4))
    assert layers(renormalised(settings, (3,))) == [norm, first, norm, second, norm, output]
    assert layers(renormalised(settings, (2, 3)), (2, 3))[:2] == [Flatten(), norm]
    bare = [Dense(units, "linear", "he_uniform") for units in (5, 4)]
    rest = [Dropout(0.1), Norm("layer"), Activate("tanh")]
    assert layers(regularised(settings, (3,), 0.1, True)) == [bare[0], *rest, bare[1], *rest, output]
    assert layers(regularised(settings, (3,), 0.0, True))[1:3] == rest[1:]
    assert layers(regularised(settings, (3,), 0.1, False))[1:3] == [rest[0], rest[2]]


def test_a_dense_layer_takes_in_what_stands_before_it() -> None:
    # (x - 1) / sqrt(3 + 1) * 4 + 5 = 2 x + 3; then 10 (2 x + 3) + 1 = 20 x + 31
    one = normalising(*(np.array([value], np.float32) for value in (4.0, 5.0, 1.0, 3.0)), 1.0)
    assert (one.scale.tolist(), one.offset.tolist()) == ([2.0], [3.0])
    dense = (np.array([[10.0]]), np.array([1.0]), "relu")
    ((kernel, bias, activation),) = folded([one, dense])
    assert (kernel.tolist(), bias.tolist(), activation) == ([[20.0]], [31.0], "relu")
    # 3 (2 x + 3) - 1 = 6 x + 8; then 10 (6 x + 8) + 1
    ((kernel, bias, _),) = folded([one, Affine(np.array([3.0]), np.array([-1.0])), dense])
    assert (kernel.tolist(), bias.tolist()) == ([[60.0]], [81.0])
    assert folded([dense]) == [dense]


def layer(framework: Any, mean: float, variance: float, num_batches: int) -> Any:
    """Of one number, that has seen so much."""
    kind = framework.module("shared/renorm").BatchRenorm
    if framework.package == "pytorch":
        made = kind(1)
        made.running_mean.fill_(mean), made.running_var.fill_(variance), made.num_batches_tracked.fill_(num_batches)
        return made
    made = kind()
    made.build((None, 1))
    made.moving_mean.assign([mean]), made.moving_variance.assign([variance]), made.num_batches.assign(num_batches)
    return made


def answers(framework: Any, made: Any, x: list[float], training: bool) -> list[float]:
    values = np.array(x, np.float32)[:, None]
    if framework.package == "pytorch":
        import torch

        made.train(training)
        return made(torch.from_numpy(values))[:, 0].tolist()
    return made(values, training=training).numpy()[:, 0].tolist()


def statistics(framework: Any, made: Any) -> list[float]:
    names = ("running_mean", "running_var", "num_batches_tracked") if framework.package == "pytorch" else (
        "moving_mean", "moving_variance", "num_batches"
    )  # fmt: skip
    return [float(framework.array(getattr(made, name)).reshape(())) for name in names]


@BOTH
def test_batch_renormalisation_by_hand(framework: Any, monkeypatch: Any) -> None:
    """Of (1, 3), with mean 2 and variance 1; epsilon is 0.001."""
    early = layer(framework, 1.0, 4.0, 99_999)
    # at first (x - 2) / sqrt(1.001); then the running mean is 0.99 * 1 + 0.01 * 2, the variance 0.99 * 4 + 0.01 * 1
    np.testing.assert_allclose(answers(framework, early, [1, 3], True), [-0.9995004, 0.9995004], rtol=1e-5)
    np.testing.assert_allclose(statistics(framework, early), [1.01, 3.97, 100_000], rtol=1e-6)
    # now by the running ones: r = sqrt(1.001 / 3.971) and d = 0.99 / sqrt(3.971) make it (x - 1.01) / sqrt(3.971)
    np.testing.assert_allclose(answers(framework, early, [1, 3], True), [-0.0050182, 0.9986268], rtol=1e-4)
    np.testing.assert_allclose(statistics(framework, early)[0], 0.99 * 1.01 + 0.01 * 2, rtol=1e-6)
    # r is not below 1/3, d not above 5: (x - 2) / sqrt(1.001) / 3 + 5
    far = layer(framework, -100.0, 100.0, 100_000)
    np.testing.assert_allclose(answers(framework, far, [1, 3], True), [4.6668332, 5.3331668], rtol=1e-5)
    # nor r above 3, nor d below -5
    near = layer(framework, 100.0, 0.0, 100_000)
    np.testing.assert_allclose(answers(framework, near, [1, 3], True), [-7.9985012, -2.0014988], rtol=1e-5)


@BOTH
def test_eval_mode_is_that_of_running_statistics_and_leaves_them(framework: Any) -> None:
    made = layer(framework, 1.0, 4.0, 7)
    np.testing.assert_allclose(answers(framework, made, [1, 3], False), [0.0, 2 / 4.001**0.5], rtol=1e-5, atol=1e-7)
    assert statistics(framework, made) == [1.0, 4.0, 7.0]


@BOTH
def test_the_correction_counts_as_a_number_in_gradients(framework: Any) -> None:
    """The gradient of the first of two outputs by the inputs: that of the batch's normalisation, times r."""
    gradients = []
    for num_batches in (0, 100_000):
        made = layer(framework, 1.0, 4.0, num_batches)
        values = np.array([[1.0], [3.0], [8.0]], np.float32)
        if framework.package == "pytorch":
            import torch

            x = torch.from_numpy(values).requires_grad_()
            made.train()(x)[0, 0].backward()
            gradients.append(x.grad.numpy())
        else:
            import tensorflow as tf

            x = tf.Variable(values)
            with tf.GradientTape() as tape:
                y = made(x, training=True)[0, 0]
            gradients.append(tape.gradient(y, x).numpy())
    r = np.sqrt((values.var() + inserted_layers.EPSILON) / 4.001)
    np.testing.assert_allclose(gradients[1], r * gradients[0], rtol=1e-4, atol=1e-6)
