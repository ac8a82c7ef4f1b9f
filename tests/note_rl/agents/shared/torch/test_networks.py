"""Acting in NumPy reads the weights where they lie: views are kept, as long as they are of these very weights."""

import copy
import pickle

import numpy as np
import pytest
import torch

from note_rl.agents.shared.torch.networks import MLP


def last_bias(net):
    return net.dense_layers()[-1][1].tolist()


@pytest.fixture
def net():
    made = MLP((3,), 2, (4,))
    with torch.no_grad():
        made.linears[-1].bias.copy_(torch.tensor([1.0, 2.0]))
    assert last_bias(made) == [1.0, 2.0]
    return made


def test_views_follow_what_is_learned_without_being_made_again(net):
    kernel = net.dense_layers()[0][0]
    with torch.no_grad():
        net.linears[-1].bias.add_(1.0)
    assert last_bias(net) == [2.0, 3.0]
    assert net.dense_layers()[0][0] is kernel
    np.testing.assert_array_equal(kernel, net.linears[0].weight.detach().numpy().T)


@pytest.mark.parametrize(
    "exchange",
    [
        lambda net: setattr(net.linears[-1], "bias", torch.nn.Parameter(torch.tensor([5.0, 6.0]))),
        lambda net: setattr(net.linears[-1].bias, "data", torch.tensor([5.0, 6.0])),
        lambda net: net.load_state_dict({**net.state_dict(), "layers.1.bias": torch.tensor([5.0, 6.0])}),
    ],
)
def test_weights_that_are_exchanged_are_read_anew(net, exchange):
    exchange(net)
    assert last_bias(net) == [5.0, 6.0]


def test_weights_that_are_worked_out_of_others_are_read_each_time(net):
    torch.nn.utils.parametrizations.weight_norm(net.linears[0])
    before = net.dense_layers()[0][0].copy()
    with torch.no_grad():
        net.linears[0].parametrizations.weight.original0.mul_(2.0)
    np.testing.assert_allclose(net.dense_layers()[0][0], 2.0 * before, rtol=1e-6)


def test_an_activation_that_is_exchanged_is_read_anew(net):
    net.activation = "tanh"
    assert [activation for _, _, activation in net.dense_layers()] == ["tanh", "linear"]


@pytest.mark.parametrize("copied", [copy.deepcopy, lambda net: pickle.loads(pickle.dumps(net))])
def test_copies_are_read_where_they_lie_even_at_the_same_place(net, copied, monkeypatch):
    """In another process, a copy may come to lie where the original did in its own."""
    monkeypatch.setattr(torch.nn.Parameter, "data_ptr", lambda parameter: parameter.numel(), raising=False)
    net._viewed = ([], [])
    assert last_bias(net) == [1.0, 2.0]
    other = copied(net)
    with torch.no_grad():
        other.linears[-1].bias.fill_(7.0)
    assert last_bias(other) == [7.0, 7.0]
    assert last_bias(net) == [1.0, 2.0]
