"""Agents that take their updates by themselves, by update() in place of a loss; in both frameworks."""

from types import SimpleNamespace

import numpy as np
import pytest
from gymnasium import spaces

from note_rl.errors import AgentContractError, DivergedError
from note_rl.policy import EpsGreedyQPolicy
from note_rl.schedules import Linear
from note_rl.settings import Adaptive
from note_rl.training.frozen import FrozenData
from tests.note_rl.frameworks import frameworks
from tests.note_rl.samples import agent_with, sample
from tests.note_rl.small_environments import Counting

pytestmark = pytest.mark.parametrize("framework", frameworks())


def updating(framework, update, **attributes):
    """An agent of weights w = (1, 2) and V(s) = w . s, with the given update(self, batch, optimizers)."""
    kind = type(agent_with(framework, None))

    class Agent(kind):
        __call__ = None

        def __init__(self):
            super().__init__()
            vars(self).update(attributes)

        def update(self, batch, optimizers):
            return update(self, batch, optimizers)

    return Agent()


def prepared(framework, agent, make="adam", clip=None, names=(), rate=0.1):
    agent.learner.prepare(getattr(framework.optimizers, make)(agent.param, rate), clip, names, False)
    return agent.learner


def squared_error(framework, agent, s, r):
    return framework.mean(((s @ agent.w)[:, 0] - r) ** 2)


def descent(framework):
    def update(self, batch, optimizers):
        return self.minimise(lambda: squared_error(framework, self, batch.obs, batch.reward), optimizers[0])

    return update


def assign(framework, variable, values):
    if framework.package == "pytorch":
        import torch

        with torch.no_grad():
            variable.copy_(values)
    else:
        variable.assign(values)


@pytest.mark.parametrize("clip", [None, 0.5])
def test_minimise_takes_the_steps_that_a_loss_would_have_taken(framework, clip):
    own = updating(framework, descent(framework))
    by_loss = agent_with(framework, lambda self, s, r, d: squared_error(framework, self, s, r))
    batch, updates = sample(5, 4), []
    for agent in (own, by_loss):
        updates.append(prepared(framework, agent, clip=clip).update(batch, {}))
    np.testing.assert_allclose(updates[0].loss, updates[1].loss, rtol=1e-6)
    np.testing.assert_allclose(*(framework.parameters(agent)[0] for agent in (own, by_loss)), rtol=1e-6)
    assert framework.parameters(own)[0][0, 0] != 1.0


def test_the_batch_has_all_columns_by_their_names(framework):
    def update(self, batch, optimizers):
        assert len(batch) == 4
        known = (batch.obs[:, 0], batch.next_obs[:, 0], batch.reward, batch.terminated, batch.discount, batch.advantage)
        return framework.mean(sum(known)) + framework.mean(framework.numbers(batch.action))

    given = sample(2, 4, advantage=True)
    losses = prepared(framework, updating(framework, update)).update(given, {}).loss
    columns = (given.reward, given.terminated, given.discount, given.extras["advantage"], given.action)
    expected = sum(column.mean(1) for column in (*columns, given.obs[..., 0], given.next_obs[..., 0]))
    np.testing.assert_allclose(losses[:, 0], expected, rtol=1e-5)


def test_what_is_handed_over_to_the_replay_arrives(framework):
    def update(self, batch, optimizers):
        self.prioritized_replay.update(batch.reward - 1.0, 2.0 * batch.reward)
        return framework.mean(batch.reward)

    given = sample(2, 4)
    result = prepared(framework, updating(framework, update)).update(given, {})
    np.testing.assert_allclose(result.td_error, given.reward - 1.0, rtol=1e-6)
    np.testing.assert_allclose(result.ratio, 2.0 * given.reward, rtol=1e-6)


def test_parameters_that_an_update_has_spoiled_are_as_before(framework):
    def update(self, batch, optimizers):
        assign(framework, self.w, self.w + framework.mean(batch.reward))
        return framework.mean(batch.obs)  # finite, whatever becomes of w

    learner = prepared(framework, updating(framework, update))
    for seed in range(2):
        assert not learner.update(sample(1, 4, seed=seed), {}).diverged
    before = learner.get_state()["agent/w"]
    bad = sample(2, 4)
    bad.reward[1] = np.nan
    assert learner.update(bad, {}).diverged
    np.testing.assert_array_equal(learner.get_state()["agent/w"], before)


def test_hyperparameters_are_inputs(framework):
    def update(self, batch, optimizers):
        assign(framework, self.w, self.w + self.shift)
        return framework.mean(batch.obs)

    agent = updating(framework, update, shift=0.0)
    learner = prepared(framework, agent, names=("shift",))
    for agent.shift in (1.0, 10.0):
        learner.update(sample(2, 4), {"shift": agent.shift})
    np.testing.assert_allclose(framework.parameters(agent)[0].ravel(), [23.0, 24.0])
    assert learner.num_traces == (0 if framework.package == "pytorch" else 1)


def test_targets_follow_when_it_is_time(framework):
    agent = updating(framework, descent(framework), updated=[])
    agent.update_param = lambda: agent.updated.append(1)
    learner = prepared(framework, agent)
    learner.update(sample(2, 4), {})
    learner.update(sample(2, 4, sync=True), {})
    if framework.package == "pytorch":  # which calls it each time; Keras traces it
        assert len(agent.updated) == 2


@pytest.mark.parametrize(
    ("returned", "named"),
    [
        (lambda framework, batch: None, "NoneType"),
        (lambda framework, batch: batch.reward, r"the shape \[4\]"),
        (lambda framework, batch: [framework.mean(batch.reward)] * 3, "3 losses for 1 parameter groups"),
        (lambda framework, batch: framework.mean(batch.advantage), r"reads batch.advantage, which comes with PPO=True"),
    ],
)
def test_other_answers_are_refused(framework, returned, named):
    learner = prepared(framework, updating(framework, lambda self, batch, optimizers: returned(framework, batch)))
    with pytest.raises(AgentContractError, match=named):
        learner.update(sample(1, 4), {})


def test_steps_of_other_optimizers_and_at_other_times_are_refused(framework):
    agent = updating(framework, descent(framework))
    learner = prepared(framework, agent)
    with pytest.raises(AgentContractError, match="takes steps of the optimizers that update"):
        agent.minimise(lambda: None, framework.optimizers.adam(agent.param, 0.1))
    by_loss = agent_with(framework, lambda self, s, r, d: squared_error(framework, self, s, r))
    prepared(framework, by_loss)
    with pytest.raises(AgentContractError, match="where there is a loss"):
        by_loss.minimise(lambda: None, framework.optimizers.adam(by_loss.param, 0.1))
    assert learner.num_traces == 0


class OneAction(Counting):
    """As many actions as the agents have answers."""

    def __init__(self):
        super().__init__()
        self.action_space = spaces.Discrete(1)


def trained(framework, agent, steps=60, **settings):
    agent.env = OneAction
    agent.set(policy=EpsGreedyQPolicy(0.5), pool_size=100, batch=8, train_freq=10, num_updates=2, seed=0, **settings)
    optimizer = framework.optimizers.sgd(agent.param, 0.01)
    return agent.train(optimizer=optimizer, total_steps=steps, jit_compile=False, p=0)


def test_it_trains_as_others_do(framework):
    def update(self, batch, optimizers):
        return self.minimise(lambda: self.scale * framework.mean(self.w**2), optimizers[0])

    agent = updating(framework, update, scale=0.0)
    result = trained(framework, agent, schedules={"scale": Linear(1.0, 0.0)})
    assert result.num_gradient_steps == 12
    factor = np.prod([1.0 - 0.01 * scale for scale in np.repeat(1.0 - np.arange(6) / 6, 2)])  # w - lr * scale * 2 w / 2
    np.testing.assert_allclose(framework.parameters(agent)[0].ravel(), factor * np.array([1.0, 2.0]), rtol=1e-5)


def test_divergence_ends_training_with_the_reason(framework):
    def update(self, batch, optimizers):
        assign(framework, self.w, self.w * np.inf)
        return framework.mean(batch.reward)

    agent = updating(framework, update)
    with pytest.raises(DivergedError, match="parameters are no longer finite"):
        trained(framework, agent)
    assert framework.parameters(agent)[0].ravel().tolist() == [1.0, 2.0]


def test_what_needs_a_loss_is_refused_before_anything_runs(framework):
    agent = updating(framework, descent(framework))
    noise = Adaptive(signals=["gradient_noise"], parameters={"batch_size": {}})
    with pytest.raises(AgentContractError, match="gradients of a loss are to be measured, and Agent has update"):
        trained(framework, agent, adaptive=noise)
    with pytest.raises(AgentContractError, match=r"has update\(\) in place of a loss"):
        FrozenData(agent, framework.optimizers.sgd(agent.param, 0.1), 4)
    with pytest.raises(AgentContractError, match=r"has update\(\) in place of a loss"):
        prepared(framework, agent).loss_of(sample(1, 4))
    assert agent.num_env_steps == 0


def test_it_must_be_clear_how_an_agent_learns(framework):
    kind = type(updating(framework, descent(framework)))
    with pytest.raises(AgentContractError, match="has both a loss, __call__, and update"):
        trained(framework, type("Both", (kind,), {"__call__": lambda self, s, a, next_s, r, d: None})())
    with pytest.raises(AgentContractError, match=r"has no __call__, the loss: .* or update\(self, batch, optimizers\)"):
        trained(framework, type("Agent", (kind,), {"update": None})())
    with pytest.raises(AgentContractError, match="update takes"):
        trained(framework, type("Agent", (kind,), {"update": lambda self, batch: None})())
    agent = updating(framework, descent(framework), groups_at_sync=(0,))
    with pytest.raises(AgentContractError, match="groups_at_sync"):
        trained(framework, agent)


def test_a_method_of_that_name_is_no_matter_beside_a_loss(framework):
    agent = agent_with(framework, lambda self, s, r, d: framework.mean(self.w**2))
    type(agent).update = lambda self, anything: SimpleNamespace()
    assert trained(framework, agent).num_gradient_steps == 12
