"""How much gradients scatter, against single gradients taken one at a time."""

from typing import Any

import numpy as np
import pytest

from note_rl.learners.batch_noise_scale import of_microbatches
from note_rl.types import Sample
from tests.note_rl.frameworks import Framework, frameworks
from tests.note_rl.learners.update_blocks import block


def dqn(framework: Framework, **options: Any) -> Any:
    agent = framework.agents.DQN(4, (8,), 2, **options)
    agent.learner.prepare(framework.optimizers.adam(agent.param, 0.05), None, [], False)
    return agent


def gradient(framework: Framework, agent: Any, sample: Sample, rows: slice) -> np.ndarray:
    """Of the mean Huber loss of some rows of the first minibatch, taken by the framework in the ordinary way."""
    columns = [getattr(sample, name)[0, rows] for name in ("obs", "action", "next_obs", "reward", "terminated")]
    agent.prioritized_replay.begin(len(columns[0]))
    if framework.package == "pytorch":
        import torch

        agent.discount = torch.tensor(sample.discount[0, rows])
        loss = agent(*map(torch.tensor, columns)).mean()
        parts = torch.autograd.grad(loss, agent.param)
    else:
        import tensorflow as tf

        agent.discount = tf.constant(sample.discount[0, rows])
        with tf.GradientTape() as tape:
            loss = tf.reduce_mean(agent(*map(tf.constant, columns)))
        parts = tape.gradient(loss, agent.param)
    agent.prioritized_replay.take()
    return np.concatenate([np.asarray(one).ravel() for one in parts])


def parts_of(framework: Framework, agent: Any, sample: Sample, num: int) -> Any:
    """The naive way: mean gradients of parts of `num` samples."""
    starts = range(0, sample.reward.shape[1], num)
    return of_microbatches(np.stack([gradient(framework, agent, sample, slice(i, i + num)) for i in starts]), num)


@pytest.mark.parametrize("framework", frameworks())
@pytest.mark.parametrize("num_envs", [None, 4])
def test_noise_is_that_of_gradients_taken_one_at_a_time(framework: Framework, num_envs: int | None) -> None:
    """At first of parts, to see whether the quick way is exact; from then on of single samples, where these are apart.

    Of a rollout the parts remain its environments.
    """
    agent, sample = dqn(framework), block(1, 16)
    if num_envs:  # transition t * E + e lies where the parts expect it
        sample = block(1, 16, slots=np.arange(16).reshape(4, 4).T.reshape(1, 16))
    expected = [parts_of(framework, agent, sample, num) for num in ((4, 4, 4) if num_envs else (2, 1, 1))]
    before = framework.parameters(agent)
    attributes = dict(vars(agent))
    for moments in expected:
        (found,), size = agent.learner.gradient_noise(sample, num_envs)
        assert size == 16
        assert found.variance == pytest.approx(moments.variance, rel=1e-4)
        assert found.squared_norm == pytest.approx(moments.squared_norm, rel=1e-3)
    assert agent.learner._measurements._noise._quickly
    assert all(np.array_equal(*pair) for pair in zip(before, framework.parameters(agent), strict=True))
    assert {name for name in vars(agent) if vars(agent)[name] is not attributes.get(name)} == set()
    if framework.package == "keras":
        assert agent.learner._measurements._noise.num_traces == 1


def penalised(framework: Framework, penalty: float, twice: bool) -> Any:
    """Its loss may also go by weights themselves, or by two passes through the same layer."""

    class Penalised(framework.base()):  # type: ignore[misc]
        def __init__(self) -> None:
            super().__init__()
            self.twice = twice
            if framework.package == "pytorch":
                import torch

                self.net = torch.nn.Linear(4, 4)
                self.param = list(self.net.parameters())
            else:
                import keras

                self.net = keras.layers.Dense(4, "tanh")
                self.net.build((None, 4))
                self.param = self.net.trainable_variables

        def __call__(self, s: Any, a: Any, next_s: Any, r: Any, d: Any) -> Any:
            weight = self.net.weight if framework.package == "pytorch" else self.net.kernel
            out = self.net(self.net(s) if self.twice else s)[:, 0]
            return (out - r) ** 2 + penalty * framework.mean(weight**2)

    return Penalised()


@pytest.mark.parametrize("framework", frameworks())
@pytest.mark.parametrize(("penalty", "twice", "quickly"), [(0.0, False, True), (9.0, False, False), (0.0, True, False)])
def test_the_quick_way_is_taken_where_it_is_exact_and_left_where_it_is_not(
    framework: Framework, penalty: float, twice: bool, quickly: bool
) -> None:
    agent = penalised(framework, penalty, twice)
    agent.learner.prepare(framework.optimizers.sgd(agent.param, 0.1), None, [], False)
    agent.discount = None
    for num in (2, 1 if quickly else 2):
        expected = parts_of(framework, agent, block(1), num)
        (found,), _ = agent.learner.gradient_noise(block(1), None)
        assert agent.learner._measurements._noise._quickly is quickly
        assert found.variance == pytest.approx(expected.variance, rel=1e-3)
        assert found.squared_norm == pytest.approx(expected.squared_norm, rel=2e-3)


@pytest.mark.parametrize("framework", frameworks())
def test_a_loss_that_has_come_to_use_a_layer_twice_is_measured_by_parts(framework: Framework) -> None:
    agent = penalised(framework, 0.0, twice=False)
    agent.learner.prepare(framework.optimizers.sgd(agent.param, 0.1), None, [], False)
    agent.discount = None
    for _ in range(2):
        agent.learner.gradient_noise(block(1), None)
    agent.twice = True
    sample = block(1, 8)  # another size, for which the measurement is traced anew
    expected = parts_of(framework, agent, sample, 1)
    (found,), _ = agent.learner.gradient_noise(sample, None)
    assert agent.learner._measurements._noise._quickly is False
    assert found.variance == pytest.approx(expected.variance, rel=1e-3)


@pytest.mark.xla
@pytest.mark.parametrize("framework", frameworks())
def test_every_loss_has_its_own_noise(framework: Framework) -> None:
    agent = framework.agents.DDPG((8,), env="Pendulum-v1")
    optimizers = [framework.optimizers.adam(group, rate) for group, rate in zip(agent.param, (1e-4, 1e-3), strict=True)]
    agent.learner.prepare(optimizers, None, [], False)
    rng = np.random.default_rng(0)
    base = block(1, 32)
    shape = (1, 32, 3)
    sample = Sample(
        obs=rng.normal(size=shape).astype(np.float32),
        action=rng.normal(size=(1, 32, 1)).astype(np.float32),
        next_obs=rng.normal(size=shape).astype(np.float32),
        **{name: getattr(base, name) for name in ("reward", "terminated", "discount", "sync", "slots")},
    )
    for _ in range(2):
        found, _ = agent.learner.gradient_noise(sample, None)
        assert len(found) == 2
        assert found[1].variance > 100 * found[0].variance > 0  # squared errors of rewards against tiny Q
    numbers = agent.learner.optimizer_numbers()
    assert [(one.kind, one.loss, one.values["learning_rate"], one.values["beta1"]) for one in numbers] == [
        ("Adam", 0, 1e-4, 0.9),
        ("Adam", 1, 1e-3, 0.9),
    ]
