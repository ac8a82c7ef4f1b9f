"""When a step is traced anew, and when no longer: counts of changes, blocks and phases."""

import keras
import pytest

from note_rl.agents.keras import SAC
from note_rl.policy import GreedyQPolicy
from note_rl.training.callbacks import LambdaCallback
from tests.note_rl.agents import continuous
from tests.note_rl.learners.keras.moved_agents import Agent
from tests.note_rl.samples import sample

pytestmark = pytest.mark.usefixtures("said_anew")


def test_a_number_that_changes_all_the_time_is_followed_to_the_end(caplog, monkeypatch):
    monkeypatch.setattr("note_rl.learners.keras.update._MOST_RECOMPILED", 2)
    agent = Agent(lambda agent, r: agent.scale)
    agent.learner.prepare(keras.optimizers.SGD(1.0), None, (), False)
    for k in range(6):
        agent.scale = float(k)
        agent.learner.update(sample(1, 4), {})
    assert float(agent.w[0]) == sum(range(6))
    assert "Agent reads scale, which keeps changing: its gradient steps are taken untraced from now on" in caplog.text
    assert agent.learner.num_traces == 3
    agent.learner.prepare(None, None, (), False)  # another call of train() tries anew
    agent.learner.update(sample(1, 4), {})
    assert agent.learner.num_traces == 4


def test_changes_that_come_seldom_are_traced_anew(monkeypatch):
    monkeypatch.setattr("note_rl.learners.keras.update._BLOCKS_PER_COMPILED", 2)
    monkeypatch.setattr("note_rl.learners.keras.update._MOST_RECOMPILED", 1)
    agent = Agent(lambda agent, r: agent.scale)
    agent.learner.prepare(keras.optimizers.SGD(1.0), None, (), False)
    for k in range(8):
        agent.scale = float(k // 2)
        agent.learner.update(sample(1, 4), {})
    assert float(agent.w[0]) == 2 * sum(range(4))
    assert agent.learner.num_traces == 4


def test_critics_whose_number_is_a_setting_are_traced_once():
    agent = SAC(env=continuous.Target, hidden_size=(4,), num_critics=3, num_target_critics=2)
    learner = continuous.ready(agent, [keras.optimizers.SGD(0.1) for _ in agent.param])
    for seed in range(3):
        learner.update(continuous.sample(agent, seed=seed), {})
    assert learner.num_traces == 1
    assert not learner._update.compilation.untraced


def test_the_agent_s_own_counts_are_those_of_each_block():
    """Blocks of one step each, as num_updates=1 has them: w = 0 + 1 + ... + (n - 1)."""
    agent = Agent(lambda agent, r: float(agent.num_gradient_steps))
    agent.set(policy=GreedyQPolicy(), pool_size=50, batch=4, train_freq=1, num_updates=1, learning_starts=6, seed=1)
    agent.train(optimizer=keras.optimizers.SGD(1.0), total_steps=20, p=0, jit_compile=False)
    assert agent.num_gradient_steps > 8
    assert float(agent.w[0]) == sum(range(agent.num_gradient_steps))


def test_a_callback_that_changes_a_layer_between_phases_is_followed():
    agent = Agent(lambda agent, r: agent.held["space"].n)
    agent.set(policy=GreedyQPolicy(), pool_size=50, batch=4, train_freq=2, num_updates=1, learning_starts=4, seed=1)

    def change(phase, logs):
        agent.held["space"].n = phase // 4

    hooks = LambdaCallback(on_phase_end=change)
    agent.train(optimizer=keras.optimizers.SGD(1.0), total_steps=24, p=0, jit_compile=False, callbacks=hooks)
    steps = agent.num_gradient_steps
    assert float(agent.w[0]) == sum(phase // 4 for phase in range(13 - steps - 1, 12))
