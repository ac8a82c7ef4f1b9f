"""A loss whose samples influence each other by accident is refused before it trains, or read as it was meant.

In both frameworks.
"""

import logging
from collections import deque

import gymnasium
import numpy as np
import pytest

from note_rl.errors import AgentContractError
from note_rl.seeding import seed_everything
from note_rl.types import Sample
from tests.note_rl.frameworks import frameworks
from tests.note_rl.networks import running_statistics, with_layers
from tests.note_rl.samples import agent_with, part_of, ready, sample
from tests.note_rl.small_environments import Counting

pytestmark = [pytest.mark.parametrize("framework", frameworks()), pytest.mark.usefixtures("eager_updates")]

COUPLED = r"samples influence each other.*\[B, 1\] broadcast against them to \[B, B\].*couples_samples = True"


def alike(batch_size=8):
    """Transitions as those of CartPole: every reward 1, none the last."""
    batch = sample(2, batch_size)
    return Sample(
        obs=batch.obs,
        action=batch.action,
        reward=np.ones_like(batch.reward),
        next_obs=batch.next_obs,
        terminated=np.zeros_like(batch.terminated),
        discount=np.full_like(batch.discount, 0.9),
        sync=batch.sync,
    )


def mean_square_of(values, batch, k=0):
    """Gradient along w of mean((w . s - values)^2) over minibatch k, sample by sample."""
    w = np.array([1.0, 2.0])
    rows = [2.0 * (w @ s - value) * s for s, value in zip(batch.obs[k], values, strict=True)]
    return np.mean(rows, axis=0)[:, None]


def warnings_of(caplog):
    return [record.getMessage() for record in caplog.records if "broadcast" in record.getMessage()]


@pytest.mark.parametrize("batch", [sample(1, 64), sample(1, 3), sample(1, 2), alike(), alike(5)])
def test_a_loss_that_takes_r_for_a_column_gets_one(framework, batch, caplog):
    agent = agent_with(framework, lambda self, s, r, d: framework.mean((s @ self.w - r) ** 2))
    first = part_of(batch, 0)
    with caplog.at_level(logging.WARNING):
        update = ready(framework, agent).update(first, {})
    values = first.obs[0] @ np.array([1.0, 2.0], np.float32)
    assert update.loss[0, 0] == pytest.approx(np.square(values - first.reward[0]).mean(), rel=1e-5)
    expected = np.array([[1.0], [2.0]]) - 0.1 * mean_square_of(first.reward[0], first)
    np.testing.assert_allclose(framework.array(agent.w), expected, rtol=1e-5)
    (said,) = warnings_of(caplog)
    assert "Agent.__call__ (samples.py, line " in said
    assert "drop the last axis of the values: q[:, 0]" in said


def test_the_mistake_in_the_ends_alone(framework, caplog):
    def loss(self, s, r, d):
        return framework.mean((s @ self.w * (1.0 - d)) ** 2)

    batch = sample(2)
    with caplog.at_level(logging.WARNING):
        update = ready(framework, agent_with(framework, loss)).update(part_of(batch, 0), {})
    values = batch.obs[0] @ np.array([1.0, 2.0], np.float32) * (1.0 - batch.terminated[0])
    assert update.loss[0, 0] == pytest.approx(np.square(values).mean(), rel=1e-5)
    assert len(warnings_of(caplog)) == 1


def test_one_that_is_right_gets_no_column_and_no_word(framework, caplog):
    shapes = []

    def loss(self, s, r, d):
        shapes.append((len(r.shape), len(d.shape)))
        return framework.mean(((s @ self.w)[:, 0] - r) ** 2)

    with caplog.at_level(logging.WARNING):
        ready(framework, agent_with(framework, loss)).update(sample(1), {})
    assert set(shapes) == {(1, 1)}
    assert not warnings_of(caplog)


def test_the_losses_of_a_search_are_read_alike(framework):
    """loss_of() before the first update sees the same mistake."""
    batch = sample(1, 8)
    agent = agent_with(framework, lambda self, s, r, d: framework.mean((s @ self.w - r) ** 2))
    expected = np.square(batch.obs[0] @ np.array([1.0, 2.0], np.float32) - batch.reward[0]).mean()
    assert ready(framework, agent).loss_of(batch)[0, 0] == pytest.approx(expected, rel=1e-5)


STILL_COUPLED = {
    "no column helps": lambda f, self, s, r, d: f.mean((s @ self.w - (s @ self.w)[:, 0] - r) ** 2),
    "one is right": lambda f, self, s, r, d: f.mean((s @ self.w - r) ** 2) + f.mean(((s @ self.w)[:, 0] - r) ** 2),
    "of another meaning": lambda f, self, s, r, d: f.mean((s @ self.w - r) ** 2) * len(r.shape),
    "of another shape": lambda f, self, s, r, d: f.mean((s @ self.w - r) ** 2) + 0.0 * f.mean(r[:, None] @ r[None]),
}


@pytest.mark.parametrize("name", STILL_COUPLED)
def test_what_a_column_does_not_mend_is_refused(framework, name):
    agent = agent_with(framework, lambda *arguments: STILL_COUPLED[name](framework, *arguments))
    with pytest.raises(AgentContractError, match=COUPLED):
        ready(framework, agent).update(sample(1, 8), {})
    np.testing.assert_array_equal(framework.array(agent.w), [[1.0], [2.0]])


def test_the_loss_at_fault_is_named(framework):
    def losses(self, s, r, d):
        v = s @ self.w
        return [framework.mean((v[:, 0] - r) ** 2), framework.mean((v - r) ** 2)]

    agent = agent_with(framework, losses)
    agent.other = framework.variable([1.0])
    agent.param = [[agent.w], [agent.other]]
    optimizers = [framework.optimizers.sgd(group, 0.1) for group in agent.param]
    with pytest.raises(AgentContractError, match="in the loss 1 that"):
        ready(framework, agent, optimizers).update(alike(), {})


LOSSES = {
    "per sample": lambda f, self, s, r, d: ((s @ self.w)[:, 0] - r) ** 2,
    "mean": lambda f, self, s, r, d: f.mean(((s @ self.w)[:, 0] - r) ** 2),
    "sum": lambda f, self, s, r, d: 4.0 * f.mean(((s @ self.w)[:, 0] - r) ** 2) * len(r) / 4.0,
    "regularised": lambda f, self, s, r, d: f.mean(((s @ self.w)[:, 0] - r) ** 2) + 100.0 * f.mean(self.w**2),
    "large": lambda f, self, s, r, d: 1e6 * f.mean(((s @ self.w)[:, 0] - r) ** 2),
    "constant": lambda f, self, s, r, d: f.mean(self.w),
    "infinite": lambda f, self, s, r, d: f.mean(((s @ self.w)[:, 0] - r) ** 2) * float("inf"),
}


@pytest.mark.parametrize("name", LOSSES)
@pytest.mark.parametrize("batch", [sample(1, 64), alike(), sample(1, 1)])
def test_losses_whose_samples_stand_apart_pass(framework, name, batch):
    agent = agent_with(framework, lambda *arguments: LOSSES[name](framework, *arguments))
    assert ready(framework, agent).update(batch, {}).loss.shape == (len(batch.reward), 1)


def test_samples_may_be_coupled_on_purpose(framework):
    def loss(self, s, r, d):
        v = (s @ self.w)[:, 0]
        return framework.mean((v - framework.mean(v)) ** 2)

    with pytest.raises(AgentContractError, match=COUPLED):
        ready(framework, agent_with(framework, loss)).update(alike(), {})
    agent = agent_with(framework, loss, couples_samples=True)
    v = alike().obs[0] @ np.array([1.0, 2.0], np.float32)
    assert ready(framework, agent).update(alike(), {}).loss[0, 0] == pytest.approx(v.var(), rel=1e-5)


def test_losses_that_draw_random_numbers_are_left_alone(framework):
    agent = agent_with(framework, lambda self, s, r, d: framework.mean(self.noise(s.shape[0]) * (s @ self.w)[:, 0]))
    agent.noise = random_numbers(framework)
    ready(framework, agent).update(sample(2), {})


def random_numbers(framework):
    if framework.package == "pytorch":
        import torch

        return torch.randn
    import keras

    generator = keras.random.SeedGenerator(0)
    return lambda size: keras.random.normal((size,), seed=generator)


def test_the_check_leaves_no_trace(framework):
    """Counters, variables and random numbers go on as if only the update had evaluated the loss."""

    def loss(self, s, r, d):
        self.calls = getattr(self, "calls", 0) + 1
        add(self.total)
        return ((s @ self.w)[:, 0] - r) ** 2 * self.noise(s.shape[0])

    def add(total):
        if framework.package == "pytorch":
            total.data += 1.0
        else:
            total.assign_add([1.0])

    results = []
    for couples in (False, True):  # True: no check
        agent = agent_with(framework, loss, couples_samples=couples)
        agent.total = framework.variable([0.0])
        generator, agent.noise = seeded_numbers(framework)
        agent.generator = generator
        losses = ready(framework, agent).update(sample(3), {}).loss
        assert framework.array(agent.total)[0] == 3.0
        results.append((losses.tolist(), agent.calls))
    assert results[0] == results[1]


@pytest.mark.parametrize("several", [False, True])
def test_what_a_loss_changes_in_an_environment_while_it_is_checked_is_put_back(framework, several):
    """Attributes, and what is deep within them, of the environment within a wrapper, or of the second of two."""

    def loss(self, s, r, d):
        env = (self.env[1] if several else self.env).unwrapped
        env.calls += 1
        env.levels[0]["seen"].append(env.calls)
        env.total += 1.0
        env.np_random.random()
        return ((s @ self.w)[:, 0] - r) ** 2

    results = []
    for couples in (False, True):  # True: no check
        env = Counting()
        env.reset(seed=3)
        env.calls, env.levels, env.total = 0, [{"seen": deque([0])}], np.zeros(2)
        wrapped = gymnasium.wrappers.TimeLimit(env, 5)
        agent = agent_with(framework, loss, couples_samples=couples, env=[Counting(), wrapped] if several else wrapped)
        ready(framework, agent).update(sample(3), {})
        results.append((env.calls, list(env.levels[0]["seen"]), env.total.tolist(), env.np_random.random()))
    assert results[0] == results[1]
    assert results[0][:3] == (3, [0, 1, 2, 3], [3.0, 3.0])


def seeded_numbers(framework):
    if framework.package == "pytorch":
        import torch

        torch.manual_seed(0)
        return None, torch.rand
    import keras

    generator = keras.random.SeedGenerator(0)
    return generator, lambda size: keras.random.uniform((size,), seed=generator)


def q_learner(framework, mistaken, network=None, explicit=False, start_wrong_after=0):
    """As people write it by hand: Q-values [B, 1], and targets [B] where it is mistaken."""
    make = network or with_layers(framework.package)

    class Agent(framework.base()):
        def __init__(self):
            super().__init__()
            self.net, self.target = make((4,), 2), make((4,), 2)
            trained = self.net.parameters() if framework.package == "pytorch" else self.net.trainable_variables
            self.param = list(trained)
            self.right_until = start_wrong_after

        def action(self, s):
            return self.net(s)

        def __call__(self, s, a, next_s, r, d):
            if explicit and framework.package == "pytorch":
                self.net.train()
            q = self.net(s, training=True) if explicit and framework.package == "keras" else self.net(s)
            q = q[:, :1]
            y = framework.stop(r + 0.99 * self.target(next_s)[:, 0] * (1.0 - d))
            wrong = mistaken and self.learner._samples_apart._num_gradient_steps >= self.right_until
            return framework.mean((q - y) ** 2) if wrong else framework.mean((q[:, 0] - y) ** 2)

    return Agent()


def at_the_start_of_cartpole(seed):
    """Transitions whose states are nearly alike, so that Q is nearly constant."""
    rng = np.random.default_rng(seed)
    states = rng.uniform(-0.05, 0.05, (1, 32, 4)).astype(np.float32)
    batch = alike(32)
    return Sample(
        obs=states,
        next_obs=states + np.float32(0.01),
        **{name: getattr(batch, name)[:1] for name in ("action", "reward", "terminated", "discount", "sync")},
    )


@pytest.mark.slow_in_keras(*range(1, 8))
@pytest.mark.parametrize("seed", range(8))
def test_the_mistake_is_found_where_values_are_nearly_constant(framework, seed):
    seed_everything(seed)
    agent = q_learner(framework, mistaken=True)
    with pytest.raises(AgentContractError, match=COUPLED):
        ready(framework, agent).update(at_the_start_of_cartpole(seed), {})
    ready(framework, q_learner(framework, mistaken=False)).update(at_the_start_of_cartpole(seed), {})


@pytest.mark.slow_in_keras(False)
@pytest.mark.parametrize("explicit", [False, True])
def test_batch_normalisation_and_dropout_are_no_mistake_and_hide_none(framework, explicit):
    """A loss with training=True, or net.train(), in it has not coupled samples by accident either."""
    network = with_layers(framework.package, dropout=0.3, batch_norm=True, layer_norm=True)
    batch = at_the_start_of_cartpole(0)
    agent = q_learner(framework, False, network, explicit)
    before = running_statistics(agent.net)
    update = ready(framework, agent).update(batch, {})
    assert np.isfinite(update.loss).all()
    assert not np.allclose(running_statistics(agent.net)[0], before[0])  # it was in train mode where it learned
    with pytest.raises(AgentContractError, match=COUPLED):
        ready(framework, q_learner(framework, True, network, explicit)).update(batch, {})


@pytest.mark.slow_in_keras  # when it is looked at is decided in losses.py, for both
def test_it_is_looked_at_again_when_something_was_learned(framework):
    agent = q_learner(framework, mistaken=True, start_wrong_after=100)
    learner = ready(framework, agent)
    if framework.package == "keras":
        learner.prepare(None, None, (), False)
    many = Sample(**{name: np.repeat(getattr(at_the_start_of_cartpole(0), name), 50, axis=0) for name in FIELDS})
    learner.update(many, {})
    learner.update(many, {})
    with pytest.raises(AgentContractError, match=COUPLED):
        learner.update(many, {})


FIELDS = ("obs", "action", "reward", "next_obs", "terminated", "discount", "sync")


def test_batch_statistics_that_have_no_running_ones_are_left_alone(framework):
    if framework.package == "keras":
        network = with_layers("keras", batch_norm=True)  # Keras always keeps them
    else:
        from torch import nn

        def network(shape, num_outputs):
            norm = nn.BatchNorm1d(8, track_running_stats=False)
            return nn.Sequential(nn.Linear(4, 8), norm, nn.Linear(8, num_outputs))

    update = ready(framework, q_learner(framework, False, network)).update(at_the_start_of_cartpole(0), {})
    assert np.isfinite(update.loss).all()


def test_large_values_and_small_errors_are_no_mistake(framework):
    """Rounding happens in the sum over samples, not in each of them: values of 1e5 are known to 1e-2 only."""

    def loss(self, s, r, d):
        return framework.mean(((1e5 + (s @ self.w)[:, 0]) - (1e5 + r)) ** 2)

    assert np.isfinite(ready(framework, agent_with(framework, loss)).update(sample(1, 64), {}).loss).all()
