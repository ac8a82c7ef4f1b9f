"""Errors and ratios given to prioritized replay come out of the update block, in both frameworks."""

import logging

import numpy as np
import pytest

from note_rl.errors import AgentContractError
from note_rl.seeding import seed_everything
from note_rl.types import Sample
from tests.note_rl.frameworks import frameworks
from tests.note_rl.samples import agent_with, ready, sample
from tests.note_rl.small_environments import Counting

pytestmark = pytest.mark.parametrize("framework", frameworks())


def linear(framework, hand_over, **attributes):
    """V(s) = w . s with w = (1, 2), trained towards r; `hand_over(self, td, s)` is called inside the loss."""

    def loss(self, s, r, d):
        td = r - (s @ self.w)[:, 0]
        hand_over(self, td, s)
        return td * td

    return agent_with(framework, loss, **attributes)


def test_errors_and_ratios_come_out_step_by_step(framework):
    agent = linear(framework, lambda self, td, s: self.prioritized_replay.update(td, s[:, :1]))
    batch = sample(3, 5)
    update = ready(framework, agent, framework.optimizers.sgd(agent.param, 0.1)).update(batch, {})
    w, expected = np.array([1.0, 2.0], np.float32), []
    for obs, reward in zip(batch.obs, batch.reward, strict=True):  # the parameters move between the steps
        expected.append(reward - obs @ w)
        w = w + 0.1 * 2 * (expected[-1][:, None] * obs).mean(0)
    np.testing.assert_allclose(update.td_error, expected, rtol=1e-4, atol=1e-5)
    np.testing.assert_array_equal(update.ratio, batch.obs[..., 0])
    np.testing.assert_allclose(update.loss[:, 0], np.square(expected).mean(1), rtol=1e-4)
    assert (update.td_error.dtype, update.ratio.dtype) == (np.float32, np.float32)


def test_what_is_not_handed_over_is_none(framework):
    update = ready(framework, linear(framework, lambda self, td, s: None)).update(sample(2), {})
    assert update.td_error is None
    assert update.ratio is None
    agent = linear(framework, lambda self, td, s: self.prioritized_replay.update(td))
    update = ready(framework, agent).update(sample(2), {})
    assert update.td_error.shape == (2, 4)
    assert update.ratio is None


@pytest.mark.usefixtures("eager_updates")
def test_dqn_hands_over_its_errors_before_weights(framework):
    seed_everything(0)
    agent = framework.agents.DQN(hidden_size=(8,), env=Counting)
    batch = sample(1, 6)
    values = agent.learner.act(batch.obs[0])
    target = batch.reward[0] + batch.discount[0] * agent.learner.act(batch.next_obs[0]).max(1)
    expected = target - np.take_along_axis(values, batch.action[0][:, None], 1)[:, 0]
    weighted = sample(1, 6, weights=np.full((1, 6), 3.0, np.float32))
    update = ready(framework, agent, framework.optimizers.sgd(agent.param, 0.0)).update(weighted, {})
    np.testing.assert_allclose(update.td_error[0], expected, rtol=1e-4, atol=1e-6)
    huber = np.where(np.abs(expected) < 1, 0.5 * expected**2, np.abs(expected) - 0.5)
    assert update.loss[0, 0] == pytest.approx(3 * huber.mean(), rel=1e-4)


def test_new_hyperparameters_are_used_without_compiling_again(framework):
    agent = linear(framework, lambda self, td, s: self.prioritized_replay.update(td * self.scale), scale=1.0)
    learner = ready(framework, agent, framework.optimizers.sgd(agent.param, 0.0), names=["scale", "learning_rate"])
    errors = []
    for scale in (1.0, 2.0, 0.5):
        agent.scale = scale
        errors.append(learner.update(sample(2), {"scale": scale, "learning_rate": 0.0}).td_error)
    np.testing.assert_allclose(errors[1], 2 * errors[0], rtol=1e-6)
    np.testing.assert_allclose(errors[2], 0.5 * errors[0], rtol=1e-6)
    assert learner.num_traces == (0 if framework.package == "pytorch" else 1)  # three steps are not worth recording


def test_errors_of_columns_are_read_as_the_loss_is(framework, caplog):
    """V(s) [B, 1] against r [B]: both the loss and what is handed over are meant for r as [B, 1]."""

    def loss(self, s, r, d):
        td = r - s @ self.w  # [B, B] if r is [B]
        self.prioritized_replay.update(td)
        return framework.mean(td * td)

    batch = sample(1, 6)
    agent = agent_with(framework, loss)
    with caplog.at_level(logging.WARNING):
        update = ready(framework, agent, framework.optimizers.sgd(agent.param, 0.0)).update(batch, {})
    expected = batch.reward[0] - batch.obs[0] @ np.array([1.0, 2.0], np.float32)
    np.testing.assert_allclose(update.td_error[0], expected, rtol=1e-5)
    assert update.loss[0, 0] == pytest.approx(np.square(expected).mean(), rel=1e-5)
    assert len([one for one in caplog.records if "It is given r and d as [B, 1]" in one.getMessage()]) == 1


def test_errors_of_columns_beside_a_right_loss_are_refused(framework):
    def loss(self, s, r, d):
        self.prioritized_replay.update(r - s @ self.w)
        return (r - (s @ self.w)[:, 0]) ** 2

    with pytest.raises(
        AgentContractError, match=r"needs one TD per sample, \[4\]; it got the shape \[4, 4\].*q\[:, 0\]"
    ):
        ready(framework, agent_with(framework, loss)).update(sample(2), {})


def test_outside_a_loss_it_is_refused(framework):
    agent = linear(framework, lambda self, td, s: self.prioritized_replay.update(td))
    with pytest.raises(AgentContractError, match="no loss was being evaluated"):
        agent.prioritized_replay.update(np.zeros(4))
    ready(framework, agent).update(sample(2), {})
    with pytest.raises(AgentContractError, match="no loss was being evaluated"):
        agent.prioritized_replay.update(np.zeros(4))


@pytest.mark.parametrize("couples", [False, True])  # True: found while the update is traced, not by the check before
def test_errors_of_the_wrong_shape_are_refused(framework, couples):
    def hand_over(self, td, s):
        self.prioritized_replay.update(td[:, None] - td)

    agent = linear(framework, hand_over, couples_samples=couples)
    with pytest.raises(AgentContractError, match=r"one TD per sample, \[4\]; it got the shape \[4, 4\]"):
        ready(framework, agent).update(sample(2), {})
    np.testing.assert_array_equal(framework.array(agent.w), [[1.0], [2.0]])


def test_two_errors_for_one_batch_are_refused(framework):
    def hand_over(self, td, s):
        self.prioritized_replay.update(td)
        self.prioritized_replay.update(td)

    with pytest.raises(AgentContractError, match="called twice"):
        ready(framework, linear(framework, hand_over)).update(sample(2), {})


@pytest.mark.usefixtures("eager_updates")
def test_extras_of_any_shape_and_kind_are_offered(framework):
    seen = {}

    def hand_over(self, td, s):
        seen.update({name: (tuple(getattr(self, name).shape), str(getattr(self, name).dtype)) for name in extras})

    extras = {
        "goal": np.zeros((2, 4, 3)),
        "expert_action": np.zeros((2, 4), np.int64),
        "expert_obs": np.zeros((2, 4, 5, 5), np.uint8),
        "flag": np.zeros((2, 4), np.bool_),
    }
    batch = sample(2)
    columns = ("obs", "action", "reward", "next_obs", "terminated", "discount", "sync")
    whole = Sample(**{name: getattr(batch, name) for name in columns}, extras=extras)
    agent = linear(framework, hand_over, couples_samples=True)
    ready(framework, agent).update(whole, {})
    kinds = {
        name: (shape, kind.removeprefix("torch.").removeprefix("<dtype: '").removesuffix("'>"))
        for name, (shape, kind) in seen.items()
    }
    integers = "int64" if framework.package == "pytorch" else "int32"
    assert kinds == {
        "goal": ((4, 3), "float32"),
        "expert_action": ((4,), integers),
        "expert_obs": ((4, 5, 5), "uint8"),
        "flag": ((4,), "float32"),
    }
    assert not hasattr(agent, "goal")


@pytest.mark.parametrize(
    ("name", "setting"),
    [("log_prob_old", "PPO=True .* SoftmaxPolicy"), ("return_", r"value\(s\)"), ("expert_obs", "expert=")],
)
def test_what_is_read_and_not_offered_is_refused_with_the_setting_that_brings_it(framework, name, setting):
    def read(self, td, s):
        return getattr(self, name)

    for batch in (sample(2), sample(2, 1)):
        with pytest.raises(AgentContractError, match=f"reads self.{name}, which comes with .*{setting}"):
            ready(framework, linear(framework, read)).update(batch, {})


def test_other_attributes_that_are_missing_are_pythons_business(framework):
    with pytest.raises(AttributeError, match="no attribute 'q_net'"):
        ready(framework, linear(framework, lambda self, td, s: self.q_net)).update(sample(2), {})
