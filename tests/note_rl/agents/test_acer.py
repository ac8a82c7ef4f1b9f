"""ACER: its formulas against plain Python and numbers by hand, and what its options do."""

from dataclasses import replace

import gymnasium
import numpy as np
import pytest
from gymnasium import spaces

from note_rl.errors import AgentContractError, EnvironmentMismatchError, SettingsError
from note_rl.policy import EpsGreedyQPolicy, GreedyQPolicy, SoftmaxPolicy
from note_rl.seeding import seed_everything
from note_rl.settings import SequenceSettings
from note_rl.types import Sample
from tests.note_rl.frameworks import Framework, frameworks

NUM_ACTIONS = 3


class Still(gymnasium.Env):
    """Shows two numbers and takes one of three actions."""

    observation_space = spaces.Box(-1.0, 1.0, (2,), np.float32)
    action_space = spaces.Discrete(NUM_ACTIONS)

    def reset(self, *, seed=None, options=None):
        super().reset(seed=seed)
        return self.np_random.uniform(-1, 1, 2).astype(np.float32), {}

    def step(self, action):
        return self.np_random.uniform(-1, 1, 2).astype(np.float32), float(action), False, False, {}


def made(framework, **options):
    seed_everything(0)
    return framework.agents.ACER(hidden_size=(8,), env=Still, **options)


def module(framework):
    return framework.module("acer")


def tensor(framework, values):
    if framework.package == "pytorch":
        import torch

        return torch.from_numpy(np.asarray(values))
    import tensorflow as tf

    return tf.constant(values)


def sequences(num_sequences=4, num_steps=5, seed=0, behaviour=None):
    """A minibatch of sequences in which episodes end, by the task and by the clock."""
    rng = np.random.default_rng(seed)
    shape = (1, num_sequences, num_steps)
    ended = rng.random(shape) < 0.4
    terminated = (ended & (rng.random(shape) < 0.5)).astype(np.float32)
    mu = rng.dirichlet(np.ones(NUM_ACTIONS), shape) if behaviour is None else behaviour
    return Sample(
        obs=rng.normal(size=(*shape, 2)).astype(np.float32),
        action=rng.integers(NUM_ACTIONS, size=shape).astype(np.int32),
        reward=rng.normal(size=shape).astype(np.float32),
        next_obs=rng.normal(size=(*shape, 2)).astype(np.float32),
        terminated=terminated,
        discount=np.float32(0.9) * (1 - terminated),
        sync=np.zeros(1, np.bool_),
        extras={"ended": ended, "behaviour": mu.astype(np.float32)},
    )


def gradients(framework, agent, sample, rate=1.0):
    """Of the loss along each parameter: what a step of plain gradient descent takes away; and the loss."""
    agent.learner.prepare(framework.optimizers.sgd(agent.param, rate), None, (), False)
    before = framework.parameters(agent)
    loss = agent.learner.update(sample, {}).loss
    return [(old - new) / rate for old, new in zip(before, framework.parameters(agent), strict=True)], float(loss[0, 0])


def softmax(scores):
    powers = np.exp(scores - scores.max(-1, keepdims=True))
    return powers / powers.sum(-1, keepdims=True)


def naive_retrace(reward, terminated, ended, next_value, q, ratio, gamma):
    """The sum of section 3.1 of Munos et al. 2016, written out step by step for one sequence."""
    targets = []
    for t in range(len(reward)):
        target, weight = q[t], 1.0
        for later in range(t, len(reward)):
            following = 0.0 if terminated[later] else next_value[later]
            target += weight * (reward[later] + gamma * following - q[later])
            if ended[later] or later + 1 == len(reward):
                break
            weight *= gamma * min(1.0, ratio[later + 1])
        targets.append(target)
    return targets


@pytest.mark.parametrize("framework", frameworks())
def test_retrace_is_the_sum_of_the_paper(framework):
    rng = np.random.default_rng(3)
    shape, gamma = (40, 7), 0.9
    reward, next_value, q = rng.normal(size=(3, *shape)).astype(np.float32)
    ratio = rng.exponential(1.0, shape).astype(np.float32)  # off the policy: below and above 1
    ended = rng.random(shape) < 0.25
    terminated = ended & (rng.random(shape) < 0.5)  # the other ends are time limits
    discount = np.float32(gamma) * ~terminated
    columns = (reward, discount.astype(np.float32), ended.astype(np.float32), next_value, q, ratio)
    found = framework.array(module(framework).retrace(*(tensor(framework, values) for values in columns)))
    rows = zip(reward, terminated, ended, next_value, q, ratio, strict=True)
    expected = [naive_retrace(*row, gamma) for row in rows]
    np.testing.assert_allclose(found, expected, rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize("framework", frameworks())
def test_trust_region_by_hand(framework):
    """With f = (1/2, 1/2), average (1/4, 3/4): k = (-1/2, -3/2), |k|^2 = 5/2.

    Of g = (-4, -2), k.g = 5: with delta = 1 too much by 4, so z = g - 8/5 k = (-3.2, 0.4) and k.z = 1. Of g = (4, 2),
    k.g is negative, and nothing is to be done.
    """
    f, average = np.full((2, 2), 0.5, np.float32), np.array([[0.25, 0.75]] * 2, np.float32)
    gradient = np.array([[-4.0, -2.0], [4.0, 2.0]], np.float32)
    columns = (tensor(framework, values) for values in (gradient, f, average))
    found = framework.array(module(framework).within_trust_region(*columns, 1.0, 0.0))
    np.testing.assert_allclose(found, [[-3.2, 0.4], [4.0, 2.0]], rtol=1e-6)


def numpy_gradient(agent, framework, sample, trust_region):
    """Direction of ascent in the probabilities [B, T, A], and Retrace targets, in NumPy."""
    answers = {name: network_in_numpy(framework, getattr(agent, name)) for name in ("actor", "critic", "average_actor")}
    obs, next_obs, action, mu = sample.obs[0], sample.next_obs[0], sample.action[0], sample.extras["behaviour"][0]
    f, q, average = softmax(answers["actor"](obs)), answers["critic"](obs), softmax(answers["average_actor"](obs))
    next_value = (softmax(answers["actor"](next_obs)) * answers["critic"](next_obs)).sum(-1)
    ratio = f / mu
    gradient, targets = np.zeros_like(f), np.zeros(action.shape)
    for b, row in enumerate(action):
        steps = np.arange(len(row))
        chosen = (b, steps, row)
        targets[b] = naive_retrace(
            *(sample.reward[0, b], sample.terminated[0, b], sample.extras["ended"][0, b], next_value[b]),
            *(q[chosen], ratio[chosen], 0.9),
        )
        for t in steps:
            value = float(f[b, t] @ q[b, t])
            for other in range(NUM_ACTIONS):
                excess = max(0.0, 1.0 - agent.importance_c / ratio[b, t, other])
                gradient[b, t, other] = excess * (q[b, t, other] - value)
                gradient[b, t, other] -= agent.entropy_coef * (np.log(f[b, t, other]) + 1.0)
            weight = min(agent.importance_c, ratio[b, t, row[t]])
            gradient[b, t, row[t]] += weight * (targets[b, t] - value) / f[b, t, row[t]]
            if trust_region:
                k = -average[b, t] / f[b, t]
                gradient[b, t] -= max(0.0, (k @ gradient[b, t] - agent.delta) / (k @ k)) * k
    q_chosen = np.take_along_axis(q, action[..., None], -1)[..., 0]
    return f, gradient, targets, q_chosen


def network_in_numpy(framework, network):
    layers = [(np.array(kernel), np.array(bias), activation) for kernel, bias, activation in network.dense_layers()]

    def answer(x):
        for kernel, bias, activation in layers:
            x = x @ kernel + bias
            x = np.tanh(x) if activation == "tanh" else x
        return x

    return answer


@pytest.mark.parametrize("trust_region", [True, False])
@pytest.mark.parametrize("framework", frameworks())
def test_loss_and_its_gradient_are_those_of_the_paper(framework, trust_region):
    agent = made(framework, importance_c=1.2, delta=0.05, trust_region=trust_region, entropy_coef=0.02)
    move_average(framework, agent)
    sample = sequences()
    f, gradient, targets, q = numpy_gradient(agent, framework, sample, trust_region)
    found, loss = gradients(framework, agent, sample)
    expected = np.mean(-(gradient * f).sum(-1) + agent.value_coef * 0.5 * (targets - q) ** 2)
    assert loss == pytest.approx(expected, rel=1e-4)
    # along the biases of the last layers: softmax's Jacobian times the gradient, and the error of the values
    scores = f * (gradient - (f * gradient).sum(-1, keepdims=True))
    np.testing.assert_allclose(found[3], -scores.mean((0, 1)), rtol=1e-3, atol=1e-5)
    errors = np.zeros_like(f)
    np.put_along_axis(errors, sample.action[0][..., None].astype(int), (q - targets)[..., None], -1)
    np.testing.assert_allclose(found[7], agent.value_coef * errors.mean((0, 1)), rtol=1e-3, atol=1e-5)


def move_average(framework, agent):
    """The average policy somewhere else than the policy."""
    bias = np.array([0.5, 0.0, -0.5], np.float32)
    if framework.package == "pytorch":
        agent.average_actor.linears[-1].bias.data += tensor(framework, bias)
    else:
        agent.average_actor.layers[-1].bias.assign_add(bias)


def test_on_the_policy_it_is_actor_critic_with_action_values():
    """Where pi = mu and there is no trust region: -(Q_ret - V) log pi(a) - entropy bonus, as of A2C."""
    import torch

    framework = Framework("pytorch")
    agent = made(framework, trust_region=False)
    sample = sequences()
    with torch.no_grad():
        f = agent.action(torch.from_numpy(sample.obs.reshape(-1, 2))).numpy().reshape(1, 4, 5, NUM_ACTIONS)
    sample = replace(sample, extras={**sample.extras, "behaviour": f})
    _, _, targets, _ = numpy_gradient(agent, framework, sample, False)
    obs, action = torch.from_numpy(sample.obs[0]), torch.from_numpy(sample.action[0]).long()
    scores = agent.actor(obs.reshape(-1, 2)).reshape(4, 5, NUM_ACTIONS).log_softmax(-1)
    with torch.no_grad():
        value = (scores.exp() * agent.critic(obs.reshape(-1, 2)).reshape(4, 5, NUM_ACTIONS)).sum(-1)
    advantage = torch.from_numpy(targets) - value
    entropy = -(scores.exp() * scores).sum(-1)
    chosen = scores.gather(-1, action[..., None]).squeeze(-1)
    loss = (-chosen * advantage - agent.entropy_coef * entropy).mean()
    expected = torch.autograd.grad(loss, list(agent.actor.parameters()))
    found, _ = gradients(framework, agent, sample)
    for one, other in zip(found, expected, strict=False):  # those of the critic follow
        np.testing.assert_allclose(one, other.numpy(), rtol=1e-3, atol=1e-5)


def test_both_frameworks_agree():
    """From the same weights, on one loss and its gradients."""
    torch_like, keras_like = Framework("pytorch"), Framework("keras")
    one, other = made(torch_like), made(keras_like)
    for name in ("actor", "critic", "average_actor"):
        layers = getattr(one, name).dense_layers()
        targets = [layer for layer in getattr(other, name).layers if hasattr(layer, "kernel")]
        for (kernel, bias, _), layer in zip(layers, targets, strict=True):
            layer.kernel.assign(np.array(kernel))
            layer.bias.assign(np.array(bias))
    move_average(torch_like, one)
    move_average(keras_like, other)
    (first, loss), (second, same) = (
        gradients(framework, agent, sequences()) for framework, agent in ((torch_like, one), (keras_like, other))
    )
    assert loss == pytest.approx(same, abs=1e-4)
    for index, (values, others) in enumerate(zip(first, second, strict=True)):
        np.testing.assert_allclose(values if index % 2 else values.T, others, rtol=1e-4, atol=1e-4)


@pytest.mark.parametrize("framework", frameworks())
def test_the_average_policy_follows_by_its_share(framework):
    agent = made(framework, ema_alpha=0.75)
    before = network_in_numpy(framework, agent.average_actor)(np.ones((1, 2)))
    move_average(framework, agent)
    agent.update_param()
    after = network_in_numpy(framework, agent.average_actor)(np.ones((1, 2)))
    np.testing.assert_allclose(after - before, 0.75 * np.array([[0.5, 0.0, -0.5]]), rtol=1e-5, atol=1e-6)


@pytest.mark.slow_in_keras
@pytest.mark.parametrize("framework", frameworks())
def test_a_run_does_what_its_settings_say(framework):
    agent = made(framework)
    agent.set(policy=SoftmaxPolicy(), num_envs=2, sequence_length=5, pool_size=60, replay_ratio=3.0, seed=0)
    seen = []
    optimizer = framework.optimizers.adam(agent.param, 1e-3)
    update = agent.learner.update
    agent.learner.update = lambda sample, numbers: seen.append(sample) or update(sample, numbers)
    agent.train(optimizer=optimizer, total_steps=100, p=0, jit_compile=False)
    assert agent.settings.experience == SequenceSettings(
        num_steps=5, capacity=60, replay_ratio=3.0, learning_starts=1_000
    )
    assert agent.settings.max_grad_norm == 10.0
    assert [sample.reward.shape for sample in seen] == [(1, 2, 5)] * 10  # the pool is waiting
    for sample in seen:
        probabilities = sample.extras["behaviour"]
        assert probabilities.shape == (1, 2, 5, NUM_ACTIONS)
        np.testing.assert_allclose(probabilities.sum(-1), 1.0, rtol=1e-5)
    if framework.package == "pytorch":  # the same for Keras, which traces for each length of update blocks
        agent.set(learning_starts=0)
        agent.train(total_steps=200, p=0, jit_compile=False)
        assert agent.num_gradient_steps > 20 + 10


def test_behaviour_is_what_the_policy_was_when_it_acted():
    agent = made(Framework("pytorch"))
    agent.set(policy=SoftmaxPolicy(), num_envs=2, sequence_length=5, replay_ratio=0.0, seed=0)
    answers, seen = [], []
    act, update = agent.learner.act, agent.learner.update
    agent.learner.act = lambda obs: answers.append(act(obs)) or answers[-1]
    agent.learner.update = lambda sample, numbers: seen.append(sample) or update(sample, numbers)
    agent.train(Framework("pytorch").optimizers.adam(agent.param, 1e-1), total_steps=40, p=0, jit_compile=False)
    for index, sample in enumerate(seen):
        expected = np.stack(answers[5 * index : 5 * index + 5], axis=1)  # [E, T, A]
        np.testing.assert_array_equal(sample.extras["behaviour"][0], expected)
    assert np.abs(answers[0] - answers[-1]).max() > 0.05  # it has learned meanwhile


@pytest.mark.parametrize("mirrored", [True, pytest.param(False, marks=pytest.mark.slow)])
def test_behaviour_comes_from_worker_processes(mirrored):
    agent = Framework("pytorch").agents.ACER(env="CartPole-v1", hidden_size=4)
    if not mirrored:
        agent.acting_layers = None  # workers then ask an agent of their own
    agent.set(policy=SoftmaxPolicy(), num_envs=2, sequence_length=5, replay_ratio=0.0, seed=0)
    seen, update, act = [], agent.learner.update, agent.learner.act
    agent.learner.update = lambda sample, numbers: (
        seen.append((sample, act(sample.obs.reshape(-1, 4)))) or update(sample, numbers)
    )
    optimizer = Framework("pytorch").optimizers.adam(agent.param, 1e-1)
    workers = {"pool_network": True, "processes": 2, "parallel_store_and_training": False}
    agent.train(optimizer, total_steps=20, p=0, jit_compile=False, **workers)
    assert len(seen) == 2
    for sample, answers in seen:
        np.testing.assert_allclose(sample.extras["behaviour"].reshape(-1, 2), answers, rtol=1e-4)


def test_settings_that_do_not_fit_are_refused():
    agent = made(Framework("pytorch"))
    with pytest.raises(SettingsError, match="add sequences=True"):
        agent.set(policy=SoftmaxPolicy(), sequences=False)
    agent.set(policy=EpsGreedyQPolicy(0.1))
    with pytest.raises(AgentContractError, match=r"the loss of ACER reads behaviour, .* use SoftmaxPolicy"):
        agent.train(Framework("pytorch").optimizers.adam(agent.param, 1e-3), total_steps=40, p=0)


def test_losses_of_single_transitions_are_not_given_sequences():
    agent = Framework("pytorch").agents.DQN(env="CartPole-v1")
    agent.set(policy=GreedyQPolicy(), sequences=True)
    with pytest.raises(AgentContractError, match=r"the loss of DQN must read self\.ended"):
        agent.train(Framework("pytorch").optimizers.adam(agent.param, 1e-3), total_steps=40, p=0)


def test_continuous_actions_are_refused():
    with pytest.raises(EnvironmentMismatchError, match="ACER"):
        Framework("pytorch").agents.ACER(env="Pendulum-v1")


def test_images_are_read_step_by_step():
    import torch

    from note_rl.agents.shared.torch.networks import CNN

    agent = Framework("pytorch").agents.ACER(env=Images, network=CNN)
    sample = sequences(num_sequences=2, num_steps=3)
    obs = np.random.default_rng(0).integers(0, 255, (2, 1, 2, 3, 36, 36, 1), np.uint8)
    agent.learner.prepare(torch.optim.SGD([*agent.param[0], *agent.param[1]], 0.1), None, (), False)
    assert np.isfinite(agent.learner.update(replace(sample, obs=obs[0], next_obs=obs[1]), {}).loss).all()


class Images(Still):
    observation_space = spaces.Box(0, 255, (36, 36, 1), np.uint8)
