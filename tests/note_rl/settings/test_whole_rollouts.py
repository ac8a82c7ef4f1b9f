"""Minibatches that are all of a rollout, and what an agent's class has set() begin with."""

import numpy as np
import pytest
import torch

from note_rl.agents.pytorch import A2C
from note_rl.errors import SettingsError
from note_rl.policy import SoftmaxPolicy
from note_rl.replay.experience.base import AgentView, Clock
from note_rl.replay.experience.rollout_experience import RolloutExperience
from note_rl.settings import RolloutSettings
from note_rl.types import Steps


def test_a_batch_of_a_whole_rollout_is_a_number_for_each_number_of_environments() -> None:
    assert RolloutSettings(num_steps=5, batch_size="rollout").for_envs(3).batch_size == 15
    assert RolloutSettings(num_env_steps=32, batch_size="rollout").for_envs(4).batch_size == 32


def test_other_words_are_refused() -> None:
    with pytest.raises(SettingsError, match="batch_size must be a number or 'rollout'"):
        RolloutSettings(batch_size="all")  # type: ignore[arg-type]


def test_replay_has_no_rollout() -> None:
    agent = A2C()
    with pytest.raises(SettingsError, match="batch must be a whole number, got 'rollout'"):
        agent.set(policy=SoftmaxPolicy(), PPO=False, batch="rollout", rollout_steps=None, num_epochs=None)


def test_a2c_takes_one_gradient_step_per_rollout() -> None:
    agent = A2C(hidden_size=4)
    agent.set(policy=SoftmaxPolicy(), num_envs=2, seed=0)
    result = agent.train(torch.optim.Adam([*agent.param[0], *agent.param[1]]), total_steps=40, p=0)
    assert (result.num_env_steps, result.num_gradient_steps) == (40, 4)  # rollouts of 5 steps of 2 environments
    assert agent.batch == 10


def test_what_is_said_goes_before_the_defaults_of_the_class() -> None:
    agent = A2C()
    agent.set(policy=SoftmaxPolicy(), update_steps=64, num_epochs=2)
    chosen = agent.settings.experience
    assert isinstance(chosen, RolloutSettings)
    assert (chosen.num_env_steps, chosen.num_epochs, chosen.batch_size) == (64, 2, "rollout")


def test_a_whole_rollout_is_each_transition_once() -> None:
    rows = RolloutSettings(num_steps=4, batch_size="rollout", num_epochs=1).for_envs(2)
    experience = RolloutExperience(rows, AgentView(), np.random.default_rng(0))
    number = np.arange(8, dtype=np.float32).reshape(4, 2)
    no = np.zeros((4, 2), np.bool_)
    experience.store(Steps(number[..., None], number.astype(int), number, number[..., None], no, no))
    (sample,) = experience.update_blocks(Clock())
    assert sample.reward.shape == (1, 8)
    assert sorted(sample.reward[0].tolist()) == list(range(8))
