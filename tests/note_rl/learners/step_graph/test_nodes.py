"""Reads, writes and draws of single kernel calls, by their schemas."""

import torch
from torch.fx.experimental.proxy_tensor import make_fx

from note_rl.learners.pytorch.step_graph import nodes


def calls(function, *inputs):
    return {nodes.name_of(node): node for node in make_fx(function)(*inputs).graph.nodes if nodes.is_kernel(node)}


def test_what_is_written_is_known():
    x = torch.ones(2, 3)
    found = calls(lambda x: x.t().add_(torch.rand(3, 2)).sin(), x)
    assert [name for name, node in found.items() if nodes.changes_something(node)] == ["add_"]
    assert nodes.changed_by(found["add_"]) == [found["t"]]
    assert [name for name, node in found.items() if nodes.is_random(node)] == ["rand"]
    assert [name for name, node in found.items() if nodes.matters(node)] == ["rand", "add_"]
    assert {name: nodes.gives_new_tensor(node) for name, node in found.items()} == {
        **{"t": False, "rand": True, "add_": False, "sin": True}
    }


def test_batch_norm_writes_its_statistics_in_train_mode_only():
    layer = torch.nn.BatchNorm1d(3)
    for train in (True, False):
        (node,) = (node for name, node in calls(layer.train(train), torch.ones(2, 3)).items() if "batch_norm" in name)
        assert nodes.changes_something(node) is train
        assert not train or len(nodes.changed_by(node)) == 2


def test_work_counts_multiplications():
    assert nodes.work(torch.ones(2, 3), torch.ones(3, 5)) == 30
