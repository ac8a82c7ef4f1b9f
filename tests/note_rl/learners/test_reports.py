"""Reports of losses, on the way from the agent to their readers; the same in both frameworks."""

import numpy as np
import pytest

from note_rl.errors import AgentContractError
from note_rl.learners.reports import MOST_REPORTED, means_over
from note_rl.policy import SoftmaxPolicy
from note_rl.types import Sample, Update
from tests.note_rl.frameworks import frameworks
from tests.note_rl.samples import agent_with, ready, sample

FRAMEWORKS = pytest.mark.parametrize("framework", frameworks())


def squared_error(self, s, r, d):
    error = (s @ self.w)[:, 0] - r
    self.report(reward=r, known=3, positive=r > 0, errors=error * error)
    return error * error


@pytest.mark.parametrize(
    ("framework", "jit"),
    [
        pytest.param(*framework.values, jit, id=f"{framework.id}-{jit}", marks=[pytest.mark.slow] if slow else [])
        for framework in frameworks()
        for jit in (False, True)
        for slow in (
            jit and framework.id == "pytorch",
        )  # the compiler; test_pytorch_compiled.py shows that it is exact
    ],
)
def test_means_of_each_gradient_step_by_hand(framework, jit):
    agent, batch = agent_with(framework, squared_error), sample(num_gradient_steps=3)
    agent.learner.prepare(framework.optimizers.sgd(agent.param, 0.1), 0.5, (), jit)
    reported = agent.learner.update(batch, {}).reported
    weights, errors, norms = np.array([1.0, 2.0]), [], []
    for obs, reward in zip(batch.obs, batch.reward, strict=True):
        error = obs @ weights - reward
        gradient = 2 * (error[:, None] * obs).mean(0)
        errors.append((error**2).mean())
        norms.append(np.linalg.norm(gradient))
        weights -= 0.1 * gradient * min(1.0, 0.5 / norms[-1])
    np.testing.assert_allclose(reported["errors"], errors, rtol=1e-5)
    np.testing.assert_allclose(reported["gradient_norm"], norms, rtol=1e-5)
    np.testing.assert_allclose(reported["reward"], batch.reward.mean(1), rtol=1e-5)
    np.testing.assert_allclose(reported["positive"], (batch.reward > 0).mean(1), rtol=1e-6)
    np.testing.assert_array_equal(reported["known"], [3.0, 3.0, 3.0])
    assert sorted(reported) == ["errors", "gradient_norm", "known", "positive", "reward"]


@pytest.mark.usefixtures("eager_updates")
@FRAMEWORKS
def test_reporting_changes_nothing_that_is_learned(framework):
    def silent(self, s, r, d):
        error = (s @ self.w)[:, 0] - r
        return error * error

    found = []
    for loss in (squared_error, silent):
        agent = agent_with(framework, loss)
        ready(framework, agent).update(sample(), {})
        found.append(framework.array(agent.w))
    np.testing.assert_array_equal(*found)


@FRAMEWORKS
def test_only_losses_that_are_learned_from_are_reported(framework):
    agent = agent_with(framework, squared_error)
    learner, batch = ready(framework, agent), sample()
    agent.report(beside=1.0)  # no loss is being evaluated
    learner.loss_of(sample(seed=1))
    reported = learner.update(batch, {}).reported
    assert "beside" not in reported
    np.testing.assert_allclose(reported["reward"], batch.reward.mean(1), rtol=1e-5)


@FRAMEWORKS
def test_what_is_no_number_is_refused(framework):
    agent = agent_with(framework, lambda self, s, r, d: self.report(name="high") or s @ self.w)
    with pytest.raises(AgentContractError, match=r"report\(name=\.\.\.\) takes a tensor or a number, got str"):
        ready(framework, agent).update(sample(), {})


def test_a_loss_reports_at_most_24_numbers():
    (framework,) = frameworks()[0].values

    def loss(self, s, r, d):
        self.report(**{f"r{number}": r for number in range(MOST_REPORTED + 1)})
        return (s @ self.w)[:, 0]

    with pytest.raises(AgentContractError, match="25 numbers in one __call__, and takes 24"):
        ready(framework, agent_with(framework, loss)).update(sample(), {})


@pytest.mark.usefixtures("eager_updates")
@FRAMEWORKS
def test_a_group_that_waits_has_no_gradient_norm(framework):
    agent = framework.agents.TD3(hidden_size=(4,))
    one_each = [framework.optimizers.adam(group, 1e-3) for group in agent.param]
    agent.learner.prepare(one_each, 1.0, (), False)
    batch = pendulum_sample(sync=[False, True], next_noise=(2, 4, 1))
    q = values_of(framework, agent.critic_1, batch, 0)
    reported = agent.learner.update(batch, {}).reported
    np.testing.assert_array_equal(np.isnan(reported["gradient_norm:0"]), [True, False])
    assert np.isfinite(reported["gradient_norm:1"]).all()
    assert reported["q_mean"][0] == pytest.approx(q.mean(), rel=1e-5)
    assert np.isfinite(reported["q_mean"]).all()


@FRAMEWORKS
@pytest.mark.usefixtures("eager_updates")
def test_soft_actor_critic_by_hand(framework):
    agent = framework.agents.SAC(hidden_size=(4,))
    agent.learner.prepare([framework.optimizers.adam(group, 1e-3) for group in agent.param], None, (), False)
    batch = pendulum_sample(sync=[True, True], noise=(2, 4, 1), next_noise=(2, 4, 1))
    q = values_of(framework, agent.critic_1, batch, 0)
    mean, log_std = np.split(agent.learner.act(batch.obs[0]).astype(np.float64), 2, axis=-1)
    noise = batch.extras["noise"][0]
    squashed = np.tanh(mean + np.exp(log_std) * noise)
    log_prob = -0.5 * noise**2 - log_std - 0.5 * np.log(2 * np.pi) - np.log(1 - squashed**2)
    reported = agent.learner.update(batch, {}).reported
    assert reported["q_mean"][0] == pytest.approx(q.mean(), rel=1e-5)
    assert reported["entropy"][0] == pytest.approx(-log_prob.mean(), rel=1e-4, abs=1e-5)
    assert reported["alpha"][0] == pytest.approx(1.0)
    wanted = -1.0  # the entropy that is aimed at, for one number: above it, less of it is paid for
    down = np.sign(-log_prob.mean() - wanted)
    assert reported["alpha"][1] == pytest.approx(np.exp(-1e-3 * down), rel=1e-5)  # Adam's first step is its rate


@FRAMEWORKS
@pytest.mark.usefixtures("eager_updates")
def test_proximal_policy_optimisation_by_hand(framework):
    agent = framework.agents.PPO(2, (4,), 2, clip=0.1, env="CartPole-v1")
    batch = sample(1, 4, advantage=True, return_=True, value_old=True, log_prob_old=True)
    probs = agent.learner.act(batch.obs[0])
    log_prob = np.log(np.take_along_axis(probs, batch.action[0][:, None], 1)[:, 0])
    ratio = np.exp(log_prob - batch.extras["log_prob_old"][0])
    value = agent.learner.value(batch.obs[0])
    update = ready(framework, agent).update(batch, {})
    reported = update.reported
    assert reported["entropy"][0] == pytest.approx(-(probs * np.log(probs)).sum(1).mean(), rel=1e-5)
    assert means_over([update])["approx_kl"] == pytest.approx((ratio - 1 - np.log(ratio)).mean(), rel=1e-4)
    assert reported["clip_fraction"][0] == (np.abs(ratio - 1) > 0.1).mean()
    assert reported["value_loss"][0] == pytest.approx(((value - batch.extras["return_"][0]) ** 2).mean(), rel=1e-5)


@FRAMEWORKS
@pytest.mark.usefixtures("eager_updates")
def test_q_learning_by_hand(framework):
    agent = framework.agents.DQN(2, (4,), 2, env="CartPole-v1")
    batch = sample(1, 4)
    q = np.take_along_axis(agent.learner.act(batch.obs[0]), batch.action[0][:, None], 1)
    assert ready(framework, agent).update(batch, {}).reported["q_mean"][0] == pytest.approx(q.mean(), rel=1e-5)


def pendulum_sample(sync, **extras):
    rng = np.random.default_rng(3)
    shape = (len(sync), 4)

    def numbers(*inner):
        return rng.normal(size=(*shape, *inner)).astype(np.float32)

    zeros = np.zeros(shape, np.float32)
    columns = {name: rng.normal(size=size).astype(np.float32) for name, size in extras.items()}
    return Sample(numbers(3), numbers(1), numbers(), numbers(3), zeros, zeros + 0.9, np.array(sync), columns)


def values_of(framework, critic, batch, k):
    if framework.package == "pytorch":
        import torch

        return framework.array(critic(torch.from_numpy(batch.obs[k]), torch.from_numpy(batch.action[k])))
    return framework.array(critic(batch.obs[k], batch.action[k]))


def test_means_over_update_blocks_leave_out_steps_without():
    blocks = [{"a": np.array([1.0, np.nan]), "b": np.array([np.nan])}, {"a": np.array([4.0, 7.0])}]
    found = means_over([Update(np.zeros((2, 1)), reported=block) for block in blocks])
    assert found["a"] == 4.0
    assert np.isnan(found["b"])


@pytest.mark.usefixtures("eager_updates")
@FRAMEWORKS
def test_a_phase_is_read_from_the_agent(framework):
    agent = framework.agents.PPO(hidden_size=(4,), env="CartPole-v1")
    agent.set(policy=SoftmaxPolicy(), PPO=True, rollout_steps=16, batch=8, num_epochs=2, seed=0)
    assert agent.reported == {}
    agent.train(optimizer=framework.optimizers.adam(agent.param, 0.25), total_steps=16, jit_compile=False, p=0)
    found = agent.reported
    assert sorted(found) == [
        *("approx_kl", "clip_fraction", "entropy", "explained_variance", "learning_rate", "value_loss"),
    ]
    assert found["learning_rate"] == 0.25
    assert 0.0 < found["entropy"] <= np.log(2)
    agent.set(schedules={"learning_rate": lambda progress: 0.125})
    agent.train(total_steps=32, jit_compile=False, p=0)
    assert agent.reported["learning_rate"] == 0.125
