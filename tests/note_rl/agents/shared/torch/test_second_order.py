"""Gradients and products with the Hessian."""

import torch

from note_rl.agents.shared.torch.second_order import gradient_vector, hessian_product


def test_second_derivatives_are_0_along_frozen_parameters():
    x, frozen = torch.tensor([1.0, 2.0], requires_grad=True), torch.tensor([3.0])
    value = (x[0] ** 2 * x[1] * frozen).sum()  # gradient 2 x y f = 12, x^2 f = 3; Hessian [[2 y f, 2 x f], [2 x f, 0]]
    assert gradient_vector(value, [x, frozen], keep=True).tolist() == [12.0, 3.0, 0.0]
    product = hessian_product(value, [x, frozen], damping=0.5)
    assert product(torch.tensor([1.0, 1.0, 4.0])).tolist() == [12 + 6 + 0.5, 6 + 0.5, 2.0]
