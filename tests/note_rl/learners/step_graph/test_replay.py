"""A recording is repeated as it was written down, without what nobody uses."""

import torch

from note_rl.learners.pytorch.step_graph.record import recorded
from note_rl.learners.pytorch.step_graph.replay import replay


def test_replays_follow_tensors_and_skip_what_nobody_uses():
    weight = torch.tensor([2.0], requires_grad=True)

    def function(x):
        (x.sin() * 7).sum()
        loss = (weight * x).square().sum()
        return [loss.detach(), *torch.autograd.grad(loss, [weight])]

    recording = recorded(function, [weight], [torch.tensor([1.0, 2.0])])
    assert not any("sin" in str(node.target) for node in recording.module.graph.nodes)
    run = replay(recording, [torch.tensor([1.0, 2.0])])
    with torch.no_grad():
        weight.fill_(3.0)
        loss, gradient = run(torch.tensor([1.0, 3.0]))
    assert loss == 9 + 81
    assert gradient.tolist() == [2 * 3 * (1 + 9)]
