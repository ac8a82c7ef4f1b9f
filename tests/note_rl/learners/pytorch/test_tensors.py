"""Tensors on their way to another device, here the CPU itself."""

from types import SimpleNamespace

import numpy as np
import torch

from note_rl.agents.shared.torch.networks import on_host
from note_rl.learners.pytorch import tensors
from note_rl.learners.pytorch.tensors import columns_on, in_one_transfer

CPU = torch.device("cpu")


class Elsewhere:
    """A device that is the CPU, and is not called so."""

    type = "elsewhere"


def test_several_types_come_in_one_transfer():
    given = [torch.rand(2, 3), torch.arange(6).reshape(2, 3), torch.tensor([[1, 2]], dtype=torch.uint8), torch.ones(())]
    for found, expected in zip(in_one_transfer(given, CPU), given, strict=True):
        assert found.dtype == expected.dtype
        assert torch.equal(found, expected)


def test_large_columns_travel_alone(monkeypatch):
    columns = {"obs": np.zeros((2, 4, 9), np.uint8), "action": np.ones((2, 4), np.int32), "reward": np.ones((2, 4))}
    monkeypatch.setattr(tensors, "_TOGETHER", 64)
    together, alone = [], []
    move = tensors.in_one_transfer
    monkeypatch.setattr(tensors, "in_one_transfer", lambda given, _: together.append(len(given)) or move(given, CPU))
    monkeypatch.setattr(
        tensors, "as_rows", lambda values, _: alone.append(values) or torch.from_numpy(values).unbind(0)
    )
    moved = columns_on(Elsewhere(), columns)
    assert list(moved) == list(columns)
    assert (together, len(alone)) == ([2], 1)
    assert alone[0] is columns["obs"]
    for name, rows in moved.items():
        np.testing.assert_array_equal(torch.stack(list(rows)).numpy(), columns[name])
    assert moved["action"][0].dtype == torch.int64  # as indices are


def test_parameters_come_to_the_host_in_their_shapes():
    def elsewhere(tensor):
        described = {"device": Elsewhere(), "shape": tensor.shape, "numel": tensor.numel}
        return SimpleNamespace(**described, detach=lambda: tensor)

    given = [torch.rand(2, 3), torch.rand(2)]
    for found, expected in zip(on_host(list(map(elsewhere, given))), given, strict=True):
        assert torch.equal(found, expected)
        assert found.data_ptr() != expected.data_ptr()
    assert [one.data_ptr() for one in on_host(given)] == [one.data_ptr() for one in given]
