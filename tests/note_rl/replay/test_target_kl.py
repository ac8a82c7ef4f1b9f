"""Epochs over a rollout end early where the policy has moved too far."""

import numpy as np
import pytest

from note_rl.agents.pytorch import A2C, PPO
from note_rl.errors import AgentContractError, SettingsError
from note_rl.optimizers.pytorch import adam
from note_rl.policy import SoftmaxPolicy
from note_rl.replay.experience import AgentView, Clock, RolloutExperience
from note_rl.replay.returns import explained_variance
from note_rl.settings import RolloutPriority, RolloutSettings
from note_rl.types import Update
from tests.note_rl.replay.story import steps


def blocks_of(kl_of_blocks, **settings):
    """The update blocks of a rollout of 8 transitions whose steps are answered with these KL divergences, by block."""
    chosen = RolloutSettings(**{"batch_size": 2, "num_epochs": 4, "target_kl": 0.1, **settings})
    experience = RolloutExperience(chosen, AgentView(), np.random.default_rng(0))
    experience.store(steps(0, 8))
    blocks = []
    for sample in experience.update_blocks(Clock()):
        shape = sample.reward.shape
        reported = {"approx_kl": np.array(kl_of_blocks[len(blocks)])}
        experience.feedback(sample, Update(np.zeros((shape[0], 1)), np.zeros(shape), np.ones(shape), reported))
        blocks.append(sample)
    return blocks, experience


def test_the_epoch_that_goes_too_far_is_the_last():
    blocks, experience = blocks_of([[0.1] * 4, [0.0, 0.2, 0.2, 0.2], [0.1, 0.1, 0.1, 0.31]])
    assert [sample.num_gradient_steps for sample in blocks] == [4, 4, 4]  # means 0.1, 0.15 (not above), 0.1525
    assert experience.logs() == {"num_epochs": 3.0}
    assert [sorted(sample.slots.ravel()) for sample in blocks] == [list(range(8))] * 3
    assert [sample.sync.tolist() for sample in blocks] == [[False, False, False, True]] * 3


def test_all_epochs_are_taken_where_it_stays_near():
    blocks, experience = blocks_of([[0.0] * 4] * 4)
    assert len(blocks) == 4
    assert experience.logs() == {"num_epochs": 4.0}


def test_minibatches_drawn_by_priority_end_as_well():
    blocks, _ = blocks_of([[1.0] * 4], priority=RolloutPriority())
    assert [sample.num_gradient_steps for sample in blocks] == [4]


def test_target_updates_counted_in_gradient_steps_are_left_alone():
    blocks, _ = blocks_of([[0.0] * 4, [1.0] * 4], target_update_interval=3)
    assert [sample.sync.tolist() for sample in blocks] == [[False, False, True, False], [False, True, False, False]]


def test_without_it_all_epochs_are_one_block():
    blocks, experience = blocks_of([[9.0] * 16], target_kl=None)
    assert [sample.num_gradient_steps for sample in blocks] == [16]
    assert experience.logs() == {}


def trained(**settings):
    agent = PPO(hidden_size=(4,), env="CartPole-v1")
    agent.set(policy=SoftmaxPolicy(), PPO=True, rollout_steps=32, batch=8, num_epochs=6, seed=0, **settings)
    agent.train(optimizer=adam(agent.param, 1e-2), total_steps=64, jit_compile=False, p=0)
    return agent


def test_fewer_gradient_steps_are_taken():
    assert trained().num_gradient_steps == 2 * 6 * 4
    assert trained(target_kl=1e9).num_gradient_steps == 2 * 6 * 4
    near = trained(target_kl=1e-9)
    assert near.num_gradient_steps == 2 * 4
    assert near.reported["num_epochs"] == 1.0


def test_ratios_tell_it_as_well_and_a_loss_that_says_nothing_is_refused():
    for ratio, num_blocks in ((1.0, 4), (2.0, 1)):  # 2 - 1 - log 2 = 0.31, above 0.15
        experience = RolloutExperience(
            RolloutSettings(batch_size=8, num_epochs=4, target_kl=0.1), AgentView(), np.random.default_rng(0)
        )
        experience.store(steps(0, 8))
        found = 0
        for sample in experience.update_blocks(Clock()):
            experience.feedback(sample, Update(np.zeros((1, 1)), ratio=np.full((1, 8), ratio)))
            found += 1
        assert found == num_blocks
    with pytest.raises(AgentContractError, match=r"self\.report\(approx_kl="):
        experience.feedback(sample, Update(np.zeros((1, 1))))


def test_an_agent_without_ratios_is_refused_before_training():
    agent = A2C(hidden_size=(4,), env="CartPole-v1")
    agent.set(policy=SoftmaxPolicy(), target_kl=0.1)
    with pytest.raises(AgentContractError, match="A2C does not compare"):
        agent.train(optimizer=adam(agent.param, 1e-3), total_steps=10, p=0)
    assert agent.num_env_steps == 0


def test_it_is_above_0_and_of_rollouts():
    with pytest.raises(SettingsError, match="target_kl must be"):
        RolloutSettings(target_kl=0.0)
    with pytest.raises(SettingsError, match=r"target_kl=0\.1 belongs to on-policy training"):
        PPO().set(policy=SoftmaxPolicy(), PPO=False, target_kl=0.1)


def test_explained_variance_by_hand():
    target = np.array([0.0, 2.0, 4.0, 6.0])  # variance 5
    assert explained_variance(target, target) == 1.0
    assert explained_variance(np.full(4, 7.0), target) == 0.0
    assert explained_variance(target + np.array([1.0, -1.0, 1.0, -1.0]), target) == pytest.approx(1 - 1 / 5)
    assert explained_variance(-target, target) == 1 - 4 * 5 / 5
    assert np.isnan(explained_variance(target, np.ones(4)))
