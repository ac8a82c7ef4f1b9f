"""Observations that are dictionaries, with an encoder for each key, over both frameworks."""

import importlib
import math
from functools import partial

import numpy as np
import pytest
import torch

from note_rl.agents.shared.spaces import continuous_spaces
from note_rl.errors import SettingsError
from note_rl.noise import GaussianWhiteNoiseProcess
from note_rl.policy import EpsGreedyQPolicy, NoisyPolicy, SoftmaxPolicy, SquashedGaussianPolicy
from note_rl.seeding import seed_everything
from tests.note_rl.agents.shared.encoded_agents import BOTH, CONV, ENCODERS, made
from tests.note_rl.agents.shared.test_layered import copy_weights
from tests.note_rl.dictionaries import Signs
from tests.note_rl.frameworks import frameworks

ONCE = pytest.mark.parametrize("framework", frameworks()[:1])


def test_both_frameworks_build_the_same():
    first, second = made("pytorch"), made("keras")
    # convolution, dense layer behind its 4 * 5 * 4 features, vector, joined 5 + 6 + 4, outputs
    expected = (2 * 3 * 2 * 4 + 4) + (80 * 5 + 5) + (3 * 4 + 4) + (15 * 7 + 7) + (7 * 3 + 3)
    assert sum(one.numel() for one in first.parameters()) == expected
    assert sum(int(np.prod(one.shape)) for one in second.trainable_variables) == expected
    for mine, theirs in zip((*first.encoders, first.joined), (*second.encoders, second.joined), strict=True):
        if hasattr(mine, "plan"):
            copy_weights(mine, theirs)
    rng = np.random.default_rng(0)
    x = np.concatenate([rng.integers(256, size=(4, 144)), np.eye(6)[:4], rng.normal(size=(4, 3))], axis=1)
    x = x.astype(np.float32)
    with torch.no_grad():
        ours = first(torch.from_numpy(x)).numpy()
    np.testing.assert_allclose(second(x).numpy(), ours, rtol=1e-4, atol=1e-5)


@BOTH
def test_each_key_reaches_its_own_encoder_and_bytes_count_as_0_to_1(framework):
    plain = {"image": {"layers": ["flatten"]}, "kind": None, "vector": None}
    network = made(framework.package, plain, hidden_sizes=(1,), activation="linear")
    weights = [np.full(values.shape, 1.0 if len(values.shape) > 1 else 0.0) for values in parameters(network)]
    set_parameters(framework, network, weights)
    x = np.zeros((2, 153), np.float32)
    x[0, :144], x[1, 146], x[1, 150:] = 51.0, 1.0, [0.25, 0.5, -2.0]
    outputs = framework.array(network(tensor(framework, x)))
    np.testing.assert_allclose(outputs, [[144 * 0.2] * 3, [1.0 + 0.25 + 0.5 - 2.0] * 3], rtol=1e-5)


def parameters(network):
    return list(network.parameters()) if hasattr(network, "parameters") else network.trainable_variables


def set_parameters(framework, network, values):
    for parameter, numbers in zip(parameters(network), values, strict=True):
        framework.set(parameter, numbers.astype(np.float32))


def tensor(framework, values):
    if framework.package == "pytorch":
        return torch.from_numpy(values)
    import tensorflow as tf

    return tf.constant(values)


@BOTH
def test_a_critic_takes_the_action_as_it_is(framework):
    module, plain = f"note_rl.agents.{framework.package}", {"image": {"layers": ["flatten"]}, "sign": None}
    encoded = importlib.import_module(f"{module}.encoded").encoded_network
    make = partial(encoded, encoders=plain, hidden_sizes=(1,), activation="linear")
    spaces = continuous_spaces("NoteRLSignsOfNumbers-v0", "TD3")
    critic = importlib.import_module(f"{module}.networks").QNetwork(make, spaces)
    x = np.zeros((3, 37), np.float32)
    x[0, :36], x[1, 36] = 51.0, -0.5
    actions = np.array([[0.5], [0.5], [-1.0]], np.float32)
    critic(tensor(framework, x), tensor(framework, actions))  # Keras makes its weights
    assert [math.prod(one.shape) for one in parameters(critic)] == [36 + 1 + 1, 1, 1, 1]
    weights = [np.full(values.shape, 1.0 if len(values.shape) > 1 else 0.0) for values in parameters(critic)]
    set_parameters(framework, critic, weights)
    values = framework.array(critic(tensor(framework, x), tensor(framework, actions)))
    np.testing.assert_allclose(values, [36 * 0.2 + 0.5, -0.5 + 0.5, -1.0], rtol=1e-5)


@ONCE
@pytest.mark.parametrize(
    ("encoders", "message"),
    [
        ({**ENCODERS, "imgae": None}, r"encoders has imgae, which observations do not; did you mean image\?"),
        ({"image": None, "kind": None}, r"encoders has none for vector, which shows the shape \[3\]: add one such as"),
        ([1], "must be a group with an entry for each of image, kind, vector"),
        ({**ENCODERS, "vector": {"layer": []}}, r"encoders.vector has no layer; did you mean layers\?"),
        ({**ENCODERS, "vector": 64}, "encoders.vector must be a group such as"),
        ({**ENCODERS, "image": {"layers": [CONV]}}, r"encoders.image\..* put flatten at the end of layers"),
        ({**ENCODERS, "vector": {"layers": [CONV]}}, r"encoders.vector.layers.0 \(conv\) gets the shape \[3\]"),
    ],
)
def test_what_does_not_fit_is_refused(framework, encoders, message):
    with pytest.raises(SettingsError, match=message):
        made(framework.package, encoders)


@ONCE
def test_observations_that_are_no_dictionaries_are_refused(framework):
    network = partial(importlib.import_module("note_rl.agents.shared.torch.encoded").encoded_network, encoders={})
    with pytest.raises(SettingsError, match=r"see an array of the shape \[4\]: choose hidden_sizes or layers"):
        framework.agents.DQN(env="CartPole-v1", network=network)


@pytest.mark.slow_in_keras
@pytest.mark.parametrize(
    ("framework", "name"),
    [
        pytest.param(*one.values, name, marks=marks, id=f"{one.id}-{name}")
        for one in frameworks()
        for name, marks in (("PPO", [pytest.mark.slow]), ("DQN", [pytest.mark.slow]))  # what is seen: the tests above
    ],
)
def test_an_image_and_a_number_are_learned_from_together(framework, name):
    module = importlib.import_module(f"note_rl.agents.{framework.package}.encoded")
    layers = [{"conv": {"filters": 4, "size": 3, "stride": 3, "activation": "tanh"}}, "flatten"]
    encoders = {"image": {"layers": layers}, "sign": None}
    make = getattr(framework.agents, name)
    seed_everything(0)
    agent = make(env=Signs, network=partial(module.encoded_network, encoders=encoders, hidden_sizes=(16,)), gamma=0.0)
    if name == "PPO":
        agent.set(policy=SoftmaxPolicy(), rollout_steps=32, batch=64, num_epochs=8, PPO=True, num_envs=8, seed=0)
    else:
        agent.set(policy=EpsGreedyQPolicy(0.3), batch=64, train_freq=32, num_updates=16, num_envs=8, seed=0)
    optimizer = framework.optimizers.adam(agent.param, 1e-2 if name == "DQN" else 3e-3)
    agent.train(optimizer=optimizer, total_steps=3_000, p=0, jit_compile=False)
    assert agent.evaluate(10).mean > 7.0  # of 8; a key alone gives 4


@pytest.mark.slow
@pytest.mark.parametrize("name", ["DDPG", "TD3", "SAC"])
@BOTH
def test_critics_learn_from_both_as_well(framework, name):
    module = importlib.import_module(f"note_rl.agents.{framework.package}.encoded")
    layers = [{"conv": {"filters": 4, "size": 3, "stride": 3, "activation": "tanh"}}, "flatten"]
    encoders = {"image": {"layers": layers}, "sign": None}
    network = partial(module.encoded_network, encoders=encoders, hidden_sizes=(16,))
    seed_everything(0)
    agent = getattr(framework.agents, name)(env="NoteRLSignsOfNumbers-v0", network=network, gamma=0.0)
    policy = SquashedGaussianPolicy() if name == "SAC" else NoisyPolicy(GaussianWhiteNoiseProcess(sigma=0.3))
    agent.set(policy=policy, batch=64, train_freq=32, num_updates=16, num_envs=8, seed=0, learning_starts=256)
    agent.train(optimizer=framework.optimizers.adam(agent.param, 3e-3), total_steps=2_500, p=0, jit_compile=False)
    assert agent.evaluate(10).mean > 6.5  # of 8; the image alone gives 5.3, the sign alone 2.7


@pytest.mark.slow_in_keras
@BOTH
@pytest.mark.parametrize("later", ["", "set", "restore"])
def test_bytes_reach_the_network_as_they_are_where_observations_are_normalised(framework, later, tmp_path):
    """The image stays from 0 to 255, which the network divides by; the sign gets mean 0 and deviation 1.

    Also where they are normalised only later.
    """
    module = importlib.import_module(f"note_rl.agents.{framework.package}")
    encoded = importlib.import_module(f"note_rl.agents.{framework.package}.encoded")
    agent = module.DQN(env=Signs(), network=encoded.encoded_network)
    told = {"policy": EpsGreedyQPolicy(1.0), "pool_size": 200, "batch": 8, "learning_starts": 100, "seed": 0}
    options = {"p": 0, "jit_compile": False}
    if later:
        agent.set(**told)
        agent.train(optimizer=framework.optimizers.adam(agent.param, 1e-3), total_steps=32, **options)
    if later == "restore":
        agent.save(tmp_path / "file")
        agent = module.DQN(env=Signs(), network=encoded.encoded_network)
        agent.restore(tmp_path / "file")
    agent.set(**told, normalise_obs=True)
    optimizer = None if later == "set" else framework.optimizers.adam(agent.param, 1e-3)
    agent.train(optimizer=optimizer, total_steps=64, **options)
    shown = np.array([[255.0] * 18 + [0.0] * 18 + [1.0]], np.float32)
    seen = agent.obs_normaliser(shown)
    np.testing.assert_array_equal(seen[:, :36], shown[:, :36])
    moments = agent.obs_normaliser.moments
    assert seen[0, 36] == pytest.approx((1.0 - moments.mean[36]) / moments.std[36])
