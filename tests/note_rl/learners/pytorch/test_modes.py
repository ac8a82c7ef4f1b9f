"""Which parts of PyTorch's networks count as targets."""

from types import SimpleNamespace

from torch import nn

from note_rl.learners.pytorch.modes import Modes


def test_a_target_within_a_network_is_in_eval_mode_too():
    nets = nn.ModuleDict({name: nn.Sequential(nn.Dropout(0.5), nn.Linear(2, 2)) for name in ("q", "target")})
    modes = Modes(SimpleNamespace(nets=nets), [list(nets["q"].parameters())])
    with modes.learning():
        assert [nets[name][0].training for name in ("q", "target")] == [True, False]
    assert nets["target"][0].training
