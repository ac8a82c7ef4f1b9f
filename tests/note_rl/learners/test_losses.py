"""The losses of a minibatch: their shape, and the importance weights."""

import numpy as np
import pytest

from note_rl.errors import AgentContractError
from note_rl.learners.losses import check_loss_shape
from note_rl.types import Sample
from tests.note_rl.frameworks import frameworks
from tests.note_rl.learners.dqn_agents import dqn
from tests.note_rl.samples import part_of, ready, sample

pytestmark = pytest.mark.parametrize("framework", frameworks())


@pytest.mark.usefixtures("eager_updates")
def test_importance_weights_are_applied_to_losses_per_sample(framework):
    agent = dqn(framework)
    batch = sample(1, 4)
    plain = ready(framework, agent, framework.optimizers.sgd(agent.param, 0.0)).update(batch, {}).loss[0, 0]
    only_first = [part_of(batch, 0)]
    weights = np.array([[4.0, 0.0, 0.0, 0.0]], np.float32)
    columns = ("obs", "action", "reward", "next_obs", "terminated", "discount", "sync")
    weighted = Sample(**{name: getattr(batch, name) for name in columns}, weights=weights)
    first = Sample(**{name: getattr(only_first[0], name)[:, :1] if name != "sync" else batch.sync for name in columns})
    learner = agent.learner
    assert learner.update(weighted, {}).loss[0, 0] == pytest.approx(learner.update(first, {}).loss[0, 0], rel=1e-5)
    assert learner.update(weighted, {}).loss[0, 0] != pytest.approx(plain, rel=1e-3)


def test_an_agent_that_takes_the_weights_applies_them_itself(framework):
    class Weighs(framework.base()):
        def __init__(self):
            super().__init__()
            self.w = framework.variable([[1.0], [2.0]])
            self.param = [self.w]

        def action(self, s):
            return s @ self.w

        def __call__(self, s, a, next_s, r, d, weights):
            return weights * (s @ self.w)[:, 0]

    batch = sample(1, 4, weights=np.array([[1.0, 3.0, 0.5, 2.0]], np.float32))
    learner = ready(framework, agent := Weighs(), framework.optimizers.sgd(agent.param, 0.0))
    by_hand = np.mean(batch.weights[0] * (batch.obs[0] @ [1.0, 2.0]))
    assert learner.update(batch, {}).loss[0, 0] == pytest.approx(by_hand, rel=1e-5)


def test_a_loss_of_the_wrong_shape_is_refused_with_its_usual_cause(framework):
    class Mistaken(framework.base()):
        def __init__(self):
            super().__init__()
            self.w = framework.variable([[1.0], [1.0]])
            self.param = [self.w]

        def action(self, s):
            return s @ self.w

        def __call__(self, s, a, next_s, r, d):
            return (s @ self.w - r) ** 2  # [B, 1] - [B] is [B, B]

    agent = Mistaken()
    with pytest.raises(
        AgentContractError, match=r"one loss or one per sample.*\[B, 1\] broadcast against them to \[B, B\]"
    ):
        ready(framework, agent).update(sample(1), {})


@pytest.mark.parametrize("shape", [(), (4,)])
def test_shapes_a_loss_may_have(framework, shape):
    check_loss_shape(shape, 4)


def test_a_loss_of_each_step_of_a_sequence_is_refused_with_advice(framework):
    with pytest.raises(AgentContractError, match=r"returned the shape \[8, 20\].*one number for each.*\.mean\(1\)"):
        check_loss_shape((8, 20), 8)
