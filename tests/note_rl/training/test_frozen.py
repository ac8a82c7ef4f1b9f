"""Steps on frozen data, over both frameworks; optimizers and rates made again."""

import numpy as np
import pytest

from note_rl.optimizers.optimizer_recipe import recipe_of
from note_rl.optimizers.rates import Rates
from note_rl.policy import EpsGreedyQPolicy, SoftmaxPolicy
from note_rl.seeding import seed_everything
from note_rl.training.frozen import FrozenData
from tests.note_rl.frameworks import frameworks
from tests.note_rl.samples import part_of, sample
from tests.note_rl.small_environments import Counting

pytestmark = pytest.mark.parametrize("framework", frameworks())


def dqn(framework):
    kind = framework.agents.DQN  # brings the framework, which is to be seeded
    seed_everything(0)
    agent = kind(hidden_size=(8,), env=Counting, tau=0.5)
    agent.set(policy=EpsGreedyQPolicy(0.5), pool_size=200, batch=16, num_updates=3, train_freq=4, seed=1)
    return agent


@pytest.mark.slow_in_keras  # tuner/finders/test_manual_calls.py has losses on fixed data in Keras
def test_steps_lower_the_loss_with_targets_held_still_and_can_be_taken_again(framework):
    agent = dqn(framework)
    optimizer = framework.optimizers.adam(agent.param, learning_rate=1e-2)
    data = FrozenData(agent, optimizer, 5)
    before = agent.learner.get_state()
    first = data.loss()
    assert data.loss() == first
    unchanged = agent.learner.get_state()
    assert all(np.array_equal(before[name], unchanged[name]) for name in before)
    losses = [data.step() for _ in range(6)]
    assert losses[-1] < first
    after = agent.learner.get_state()
    targets = [name for name in before if "target" in name]
    assert targets
    assert all(np.array_equal(before[name], after[name]) for name in targets)
    data.restart()
    assert [data.step() for _ in range(6)] == losses
    assert data.policy_change() is None  # it has no probabilities
    data.close()


@pytest.mark.slow_in_keras
def test_a_policy_that_does_not_move_has_not_changed(framework):
    kind = framework.agents.PPO
    seed_everything(0)
    agent = kind(hidden_size=(8,), env=Counting)
    agent.set(policy=SoftmaxPolicy(), PPO=True, num_envs=2, rollout_steps=16, num_epochs=3, batch=8, seed=1)
    optimizer = framework.optimizers.sgd(agent.param, learning_rate=1e-3)
    data = FrozenData(agent, optimizer, 20)
    assert data.num_per_phase == 3 * 2 * 16 // 8
    rates = Rates(optimizer)
    assert rates.now == pytest.approx(1e-3)
    changes = []
    for rate in (0.0, 0.01, 1.0):
        data.restart()
        rates.set(rate)
        data.step()
        changes.append(data.policy_change())
    assert (changes[0].kl, changes[0].ess) == (pytest.approx(0.0, abs=1e-12), pytest.approx(1.0))
    assert 0.0 < changes[1].kl < changes[2].kl
    assert changes[2].ess < changes[1].ess < 1.0
    data.close()


def test_losses_of_several_minibatches(framework):
    agent = dqn(framework)
    together = sample(3, 8)
    apart = [agent.learner.loss_of(part_of(together, k)) for k in range(3)]
    assert np.allclose(agent.learner.loss_of(together), np.concatenate(apart))


@pytest.mark.slow_in_keras
def test_an_optimizer_made_again_does_the_same(framework):
    ends = []
    for again in (False, True):
        agent = dqn(framework)
        optimizer = framework.optimizers.adamw(agent.param, learning_rate=3e-3, beta1=0.8, weight_decay=0.1)
        made = recipe_of(optimizer, agent.param).make(agent.param) if again else optimizer
        agent.learner.prepare(made, None, [], False)
        agent.learner.update(sample(4, 8), {})
        ends.append(framework.parameters(agent))
    assert all(np.array_equal(one, other) for one, other in zip(*ends, strict=True))
