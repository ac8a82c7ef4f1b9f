"""TRPO: its arithmetic against naive references, its bound, and that both frameworks do the same."""

import numpy as np
import pytest

from note_rl.errors import SettingsError
from note_rl.policy import GaussianPolicy, SoftmaxPolicy
from note_rl.seeding import seed_everything
from note_rl.training.callbacks import LambdaCallback
from note_rl.types import Sample
from tests.note_rl.frameworks import Framework, frameworks

BOTH = pytest.mark.parametrize("framework", frameworks())
EITHER_KIND = pytest.mark.parametrize("env", ["CartPole-v1", "Pendulum-v1"])
SMALL = {"hidden_size": (3,), "critic_iterations": 2, "critic_batch_size": 12}


def second_order(framework):
    return framework.module("shared/second_order")


def vector(framework, values):
    if framework.package == "pytorch":
        import torch

        return torch.tensor(values)
    import tensorflow as tf

    return tf.constant(values)


def trpo(framework, env, **arguments):
    make = framework.agents.TRPO
    seed_everything(0)
    agent = make(env=env, **{**SMALL, **arguments})
    agent.learner.prepare(framework.optimizers.sgd(agent.param, 0.1), None, (), False)
    return agent


def weights(framework, agent):
    """All parameters, kernels as [in, out]."""
    found = framework.parameters(agent)
    return [one.T if framework.package == "pytorch" and one.ndim == 2 else one for one in found]


def give(framework, agent, values):
    groups = [parameter for group in agent.param for parameter in group]
    for parameter, one in zip(groups, values, strict=True):
        if framework.package == "pytorch":
            import torch

            parameter.data.copy_(torch.tensor(one.T if one.ndim == 2 else one))
        else:
            parameter.assign(one)


class Reference:
    """The policy of one tanh layer in double precision: a flat vector of parameters in, numbers out."""

    def __init__(self, shapes, obs, is_discrete):
        self.shapes, self.obs, self.is_discrete = shapes, obs.astype(np.float64), is_discrete

    def outputs(self, flat):
        sizes = [int(np.prod(shape)) for shape in self.shapes]
        parts = np.split(flat, np.cumsum(sizes)[:-1])
        w, b, v, c, *log_std = (part.reshape(shape) for part, shape in zip(parts, self.shapes, strict=True))
        logits = np.tanh(self.obs @ w + b) @ v + c
        if self.is_discrete:
            return logits - np.log(np.exp(logits).sum(1, keepdims=True)), None
        return logits, log_std[0]

    def log_prob(self, flat, action):
        values, log_std = self.outputs(flat)
        if self.is_discrete:
            return values[np.arange(len(action)), action]
        normal = -0.5 * ((action - values) / np.exp(log_std)) ** 2 - log_std - 0.5 * np.log(2 * np.pi)
        return normal.sum(1)

    def kl(self, old, new):
        (p, s), (q, t) = self.outputs(old), self.outputs(new)
        if self.is_discrete:
            return (np.exp(p) * (p - q)).sum(1).mean()
        return (t - s + (np.exp(2 * s) + (p - q) ** 2) / (2 * np.exp(2 * t)) - 0.5).sum(1).mean()


def flat_policy(framework, agent):
    """The policy's parameters in the order that `Reference` has them."""
    number = len(agent.param[0])
    return [one.astype(np.float64) for one in weights(framework, agent)[:number]]


def reference(framework, agent, obs):
    parts = flat_policy(framework, agent)
    return Reference([part.shape for part in parts], obs, agent.log_std is None), np.concatenate(
        [part.ravel() for part in parts]
    )


def rollout(agent, env, size=40, seed=0):
    """Batch of one update: made up, but for the likelihoods, which are those of the agent."""
    rng = np.random.default_rng(seed)
    obs = rng.normal(size=(1, size, 4 if env == "CartPole-v1" else 3)).astype(np.float32)
    answers = agent.learner.act(obs[0])
    policy = SoftmaxPolicy() if agent.log_std is None else GaussianPolicy()
    if agent.log_std is None:
        action = rng.integers(2, size=(1, size)).astype(np.int32)
    else:
        action = rng.normal(size=(1, size, 1)).astype(np.float32)
    advantage = rng.normal(size=(1, size)).astype(np.float32)
    zero = np.zeros((1, size), np.float32)
    extras = {
        "log_prob_old": np.asarray(policy.log_prob(answers, action[0]), np.float32)[None],
        "advantage": (advantage - advantage.mean()) / advantage.std(),
        "return_": rng.normal(size=(1, size)).astype(np.float32),
        "critic_order": rng.normal(size=(1, size, 2)).astype(np.float32),
    }
    return Sample(obs, action, zero, obs, zero, zero, np.ones(1, np.bool_), extras)


@BOTH
def test_conjugate_gradient_solves_equations(framework):
    rng = np.random.default_rng(0)
    for size in (1, 5, 20):
        root = rng.normal(size=(size, size))
        matrix = root @ root.T + size * np.eye(size)
        b = rng.normal(size=size)
        a = vector(framework, matrix)
        solve = second_order(framework).conjugate_gradient
        multiply = (lambda v, a=a: a @ v) if framework.package == "pytorch" else (lambda v, a=a: dot(a, v))
        found = framework.array(solve(multiply, vector(framework, b), 2 * size, 1e-20))
        np.testing.assert_allclose(found, np.linalg.solve(matrix, b), atol=1e-6)


def dot(matrix, v):
    import tensorflow as tf

    return tf.linalg.matvec(matrix, v)


@BOTH
def test_conjugate_gradient_ends_where_the_residual_is_small_enough(framework):
    scales = np.array([1.0, 2.0, 4.0])
    calls = []

    def product(v):
        calls.append(1)
        return vector(framework, scales) * v

    solve = second_order(framework).conjugate_gradient
    b = np.array([1.0, 1.0, 1.0])
    x = framework.array(solve(product, vector(framework, b), 3, 0.9))
    assert len(calls) == 1  # b.b = 3; after the step along b by 3/7 the residual is (4, 1, -5) / 7, its square 0.86
    np.testing.assert_allclose(x, np.full(3, 3 / 7))
    calls.clear()
    assert framework.array(solve(product, vector(framework, 0 * b), 3, 0.0)).tolist() == [0.0, 0.0, 0.0]
    assert not calls


@BOTH
@EITHER_KIND
def test_products_are_those_with_the_hessian_of_the_divergence(framework, env):
    """By second differences of the mean KL divergence, worked out in double precision by other code."""
    agent = trpo(framework, env, cg_damping=0.25)
    sample = rollout(agent, env)
    naive, at = reference(framework, agent, sample.obs[0])
    eye, step = np.eye(len(at)), 1e-4
    hessian = np.array(
        [
            [
                sum(
                    i_sign * j_sign * naive.kl(at, at + step * (i_sign * eye[i] + j_sign * eye[j]))
                    for i_sign in (1, -1)
                    for j_sign in (1, -1)
                )
                / (4 * step**2)
                for j in range(len(at))
            ]
            for i in range(len(at))
        ]
    )
    product = fisher_product(framework, agent, sample.obs[0])
    rng = np.random.default_rng(1)
    for _ in range(3):
        v = rng.normal(size=len(at))
        np.testing.assert_allclose(product(v), hessian @ v + 0.25 * v, atol=2e-4)


def fisher_product(framework, agent, obs):
    """v -> (H + damping) v as the agent has it, with v in the order of `Reference`."""
    shapes = [part.shape for part in flat_policy(framework, agent)]
    sizes = np.cumsum([int(np.prod(shape)) for shape in shapes])[:-1]
    transposed = framework.package == "pytorch"

    def reordered(flat, into):
        parts = np.split(np.asarray(flat), sizes)
        turned = [
            part.reshape(shape if into else shape[::-1]).T if transposed and len(shape) == 2 else part
            for part, shape in zip(parts, shapes, strict=True)
        ]
        return np.concatenate([part.ravel() for part in turned])

    s = vector(framework, obs)

    def divergence():
        policy = agent.distribution(s)
        return framework.mean(policy.detached().kl(policy))

    value = divergence() if framework.package == "pytorch" else divergence
    product = second_order(framework).hessian_product(value, agent.param[0], agent.cg_damping)
    return lambda v: reordered(
        framework.array(product(vector(framework, reordered(v, into=True).astype(np.float32)))), into=False
    )


@BOTH
@EITHER_KIND
def test_a_step_is_better_and_within_the_bound(framework, env):
    agent = trpo(framework, env, max_kl=0.02, cg_damping=1e-3)
    sample = rollout(agent, env)
    naive, before = reference(framework, agent, sample.obs[0])
    critic = weights(framework, agent)[len(agent.param[0]) :]
    update = agent.learner.update(sample, {})
    _, after = reference(framework, agent, sample.obs[0])
    action, advantage = sample.action[0], sample.extras["advantage"][0]
    ratio = np.exp(naive.log_prob(after, action) - naive.log_prob(before, action))
    reached = (ratio * advantage).mean()
    assert reached > advantage.mean() + 0.03
    assert 0.5 * 0.02 < naive.kl(before, after) <= 0.02
    assert agent.kl == pytest.approx(naive.kl(before, after), rel=1e-3)
    assert 0.0 < agent.step_fraction <= 1.0
    reported = {name: float(values[0]) for name, values in update.reported.items()}
    assert reported["approx_kl"] == pytest.approx(agent.kl)
    assert reported["step_fraction"] == pytest.approx(agent.step_fraction)
    assert reported["entropy"] > 0.0
    value_loss = value_losses(critic, sample, rate=0.1)
    assert update.loss[0, 0] == pytest.approx(-reached + value_loss.mean(), rel=1e-3)  # one optimizer: the sum of both


def value_losses(parameters, sample, rate):
    """Plain descent of the critic in the order that is drawn, by hand; 40 transitions in minibatches of 12."""
    w, b, v, c = (parameter.astype(np.float64) for parameter in parameters)
    losses = []
    for column in sample.extras["critic_order"][0].T:
        for rows in np.argsort(column)[:36].reshape(3, 12):
            s, target = sample.obs[0][rows], sample.extras["return_"][0][rows]
            hidden = np.tanh(s @ w + b)
            error = (hidden @ v + c)[:, 0] - target
            losses.append((error**2).mean())
            back = 2 * error[:, None] / 12
            inner = (back @ v.T) * (1 - hidden**2)
            w, b = w - rate * s.T @ inner, b - rate * inner.sum(0)
            v, c = v - rate * hidden.T @ back, c - rate * back.sum(0)
    return np.array(losses)


@BOTH
def test_where_no_length_will_do_the_policy_stays_as_it_is_to_the_bit(framework):
    """The deviation of a normal distribution makes the divergence grow faster than by its square."""
    agent = trpo(framework, "Pendulum-v1", max_kl=50.0, line_search_steps=2, line_search_shrink=0.99)
    sample = rollout(agent, "Pendulum-v1")
    before = framework.parameters(agent)
    assert not agent.learner.update(sample, {}).diverged
    after = framework.parameters(agent)
    number = len(agent.param[0])
    for old, new in zip(before[:number], after[:number], strict=True):
        np.testing.assert_array_equal(old, new)
    assert any((old != new).any() for old, new in zip(before[number:], after[number:], strict=True))
    assert (agent.kl, agent.step_fraction) == (0.0, 0.0)


@BOTH
def test_advantages_that_are_all_the_same_change_nothing(framework):
    agent = trpo(framework, "CartPole-v1")
    sample = rollout(agent, "CartPole-v1")
    sample.extras["advantage"][:] = 0.0
    before = framework.parameters(agent)
    update = agent.learner.update(sample, {})
    assert np.isfinite(update.loss).all()
    for old, new in zip(before[:4], framework.parameters(agent)[:4], strict=True):
        np.testing.assert_array_equal(old, new)


@EITHER_KIND
def test_both_frameworks_take_the_same_update(env):
    pytorch, keras = (Framework(name) for name in ("pytorch", "keras"))
    options = {"fvp_every": 3, "entropy_coef": 0.01, "cg_iterations": 4, "max_kl": 0.05}
    agents = [trpo(framework, env, **options) for framework in (pytorch, keras)]
    give(keras, agents[1], weights(pytorch, agents[0]))
    sample = rollout(agents[0], env)
    losses = [agent.learner.update(sample, {}).loss for agent in agents]
    np.testing.assert_allclose(*losses, atol=1e-4)
    for one, other in zip(*map(weights, (pytorch, keras), agents), strict=True):
        np.testing.assert_allclose(one, other, atol=1e-4)
    assert agents[0].kl == pytest.approx(agents[1].kl, abs=1e-5)


@pytest.mark.parametrize("env", ["CartPole-v1", "Pendulum-v1"])
def test_the_bound_holds_in_training(env):
    framework = Framework("pytorch")
    agent = trpo(framework, env, hidden_size=(16,), max_kl=0.01, cg_damping=1e-3)
    agent.set(policy=SoftmaxPolicy() if agent.log_std is None else GaussianPolicy(), num_envs=3, rollout_steps=64)
    steps = []
    watch = LambdaCallback(on_phase_end=lambda phase, logs: steps.append((agent.kl, agent.step_fraction)))
    agent.train(framework.optimizers.adam(agent.param, 1e-3), total_steps=192 * 12, p=0, callbacks=[watch])
    assert len(steps) == 12
    assert all(kl <= 0.01 for kl, _ in steps)
    assert sum(kl > 0.002 for kl, _ in steps) >= 10
    assert agent.obs_normaliser is None or agent.num_gradient_steps == 12


def test_options_out_of_range_are_refused():
    make = Framework("pytorch").agents.TRPO
    for name, value in {"max_kl": 0.0, "cg_damping": -1.0, "fvp_every": 0, "line_search_shrink": 1.5}.items():
        with pytest.raises(SettingsError, match=name):
            make(4, 3, 2, **{name: value})
