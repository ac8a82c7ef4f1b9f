"""Environments in worker processes: the same as in this one, and nothing is left behind."""

import enum
from dataclasses import replace

import numpy as np
import pytest

from note_rl.collect.collector import Collector
from note_rl.collect.step_join import columns_of
from note_rl.environments import VectorEnvironment
from note_rl.errors import CheckpointError, WorkerError
from note_rl.policy import NoisyPolicy
from note_rl.policy.noise import GaussianWhiteNoiseProcess
from note_rl.seeding import generator
from note_rl.settings import WorkerSettings
from note_rl.settings.schedules import Linear
from tests.note_rl.collect.counting import Watched, running_pool
from tests.note_rl.collect.workers.pool_agents import AHEAD, TURNS, agent, workers_left


def actions(made):
    """Actions of each phase: [T, E] of updates that the agent had seen."""
    return [sample.action[0].reshape(-1) for sample in made.learner.seen]


@pytest.mark.parametrize(("start_method", "mirrored"), [("forkserver", True), ("spawn", False)])
def test_workers_collect_what_collectors_over_the_same_environments_would(start_method, mirrored):
    workers = WorkerSettings(processes=2, overlapping=False, start_method=start_method)
    made = agent(workers, mirrored=mirrored, num_envs=5)
    policy = NoisyPolicy(GaussianWhiteNoiseProcess(sigma=0.5))
    with running_pool(made, policy) as (pool, act):
        found = [pool.collect(act, 12) for _ in range(3)]
    assert workers_left() == []
    for number, places in enumerate([[0, 1, 2], [3, 4]]):
        policy = NoisyPolicy(GaussianWhiteNoiseProcess(sigma=0.5))
        envs = VectorEnvironment([Watched() for _ in places], 5, places)
        here = Collector(envs, policy, generator(5, "exploration", number))
        for steps, episodes in found:
            expected, expected_episodes = here.collect(act, 12)
            for name, values in columns_of(expected).items():
                np.testing.assert_array_equal(columns_of(steps)[name][:, places], values, name)
            own = [(one.return_, one.length) for one in episodes if one.env_index in places]
            assert own == [(one.return_, one.length) for one in expected_episodes]
    for steps, episodes in found:
        assert [one.env_index for one in episodes] == np.nonzero(steps.ended)[1].tolist()


def test_in_turn_every_phase_is_collected_with_the_newest_parameters():
    made = agent(TURNS, rollout=3)
    made.train(total_steps=5 * 3 * 4)
    assert [set(phase) for phase in actions(made)] == [{0.0}, {1.0}, {2.0}, {3.0}, {4.0}]


def test_overlapping_phases_are_collected_with_parameters_one_phase_old():
    made = agent(AHEAD, rollout=3)
    made.train(total_steps=5 * 3 * 4)
    assert [set(phase) for phase in actions(made)] == [{0.0}, {0.0}, {1.0}, {2.0}, {3.0}]


def everything_seen(made):
    return [np.concatenate([s.obs[0].ravel(), s.action[0].ravel()]).tolist() for s in made.learner.seen]


@pytest.mark.parametrize(
    ("workers", "rollout"),
    [
        pytest.param(TURNS, 6, marks=pytest.mark.slow),  # of workers that do not run ahead there is less to keep
        (AHEAD, 6),
        (replace(AHEAD, random_places=True), None),
    ],
)
def test_a_run_in_two_parts_is_the_run_in_one_also_when_it_was_saved_between(workers, rollout, tmp_path):
    def fresh():
        noise = NoisyPolicy(GaussianWhiteNoiseProcess(sigma=0.5, sigma_min=0.1, n_steps_annealing=300))
        return agent(workers, rollout=rollout, policy=noise)

    first, restored, whole = fresh(), fresh(), fresh()
    phases_before = len(first.train(total_steps=4 * 24).losses)
    first.save(tmp_path / "agent.dat")
    first.train(total_steps=8 * 24)
    restored.restore(tmp_path / "agent.dat")
    restored.train(total_steps=8 * 24)
    whole.train(total_steps=8 * 24)
    assert everything_seen(first) == everything_seen(whole)
    assert everything_seen(restored) == everything_seen(whole)[phases_before:]


def test_a_phase_without_length_ends_when_an_episode_has_ended():
    made = agent(TURNS)
    result = made.train(episodes=9)
    assert len(result.returns) >= 9
    assert all(3 <= length <= 8 for length in result.lengths)


def test_schedules_and_counts_of_steps_reach_the_policies_of_workers():
    noise = NoisyPolicy(GaussianWhiteNoiseProcess(sigma=4.0, sigma_min=0.0, n_steps_annealing=80))
    made = agent(TURNS, rollout=10, policy=noise)
    made.train(total_steps=160)
    noise_of_phases = [np.abs(phase - number).max() for number, phase in enumerate(actions(made))]
    assert noise_of_phases[0] > 1.0  # 40 steps of four environments each: it is gone after two phases
    assert noise_of_phases[2:] == [0.0, 0.0]
    made = agent(
        TURNS, rollout=10, policy=NoisyPolicy(GaussianWhiteNoiseProcess()), schedules={"sigma": Linear(8.0, 0.0)}
    )
    made.train(total_steps=400)
    spreads = [np.std(phase) for phase in actions(made)]
    assert spreads[0] > 4.0
    assert spreads[-1] < 2.0  # a tenth of 8, instead of 1


Kind = enum.IntEnum("Kind", "A B", module="__main__")


def test_attributes_of_an_agent_that_is_made_again_are_those_of_now():
    made = agent(TURNS, mirrored=False, num_envs=2)
    made.kind = Kind.A  # a number, but of a class that workers do not have
    with running_pool(made, NoisyPolicy()) as (pool, act):
        made.offset = np.float32(3.0)
        first, _ = pool.collect(act, 2)
        made.offset = -1.0
        second, _ = pool.collect(act, 2)
    assert (first.action == 3.0).all()
    assert (second.action == -1.0).all()


@pytest.mark.parametrize("per_environment", [False, True])
def test_what_anneals_goes_on_where_it_was_with_other_workers(per_environment):
    def policy():
        return NoisyPolicy(GaussianWhiteNoiseProcess(sigma=1.0, sigma_min=0.0, n_steps_annealing=200))

    given = [policy() for _ in range(4)] if per_environment else policy()
    made = agent(TURNS, rollout=10, policy=given)
    made.train(total_steps=1000)
    made.settings = replace(made.settings, workers=WorkerSettings(processes=4, overlapping=False))
    made.train(total_steps=1040)
    former, last = made.learner.seen[0], made.learner.seen[-1]
    assert np.std(former.action) > 0.3
    assert np.unique(last.action).size == 1  # the number of updates, without noise


def test_whether_workers_run_ahead_changes_nothing_about_their_episodes():
    made = agent(TURNS, rollout=3)
    made.train(total_steps=24)
    running = made._trainer.collector
    made.settings = replace(made.settings, workers=AHEAD)
    made.train(total_steps=48)
    assert made._trainer.collector is running
    assert [phase.tolist() for phase in actions(made)] == [[0] * 12, [1] * 12, [2] * 12, [2] * 12]


def test_the_traceback_of_a_worker_is_reported():
    made = agent(AHEAD, env=lambda: Watched(fails_at=2.0), rollout=3)
    with pytest.raises(WorkerError, match=r"ZeroDivisionError: the bridge has collapsed\n(.|\n)*counting.py.*in step"):
        made.train(total_steps=1000)
    assert workers_left() == []


def test_nothing_is_left_when_the_agent_fails_and_training_can_go_on():
    whole = agent(AHEAD, rollout=3)
    whole.train(total_steps=72)
    made = agent(AHEAD, rollout=3)
    made.fails_at = 2.0
    with pytest.raises(ArithmeticError, match="stopped here"):
        made.train(total_steps=72)
    assert workers_left() == []
    made.fails_at = None
    made.train(total_steps=72)
    assert everything_seen(made) == everything_seen(whole)


def test_every_worker_has_an_environment_or_it_is_said(caplog):
    made = agent(TURNS, rollout=3, num_envs=1)
    made.train(total_steps=6)
    assert "processes=2, but num_envs=1: every worker process needs an environment" in caplog.text
    measured = agent(TURNS, rollout=3, num_envs=1)
    measured.settings = replace(measured.settings, num_envs="auto")
    measured._measured = (measured.env, 1)
    measured.train(total_steps=12)
    assert measured._trainer.collector.num_envs == TURNS.processes


def test_a_checkpoint_of_other_workers_is_refused(tmp_path):
    made = agent(TURNS, rollout=3)
    made.train(total_steps=12)
    made.save(tmp_path / "agent.dat")
    for workers, described in (
        (None, "2 worker processes"),
        (WorkerSettings(processes=4), "4 environments in 4 worker"),
    ):
        other = agent(workers, rollout=3)
        other.restore(tmp_path / "agent.dat")
        with pytest.raises(CheckpointError, match=described):
            other.train(total_steps=24)
    here = agent(None, rollout=3)
    here.train(total_steps=12)
    here.save(tmp_path / "agent.dat")
    other = agent(TURNS, rollout=3)
    other.restore(tmp_path / "agent.dat")
    with pytest.raises(CheckpointError, match="stepped in the training process, this run has 4 environments in 2"):
        other.train(total_steps=24)
