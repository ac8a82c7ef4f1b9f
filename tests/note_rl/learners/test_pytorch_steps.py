"""Direct Adam steps of the PyTorch learner are those of torch.optim, bit for bit."""

import sys

import pytest
import torch

from note_rl.learners.pytorch.adam import is_plain_adam
from note_rl.learners.pytorch.optimizer_step import Stepper, clipped, global_norm


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


@pytest.mark.parametrize("max_norm", [None, 0.5, 1e6])
@pytest.mark.parametrize("name", MAKERS)
def test_the_same_numbers_as_the_optimizer(name, max_norm):
    theirs, mine = parameters(), parameters()
    reference, optimizer = MAKERS[name](theirs), MAKERS[name](mine)
    stepped_by_torch(reference, theirs, max_norm)
    stepped_here(optimizer, mine, max_norm)
    for one, other in zip(mine, theirs, strict=True):
        torch.testing.assert_close(one, other, rtol=0, atol=0)
    for index, slots in reference.state_dict()["state"].items():
        for slot, value in slots.items():
            torch.testing.assert_close(optimizer.state_dict()["state"][index][slot], value, rtol=0, atol=0)


def test_an_adam_left_to_torch_differs_by_rounding_only():
    theirs, mine = parameters(), parameters()
    stepped_by_torch(torch.optim.Adam(theirs, 1e-2), theirs)
    stepped_here(torch.optim.Adam(mine, 1e-2), mine)
    for one, other in zip(mine, theirs, strict=True):
        torch.testing.assert_close(one, other, rtol=1e-6, atol=1e-7)


def test_gradients_that_share_memory_reach_every_entry():
    """The gradient of a sum is one number seen many times, and fused kernels do not look at strides."""
    for fused in (True, None):
        parameter = torch.zeros(3, 2, requires_grad=True)
        optimizer = torch.optim.Adam([parameter], 0.1, fused=fused)
        for _ in range(2):
            (gradient,) = torch.autograd.grad(parameter.sum(), [parameter])
            assert gradient.stride() == (0, 0)
            Stepper(optimizer, [parameter]).step([gradient], 100.0)
        torch.testing.assert_close(parameter.detach(), torch.full((3, 2), -0.2))


def test_parameters_without_a_gradient_stay():
    params = parameters()
    optimizer = torch.optim.Adam(params, 0.1, fused=True)
    stepper = Stepper(optimizer, params)
    stepper.step(gradients(0), None)
    before = params[1].detach().clone()
    first, _, last = gradients(1)
    stepper.step([first, None, last], 1.0)
    torch.testing.assert_close(params[1].detach(), before, rtol=0, atol=0)
    assert optimizer.state[params[1]]["step"] == 1
    assert optimizer.state[params[0]]["step"] == 2
    assert all(parameter.grad is None for parameter in params)


def test_who_listens_to_an_optimizer_hears_every_step():
    params, heard = parameters(), []
    optimizer = torch.optim.Adam(params, 0.1)
    assert is_plain_adam(optimizer, params)
    optimizer.register_step_post_hook(lambda *_: heard.append("hook"))
    stepped_here(optimizer, params, num_steps=3)
    assert heard == ["hook"] * 3


def test_a_scheduler_of_torch_sets_the_learning_rate():
    params = parameters()
    optimizer = torch.optim.Adam(params, 0.1)
    torch.optim.lr_scheduler.StepLR(optimizer, 1)
    assert not is_plain_adam(optimizer, params)


@pytest.mark.parametrize(
    "make",
    [
        lambda params: torch.optim.Adam(params[:2], 0.1),
        lambda params: torch.optim.Adam([{"params": params[:1]}, {"params": params[1:], "lr": 1e-3}], 0.1),
        lambda params: torch.optim.Adam(params, 0.1, foreach=True),
        lambda params: torch.optim.Adam(params, 0.1, fused=False),
        lambda params: torch.optim.Adam(params, torch.tensor(0.1)),
        lambda params: torch.optim.NAdam(params, 0.1),
    ],
)
def test_what_was_asked_for_explicitly_is_respected(make):
    params = parameters()
    assert not is_plain_adam(make(params), params)


def test_clipping_leaves_short_gradients_and_shortens_long_ones():
    gradients = [torch.tensor([3.0]), torch.tensor([4.0])]
    norm = global_norm(gradients)
    assert float(norm) == 5.0
    assert [float(one) for one in clipped(gradients, norm, 10.0)] == [3.0, 4.0]
    long = clipped(gradients, norm, 1.0)
    torch.testing.assert_close(torch.cat(long), torch.tensor([0.6, 0.8]), rtol=1e-5, atol=0)


@pytest.mark.parametrize("name", ["adam", "amsgrad", "loops"])
def test_moments_of_units_that_never_fire_become_zero_and_no_parameter_differs(name):
    """Left to itself, a first moment shrinks to some 1e-45 and stays there, where CPUs reckon slowly."""
    theirs, mine = parameters(), parameters()
    reference, optimizer = MAKERS[name](theirs), MAKERS[name](mine)
    for step in range(1200):
        values = gradients(step % 7)
        if step > 0:
            values[0][:4] = 0.0  # four of five units fired once
        Stepper(optimizer, mine).step(values, None)
        for parameter, gradient in zip(theirs, values, strict=True):
            parameter.grad = gradient
        reference.step()
    for one, other in zip(mine, theirs, strict=True):
        torch.testing.assert_close(one, other, rtol=0, atol=0)
    first, left_alone = optimizer.state[mine[0]]["exp_avg"], reference.state[theirs[0]]["exp_avg"]
    assert not first[:4].any()
    assert left_alone[:4].all()
    assert left_alone[:4].abs().max() < torch.finfo(torch.float32).tiny
    torch.testing.assert_close(first[4], left_alone[4], rtol=0, atol=0)


@pytest.mark.parametrize("was", [False, True])
def test_subnormal_numbers_are_what_they_were_before(was):
    def smallest():
        return sys.float_info.min / 2

    params = parameters()
    optimizer = torch.optim.SGD(params, 1e-2)
    torch.set_flush_denormal(was)
    try:
        Stepper(optimizer, params).step(gradients(0), None)
        assert (smallest() == 0.0) is was
        optimizer.register_step_post_hook(lambda *_: heard.append(smallest()))
        heard = []
        Stepper(optimizer, params).step(gradients(0), None)
        assert heard == [0.0]
        with pytest.raises(RuntimeError):
            Stepper(optimizer, params).step([torch.zeros(2)] * 3, None)
        assert (smallest() == 0.0) is was
    finally:
        torch.set_flush_denormal(False)
