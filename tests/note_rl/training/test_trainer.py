"""Whole training runs, over both frameworks."""

import logging
from dataclasses import replace
from functools import partial

import numpy as np
import pytest

from note_rl.collect.evaluation import random_policy_returns
from note_rl.errors import CheckpointError, DivergedError, EnvironmentMismatchError, SettingsError
from note_rl.policy import EpsGreedyQPolicy, SoftmaxPolicy
from note_rl.seeding import seed_everything
from note_rl.settings import RolloutSettings, Settings
from note_rl.settings.schedules import Linear
from note_rl.training.callbacks import LambdaCallback
from tests.note_rl.frameworks import frameworks
from tests.note_rl.small_environments import Corridor, Counting
from tests.note_rl.training.short_runs import dqn, quietly

pytestmark = pytest.mark.parametrize("framework", frameworks())


def ppo(framework, env="CartPole-v1", seed=3, **settings):
    seed_everything(seed)
    agent = framework.agents.PPO(hidden_size=(16,), env=env)
    experience = RolloutSettings(num_steps=16, batch_size=16, num_epochs=2)
    agent.settings = Settings(experience=experience, policy=SoftmaxPolicy(), num_envs=4, seed=seed, **settings)
    return agent, framework.optimizers.adam(agent.param, 1e-2)


MAKERS = pytest.mark.parametrize("make", [dqn, ppo])


@pytest.mark.traced
@pytest.mark.slow_in_keras  # PPO learns in agents/shared/test_choices.py
@MAKERS
def test_the_corridor_is_learned(framework, make):
    agent, optimizer = make(framework, Corridor)
    agent.train(optimizer=optimizer, total_steps=1500, p=0)
    assert random_policy_returns(Corridor, 50, seed=0).mean() < 0.6
    assert agent.evaluate(5).returns.tolist() == [1.0] * 5
    assert agent.evaluate(5).lengths.tolist() == [3] * 5


@pytest.mark.slow_in_keras
@pytest.mark.parametrize("make", [pytest.param(dqn, marks=pytest.mark.xla), ppo])
def test_stopping_saving_and_going_on_elsewhere_changes_nothing(framework, make, tmp_path):
    schedules = {"learning_rate": Linear(1e-2, 1e-3)}
    whole, optimizer = make(framework, schedules=schedules)
    straight = whole.train(optimizer=optimizer, total_steps=1024, p=0)

    first, optimizer = make(framework, schedules=schedules)
    stop = LambdaCallback(
        on_phase_end=lambda phase, logs: setattr(first, "stop_training", logs["num_env_steps"] >= 512)
    )
    half = first.train(optimizer=optimizer, total_steps=1024, callbacks=[stop], p=0)
    assert half.num_env_steps == 512
    assert half.stop_reason == "stop_training"
    first.save(tmp_path / "half")

    second, optimizer = make(framework, seed=99, schedules=schedules)  # other weights and seed until it is restored
    second.restore(tmp_path / "half")
    assert second.num_env_steps == 512
    rest = second.train(optimizer=optimizer, total_steps=1024, p=0)
    assert half.returns + rest.returns == straight.returns
    np.testing.assert_array_equal(np.array(half.losses + rest.losses), np.array(straight.losses))
    for mine, theirs in zip(framework.parameters(second), framework.parameters(whole), strict=True):
        np.testing.assert_array_equal(mine, theirs)
    assert rest.num_gradient_steps == straight.num_gradient_steps

    other, optimizer = make(framework, seed=4, schedules=schedules)
    some = 32 if make is dqn else 128  # episodes have ended by then; of DQN no gradient step is taken before
    others = other.train(optimizer=optimizer, total_steps=some, **quietly(framework)).returns
    assert others != half.returns[: len(others)]


@pytest.mark.traced
@pytest.mark.slow_in_keras  # learners/test_base.py prepares a learner again
@MAKERS
def test_training_on_in_the_same_process_is_the_same_as_in_one_call(framework, make):
    whole, optimizer = make(framework)
    straight = whole.train(optimizer=optimizer, total_steps=256, **quietly(framework))
    parts, optimizer = make(framework)
    first = parts.train(optimizer=optimizer, total_steps=128, **quietly(framework))
    second = parts.train(total_steps=256, **quietly(framework))
    assert first.returns + second.returns == straight.returns
    np.testing.assert_array_equal(framework.parameters(parts)[0], framework.parameters(whole)[0])


@pytest.mark.slow_in_keras
def test_counts(framework):
    agent, optimizer = dqn(framework, lambda: Counting(5))
    result = agent.train(optimizer=optimizer, total_steps=100, **quietly(framework))
    assert result.num_env_steps == 100
    assert result.returns == [15.0] * 20  # 1+2+3+4+5
    assert result.lengths == [5] * 20
    assert result.episode_steps == [5 * n for n in range(1, 21)], "their own ends"
    # phases end at 8, 16, ..., 96, 100; those from 32 on train 4 steps each
    assert result.num_gradient_steps == 4 * 10
    assert result.stop_reason == "total_steps"
    assert agent.num_gradient_steps == 40


@pytest.mark.slow_in_keras
def test_episodes_as_the_measure(framework):
    agent, optimizer = dqn(framework, lambda: Counting(5), replay={"train_freq": None})
    result = agent.train(optimizer=optimizer, episodes=7, **quietly(framework))
    assert (len(result.returns), result.num_env_steps, result.stop_reason) == (7, 35, "episodes")


@pytest.mark.slow_in_keras
def test_criterion_stops(framework):
    agent, optimizer = dqn(framework, lambda: Counting(5), trial_count=3, criterion=15.0)
    result = agent.train(optimizer=optimizer, total_steps=1000, **quietly(framework))
    assert result.stop_reason == "criterion"
    assert len(result.returns) == 3


@pytest.mark.slow_in_keras
def test_schedules_move_the_policy_and_the_agent(framework):
    agent, optimizer = dqn(framework, lambda: Counting(5), schedules={"eps": Linear(1.0, 0.0), "tau": Linear(0.0, 1.0)})
    seen = []
    watch = LambdaCallback(on_phase_end=lambda phase, logs: seen.append((logs["eps"], agent.tau)))
    agent.train(optimizer=optimizer, total_steps=80, callbacks=[watch], **quietly(framework))
    np.testing.assert_allclose(seen, [(1 - n / 10, n / 10) for n in range(10)], atol=1e-6)


def test_a_schedule_for_nothing_is_refused(framework):
    agent, optimizer = dqn(framework, schedules={"learning_rte": Linear(1.0, 0.0)})
    with pytest.raises(SettingsError, match="learning_rte"):
        agent.train(optimizer=optimizer, total_steps=8, **quietly(framework))


def test_divergence_is_an_error_that_says_what_to_do(framework):
    class Huge(Counting):
        def step(self, action):
            obs, _, *rest = super().step(action)
            return obs * np.float32(1e30), 1e38, *rest

    agent, optimizer = dqn(framework, Huge)
    with pytest.raises(DivergedError, match="lower learning rate"):
        agent.train(optimizer=optimizer, total_steps=200, **quietly(framework))


def test_a_continuous_environment_is_refused(framework):
    with pytest.raises(EnvironmentMismatchError, match="DQN chooses one of several actions"):
        framework.agents.DQN(env="Pendulum-v1")
    agent, optimizer = ppo(framework, env="Pendulum-v1")
    with pytest.raises(EnvironmentMismatchError, match="SoftmaxPolicy chooses one of several actions"):
        agent.train(optimizer=optimizer, total_steps=64, **quietly(framework))


@pytest.mark.slow_in_keras
def test_evaluation_is_deterministic_and_leaves_training_alone(framework):
    agent, optimizer = dqn(framework)
    other, other_optimizer = dqn(framework)
    agent.train(optimizer=optimizer, total_steps=128, **quietly(framework))
    other.train(optimizer=other_optimizer, total_steps=128, **quietly(framework))
    first, second = agent.evaluate(13, seed=5), agent.evaluate(13, seed=5)
    assert first.returns.tolist() == second.returns.tolist()
    assert len(first.returns) == 13
    assert agent.evaluate(13, seed=6).returns.tolist() != first.returns.tolist()
    agent.train(total_steps=256, **quietly(framework))
    other.train(total_steps=256, **quietly(framework))
    np.testing.assert_array_equal(framework.parameters(agent)[0], framework.parameters(other)[0])


@pytest.mark.slow_in_keras  # files are read before any framework
def test_a_damaged_file_leaves_the_agent_as_it_was(framework, tmp_path):
    agent, optimizer = dqn(framework)
    agent.train(optimizer=optimizer, total_steps=64, **quietly(framework))
    before = framework.parameters(agent)
    (tmp_path / "broken").write_bytes(b"no checkpoint")
    with pytest.raises(CheckpointError):
        agent.restore(tmp_path / "broken")
    assert agent.num_env_steps == 64
    for mine, theirs in zip(framework.parameters(agent), before, strict=True):
        np.testing.assert_array_equal(mine, theirs)


def test_the_door_of_the_manuals(framework, caplog):
    agent = framework.agents.DQN(state_dim=2, hidden_size=8, action_dim=2, env=lambda: Counting(4))
    agent.set(policy=EpsGreedyQPolicy(eps=0.01), pool_size=50, batch=4, update_steps=10)
    agent.set(trial_count=2, criterion=10.0)  # a later call adds to the first
    with caplog.at_level(logging.INFO, logger="note_rl"):
        result = agent.train(optimizer=framework.optimizers.adam(agent.param), episodes=20, pool_network=False)
    assert result.stop_reason == "criterion"  # every episode returns 1+2+3+4
    assert len(result.returns) == 2
    with pytest.raises(SettingsError, match="no argument 'batches'"):
        agent.set(batches=3)


@pytest.mark.slow_in_keras
def test_progress_lines(framework, caplog):
    agent, optimizer = dqn(framework, lambda: Counting(5))
    with caplog.at_level(logging.INFO, logger="note_rl"):
        agent.train(optimizer=optimizer, total_steps=80, **{**quietly(framework), "p": 4})
    assert len(caplog.records) == 4
    assert "mean return     15.0" in caplog.text


def test_training_without_set_is_refused(framework):
    agent = framework.agents.DQN(env=Counting)
    with pytest.raises(SettingsError, match=r"call DQN\.set"):
        agent.train(total_steps=1)


def samples_of(agent):
    """A list to which all that the agent learns from is added."""
    seen = []
    update = agent.learner.update
    agent.learner.update = lambda sample, told: (seen.append(sample), update(sample, told))[1]
    return seen


def distances(samples):
    """Steps of `Counting` from observations to next observations."""
    return {float(step) for one in samples for step in (one.next_obs - one.obs)[..., 0].ravel()}


class Failing(Counting):
    """Fails once, when it has taken its 60th step."""

    num_steps = 0

    def step(self, action):
        self.num_steps += 1
        answer = super().step(action)
        if self.num_steps == 60:
            raise OSError("the sensor is off")
        return answer


@pytest.mark.slow_in_keras  # nothing of it is a framework's
@pytest.mark.parametrize("n", [1, 3])
@pytest.mark.parametrize("then", ["train", "set", "save"])
@pytest.mark.parametrize("error", [ValueError, KeyboardInterrupt, OSError])
def test_what_an_exception_cuts_off_leaves_no_gap_in_the_pool(framework, error, then, n, tmp_path):
    """Out of a callback, or of one of two environments: training goes on afterwards, also with other settings."""

    def made(env):
        replay = {"learning_starts": 1, "train_freq": 16, "num_steps": n}
        return dqn(framework, env=env, replay=replay, num_envs=None if isinstance(env, list) else 2)

    agent, optimizer = made([Failing(11), Counting(11)] if error is OSError else partial(Counting, 11))

    def fail(*_):
        if error is not OSError and len(agent.reward_list) == 4:
            raise error

    options = {"callbacks": [LambdaCallback(on_episode_end=fail)], **quietly(framework)}
    with pytest.raises(error):
        agent.train(optimizer=optimizer, total_steps=160, **options)
    optimizer = None
    if then == "set":
        agent.settings = replace(agent.settings, max_grad_norm=1e9)
    if then == "save":
        agent.save(tmp_path / "file")
        agent, optimizer = made([Counting(11), Counting(11)] if error is OSError else partial(Counting, 11))
        agent.restore(tmp_path / "file")
    seen = samples_of(agent)
    agent.train(optimizer=optimizer, total_steps=320, **quietly(framework))
    assert distances(seen) == set(range(1, n + 1))
    if error is not OSError and n == 1 and then != "save":
        assert len(agent._trainer.experience.buffer) == min(300, agent.num_env_steps)


@pytest.mark.slow_in_keras
@pytest.mark.parametrize("n", [1, 3])
def test_a_file_of_a_callback_within_a_round_leaves_no_gap(framework, n, tmp_path):
    """The steps of that round are not in it; what is restored does not join those before to those behind it."""

    def made():
        replay = {"learning_starts": 1, "train_freq": 16, "num_steps": n}
        return dqn(framework, env=partial(Counting, 11), replay=replay)

    agent, optimizer = made()
    saved = []

    def save(*_):
        if len(agent.reward_list) == 4:
            saved.append(agent.num_env_steps)
            agent.save(tmp_path / "best")

    callbacks = [LambdaCallback(on_episode_end=save)]
    agent.train(optimizer=optimizer, total_steps=160, callbacks=callbacks, **quietly(framework))
    other, optimizer = made()
    other.restore(tmp_path / "best")
    assert other.num_env_steps == saved[0]
    seen = samples_of(other)
    other.train(optimizer=optimizer, total_steps=240, **quietly(framework))
    assert distances(seen) == set(range(1, n + 1))


@pytest.mark.slow_in_keras
def test_returns_of_another_environment_decide_nothing(framework):
    agent, optimizer = dqn(framework, env=partial(Counting, 11), trial_count=2, criterion=30.0)
    assert agent.train(optimizer=optimizer, total_steps=400, **quietly(framework)).stop_reason == "criterion"
    agent.env = partial(Counting, 3)  # whose episodes return 6
    result = agent.train(total_steps=480, **quietly(framework))
    assert (result.stop_reason, result.num_env_steps) == ("total_steps", 480)


def test_what_action_writes_into_its_observations_stays_there(framework):
    """`s /= 255` and its like, in PyTorch: in Keras, tensors cannot be written to."""

    class Scaling(framework.agents.DQN):
        def action(self, s):
            s *= 100.0
            return super().action(s)

    seed_everything(0)
    agent = Scaling(hidden_size=(4,), env=partial(Counting, 5))
    agent.set(policy=EpsGreedyQPolicy(0.5), pool_size=100, batch=8, train_freq=8, seed=1)
    optimizer = framework.optimizers.adam(agent.param, 1e-3)
    shown = np.ones((2, 2), np.float32)
    agent.predict(shown)
    np.testing.assert_array_equal(shown, 1.0)
    seen = samples_of(agent)
    agent.train(optimizer=optimizer, total_steps=64, **quietly(framework))
    assert max(sample.obs[..., 0].max() for sample in seen) == 4.0
