import logging

import numpy as np
import pytest

from note_rl.experience import Clock, ReplayExperience, RolloutExperience
from note_rl.settings import ReplaySettings, RolloutSettings
from tests.note_rl.test_replay import steps


def replay(**settings):
    return ReplayExperience(ReplaySettings(**settings), lambda: 0.9, np.random.default_rng(0))


def test_nothing_is_learned_before_it_starts():
    experience = replay(learning_starts=10, batch_size=2, capacity=20)
    experience.store(steps(0, 9))
    assert list(experience.bursts(Clock(num_env_steps=9))) == []
    experience.store(steps(9, 1))
    assert len(list(experience.bursts(Clock(num_env_steps=10)))) == 1


@pytest.mark.parametrize(
    ("num_envs", "remaining", "expected"), [(1, None, 10), (4, None, 3), (1, 4, 4), (4, 4, 1), (16, None, 1)]
)
def test_phase_length_counts_all_environments(num_envs, remaining, expected):
    assert replay(train_freq=10).phase_length(num_envs, remaining) == expected


def test_targets_are_updated_every_so_many_gradient_steps_across_phases():
    experience = replay(batch_size=1, gradient_steps=5, target_update_interval=4)
    experience.store(steps(0, 1))
    synced = []
    for phase in range(3):
        (sample,) = experience.bursts(Clock(num_env_steps=1, num_gradient_steps=5 * phase))
        synced.extend(sample.sync.tolist())
    assert [number + 1 for number, sync in enumerate(synced) if sync] == [4, 8, 12]


def test_targets_are_updated_every_so_many_environment_steps_between_phases():
    experience = replay(batch_size=1, gradient_steps=2, target_update_env_steps=10)
    flags = []
    for phase in range(1, 6):
        experience.store(steps(0, 4))
        (sample,) = experience.bursts(Clock(num_env_steps=4 * phase, num_gradient_steps=0))
        flags.append(sample.sync.tolist())
    # 10 is passed in phase 3 (8 -> 12), 20 in phase 5 (16 -> 20)
    assert flags == [[False, False], [False, False], [False, True], [False, False], [False, True]]


def test_without_an_interval_targets_follow_every_step():
    experience = replay(batch_size=1, gradient_steps=3)
    experience.store(steps(0, 1))
    (sample,) = experience.bursts(Clock(num_env_steps=1))
    assert sample.sync.all()


def test_long_phases_come_in_bursts_of_two_lengths():
    experience = replay(batch_size=1, gradient_steps=1300)
    experience.store(steps(0, 1))
    assert [sample.num_gradient_steps for sample in experience.bursts(Clock(num_env_steps=1))] == [512, 512, 276]


def test_one_pass_reads_the_whole_pool_in_powers_of_two(caplog):
    experience = replay(batch_size=2, gradient_steps=None, capacity=100)
    experience.store(steps(0, 26))
    samples = list(experience.bursts(Clock(num_env_steps=26)))
    assert [sample.num_gradient_steps for sample in samples] == [8, 4, 1]
    assert sorted(np.concatenate([s.reward.ravel() for s in samples]).tolist()) == list(range(26))
    assert caplog.records == []


def test_one_pass_warns_once_when_it_becomes_expensive(caplog):
    experience = replay(batch_size=1, gradient_steps=None, capacity=1000)
    experience.store(steps(0, 300))
    with caplog.at_level(logging.WARNING):
        for phase in range(2):
            experience.store(steps(300 + phase, 1))
            assert sum(s.num_gradient_steps for s in experience.bursts(Clock(num_env_steps=300))) == 301 + phase
    assert len(caplog.records) == 1
    assert "num_updates" in caplog.text


def test_rollout_is_forgotten_after_training():
    settings = RolloutSettings(num_steps=4, batch_size=2, num_epochs=2)
    rng = np.random.default_rng(0)
    experience = RolloutExperience(settings, lambda: 0.9, lambda: 0.95, None, True, rng)
    assert experience.phase_length(8, remaining=1) == 4
    experience.store(steps(0, 4))
    (sample,) = experience.bursts(Clock())
    assert sample.reward.shape == (4, 2)
    assert "advantage" not in sample.extras
    with pytest.raises(AssertionError):
        list(experience.bursts(Clock()))
