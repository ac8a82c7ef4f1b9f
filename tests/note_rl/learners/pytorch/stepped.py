"""Parameters and gradients for optimizers of torch."""

import torch

from note_rl.learners.pytorch.optimizer_step import Stepper


def parameters():
    torch.manual_seed(0)
    return [torch.randn(shape, requires_grad=True) for shape in [(5, 3), (5,), (1,)]]


def gradients(step):
    torch.manual_seed(100 + step)
    return [torch.randn(5, 3), torch.randn(5), torch.randn(1)]


def stepped_by_torch(optimizer, params, max_norm=None, num_steps=5):
    for step in range(num_steps):
        for parameter, gradient in zip(params, gradients(step), strict=True):
            parameter.grad = gradient
        if max_norm is not None:
            torch.nn.utils.clip_grad_norm_(params, max_norm)
        optimizer.step()
    return params


def stepped_here(optimizer, params, max_norm=None, num_steps=5, burst=2):
    for step in range(num_steps):
        if step % burst == 0:
            stepper = Stepper(optimizer, params)
        stepper.step(gradients(step), max_norm)
    return params


MAKERS = {
    "adam": lambda params: torch.optim.Adam(params, 1e-2, fused=True),
    "decay": lambda params: torch.optim.Adam(params, 1e-2, (0.8, 0.95), 1e-5, weight_decay=0.1, fused=True),
    "adamw": lambda params: torch.optim.AdamW(params, 1e-2, weight_decay=0.1, fused=True),
    "amsgrad": lambda params: torch.optim.Adam(params, 1e-2, amsgrad=True, fused=True),
    "loops": lambda params: torch.optim.Adam(params, 1e-2, foreach=False),
    "sgd": lambda params: torch.optim.SGD(params, 1e-2, momentum=0.9),
}
