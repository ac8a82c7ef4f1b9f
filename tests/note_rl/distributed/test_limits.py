"""Refusals of settings that several replicas, or workers that do not wait for each other, cannot run."""

import re

import pytest

from note_rl.agents.pytorch import PPO, TRPO
from note_rl.agents.pytorch.recurrent import recurrent_network
from note_rl.distributed.limits import check_can_be_served, check_can_be_shared
from note_rl.errors import AgentContractError, SettingsError
from note_rl.policy import SoftmaxPolicy
from note_rl.settings import Adaptive
from tests.note_rl.distributed.rank_agents import dqn
from tests.note_rl.small_environments import Counting


def remembering():
    agent = PPO(env=Counting, network=recurrent_network)
    agent.set(policy=SoftmaxPolicy(), PPO=True, rollout_steps=32)
    return agent


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"batch": 15}, "minibatches of 15 cannot be dealt out to 2 replicas evenly"),
        ({"adaptive": {"batch_size": {"align": 3}}}, "multiples of 3 cannot be dealt out to 2 replicas evenly"),
    ],
)
def test_settings_that_cannot_be_shared_are_refused(change, message):
    if "adaptive" in change:
        change = {"PR": True, "adaptive": Adaptive(signals=["priority_ess"], parameters=change["adaptive"])}
    agent, _, _ = dqn(**change)
    with pytest.raises(SettingsError, match=re.escape(message)):
        check_can_be_shared(agent, agent.settings, 2)


def test_agents_that_cannot_be_shared_are_refused():
    trpo = TRPO(hidden_size=(8,))
    trpo.set(policy=SoftmaxPolicy(), PPO=True, rollout_steps=32)
    with pytest.raises(AgentContractError, match=r"TRPO takes its steps by itself, in update\(\)"):
        check_can_be_shared(trpo, trpo.settings, 2)
    agent, _, _ = dqn()
    agent.couples_samples = True
    with pytest.raises(AgentContractError, match="couples_samples"):
        check_can_be_shared(agent, agent.settings, 2)


def test_what_workers_that_do_not_wait_cannot_do_is_refused():
    agent, _, _ = dqn(PR=True, adaptive=Adaptive(signals=["priority_ess"], parameters={"batch_size": {}}))
    with pytest.raises(SettingsError, match="adaptive: decisions go by what consecutive steps have measured"):
        check_can_be_served(agent, agent.settings)
    trpo = TRPO(hidden_size=(8,))
    trpo.set(policy=SoftmaxPolicy(), PPO=True, rollout_steps=32)
    with pytest.raises(AgentContractError, match="while it searches for one, other workers would move the parameters"):
        check_can_be_served(trpo, trpo.settings)
    alike, _, _ = dqn(batch=15)
    alike.couples_samples = True
    check_can_be_served(alike, alike.settings)  # each worker sees whole minibatches


@pytest.mark.parametrize(
    "check", [lambda one: check_can_be_shared(one, one.settings, 2), lambda one: check_can_be_served(one, one.settings)]
)
def test_an_agent_that_learns_from_whole_sequences_is_refused_in_its_own_words(check):
    with pytest.raises(AgentContractError, match=r"PPO has a memory \(initial_state\).*use train\(\)"):
        check(remembering())
