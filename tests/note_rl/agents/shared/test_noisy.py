"""Noisy layers in both frameworks: a number worked out by hand, where they are, and who may have them."""

from functools import partial

import numpy as np
import pytest

from note_rl.errors import AgentContractError, SettingsError
from note_rl.policy import SoftmaxPolicy
from note_rl.seeding import seed_everything
from tests.note_rl.agents.shared.test_action_values import numbers
from tests.note_rl.frameworks import frameworks

pytestmark = pytest.mark.parametrize("framework", frameworks())


def set_weights(framework, layer, weight, bias, weight_std, bias_std):
    """Of a layer with one output."""
    if framework.package == "pytorch":
        import torch

        pairs = ((layer.weight, [weight]), (layer.bias, [bias]))
        pairs += ((layer.weight_std, [weight_std]), (layer.bias_std, [bias_std]))
        with torch.no_grad():
            for parameter, values in pairs:
                parameter.copy_(torch.tensor(values))
        return
    layer.kernel.assign(np.array([weight], np.float32).T)
    layer.kernel_std.assign(np.array([weight_std], np.float32).T)
    layer.bias.assign([bias])
    layer.bias_std.assign([bias_std])


def test_output_with_noise_by_hand(framework):
    """1 - 2 + 0.5 is -0.5; noise adds f(0.25) (0.1 f(4) - 0.2 f(-9) + 0.3) = 0.5 (0.2 + 0.6 + 0.3)."""
    noisy = framework.module("shared/noisy")
    network = framework.module("shared/networks").MLP((2,), 1, (), noisy_std=0.5)
    set_weights(framework, noisy.noisy_layers(network)[0], [1.0, 2.0], 0.5, [0.1, 0.2], 0.3)
    assert noisy.num_noise(network) == 3
    x, noise = numbers(framework, [[1.0, -1.0]], [[4.0, -9.0, 0.25]])
    assert framework.array(noisy.noisy_outputs(network, x, noise)).tolist() == [[pytest.approx(0.05)]]


def test_rows_have_noise_of_their_own(framework):
    noisy = framework.module("shared/noisy")
    network = framework.module("shared/networks").MLP((2,), 3, (4,), noisy_std=0.5)
    normal = np.random.default_rng(0).normal(size=(2, noisy.num_noise(network)))
    x, noise, swapped = numbers(framework, [[1.0, -1.0]] * 2, normal, normal[::-1])
    first = framework.array(noisy.noisy_outputs(network, x, noise))
    second = framework.array(noisy.noisy_outputs(network, x, swapped))
    np.testing.assert_allclose(first, second[::-1], rtol=1e-5)
    assert (first[0] != first[1]).all()


def layer_list(framework):
    layered = framework.module("shared/layered").layered_network
    return partial(layered, layers=[{"dense": 4}, {"dense": {"units": 5, "noisy_std": 0}}], noisy_std=0.5)


@pytest.mark.parametrize(
    ("make", "stds"),
    [
        (lambda framework: framework.module("shared/networks").MLP((2,), 3, (4,), noisy_std=0.5), [0.5, 0.5]),
        (lambda framework: framework.module("shared/networks").MLP((2,), 3, (4,)), []),
        (lambda framework: layer_list(framework)((2,), 3), [0.5, 0.5]),
        (
            lambda framework: framework.module("shared/networks").CNN((36, 36, 1), 3, (4,), noisy_std=0.2),
            [0.2, 0.2],
        ),
        (
            lambda framework: framework.module("shared/dueling").dueling(
                partial(framework.module("shared/networks").MLP, hidden_sizes=(4,), noisy_std=0.5), 4
            )((2,), 3),
            [0.5] * 4,  # the shared part's, value and advantage
        ),
    ],
    ids=["mlp", "plain", "layers", "cnn", "dueling"],
)
def test_dense_layers_are_noisy(framework, make, stds):
    layers = framework.module("shared/noisy").noisy_layers(make(framework))
    assert [layer.std for layer in layers] == stds
    for layer in layers:  # begin at std / sqrt(fan in)
        start = framework.array(layer.weight_std if framework.package == "pytorch" else layer.kernel_std)
        fan_in = start.shape[1 if framework.package == "pytorch" else 0]
        np.testing.assert_allclose(start, layer.std / np.sqrt(fan_in), rtol=1e-6)


def test_agents_that_draw_no_noise_refuse_such_layers(framework):
    network = partial(framework.module("shared/networks").MLP, noisy_std=0.5)
    with pytest.raises(SettingsError, match=r"noisy_std=0.5 gives layers noise, which PPO does not draw: set it to 0"):
        framework.agents.PPO(network=network)
    with pytest.raises(SettingsError, match=r"noisy_std.*SAC does not draw"):
        framework.agents.SAC(critic_network=network, env="Pendulum-v1")
    one = partial(
        framework.module("shared/layered").layered_network, layers=[{"dense": {"units": 4, "noisy_std": 0.2}}]
    )
    with pytest.raises(SettingsError, match=r"noisy_std=0.2 .*A2C does not draw"):
        framework.agents.A2C(network=one)


def test_a_loss_without_noise_is_refused(framework):
    """The network of a user's function is unknown before the loss is called."""
    seed_everything(0)
    mlp = framework.module("shared/networks").MLP
    agent = framework.agents.A2C(network=lambda shape, num: mlp(shape, num, (4,), noisy_std=0.5), env="CartPole-v1")
    agent.set(policy=SoftmaxPolicy(), PPO=True, rollout_steps=8, seed=1)
    optimizer = [framework.optimizers.adam(group, 1e-3) for group in agent.param]
    with pytest.raises(
        AgentContractError, match=r"has noisy layers .noisy_std., and this loss calls them without noise"
    ):
        agent.train(optimizer=optimizer, total_steps=16, p=0)
