"""An agent whose training diverged is as it was before, without NaN; in both frameworks."""

import numpy as np
import pytest

from note_rl.errors import DivergedError
from note_rl.policy import EpsGreedyQPolicy
from note_rl.seeding import seed_everything
from tests.note_rl.frameworks import frameworks
from tests.note_rl.samples import sample

pytestmark = pytest.mark.parametrize("framework", frameworks())


def agent_with(framework, loss, width=1):
    """Weights (2, width), a target that follows them, and the given loss(self, s, r)."""

    class Agent(framework.base()):
        def __init__(self):
            super().__init__()
            self.w = framework.variable([[1.0] * width, [2.0] * width])
            self.target = framework.variable([[0.0] * width] * 2)
            if framework.package == "pytorch":
                self.target.requires_grad_(False)
            self.param = [self.w]

        def action(self, s):
            return s @ self.w

        def __call__(self, s, a, next_s, r, d):
            return loss(self, s, r)

        def update_param(self):
            if framework.package == "pytorch":
                self.target.copy_(self.w)
            else:
                self.target.assign(self.w)

    return Agent()


def learner_of(framework, agent, make="adam"):
    agent.couples_samples = True  # what is not finite is no matter for the check, nor these losses for the tests
    agent.learner.prepare(getattr(framework.optimizers, make)(agent.param, 0.1), None, (), False)
    return agent.learner


def squares(framework):
    return lambda self, s, r: framework.mean(((s @ self.w)[:, 0] - r) ** 2)


def spoiled(steps, at, seed=0):
    batch = sample(steps, 4, sync=True, seed=seed)
    batch.reward[at, 0] = np.nan
    return batch


def assert_as(state, before):
    for name, values in before.items():
        if not name.startswith("random/"):
            np.testing.assert_array_equal(state[name], values, err_msg=name)


@pytest.mark.parametrize("make", ["adam", "sgd"])
def test_the_agent_is_as_it_was_before_the_burst(framework, make):
    learner = learner_of(framework, agent_with(framework, squares(framework)), make)
    for seed in range(3):
        assert not learner.update(sample(4, 4, sync=True, seed=seed), {}).diverged
    before = learner.get_state()
    assert make == "sgd" or any(name.startswith("optimizer/") and values.any() for name, values in before.items())
    for steps, at in ((4, 0), (4, 2), (1, 0)):
        update = learner.update(spoiled(steps, at), {})
        assert update.diverged
        assert not np.isfinite(update.loss).all()
        assert np.isfinite(update.loss[:at]).all()
        assert_as(learner.get_state(), before)


def test_slots_that_the_failed_burst_has_made_are_as_new(framework):
    learner = learner_of(framework, agent_with(framework, squares(framework)))
    before = learner.get_state()
    assert learner.update(spoiled(3, 1), {}).diverged
    assert_as(learner.get_state(), before)
    fresh = learner_of(framework, agent_with(framework, squares(framework)))
    for one in (learner, fresh):
        one.update(sample(3, 4, seed=9), {})
    assert_as(learner.get_state(), fresh.get_state())


def test_a_large_network_stops_before_the_step_that_would_spoil_it(framework):
    agents = [agent_with(framework, squares(framework), width=20_000) for _ in range(2)]
    learner, expected = (learner_of(framework, agent) for agent in agents)
    batches = [sample(40, 4, seed=1), sample(2, 4, seed=2), sample(3, 4, seed=3)]
    for batch in batches:
        assert not learner.update(batch, {}).diverged
        expected.update(batch, {})
    failing = spoiled(2, 1, seed=4)
    assert learner.update(failing, {}).diverged
    if framework.package == "pytorch":
        first = type(failing)(**{name: getattr(failing, name)[:1] for name in FIELDS})
        expected.update(first, {})  # the sound step of that update block was taken
    assert_as(learner.get_state(), expected.get_state())


FIELDS = ("obs", "action", "reward", "next_obs", "terminated", "discount", "sync")


def test_a_gradient_alone_that_is_not_finite_is_found_out(framework):
    """The square root has an infinite slope where all is well with its value."""

    def loss(self, s, r):
        return framework.mean(((s @ self.w)[:, 0] ** 2) ** 0.5)

    learner = learner_of(framework, agent_with(framework, loss))
    learner.update(sample(2, 4), {})
    sound = learner.get_state()
    bad = sample(2, 4, seed=1)
    bad.obs[1] = 0.0
    first = learner.update(bad, {})
    assert np.isfinite(first.loss).all()
    assert first.diverged or learner.update(sample(2, 4, seed=2), {}).diverged
    assert_as(learner.get_state(), sound)


def test_masks_may_hold_infinite_numbers(framework):
    agent = agent_with(framework, squares(framework))
    agent.mask = framework.variable([0.0, -np.inf])
    learner = learner_of(framework, agent)
    learner.update(sample(4, 4), {})
    before = learner.get_state()
    assert learner.update(spoiled(4, 2), {}).diverged
    assert_as(learner.get_state(), before)


@pytest.mark.parametrize("size", [1, 40])
def test_single_steps_of_infinite_length_are_taken_back(framework, size):
    """The loss is finite and its gradient is not, in update blocks of one step, which have no copy of their own."""

    def loss(self, s, r):
        return framework.mean(((s @ self.w)[:, 0] ** 2) ** 0.5)

    learner = learner_of(framework, agent_with(framework, loss, width=size), "sgd")
    for seed in range(3):
        learner.update(sample(1, 4, seed=seed), {})
    bad = sample(1, 4, seed=7)
    bad.obs[:] = 0.0
    assert learner.update(bad, {}).diverged or learner.update(sample(1, 4, seed=8), {}).diverged
    assert all(np.isfinite(values).all() for values in learner.get_state().values())


def test_train_raises_and_leaves_an_agent_that_acts_and_can_be_saved(framework, tmp_path):
    seed_everything(0)
    agent = framework.agents.DQN(hidden_size=(8,))
    agent.set(policy=EpsGreedyQPolicy(1.0), batch=8, train_freq=8, gradient_steps=4, learning_starts=16, seed=0)
    optimizer = framework.optimizers.sgd(agent.param, 1e25)
    with pytest.raises(DivergedError, match=r"no longer finite at gradient step .*the agent is as it was before"):
        agent.train(optimizer=optimizer, total_steps=400, p=0, jit_compile=False)
    assert all(np.isfinite(values).all() for values in agent.learner.get_state().values())
    assert agent.num_gradient_steps % 4 == 0
    agent.save(tmp_path / "agent")
    again = framework.agents.DQN(hidden_size=(8,))
    again.restore_param(tmp_path / "agent")
    assert_as(agent.learner.get_state(), again.learner.get_state())
