"""Second derivatives without matrices: products with a Hessian, and linear equations solved by such products."""

from collections.abc import Callable, Sequence
from typing import Any

import torch
from torch import Tensor

Product = Callable[[Tensor], Tensor]
"""v [P] -> A v [P], for some matrix A [P, P] that nobody writes down."""


def gradient_vector(value: Tensor, parameters: Sequence[Tensor], keep: bool = False) -> Tensor:
    """Returns the gradient [P] of a number along all parameters in a row; 0 along those that it does not depend on.

    Args:
        value: [].
        parameters: With P numbers in all.
        keep: Whether the graph is still needed afterwards, as other numbers share a part of it.
    """
    return _in_a_row(value, parameters, retain_graph=keep)


def hessian_product(value: Tensor, parameters: Sequence[Tensor], damping: float) -> Product:
    """Returns v -> (H + damping I) v with H the Hessian of a number, by the gradient of (gradient . v).

    Pearlmutter 1994, https://doi.org/10.1162/neco.1994.6.1.147.
    """
    gradient = _in_a_row(value, parameters, create_graph=True)

    def product(vector: Tensor) -> Tensor:
        return _in_a_row(gradient, parameters, grad_outputs=vector, retain_graph=True) + damping * vector

    return product


def _in_a_row(value: Tensor, parameters: Sequence[Tensor], **options: Any) -> Tensor:
    """Returns gradients [P]; 0 along frozen parameters (requires_grad_(False)), which stay as they are."""
    learning = [parameter for parameter in parameters if parameter.requires_grad]
    found = iter(torch.autograd.grad(value, learning, allow_unused=True, materialize_grads=True, **options))
    rows = [next(found) if parameter.requires_grad else torch.zeros_like(parameter) for parameter in parameters]
    return torch.cat([row.reshape(-1) for row in rows])


def conjugate_gradient(product: Product, b: Tensor, max_iterations: int, tolerance: float) -> Tensor:
    """Returns x [P] with A x = b, for a symmetric positive definite A (Hestenes & Stiefel 1952).

    Args:
        product: v -> A v.
        b: [P].
        max_iterations: With P of them x is exact, but for rounding.
        tolerance: Squared norm of the residual b - A x at which x is taken as good enough.
    """
    x = torch.zeros_like(b)
    residual, direction, squared_norm = b, b, b @ b
    for _ in range(max_iterations):
        if not bool(squared_norm > tolerance):
            break
        image = product(direction)
        length = squared_norm / (direction @ image)
        x = x + length * direction
        residual = residual - length * image
        former, squared_norm = squared_norm, residual @ residual
        direction = residual + squared_norm / former * direction
    return x
