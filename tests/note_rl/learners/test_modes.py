"""Layers that act otherwise in training do so around the loss, and nowhere else, in both frameworks."""

import numpy as np
import pytest

from note_rl.policy import EpsGreedyQPolicy
from note_rl.seeding import seed_everything
from tests.note_rl.frameworks import frameworks
from tests.note_rl.networks import running_statistics, with_layers
from tests.note_rl.samples import sample

pytestmark = pytest.mark.parametrize("framework", frameworks())

LAYERS = {
    "dropout": {"dropout": 0.5},
    "batch norm": {"batch_norm": True},
    "layer norm": {"layer_norm": True},
    "all": {"dropout": 0.5, "batch_norm": True, "layer_norm": True},
}
LONG = 10_000  # gradient steps to come, for which recording pays


def made(framework, layers, name="DQN", env="CartPole-v1", **options):
    seed_everything(0)
    return getattr(framework.agents, name)(env=env, network=with_layers(framework.package, **layers), **options)


def learner_of(framework, agent, jit=False):
    several = isinstance(agent.param[0], list)
    make = framework.optimizers.sgd  # Adam makes steps of the rounding of a bias before a batch normalisation
    optimizer = [make(group, 1e-2) for group in agent.param] if several else make(agent.param, 1e-2)
    agent.learner.prepare(optimizer, None, (), jit)
    agent.learner.expect(LONG if jit else 0)
    return agent.learner


def batch(seed=0, steps=3, size=16, sync=True):
    """As `sample`, with four numbers to an observation."""
    narrow = sample(steps, size, sync=sync, seed=seed)
    wide = {name: np.concatenate([getattr(narrow, name)] * 2, axis=-1) for name in ("obs", "next_obs")}
    return type(narrow)(
        **wide,
        **{name: getattr(narrow, name) for name in ("action", "reward", "terminated", "discount", "sync")},
    )


def assert_same(one, other, **tolerance):
    assert one.keys() == other.keys()
    for name, values in one.items():
        np.testing.assert_allclose(values, other[name], err_msg=name, **tolerance)


@pytest.mark.usefixtures("eager_updates")
@pytest.mark.parametrize("name", ["dropout", "batch norm", "layer norm"])
def test_acting_and_evaluating_change_nothing_and_are_the_same_twice(framework, name):
    agent = made(framework, LAYERS[name])
    learner = learner_of(framework, agent)
    learner.update(batch(), {})  # so that statistics are no longer what they begin with
    before = learner.get_state()
    first, second = agent.evaluate(3, seed=5), agent.evaluate(3, seed=5)
    np.testing.assert_array_equal(first.returns, second.returns)
    obs = np.random.default_rng(0).normal(size=(5, 4)).astype(np.float32)
    together = learner.act(obs)
    apart = np.concatenate([learner.act(obs[i : i + 1]) for i in range(5)])  # a batch of one, as of one environment
    np.testing.assert_allclose(together, apart, rtol=1e-5, atol=1e-6)
    assert_same(learner.get_state(), before, rtol=0)


def expected_statistics(framework, agent, obs):
    """After one step with these observations [B, 4], worked out from the definition."""
    hidden = obs @ first_layer(framework, agent.q_net)
    momentum, correction = (0.1, len(obs) / (len(obs) - 1)) if framework.package == "pytorch" else (0.01, 1.0)
    mean, variance = hidden.mean(0), hidden.var(0) * correction
    return [momentum * mean, 1 - momentum + momentum * variance]


def first_layer(framework, network):
    """Its weights [4, 16]; the bias is 0."""
    if framework.package == "pytorch":
        network[0].bias.data.zero_()
        return network[0].weight.detach().numpy().T.copy()
    return network.layers[0].kernel.numpy()


@pytest.mark.slow_in_keras("auto")
@pytest.mark.xla
@pytest.mark.parametrize("jit", [False, "auto"])
def test_running_statistics_follow_what_is_learned_from_and_are_copied_to_the_target(framework, jit):
    agent = made(framework, LAYERS["batch norm"], tau=0.5)
    given = batch(steps=1)
    expected = expected_statistics(framework, agent, given.obs[0])
    learner_of(framework, agent, jit).update(given, {})
    for network in (agent.q_net, agent.target_q_net):
        for found, wanted in zip(running_statistics(network), expected, strict=True):
            np.testing.assert_allclose(found, wanted, rtol=1e-4, atol=1e-6)


@pytest.mark.xla
@pytest.mark.slow_in_keras
@pytest.mark.parametrize("name", ["batch norm", "dropout"])
def test_compiled_and_recorded_steps_are_the_ordinary_ones(framework, name):
    plain, compiled, again = (
        learner_of(framework, made(framework, LAYERS[name]), jit) for jit in (False, "auto", "auto")
    )
    seed_everything(1)
    expected = [plain.update(batch(seed), {}).loss for seed in range(3)]
    for learner in (compiled, again):
        seed_everything(1)
        found = [learner.update(batch(seed), {}).loss for seed in range(3)]
        assert learner.num_traces == 1
    assert_same(again.get_state(), compiled.get_state(), rtol=0)
    if name == "dropout" and framework.package == "keras":  # TensorFlow and XLA draw other numbers from the same seed
        assert not np.allclose(found, expected, rtol=1e-4)
        return
    np.testing.assert_allclose(found, expected, rtol=1e-4)
    assert_same(compiled.get_state(), plain.get_state(), rtol=2e-3, atol=1e-5)


def test_dropout_acts_in_losses_with_the_numbers_of_the_seed(framework):
    plain, dropping, again = (
        learner_of(framework, made(framework, {"dropout": p})).update(batch(steps=8, size=64, sync=False), {}).loss
        for p in (1e-7, 0.5, 0.5)
    )
    np.testing.assert_array_equal(dropping, again)
    assert np.abs(dropping - plain).min() > 1e-4


def spying_network(framework, seen):
    """A maker of linear networks each of which notes, under its number, in which modes it was called."""
    if framework.package == "pytorch":
        import torch

        class Spy(torch.nn.Linear):
            def __init__(self, *sizes):
                super().__init__(*sizes)
                self.norm = torch.nn.BatchNorm1d(1)  # which CrossQ wants to see; it is not called

            def forward(self, x):
                seen.setdefault(self.number, set()).add(self.training)
                return super().forward(x)
    else:
        import keras

        class Spy(keras.layers.Dense):
            def __init__(self, units):
                super().__init__(units)
                self.norm = keras.layers.BatchNormalization()

            def call(self, x, training=None):
                seen.setdefault(self.number, set()).add(bool(training))
                return super().call(x)

    def make(shape, num_outputs):
        if framework.package == "pytorch":
            network = Spy(shape[0], num_outputs)
        else:
            network = Spy(num_outputs)
            network.build((None, shape[0]))
        network.number = len(seen)
        seen[network.number] = set()
        return network

    return make


BOTH, LEARNING, TARGET = {True, False}, {True}, {False}
SEEN = {
    "DQN": [LEARNING, TARGET],
    "DoubleDQN": [BOTH, TARGET],  # it also says which action the target network is asked for
    "DDPG": [LEARNING, LEARNING, TARGET, TARGET],
    "TD3": [LEARNING, LEARNING, LEARNING, TARGET, TARGET, TARGET],
    "SACDiscrete": [BOTH, LEARNING, LEARNING, TARGET, TARGET],
    "SAC": [BOTH, LEARNING, LEARNING, TARGET, TARGET],  # its actor also chooses the next action of the target
    "TQC": [BOTH, LEARNING, LEARNING, TARGET, TARGET],
    "CrossQ": [BOTH, BOTH, BOTH],  # its critics say how good the actor's actions are by running statistics
}


@pytest.mark.usefixtures("eager_updates")
@pytest.mark.parametrize("name", SEEN)
def test_targets_are_worked_out_in_eval_mode(framework, name):
    seen = {}
    chooses = name.endswith(("DQN", "Discrete"))
    env = "CartPole-v1" if chooses else "Pendulum-v1"
    make = spying_network(framework, seen)
    of_critics = {"critic_network": make} if name == "CrossQ" else {}
    agent = getattr(framework.agents, name)(env=env, network=make, **of_critics)
    order = ordered(agent)
    agent.couples_samples = True  # no check, which would add eval mode to what is seen
    rng = np.random.default_rng(0)
    size = 4 if chooses else 3
    one = sample(1, 8, sync=True)
    action = one.action if chooses else rng.uniform(-1, 1, (1, 8, 1)).astype(np.float32)
    given = type(one)(
        obs=rng.normal(size=(1, 8, size)).astype(np.float32),
        action=action,
        next_obs=rng.normal(size=(1, 8, size)).astype(np.float32),
        **{field: getattr(one, field) for field in ("reward", "terminated", "discount", "sync")},
        extras={field: rng.normal(size=(1, 8, 1)).astype(np.float32) for field in getattr(agent, "normal_inputs", {})},
    )
    learner = learner_of(framework, agent)
    learner.update(given, {})
    assert [seen[number] for number in order] == SEEN[name]
    for modes in seen.values():
        modes.clear()
    learner.act(given.obs[0] * 2)
    assert {mode for modes in seen.values() for mode in modes} <= {False}


def ordered(agent):
    """Numbers of the networks, those that learn before their targets."""
    names = ("q_net", "actor", "critic", "critic_1", "critic_2")
    found = [getattr(agent, name) for name in (*names, *(f"target_{name}" for name in names)) if hasattr(agent, name)]
    return [getattr(network, "net", network).number for network in found]


@pytest.mark.usefixtures("eager_updates")
def test_training_goes_on_bit_for_bit_with_dropout_and_batch_norm(framework, tmp_path):
    settings = {"policy": EpsGreedyQPolicy(0.2), "pool_size": 300, "batch": 8, "gradient_steps": 3, "seed": 1}
    settings |= {"learning_starts": 16, "train_freq": 8, "update_batches": 4}

    def fresh():
        agent = made(framework, LAYERS["all"])
        agent.set(**settings)
        return agent

    def train(agent, **options):
        agent.train(
            optimizer=framework.optimizers.adam(agent.param, 1e-3), total_steps=40, p=0, jit_compile=False, **options
        )

    class Stop:
        def on_phase_end(self, number, logs):
            half.stop_training = number == 3

    whole = fresh()
    train(whole)
    half = fresh()
    train(half, callbacks=[Stop()])
    assert half.num_env_steps < 40
    half.save(tmp_path / "half")
    seed_everything(99)
    resumed = fresh()
    resumed.restore(tmp_path / "half")
    train(resumed)
    assert_same(resumed.learner.get_state(), whole.learner.get_state(), rtol=0)
    moved = running_statistics(whole.q_net)
    assert all(np.abs(values - start).max() > 1e-3 for values, start in zip(moved, (0, 1), strict=True))


def test_layers_that_numpy_leaves_out_are_noticed_once_they_matter(framework):
    """A batch normalisation that has seen nothing does nothing, so that a network without it gives the same answers."""
    agent = made(framework, {"batch_norm": True})
    network = agent.q_net
    if framework.package == "pytorch":
        weights = [(network[i].weight.detach().numpy().T, network[i].bias.detach().numpy()) for i in (0, 3 + 1)]
        read = lambda: [(*weights[0], "tanh"), (*weights[1], "linear")]  # noqa: E731
    else:
        network.layers[1].epsilon = 0.0
        dense = network.layers[0], network.layers[-1]
        activations = ("tanh", "linear")
        read = lambda: [  # noqa: E731
            (one.kernel.numpy(), one.bias.numpy(), kind) for one, kind in zip(dense, activations, strict=True)
        ]
    agent.acting_layers = read
    learner = learner_of(framework, agent)
    obs = batch().obs[0]
    learner.act(obs)
    assert learner.actor.is_mirrored()
    learner.update(batch(steps=16), {})
    answers = learner.act(obs)
    assert not learner.actor.is_mirrored()
    np.testing.assert_array_equal(answers, learner.act(obs))
