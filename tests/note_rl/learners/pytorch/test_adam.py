"""Adam without the Python around it."""

import sys

import pytest
import torch

from note_rl.learners.pytorch.adam import is_plain_adam
from note_rl.learners.pytorch.optimizer_step import Stepper
from tests.note_rl.learners.pytorch.stepped import MAKERS, gradients, parameters, stepped_by_torch, stepped_here


def test_an_adam_left_to_torch_differs_by_rounding_only():
    theirs, mine = parameters(), parameters()
    stepped_by_torch(torch.optim.Adam(theirs, 1e-2), theirs)
    stepped_here(torch.optim.Adam(mine, 1e-2), mine)
    for one, other in zip(mine, theirs, strict=True):
        torch.testing.assert_close(one, other, rtol=1e-6, atol=1e-7)


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


@pytest.mark.parametrize("name", ["adam", "amsgrad", "loops"])
def test_moments_of_units_that_never_fire_become_zero_and_no_parameter_differs(name):
    """Left to itself, a first moment shrinks to some 1e-45 and stays there, where CPUs reckon slowly."""
    theirs, mine = parameters(), parameters()
    reference, optimizer = MAKERS[name](theirs), MAKERS[name](mine)
    for one in (reference, optimizer):
        one.param_groups[0]["betas"] = (0.6, 0.999)  # it takes some 200 steps, where 0.9 takes 1000
    for step in range(240):
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
