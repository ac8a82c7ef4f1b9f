import logging

import pytest
from gymnasium.vector import SyncVectorEnv

from note_rl.collect.collection_size import StepCosts, WorkerLimits, best_num_envs, best_num_processes
from note_rl.errors import SettingsError
from note_rl.policy import EpsGreedyQPolicy
from tests.note_rl.small_environments import Counting


@pytest.mark.parametrize(
    ("costs", "number"),
    [
        # lowest 10 us; 100/E must come down to 1 us: at 64 it is 1.56, at 128 0.78
        (StepCosts(9e-6, 100e-6, 1e-6), 128),
        # lowest 10 us; 30/E: at 16 it is 1.9, at 32 0.94
        (StepCosts(8e-6, 30e-6, 2e-6), 32),
        # 5 ms a step: 100 us more are 2 %
        (StepCosts(5e-3, 100e-6, 1e-6), 1),
        # 0.6 ms of a step of 5 ms are 12 %, 0.3 ms 6 %
        (StepCosts(5e-3, 600e-6, 0.0), 2),
    ],
)
def test_number_of_environments_by_hand(costs, number):
    assert best_num_envs(costs, most=1024) == number
    assert costs.at(4) == pytest.approx(costs.step_s + costs.row_s + costs.call_s / 4)


def test_number_of_environments_within_bounds():
    fast, slow = StepCosts(9e-6, 100e-6, 1e-6), StepCosts(5e-3, 0.0, 0.0)
    assert [best_num_envs(fast, most=most) for most in (1, 3, 4, 100)] == [1, 2, 4, 64]
    assert [best_num_envs(slow, fewest=fewest) for fewest in (0, 1, 2, 5)] == [1, 1, 2, 8]


@pytest.mark.parametrize(
    ("changes", "expected"),
    [
        ({}, (8, "cores")),
        ({"memory_mb": 1500.0}, (7, "memory")),  # (1500 - 100) / 200
        ({"num_experiences": 3_999}, (3, "experiences per process")),
        ({"phase_s": 0.0056}, (5, "environments that step too fast to share")),  # 1 ms each
        ({"memory_mb": 50.0}, (1, "memory")),
    ],
)
def test_number_of_processes_by_hand(changes, expected):
    limits = {"cores": 8, "memory_mb": 4000.0, "pool_mb": 100.0, "worker_mb": 200.0, "num_experiences": 100_000}
    assert best_num_processes(WorkerLimits(**{**limits, "min_per_process": 1_000, **changes})) == expected


class Clock:
    """Looking at it takes 20 us; a step of `Slow` takes 2 ms."""

    now = 0.0

    def perf_counter(self):
        self.now += 20e-6
        return self.now


class Slow(Counting):
    def __init__(self, clock):
        super().__init__()
        self.clock = clock

    def step(self, action):
        self.clock.now += 2e-3
        return super().step(action)


@pytest.fixture
def clock(monkeypatch):
    made = Clock()
    monkeypatch.setattr("note_rl.collect.collection_size.time", made)
    return made


@pytest.fixture
def dqn():
    from note_rl.agents.pytorch import DQN

    def make(env, **arguments):
        agent = DQN(env=env)
        agent.set(policy=EpsGreedyQPolicy(0.1), pool_size=1_000, batch=8, train_freq=64, num_updates=1, **arguments)
        return agent

    return make


def train(agent, total_steps=128):
    import torch

    agent.train(optimizer=torch.optim.SGD(agent.param, 1e-3), total_steps=total_steps, p=0)
    return agent._trainer.collector.num_envs


def test_a_slow_environment_needs_no_other_beside_it(dqn, clock, caplog):
    with caplog.at_level(logging.INFO, logger="note_rl.collect.collection_size"):
        agent = dqn(lambda: Slow(clock), num_envs="auto", seed=0)
        assert train(agent, 64) == 1
        train(agent, 80)  # measured once
    (record,) = [one for one in caplog.records if one.name == "note_rl.collect.collection_size"]
    assert record.getMessage().startswith("num_envs=1: an environment steps in 2021.2 us, a policy call takes 20.0 us")


def test_what_was_measured_is_what_is_trained_with_and_what_a_file_holds_stays(dqn, monkeypatch, tmp_path):
    costs = [StepCosts(9e-6, 15e-6, 1e-6)]  # 15/E below 1: 16
    monkeypatch.setattr("note_rl.collect.collection_size.measured_costs", lambda agent: costs[0])
    agent = dqn(Counting, num_envs="auto", seed=0)
    assert train(agent) == 16
    assert agent.num_env_steps == 128
    agent.save(tmp_path / "agent")
    costs[0] = StepCosts(9e-6, 150e-6, 1e-6)
    other = dqn(Counting, num_envs="auto", seed=0)
    other.restore(tmp_path / "agent")
    assert train(other, 256) == 16
    assert train(dqn(Counting, num_envs="auto", seed=0)) == 64  # no more than train_freq
    assert train(dqn([Counting(), Counting()], num_envs="auto", seed=0)) == 2
    assert train(dqn(SyncVectorEnv([Counting] * 3), num_envs="auto", seed=0), 192) == 3


def test_a_minibatch_fits_into_the_rollout(dqn, monkeypatch):
    from note_rl.collect.collection_size import chosen_num_envs
    from note_rl.settings import RolloutSettings

    monkeypatch.setattr("note_rl.collect.collection_size.measured_costs", lambda agent: StepCosts(1.0, 0.0, 0.0))
    assert chosen_num_envs(None, RolloutSettings(num_steps=32, batch_size=100)) == 4


def test_recommended_processes(dqn, clock, monkeypatch, caplog):
    monkeypatch.setattr(
        "note_rl.collect.collection_size.os.sched_getaffinity", lambda pid: set(range(6)), raising=False
    )
    agent = dqn(lambda: Slow(clock))
    # 1,000 experiences are 12 times the 80 that a process needs, 64 steps of 2 ms enough for 129
    assert agent.get_optimal_processes(10**6) == 6
    assert agent.get_optimal_processes(10**6, min_exp_per_proc=300) == 3
    with caplog.at_level(logging.INFO, logger="note_rl.collect.collection_size"):
        assert agent.get_optimal_processes(1.0) == 1
    (record,) = caplog.records
    assert "processes=1, limited by memory: 6 cores" in record.getMessage()
    assert dqn(Counting).get_optimal_processes(10**6) == 1  # 64 steps of 20 us are 1.28 ms


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ((0.0,), "memory_mb"),
        (("4GB",), "memory_mb must be a finite number"),
        ((100.0, 1.5), "safety_factor"),
        ((100.0, 0.5, 0), "min_exp_per_proc"),
    ],
)
def test_shares_out_of_range_are_refused(dqn, arguments, message):
    with pytest.raises(SettingsError, match=message):
        dqn(Counting()).get_optimal_processes(*arguments)


def test_other_words_are_refused(dqn):
    with pytest.raises(SettingsError, match="'auto', got 'many'"):
        dqn(Counting(), num_envs="many")
