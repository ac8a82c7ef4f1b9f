"""Second derivatives without matrices: products with a Hessian, and linear equations solved by such products."""

from collections.abc import Callable, Sequence
from typing import Any

import tensorflow as tf

Product = Callable[[tf.Tensor], tf.Tensor]
"""v [P] -> A v [P], for some matrix A [P, P] that nobody writes down."""


def in_a_row(gradients: Sequence[tf.Tensor]) -> tf.Tensor:
    """Returns all numbers of some tensors, [P]."""
    return tf.concat([tf.reshape(gradient, (-1,)) for gradient in gradients], axis=0)


def hessian_product(value: Callable[[], tf.Tensor], parameters: Sequence[Any], damping: float) -> Product:
    """Returns v -> (H + damping I) v with H the Hessian of a number, by the gradient of (gradient . v).

    Pearlmutter 1994, https://doi.org/10.1162/neco.1994.6.1.147.

    Args:
        value: Works out the number, [].
        parameters: Along which, with P numbers in all.
        damping: Added to the diagonal.
    """
    with tf.GradientTape(persistent=True) as outer:
        with tf.GradientTape() as inner:
            number = value()
        gradient = in_a_row(inner.gradient(number, parameters, unconnected_gradients="zero"))

    def product(vector: tf.Tensor) -> tf.Tensor:
        rows = outer.gradient(gradient, parameters, vector, unconnected_gradients="zero")
        return in_a_row(rows) + damping * vector

    return product


def conjugate_gradient(product: Product, b: tf.Tensor, max_iterations: int, tolerance: float) -> tf.Tensor:
    """Returns x [P] with A x = b, for a symmetric positive definite A (Hestenes & Stiefel 1952).

    Args:
        product: v -> A v.
        b: [P].
        max_iterations: With P of them x is exact, but for rounding.
        tolerance: Squared norm of the residual b - A x at which x is taken as good enough.
    """

    def go_on(number: tf.Tensor, x: tf.Tensor, residual: tf.Tensor, direction: tf.Tensor, norm: tf.Tensor) -> tf.Tensor:
        return (number < max_iterations) & (norm > tolerance)

    def step(
        number: tf.Tensor, x: tf.Tensor, residual: tf.Tensor, direction: tf.Tensor, norm: tf.Tensor
    ) -> tuple[tf.Tensor, ...]:
        image = product(direction)
        length = norm / _dot(direction, image)
        residual = residual - length * image
        new = _dot(residual, residual)
        return number + 1, x + length * direction, residual, residual + new / norm * direction, new

    return tf.while_loop(go_on, step, (0, tf.zeros_like(b), b, b, _dot(b, b)))[1]


def _dot(a: tf.Tensor, b: tf.Tensor) -> tf.Tensor:
    return tf.reduce_sum(a * b)
