"""Networks from lists of layers are the same in both frameworks; trunks that policy and value share."""

from functools import partial
from pathlib import Path
from typing import Any

import gymnasium
import numpy as np
import pytest
import torch
from gymnasium import spaces

from note_rl.agents.shared.cfg_files import read_cfg
from note_rl.agents.shared.keras import layered as in_keras
from note_rl.agents.shared.torch import layered as in_torch
from note_rl.errors import SettingsError
from note_rl.policy import EpsGreedyQPolicy, SoftmaxPolicy
from note_rl.seeding import seed_everything
from tests.note_rl.frameworks import frameworks
from tests.note_rl.learners.test_base import perceptron
from tests.note_rl.networks import running_statistics

CONV = {"conv": {"filters": 4, "size": [3, 2], "stride": 2, "padding": "same"}}

# Layers, shape of an observation, and parameters by hand for 3 outputs.
NETWORKS: dict[str, tuple[list[Any], tuple[int, ...], int]] = {
    "dense": ([{"dense": 5}, {"dense": {"units": 4, "activation": "silu"}}], (7,), 7 * 5 + 5 + 5 * 4 + 4 + 4 * 3 + 3),
    "matrix": (["flatten", {"dense": 5}], (2, 3), 6 * 5 + 5 + 5 * 3 + 3),
    "same": ([CONV, "flatten"], (8, 9, 2), 2 * 3 * 2 * 4 + 4 + 4 * 5 * 4 * 3 + 3),
    "gray": ([CONV, {"pool": {"size": 2, "kind": "average"}}, "flatten"], (8, 9), 3 * 2 * 4 + 4 + 2 * 2 * 4 * 3 + 3),
    "pool": ([CONV, {"pool": {"size": 3, "stride": 1}}, "flatten", {"dense": 2}], (8, 9, 2), 52 + (24 + 1) * 2 + 9),
    "layer norm": ([CONV, {"norm": "layer"}, "flatten", {"norm": "layer"}], (8, 9, 2), 52 + 8 + 160 + 240 + 3),
    "batch norm": (
        [
            *({"conv": {"filters": 4, "size": 3, "activation": "linear"}}, {"norm": "batch"}, {"activation": "elu"}),
            *("flatten", {"dense": 6}, {"norm": "batch"}, {"dropout": 0.5}),
        ],
        (5, 5, 1),
        40 + 8 + 36 * 6 + 6 + 12 + 18 + 3,
    ),
}  # fmt: skip


def both(name: str) -> tuple[Any, Any]:
    layers, shape, _ = NETWORKS[name]
    seed_everything(1)
    return in_torch.layered_network(shape, 3, layers), in_keras.layered_network(shape, 3, layers)


def copy_weights(source: Any, target: Any) -> None:
    """From PyTorch to Keras, layer by layer: kernels have their axes in another order."""
    modules = [one for one in (*source.trunk, *source.head) if list(one.parameters())]
    layers = [one for one in (*target.trunk.layers, *target.head.layers) if one.trainable_weights]
    for module, layer in zip(modules, layers, strict=True):
        arrays = [tensor.detach().numpy() for tensor in module.state_dict().values() if tensor.ndim]
        order = {4: (2, 3, 1, 0), 2: (1, 0), 1: (0,)}
        layer.set_weights([values.transpose(order[values.ndim]) for values in arrays])


@pytest.mark.parametrize("name", NETWORKS)
def test_both_frameworks_build_the_same(name: str) -> None:
    _, shape, num_parameters = NETWORKS[name]
    first, second = both(name)
    assert sum(one.numel() for one in first.parameters()) == num_parameters
    assert sum(int(np.prod(one.shape)) for one in second.trainable_variables) == num_parameters
    obs = np.random.default_rng(0).normal(size=(6, *shape)).astype(np.float32)
    first(torch.from_numpy(obs))  # in train mode: running statistics are no longer what they begin with
    copy_weights(first, second)
    with torch.no_grad():
        expected = first.eval()(torch.from_numpy(obs)).numpy()
    assert expected.std() > 1e-3
    np.testing.assert_allclose(second(obs, training=False).numpy(), expected, rtol=1e-5, atol=1e-5)


def test_running_statistics_move_alike() -> None:
    first, second = both("batch norm")
    copy_weights(first, second)
    obs = np.random.default_rng(0).normal(size=(50, 5, 5, 1)).astype(np.float32)
    first(torch.from_numpy(obs))
    second(obs, training=True)
    ordered = [
        sorted(running_statistics(one), key=lambda values: (len(values), values.mean())) for one in (first, second)
    ]
    for start, mine, theirs in zip((0.0, 1.0) * 2, *ordered, strict=True):  # means and variances
        assert np.abs(mine - start).max() > 1e-3
        np.testing.assert_allclose(mine, theirs, rtol=1e-2, atol=1e-5)  # PyTorch divides by one less


def test_bytes_are_seen_as_0_to_1() -> None:
    first, second = both("same")
    picture = np.random.default_rng(0).integers(0, 256, (2, 8, 9, 2)).astype(np.uint8)
    scaled = (picture / 255).astype(np.float32)
    with torch.no_grad():
        np.testing.assert_allclose(first(torch.from_numpy(picture)), first(torch.from_numpy(scaled)), atol=1e-6)
    np.testing.assert_allclose(second(picture), second(scaled), atol=1e-6)


def test_observations_of_another_size_are_not_taken() -> None:
    first, second = both("dense")
    with pytest.raises(RuntimeError):
        first(torch.zeros(2, 14))
    with pytest.raises(ValueError, match="shape"):
        second(np.zeros((2, 14), np.float32))


def test_the_network_of_the_manual_has_its_parameters() -> None:
    told = read_cfg(Path(__file__).with_name("model.cfg"))
    for package in (in_torch, in_keras):
        policy = package.layered_network((84, 84, 1), 6, **told)
        value = policy.value_network()
        assert value.trunk is policy.trunk
        counted = [list(one.parameters()) if package is in_torch else one.variables for one in (policy, value.head)]
        assert sum(int(np.prod(one.shape)) for group in counted for one in group) == 1_681_575


@pytest.fixture(params=frameworks())
def framework(request: pytest.FixtureRequest) -> Any:
    return request.param


def maker(framework: Any, layers: Any, **told: Any) -> Any:
    return partial({"pytorch": in_torch, "keras": in_keras}[framework.package].layered_network, layers=layers, **told)


def kernels(framework: Any, network: Any) -> list[np.ndarray]:
    """Weights [inputs, outputs] of all layers that have such."""
    if framework.package == "pytorch":
        return [one.detach().numpy().reshape(len(one), -1).T for one in network.parameters() if one.ndim > 1]
    return [one.numpy().reshape(-1, one.shape[-1]) for one in network.trainable_variables if one.shape.rank > 1]


LISTED = [
    {"conv": {"filters": 8, "size": 3, "gain": 3.0}},
    {"conv": {"filters": 64, "size": 3, "initializer": "he_uniform"}},
    {"conv": {"filters": 64, "size": 3, "initializer": "glorot_uniform", "gain": 2.0}},
    "flatten",
    {"dense": 100},
]


def test_weights_begin_as_the_initializer_says(framework: Any) -> None:
    seed_everything(0)
    network = maker(framework, LISTED, head={"initializer": "orthogonal", "gain": 0.1})((8, 8, 1), 5)
    first, he, glorot, uniform, output = kernels(framework, network)
    assert first.shape == (9, 8)
    assert 0.95 * 3.0 / 3.0 < np.abs(first).max() <= 3.0 / 3.0  # gain / sqrt(9)
    for found, bound in ((he, (6 / 72) ** 0.5), (glorot, 2 * (6 / (2 * 576)) ** 0.5), (uniform, 256**-0.5)):
        assert 0.99 * bound < np.abs(found).max() <= bound
        np.testing.assert_allclose(found.std(), bound / 3**0.5, rtol=0.05)
    np.testing.assert_allclose(output.T @ output, 0.01 * np.eye(5), atol=1e-6)


def test_agents_begin_orthogonal_where_nothing_is_said(framework: Any) -> None:
    network = maker(framework, LISTED)
    agent = framework.agents.PPO(env=Picture, network=network)
    first, he, _, hidden, output = kernels(framework, agent.actor)
    np.testing.assert_allclose(first.T @ first, 9.0 * np.eye(8), atol=1e-4)
    assert np.abs(he).max() <= (6 / 72) ** 0.5
    np.testing.assert_allclose(hidden.T @ hidden, 2.0 * np.eye(100), atol=1e-4)
    np.testing.assert_allclose(np.linalg.norm(output, axis=0), 0.01, rtol=1e-4)
    np.testing.assert_allclose(np.linalg.norm(kernels(framework, agent.critic)[-1]), 1.0, rtol=1e-4)


class Picture(gymnasium.Env[Any, Any]):
    """Of 8 x 8 pixels, with two actions."""

    observation_space = spaces.Box(0.0, 1.0, (8, 8, 1), np.float32)
    action_space = spaces.Discrete(2)

    def reset(self, *, seed: Any = None, options: Any = None) -> Any:
        return np.zeros((8, 8, 1), np.float32), {}

    def step(self, action: Any) -> Any:
        return np.zeros((8, 8, 1), np.float32), 1.0, False, False, {}


def shared(framework: Any, name: str = "PPO", **told: Any) -> Any:
    seed_everything(0)
    network = maker(framework, [{"dense": 8}], activation="tanh", shared=True, **told)
    return getattr(framework.agents, name)(env="CartPole-v1", network=network)


def test_a_shared_trunk_is_one_group_in_which_everything_stands_once(framework: Any) -> None:
    agent = shared(framework, head={"layers": [{"dense": 3}]})
    sizes = [values.shape for values in framework.parameters(agent)]
    assert len(agent.param) == 1
    assert sum(map(np.prod, sizes)) == (4 * 8 + 8) + (8 * 3 + 3 + 3 * 2 + 2) + (8 * 3 + 3 + 3 + 1)
    apart = maker(framework, [{"dense": 8}])
    assert len(framework.agents.PPO(env="CartPole-v1", network=apart).param) == 2


def test_actor_and_critic_both_teach_the_trunk(framework: Any) -> None:
    """The gradient of the trunk is that of the policy's loss plus that of the value's."""
    from tests.note_rl.learners.test_modes import batch

    gradients = {}
    for value_coef, entropy_coef, with_policy in ((0.5, 0.1, True), (0.0, 0.1, True), (0.5, 0.0, False)):
        agent = shared(framework, "A2C", head={"gain": 1.0})
        agent.value_coef, agent.entropy_coef = value_coef, entropy_coef
        before = framework.parameters(agent)
        optimizer = framework.optimizers.sgd(agent.param, 1.0)
        agent.learner.prepare(optimizer, None, (), False)
        given = batch(steps=1)
        advantage = np.full((1, 16), 0.7 if with_policy else 0.0, np.float32)
        extras = {"advantage": advantage, "return_": np.full((1, 16), 2.0, np.float32)}
        agent.learner.update(type(given)(**{**fields_of(given), "extras": extras}), {})
        gradients[value_coef, with_policy] = before[0] - framework.parameters(agent)[0]
    whole, policy, value = gradients.values()
    assert min(np.abs(policy).max(), np.abs(value).max()) > 1e-4
    np.testing.assert_allclose(whole, policy + value, rtol=1e-3, atol=1e-6)


def fields_of(given: Any) -> dict[str, Any]:
    from dataclasses import fields

    return {one.name: getattr(given, one.name) for one in fields(given)}


def test_one_pass_through_the_trunk_gives_what_two_would(framework: Any) -> None:
    agent = shared(framework, head={"gain": 1.0})
    obs = np.random.default_rng(0).normal(size=(5, 4)).astype(np.float32)
    s, a = (torch.from_numpy(obs), torch.arange(5) % 2) if framework.package == "pytorch" else (obs, np.arange(5) % 2)
    together = agent.log_prob_entropy_and_value(s, a)
    for one, other in zip(together, (*agent.log_prob_and_entropy(s, a), agent.value(s)), strict=True):
        np.testing.assert_allclose(framework.array(one), framework.array(other), rtol=1e-5)


@pytest.mark.parametrize("continuous", [False, True])
def test_dense_layers_act_in_numpy(framework: Any, continuous: bool) -> None:
    seed_everything(0)
    network = maker(framework, [{"dense": {"units": 8, "activation": "tanh"}}, {"dropout": 0.5}], shared=True)
    agent = framework.agents.PPO(env="Pendulum-v1" if continuous else "CartPole-v1", network=network)
    obs = np.random.default_rng(0).normal(size=(5, 3 if continuous else 4)).astype(np.float32)
    answers = agent.learner.act(obs)
    assert agent.learner.actor.is_mirrored()
    np.testing.assert_allclose(answers, agent.learner._framework_act(obs), rtol=1e-5, atol=1e-6)
    layers = agent.actor.dense_layers()
    np.testing.assert_allclose(answers[:, :1] if continuous else np.log(answers[:, 0] / answers[:, 1]),
                               perceptron(layers, obs) if continuous else -np.diff(perceptron(layers, obs))[:, 0],
                               rtol=1e-4, atol=1e-5)  # fmt: skip
    agent = framework.agents.PPO(env="CartPole-v1", network=maker(framework, [{"dense": 8}, {"norm": "layer"}]))
    agent.learner.act(np.zeros((1, 4), np.float32))
    assert not agent.learner.actor.is_mirrored()


def test_a_critic_may_have_another_network(framework: Any) -> None:
    wide = maker(framework, [{"dense": 32}])
    for name, env, critic, num_inputs in (
        ("PPO", "CartPole-v1", "critic", 4),
        ("DDPG", "Pendulum-v1", "critic", 4),
        ("TD3", "Pendulum-v1", "critic_2", 4),
        ("SAC", "Pendulum-v1", "critic_1", 4),
    ):
        agent = getattr(framework.agents, name)(env=env, network=maker(framework, [{"dense": 8}]), critic_network=wide)
        assert kernels(framework, agent.actor)[0].shape[1] == 8, name
        assert kernels(framework, getattr(agent, critic))[0].shape == (num_inputs, 32), name
    with pytest.raises(SettingsError, match="shared=True gives the value the trunk of the policy"):
        framework.agents.PPO(
            env="CartPole-v1", network=maker(framework, [{"dense": 8}], shared=True), critic_network=wide
        )


@pytest.mark.slow_in_keras  # learners/test_modes.py
def test_layers_that_act_otherwise_in_training_do_so(framework: Any) -> None:
    """A short run of each: statistics move in losses only, and acting drops nothing."""
    layers = [
        {"dense": {"units": 8, "activation": "linear"}},
        {"norm": "batch"},
        {"activation": "relu"},
        {"dropout": 0.5},
    ]
    seed_everything(0)
    agent = framework.agents.DQN(env="CartPole-v1", network=maker(framework, layers))
    agent.set(policy=EpsGreedyQPolicy(0.5), pool_size=500, batch=16, learning_starts=32, train_freq=16, seed=0)
    start = running_statistics(agent.q_net)
    obs = np.random.default_rng(0).normal(size=(5, 4)).astype(np.float32)
    np.testing.assert_array_equal(agent.learner.act(obs), agent.learner.act(obs))
    for one, other in zip(start, running_statistics(agent.q_net), strict=True):
        np.testing.assert_array_equal(one, other)
    optimizer = framework.optimizers.adam(agent.param, 1e-3)
    result = agent.train(optimizer=optimizer, total_steps=64, jit_compile=False, p=0)
    assert np.isfinite(result.losses[-1])
    for one, other in zip(start, running_statistics(agent.q_net), strict=True):
        assert np.abs(one - other).max() > 1e-3
    np.testing.assert_array_equal(agent.learner.act(obs), agent.learner.act(obs))


def test_a_shared_trunk_is_saved_and_restored(framework: Any, tmp_path: Path) -> None:
    agent, other = shared(framework), shared(framework)
    for one in (agent, other):
        one.set(policy=SoftmaxPolicy(), PPO=True, rollout_steps=8, batch=8, num_epochs=1, seed=0)
    agent.train(optimizer=framework.optimizers.adam(agent.param, 1e-2), total_steps=16, jit_compile=False, p=0)
    agent.save(tmp_path / "agent", save_data=False)
    other.restore(tmp_path / "agent")
    obs = np.random.default_rng(0).normal(size=(5, 4)).astype(np.float32)
    np.testing.assert_array_equal(other.learner.act(obs), agent.learner.act(obs))
    np.testing.assert_array_equal(other.learner.value(obs), agent.learner.value(obs))


@pytest.mark.slow_in_keras  # in Keras no step is recorded
def test_the_recorded_steps_of_a_shared_trunk_are_the_ordinary_ones(framework: Any) -> None:
    runs = []
    for jit in (False, "auto"):
        agent = shared(framework, "A2C")
        agent.set(policy=SoftmaxPolicy(), PPO=True, rollout_steps=16, batch=16, num_epochs=1, seed=0)
        agent.train(optimizer=framework.optimizers.sgd(agent.param, 1e-2), total_steps=96, jit_compile=jit, p=0)
        runs.append(framework.parameters(agent))
    for one, other in zip(*runs, strict=True):
        np.testing.assert_allclose(one, other, rtol=1e-4, atol=1e-6)
