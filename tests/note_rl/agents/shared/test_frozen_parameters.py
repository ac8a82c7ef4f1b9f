"""Parameters that are frozen by requires_grad_(False) stay as they are, whatever takes the steps."""

import pytest
import torch

from note_rl.agents.pytorch import DQN, SAC, TRPO
from note_rl.errors import AgentContractError
from note_rl.policy import SoftmaxPolicy
from tests.note_rl.learners.step_graph.recorded_agents import learner_of, minibatches


def test_trpo_with_a_frozen_layer_improves_the_others():
    torch.manual_seed(0)
    agent = TRPO(hidden_size=(8,), env="CartPole-v1")
    agent.set(policy=SoftmaxPolicy(), rollout_steps=64, seed=1)
    first = agent.actor.linears[0].requires_grad_(False)
    before = [first.weight.clone(), agent.actor.linears[1].weight.detach().clone()]
    agent.train([torch.optim.Adam(group, 1e-3) for group in agent.param], total_steps=128, p=0)
    assert torch.equal(first.weight, before[0])
    assert not torch.equal(agent.actor.linears[1].weight, before[1])


def test_a_whole_group_may_be_frozen():
    torch.manual_seed(0)
    learner = learner_of(SAC(hidden_size=(8,), env="Pendulum-v1"), False)
    frozen = [parameter for parameter in learner.agent.param[0] if parameter.requires_grad_(False) is parameter]
    kept = [parameter.clone() for parameter in frozen]
    moving = [parameter.detach().clone() for parameter in learner.agent.param[1]]
    learner.update(minibatches("SAC"), {})
    assert all(map(torch.equal, frozen, kept))
    assert not any(map(torch.equal, moving, learner.agent.param[1]))


def test_where_all_is_frozen_one_message_says_so():
    learner = learner_of(DQN(hidden_size=(8,), env="CartPole-v1"), False)
    learner.agent.q_net.requires_grad_(False)
    with pytest.raises(AgentContractError, match=r"no gradient.*frozen \(requires_grad_\(False\)\)"):
        learner.update(minibatches(), {})
