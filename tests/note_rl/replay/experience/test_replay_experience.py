"""When a replay learns, from how many transitions and from which, and what its windows keep."""

import logging

import numpy as np
import pytest

from note_rl.collect.step_join import joined
from note_rl.errors import AgentContractError
from note_rl.replay.experience import AgentView, Clock
from note_rl.replay.hindsight import GoalFunctions
from note_rl.settings import Hindsight, Priority, Window
from note_rl.settings.demonstrations import Demonstrations
from tests.note_rl.replay.experience.experiences import learned, pool, replay, update_with
from tests.note_rl.replay.story import part, random_story, steps


def test_nothing_is_learned_before_it_starts():
    experience = replay(learning_starts=10, batch_size=2, capacity=20, gradient_steps=4)
    experience.store(steps(0, 9))
    assert list(experience.update_blocks(Clock(num_env_steps=9))) == []
    experience.store(steps(9, 1))
    assert len(list(experience.update_blocks(Clock(num_env_steps=10)))) == 1


@pytest.mark.parametrize(
    ("num_envs", "remaining", "expected"), [(1, None, 10), (4, None, 3), (1, 4, 4), (4, 4, 1), (16, None, 1)]
)
def test_phase_length_counts_all_environments(num_envs, remaining, expected):
    assert replay(train_freq=10).phase_length(num_envs, remaining) == expected


def rhythm(num_envs, num_phases, num_rounds=1, learning_starts=0):
    """Steps per environment and gradient steps of each phase with 4 gradient steps every 16 environment steps."""
    experience = replay(batch_size=1, train_freq=16, gradient_steps=4, learning_starts=learning_starts)
    found, num_env_steps = [], 0
    for _ in range(num_phases):
        rounds = []
        for _ in range(num_rounds):
            rounds.append(steps(num_env_steps, experience.phase_length(num_envs, None, rounds), num_envs))
            num_env_steps += rounds[-1].num_env_steps
        experience.store(joined(rounds), num_rounds)
        blocks = experience.update_blocks(Clock(num_env_steps=num_env_steps))
        found.append((sum(len(one.ended) for one in rounds), sum(block.num_gradient_steps for block in blocks)))
    return found


@pytest.mark.parametrize(
    ("num_envs", "expected"),
    [
        (1, [(16, 4), (16, 4), (16, 4)]),
        (8, [(2, 4), (2, 4), (2, 4)]),
        (7, [(3, 4), (2, 4), (2, 4), (3, 4), (2, 4)]),  # 21, 35, 49, 70, 84 steps for 16, 32, 48, 64, 80
        (32, [(1, 8), (1, 8)]),
        (40, [(1, 8), (1, 12), (1, 8), (1, 12)]),  # 40, 80, 120, 160 steps for 32, 80, 112, 160
    ],
)
def test_there_are_as_many_gradient_steps_whatever_the_number_of_environments(num_envs, expected):
    assert rhythm(num_envs, len(expected)) == expected


def test_rounds_before_a_phase_share_what_they_collect_too_much():
    assert rhythm(1, 2, num_rounds=3) == [(48, 4), (48, 4)]
    assert rhythm(7, 4, num_rounds=2) == [(5, 4), (5, 4), (4, 4), (5, 4)]  # 35, 70, 98, 133 steps for 32, 64, 96, 128


def test_what_was_due_before_learning_starts_is_not_made_up_for():
    # one environment learns at 112, 128, ...; 64 of them have taken 64, 128 and 192 steps
    assert rhythm(64, 3, learning_starts=100) == [(1, 0), (1, 8), (1, 16)]


def test_a_phase_that_the_budget_cuts_short_has_its_gradient_steps():
    experience = replay(batch_size=1, train_freq=16, gradient_steps=4)
    assert experience.phase_length(1, 5) == 5
    experience.store(steps(0, 5))
    assert [block.num_gradient_steps for block in experience.update_blocks(Clock(num_env_steps=5))] == [4]
    assert experience.phase_length(1, None) == 16


def test_episodes_that_end_together_have_their_gradient_steps_each():
    experience = replay(batch_size=1, gradient_steps=4)
    experience.store(steps(0, 2, 3, ended=[3, 5]))
    assert sum(block.num_gradient_steps for block in experience.update_blocks(Clock(num_env_steps=6))) == 8


def test_targets_are_updated_at_an_interval_of_gradient_steps_across_phases():
    experience = replay(batch_size=1, gradient_steps=5, target_update_interval=4)
    experience.store(steps(0, 1))
    synced = []
    for phase in range(3):
        (sample,) = experience.update_blocks(Clock(num_env_steps=1, num_gradient_steps=5 * phase))
        synced.extend(sample.sync.tolist())
    assert [number + 1 for number, sync in enumerate(synced) if sync] == [4, 8, 12]


def test_targets_are_updated_at_an_interval_of_environment_steps_between_phases():
    experience = replay(batch_size=1, gradient_steps=2, target_update_env_steps=10)
    flags = []
    for phase in range(1, 6):
        experience.store(steps(0, 4))
        (sample,) = experience.update_blocks(Clock(num_env_steps=4 * phase, num_gradient_steps=0))
        flags.append(sample.sync.tolist())
    # 10 is passed in phase 3 (8 -> 12), 20 in phase 5 (16 -> 20)
    assert flags == [[False, False], [False, False], [False, True], [False, False], [False, True]]


def test_without_an_interval_targets_follow_every_step():
    experience = replay(batch_size=1, gradient_steps=3)
    experience.store(steps(0, 1))
    (sample,) = experience.update_blocks(Clock(num_env_steps=1))
    assert sample.sync.all()


def test_long_phases_come_in_bursts_of_two_lengths():
    experience = replay(batch_size=1, gradient_steps=1300)
    experience.store(steps(0, 1))
    assert [sample.num_gradient_steps for sample in experience.update_blocks(Clock(num_env_steps=1))] == [512, 512, 276]


def test_one_pass_reads_the_whole_pool_in_powers_of_two(caplog):
    experience = replay(batch_size=2, gradient_steps=None, capacity=100)
    experience.store(steps(0, 26))
    samples = list(experience.update_blocks(Clock(num_env_steps=26)))
    assert [sample.num_gradient_steps for sample in samples] == [8, 4, 1]
    assert sorted(np.concatenate([s.reward.ravel() for s in samples]).tolist()) == list(range(26))
    assert caplog.records == []


def test_one_pass_warns_once_when_it_becomes_expensive(caplog):
    experience = replay(batch_size=1, gradient_steps=None, capacity=1000)
    experience.store(steps(0, 300))
    with caplog.at_level(logging.WARNING):
        for phase in range(2):
            experience.store(steps(300 + phase, 1))
            assert sum(s.num_gradient_steps for s in experience.update_blocks(Clock(num_env_steps=300))) == 301 + phase
    assert len(caplog.records) == 1
    assert "num_updates" in caplog.text


def test_priorities_of_a_burst_are_known_to_the_next_one():
    experience = replay(batch_size=64, gradient_steps=64, capacity=64, priority=Priority(alpha=1.0))
    experience.store(steps(0, 64))
    blocks = experience.update_blocks(Clock(num_env_steps=64))
    sample = next(blocks)
    assert sample.num_gradient_steps == 32
    assert len(np.unique(sample.slots)) == 64  # stratified: equal priorities are each drawn once
    experience.feedback(sample, update_with(sample, np.where(sample.reward == 5.0, 1.0, 1e-9)))
    second = next(blocks)
    assert (second.reward == 5.0).mean() > 0.99
    assert next(blocks, None) is None


def test_beta_follows_the_progress_of_training():
    experience = replay(batch_size=2, gradient_steps=1, priority=Priority(beta=0.4))
    experience.store(steps(0, 4))
    next(experience.update_blocks(Clock(num_env_steps=4, progress=0.5)))
    assert experience.buffer.sampler.beta == pytest.approx(0.7)


def test_one_pass_with_priorities_has_as_many_steps():
    experience = replay(batch_size=2, gradient_steps=None, capacity=100, priority=Priority())
    experience.store(steps(0, 27))
    samples = list(experience.update_blocks(Clock(num_env_steps=27)))
    assert [sample.num_gradient_steps for sample in samples] == [8, 4, 1]
    assert all(sample.weights is not None for sample in samples)


def test_an_agent_that_gives_no_priorities_is_refused():
    experience = replay(batch_size=2, gradient_steps=1, priority=Priority())
    experience.store(steps(0, 4))
    (sample,) = experience.update_blocks(Clock(num_env_steps=4))
    with pytest.raises(AgentContractError, match=r"prioritized_replay\.update"):
        experience.feedback(sample, update_with(sample))


def test_without_priorities_feedback_does_nothing():
    experience = replay(batch_size=2, gradient_steps=1)
    experience.store(steps(0, 4))
    (sample,) = experience.update_blocks(Clock(num_env_steps=4))
    experience.feedback(sample, update_with(sample))
    assert pool(experience) == [0, 1, 2, 3]


@pytest.mark.parametrize(
    ("window", "kept"),
    [
        (Window(size=4), 4),
        (Window(size=0.25), 5),
        (Window(size=lambda: 3), 3),
        (Window(size=lambda process: 3 if process is None else 0), 3),
    ],
)
def test_a_window_keeps_the_newest(window, kept):
    experience = replay(capacity=20, batch_size=2, window=window)
    for first in range(0, 18, 6):
        experience.store(steps(first, 6))
        assert pool(experience) == list(range(first + 6 - kept, first + 6))


def test_clearing_drops_the_oldest_at_the_interval_of_its_window():
    experience = replay(capacity=100, batch_size=2, window=Window(clearing_freq=10, clear_size=4))
    lengths = []
    for first in range(0, 36, 6):
        experience.store(steps(first, 6))
        lengths.append(len(experience.buffer))
    # 10 is passed in the second, 20 in the fourth, 30 with the fifth
    assert lengths == [6, 8, 14, 16, 18, 24]
    assert pool(experience) == list(range(12, 36))


def test_at_a_target_update_the_highest_priorities_stay():
    window = Window(on_sync=3)
    settings = {"batch_size": 1, "gradient_steps": 32, "target_update_interval": 32, "capacity": 8}
    experience = replay(priority=Priority(alpha=1.0), window=window, **settings)
    experience.store(steps(0, 8))
    experience.buffer.update_priorities(np.arange(8)[None], np.array([[1.0, 9, 1, 9, 1, 9, 1, 1]]))
    (sample,) = experience.update_blocks(Clock(num_env_steps=8))
    assert sample.sync.any()
    experience.feedback(sample, update_with(sample, np.where(sample.reward % 2 == 1, 9.0, 1.0)))
    assert experience.buffer.num_live == 3
    (sample,) = experience.update_blocks(Clock(num_env_steps=8))
    assert set(sample.reward.ravel().tolist()) <= {1, 3, 5, 7}


def test_at_a_target_update_the_newest_stay_where_there_are_no_priorities():
    experience = replay(batch_size=1, gradient_steps=2, target_update_interval=4, window=Window(on_sync=lambda p: 3))
    experience.store(steps(0, 8))
    for done, left in ((0, 8), (2, 3)):
        (sample,) = experience.update_blocks(Clock(num_env_steps=8, num_gradient_steps=done))
        experience.feedback(sample, update_with(sample))
        assert len(experience.buffer) == left
    assert pool(experience) == [5, 6, 7]


def test_blocks_are_small_enough_for_the_normal_numbers_of_each_sample():
    view = AgentView(normal_nbytes=2**20)  # 64 MiB hold 16 minibatches of 4
    experience = replay(view, batch_size=4, gradient_steps=20)
    experience.store(steps(0, 9))
    found = [block.num_gradient_steps for block in experience.update_blocks(Clock(num_env_steps=9))]
    assert found == [15, 5], "and the two observations of each sample"


def test_the_learned_reward_is_worked_out_when_sampled():
    experts = Demonstrations(np.arange(6.0, dtype=np.float32)[:, None], np.arange(6))
    experience = replay(AgentView(reward=learned), batch_size=5, gradient_steps=3, learned_reward=True, expert=experts)
    experience.store(steps(0, 9))
    (sample,) = experience.update_blocks(Clock(num_env_steps=9))
    number = sample.action
    np.testing.assert_allclose(sample.reward, 111.0 * number + 5.0)
    assert sample.extras["expert_obs"].shape == (3, 5, 1)
    np.testing.assert_array_equal(sample.extras["expert_obs"][..., 0], sample.extras["expert_action"])
    assert max(pool(experience)) == 8.0


def test_n_steps_need_a_gamma():
    with pytest.raises(AgentContractError, match="gamma"):
        replay(AgentView(), num_steps=3)


def test_hindsight_needs_the_reward_of_goals():
    with pytest.raises(AgentContractError, match="reward_done_func"):
        replay(hindsight=Hindsight())


def test_triplets_wait_for_an_episode_that_is_long_enough():
    experience = replay(trajectories=True, batch_size=2, gradient_steps=1)
    experience.store(steps(0, 4, ended=(0, 1, 2, 3)))
    assert list(experience.update_blocks(Clock(num_env_steps=4))) == []
    experience.store(steps(4, 3))
    (sample,) = experience.update_blocks(Clock(num_env_steps=7))
    assert sample.obs.shape == (1, 2, 2, 1)


def goals():
    def reward_done(achieved, desired):
        done = (achieved == desired).all(axis=-1)
        return np.where(done, 0.0, -1.0), done

    return AgentView(
        gamma=lambda: 0.9,
        reward=lambda obs, action, next_obs: obs[:, 0],
        goals=GoalFunctions(reward_done, with_goal=lambda obs, goal: obs + goal[:, :1]),
    )


FAMILY = {
    "uniform": {},
    "prioritized": {"priority": Priority()},
    "three steps": {"num_steps": 3},
    "prioritized three steps": {"num_steps": 3, "priority": Priority()},
    "hindsight": {"hindsight": Hindsight()},
    "prioritized hindsight": {"hindsight": Hindsight(strategy="episode"), "priority": Priority()},
    "triplets": {"trajectories": True},
    "learned reward": {"learned_reward": True},
    "frames": {"frame_stack": 3, "priority": Priority(), "num_steps": 2},
    "window": {"window": Window(clearing_freq=13, clear_size=5, size=40, on_sync=30), "priority": Priority()},
    "one pass": {"gradient_steps": None},
}


@pytest.mark.parametrize("kind", FAMILY)
def test_a_restored_experience_goes_on_bit_for_bit(kind):
    settings = {"capacity": 60, "batch_size": 8, "gradient_steps": 3, **FAMILY[kind]}
    story = random_story(np.random.default_rng(0), 120, 2)

    def train(experience, rng, first, last):
        experience._rng = rng
        seen = []
        for t in range(first, last, 3):
            experience.store(part(story, t, t + 3))
            for sample in experience.update_blocks(Clock(num_env_steps=2 * t, progress=t / 120)):
                seen.append(sample)
                td_error = np.cos(sample.obs.sum(axis=tuple(range(2, sample.obs.ndim))))
                experience.feedback(sample, update_with(sample, td_error))
        return seen

    rng, other_rng = np.random.default_rng(1), np.random.default_rng(2)
    one, other = replay(goals(), **settings), replay(goals(), **settings)
    train(one, rng, 0, 60)
    other.set_state({name: np.array(values) for name, values in one.get_state().items()})
    other_rng.bit_generator.state = rng.bit_generator.state
    for a, b in zip(train(one, rng, 60, 120), train(other, other_rng, 60, 120), strict=True):
        for name in ("obs", "action", "reward", "next_obs", "terminated", "discount", "weights", "slots", "sync"):
            np.testing.assert_array_equal(getattr(a, name), getattr(b, name))
