"""What learners measure of their gradients, against single gradients taken one at a time; numbers for one update."""

from typing import Any

import numpy as np
import pytest

from note_rl.learners.batch_noise_scale import of_microbatches
from note_rl.types import Sample
from tests.note_rl.frameworks import Framework, frameworks


def block(num: int = 2, size: int = 16, seed: int = 0, slots: Any = None) -> Sample:
    rng = np.random.default_rng(seed)
    shape = (num, size)
    return Sample(
        obs=rng.normal(size=(*shape, 4)).astype(np.float32),
        action=rng.integers(2, size=shape),
        reward=rng.normal(size=shape).astype(np.float32),
        next_obs=rng.normal(size=(*shape, 4)).astype(np.float32),
        terminated=np.zeros(shape, np.float32),
        discount=np.full(shape, 0.9, np.float32),
        sync=np.zeros(num, np.bool_),
        slots=np.arange(num * size).reshape(shape) if slots is None else slots,
    )


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
    """The naive way: mean gradients of parts of so many samples."""
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


def test_transitions_drawn_twice_count_once() -> None:
    from note_rl.learners.adjustable import minibatch_in_parts

    slots = np.array([[5, 5, 7, 5], [8, 7, 9, 5]])
    given = minibatch_in_parts(block(2, 4, slots=slots), {"reward": slots}, None)
    assert (given.columns["reward"].tolist(), given.parts, given.finest) == ([5, 7, 8, 9], 4, 4)


@pytest.mark.parametrize(
    ("distinct", "size", "used", "parts"),
    [(64, 64, 64, 8), (63, 64, 56, 8), (57, 64, 56, 8), (61, 61, 56, 8), (6, 6, 6, 6), (3, 32, 2, 2), (1, 32, 1, 1)],
)
def test_how_many_of_a_minibatch_are_measured(distinct: int, size: int, used: int, parts: int) -> None:
    from note_rl.learners.adjustable import minibatch_in_parts

    slots = np.minimum(np.arange(size), distinct - 1)[None]
    given = minibatch_in_parts(block(1, size, slots=slots), {"reward": slots}, None)
    assert (given.size, given.parts, given.finest) == (used, parts, used)


def test_parts_of_a_rollout_are_its_environments() -> None:
    from note_rl.learners.adjustable import minibatch_in_parts

    slots = np.random.default_rng(0).permutation(64).reshape(4, 16)  # 16 steps of 4 environments
    given = minibatch_in_parts(block(4, 16, slots=slots), {"reward": slots}, 4)
    assert given.parts == given.finest == 4
    assert (given.columns["reward"].reshape(4, 4) % 4 == np.arange(4)[:, None]).all()
    given = minibatch_in_parts(block(4, 16, slots=slots), {"reward": slots}, 1)
    assert given.parts == 8  # of one environment: different times
    assert (given.columns["reward"].reshape(8, 2) // 8 == np.arange(8)[:, None]).all()


@pytest.mark.parametrize("framework", frameworks())
@pytest.mark.parametrize("optimizer", ["adamw", "sgd"])
def test_numbers_hold_for_one_update_and_leave_the_optimizer_as_it_was(framework: Framework, optimizer: str) -> None:
    """As an optimizer that was told these numbers in the first place, and without tracing again."""
    betas = {} if optimizer == "sgd" else {"beta1": 0.7, "beta2": 0.95}
    numbers = {"learning_rate": 0.02, "weight_decay": 0.3, **betas}
    start = {"learning_rate": 0.01, "weight_decay": 0.1, **({"beta1": 0.9, "beta2": 0.99} if betas else {})}
    results = []
    for told, given in ((start, numbers), (numbers, {})):
        from note_rl.seeding import seed_everything

        seed_everything(3)
        agent = framework.agents.DQN(4, (8,), 2)
        agent.learner.prepare(getattr(framework.optimizers, optimizer)(agent.param, **told), None, [], False)
        for _ in range(2):
            agent.learner.update(block(), {f"{name}:0": value for name, value in given.items()})
        results.append(framework.parameters(agent))
        assert agent.learner.optimizer_numbers()[0].values == pytest.approx(told)
        if framework.package == "keras":
            for factor in (0.5, 0.6):
                agent.learner.update(block(), {f"{name}:0": factor * value for name, value in given.items()})
            assert agent.learner.num_traces == 1
    for one, other in zip(*results, strict=True):
        np.testing.assert_allclose(one, other, rtol=2e-5, atol=1e-7)
