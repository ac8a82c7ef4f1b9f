"""Direct Adam steps of the PyTorch learner are those of torch.optim, bit for bit."""

import pytest
import torch

from note_rl.learners.pytorch.adam import is_plain_adam
from note_rl.learners.pytorch.optimizer_step import Stepper, clipped, global_norm
from tests.note_rl.learners.pytorch.stepped import MAKERS, gradients, parameters, stepped_by_torch, stepped_here


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


@pytest.mark.parametrize("first", [(True, True), (True, False)])
def test_parameters_that_wait_count_their_own_steps(first):
    """Of an actor that waits, as in TD3: its first step in a block replaced the counters of the critic."""
    theirs, mine = parameters(), parameters()
    reference, optimizer = MAKERS["adam"](theirs), MAKERS["adam"](mine)
    stepper = Stepper(optimizer, mine)
    for number, all_learn in enumerate([*first, True, False, False, True, False, False]):
        given = [one if all_learn or index else None for index, one in enumerate(gradients(number))]
        for parameter, gradient in zip(theirs, given, strict=True):
            parameter.grad = gradient
        reference.step()
        stepper.step(given, None)
    for one, other in zip(mine, theirs, strict=True):
        torch.testing.assert_close(one, other, rtol=0, atol=0)
    steps = [
        [int(one.state[parameter]["step"]) for parameter in of] for one, of in [(optimizer, mine), (reference, theirs)]
    ]
    assert steps[0] == steps[1] == [2 + sum(first), 8, 8]


def test_a_hook_of_an_optimizer_is_called_at_every_step():
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


def test_clipping_leaves_short_gradients_and_shortens_long_ones():
    gradients = [torch.tensor([3.0]), torch.tensor([4.0])]
    norm = global_norm(gradients)
    assert float(norm) == 5.0
    assert [float(one) for one in clipped(gradients, norm, 10.0)] == [3.0, 4.0]
    long = clipped(gradients, norm, 1.0)
    torch.testing.assert_close(torch.cat(long), torch.tensor([0.6, 0.8]), rtol=1e-5, atol=0)
