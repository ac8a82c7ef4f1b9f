"""Images, whole numbers and stacks of frames as observations, in both frameworks."""

from dataclasses import replace
from functools import partial

import gymnasium
import numpy as np
import pytest
from gymnasium import spaces

from note_rl import errors
from note_rl.errors import EnvironmentMismatchError, SettingsError
from note_rl.policy import EpsGreedyQPolicy, NoisyPolicy, SoftmaxPolicy
from note_rl.seeding import seed_everything
from note_rl.settings import ReplaySettings, RolloutSettings, Settings
from note_rl.settings.demonstrations import Demonstrations
from tests.note_rl.frameworks import frameworks

pytestmark = pytest.mark.parametrize("framework", frameworks())


class Picture(gymnasium.Env):
    """A bright square is on the left or on the right; pointing to it is worth 1. With `delay`, only a frame ago."""

    def __init__(self, continuous=False, delay=False, channels=()):
        self.observation_space = spaces.Box(0, 255, (36, 36, *channels), np.uint8)
        self.action_space = spaces.Box(-1, 1, (1,)) if continuous else spaces.Discrete(2)
        self.continuous, self.delay = continuous, delay

    def reset(self, *, seed=None, options=None):
        super().reset(seed=seed)
        self.side = int(self.np_random.integers(2))
        self.steps = 0
        return self._picture(True), {}

    def step(self, action):
        self.steps += 1
        pointed = float(action[0] > 0) if self.continuous else action
        reward = float(pointed == self.side) if self.steps == 2 or not self.delay else 0.0
        return self._picture(not self.delay), reward, self.steps == 2, False, {}

    def _picture(self, shown):
        picture = np.zeros(self.observation_space.shape, np.uint8)
        if shown:
            picture[:, 18 * self.side : 18 * self.side + 18] = 255
        return picture


class Shown(gymnasium.Env):
    """Is only looked at."""

    action_space = spaces.Discrete(2)

    def __init__(self, space):
        self.observation_space = space


def network(framework, name="CNN", **options):
    import importlib

    made = getattr(importlib.import_module(f"note_rl.agents.{framework.package}.networks"), name)
    return lambda shape, outputs: made(shape, outputs, **options)


def test_bytes_are_seen_as_0_to_1(framework):
    seed_everything(0)
    env = lambda: Picture(channels=(3,))  # noqa: E731
    agent = framework.agents.DQN(env=env, network=network(framework, hidden_sizes=(8,)))
    picture = np.random.default_rng(0).integers(0, 256, (2, 36, 36, 3)).astype(np.uint8)
    scores = agent.learner.act(picture)
    assert scores.shape == (2, 2)
    np.testing.assert_allclose(agent.learner.act((picture / 255).astype(np.float32)), scores, rtol=1e-3, atol=1e-5)
    flat = framework.agents.DQN(env=env, hidden_size=(4,))
    np.testing.assert_allclose(
        flat.learner._framework_act(picture), flat.learner._framework_act(picture.astype(np.float32) / 255), rtol=1e-3
    )


def test_whole_numbers_stay_what_they_are(framework):
    class Number(gymnasium.Env):
        observation_space = spaces.Box(0, 9, (2,), np.int64)
        action_space = spaces.Discrete(2)

    agent = framework.agents.DQN(env=Number, hidden_size=(4,))
    numbers = np.array([[3, 9]], np.int64)
    np.testing.assert_allclose(agent.learner.act(numbers), agent.learner.act(numbers.astype(np.float32)), rtol=1e-5)


def test_pictures_that_are_too_small_are_refused(framework):
    with pytest.raises(EnvironmentMismatchError, match=r"at least 36 pixels a side.*\[20, 20, 1\]"):
        network(framework)((20, 20, 1), 2)


def test_a_perceptron_for_pictures_is_pointed_out_once(framework, caplog, monkeypatch):
    monkeypatch.setattr(errors, "_said", set())
    for _ in range(2):
        framework.agents.DQN(env=Picture, hidden_size=(4,), frame_stack=2)
    network(framework)((36, 36, 2), 2)
    framework.agents.DQN(env="CartPole-v1", hidden_size=(4,))
    (said,) = [record.message for record in caplog.records]
    assert said.startswith("a multilayer perceptron is made for images [36, 36, 2]: ")
    assert "2,592 in all" in said
    assert "network=CNN" in said


@pytest.mark.slow_in_keras
def test_what_a_frame_ago_showed_is_remembered_by_a_stack(framework):
    seed_everything(2)
    agent = framework.agents.DQN(env=lambda: Picture(delay=True), hidden_size=(16,), gamma=0.9, frame_stack=2, tau=1.0)
    experience = ReplaySettings(
        **{"capacity": 400, "batch_size": 32, "learning_starts": 64, "train_freq": 8, "gradient_steps": 8},
        **{"target_update_interval": 20, "frame_stack": 2},
    )
    agent.settings = Settings(experience=experience, policy=EpsGreedyQPolicy(0.2), seed=2)
    agent.train(optimizer=framework.optimizers.adam(agent.param, 3e-3), total_steps=500, p=0)
    assert agent.evaluate(20).returns.tolist() == [1.0] * 20


@pytest.mark.slow_in_keras
def test_frames_whose_channels_come_first_are_stacked_along_them(framework):
    """As those of EnvPool, and of ALE's own vector environment, are."""
    seed_everything(2)
    turned = lambda: gymnasium.wrappers.TransformObservation(  # noqa: E731
        Picture(delay=True), lambda obs: obs[None], spaces.Box(0, 255, (1, 36, 36), np.uint8)
    )
    agent = framework.agents.DQN(
        env=turned, network=network(framework, hidden_sizes=(16,)), gamma=0.9, frame_stack=2, tau=1.0
    )
    experience = ReplaySettings(
        **{"capacity": 200, "batch_size": 16, "learning_starts": 32, "train_freq": 16, "gradient_steps": 8},
        **{"target_update_interval": 20, "frame_stack": 2},
    )
    agent.settings = Settings(experience=experience, policy=EpsGreedyQPolicy(0.2), seed=2)
    agent.train(optimizer=framework.optimizers.adam(agent.param, 1e-3), total_steps=256, jit_compile=False, p=0)
    assert agent.evaluate(10).returns.tolist() == [1.0] * 10


@pytest.mark.slow_in_keras  # stacks are made before any framework
def test_a_stack_goes_on_from_a_checkpoint_within_the_first_episode(framework, tmp_path):
    class Long(Picture):
        def step(self, action):
            self.steps = 0
            return super().step(action)

    def made():
        seed_everything(0)
        agent = framework.agents.DQN(env=Long, hidden_size=(4,), frame_stack=2)
        replay = {"capacity": 100, "batch_size": 4, "learning_starts": 8, "train_freq": 8, "gradient_steps": 1}
        agent.settings = Settings(
            experience=ReplaySettings(**replay, target_update_interval=2, frame_stack=2),
            **{"policy": EpsGreedyQPolicy(0.2), "seed": 0},
        )
        return agent, {"optimizer": framework.optimizers.adam(agent.param, 1e-2), "jit_compile": False, "p": 0}

    straight, options = made()
    straight.train(total_steps=16, **options)
    straight.save(tmp_path / "half")
    straight.train(total_steps=32, **options | {"optimizer": None})
    resumed, options = made()
    resumed.restore(tmp_path / "half")
    resumed.train(total_steps=32, **options)
    assert resumed.num_episodes == 0
    for one, other in zip(framework.parameters(straight), framework.parameters(resumed), strict=True):
        np.testing.assert_array_equal(one, other)


@pytest.mark.parametrize("layered", [False, True])
def test_channels_may_come_first(framework, layered):
    """The same weights say the same of the same picture, however its axes stand."""
    import importlib

    package = f"note_rl.agents.{framework.package}"
    layers = [{"conv": {"filters": 3, "size": 8, "stride": 4}}, {"norm": "layer"}, "flatten", {"dense": 5}]
    made = importlib.import_module(f"{package}.layered").layered_network if layered else network(framework)
    options = {"layers": layers} if layered else {}
    agents = []
    for shape in ((40, 44, 3), (3, 40, 44)):
        env = partial(Shown, spaces.Box(0, 255, shape, np.uint8))
        agents.append(framework.agents.DQN(env=env, network=lambda *_, shape=shape: made(shape, 2, **options)))
    one, other = (agent.learner for agent in agents)
    other.set_state(one.get_state())
    pictures = np.random.default_rng(0).integers(0, 256, (4, 40, 44, 3)).astype(np.uint8)
    np.testing.assert_allclose(other.act(np.moveaxis(pictures, -1, 1)), one.act(pictures), rtol=1e-4, atol=1e-6)


@pytest.mark.slow_in_keras  # stacks are made before any framework
def test_on_policy_agents_see_stacks_of_frames(framework):
    """Only a stack tells which side was bright a frame ago, as above; the discriminator of GAIL sees it as well."""
    seed_everything(0)
    env = lambda: Picture(delay=True)  # noqa: E731
    experience = RolloutSettings(num_steps=16, batch_size=16, num_epochs=1, frame_stack=2)
    settings = Settings(experience=experience, policy=SoftmaxPolicy(), seed=0)
    agent = framework.agents.PPO(env=env, network=network(framework, hidden_sizes=(8,)), frame_stack=2)
    agent.settings = settings
    assert agent.learner.act(np.zeros((3, 36, 36, 2), np.uint8)).shape == (3, 2)
    before = framework.parameters(agent)
    agent.train(optimizer=framework.optimizers.adam(agent.param, 1e-3), total_steps=32, jit_compile=False, p=0)
    for old, new in zip(before, framework.parameters(agent), strict=True):
        assert not np.array_equal(old, new)
    assert len(agent.evaluate(2).returns) == 2
    gail = framework.agents.GAIL(env=env, hidden_size=(8,), discriminator_size=(8,), frame_stack=2)
    pictures = np.random.default_rng(0).integers(0, 256, (20, 36, 36, 2)).astype(np.uint8)
    expert = Demonstrations(pictures, np.arange(20) % 2)
    gail.settings = replace(settings, experience=replace(experience, learned_reward=True, expert=expert))
    result = gail.train(optimizer=framework.optimizers.adam(gail.param, 1e-3), total_steps=16, jit_compile=False, p=0)
    assert np.isfinite(result.losses).all()


CHOOSING = ("DQN", "DuelingDQN", "DoubleDQN", "SACDiscrete", "PPO", "GAIL")
CONTINUOUS = ("DDPG", "TD3", "SAC")


@pytest.mark.parametrize("name", [*CHOOSING, *CONTINUOUS])
def test_another_number_of_frames_than_the_networks_take_is_refused(framework, name):
    continuous = name in CONTINUOUS
    made = getattr(framework.agents, name)(hidden_size=(4,), env=lambda: Picture(continuous=continuous), frame_stack=2)
    kind = {"PPO": True} if name in ("PPO", "GAIL") else {}
    exploring = NoisyPolicy() if continuous else SoftmaxPolicy()
    for frames in (1, 3):
        with pytest.raises(SettingsError, match=f"frame_stack={frames}, but .* this {name} were made for 2 frames"):
            made.set(policy=exploring, frame_stack=frames, **kind)
    made.set(policy=exploring, frame_stack=2, **kind)


def test_crossq_refuses_pictures(framework):
    with pytest.raises(EnvironmentMismatchError, match=r"numbers in a row, and these have the shape \[36, 36\]"):
        framework.agents.CrossQ(hidden_size=(4,), env=lambda: Picture(continuous=True))


@pytest.mark.slow  # the test below has them trained
def test_convolutions_learn_to_point(framework):
    seed_everything(0)
    made = network(framework, hidden_sizes=(16,))
    agent = framework.agents.PPO(env=Picture, network=made, gamma=0.5)
    experience = RolloutSettings(num_steps=16, batch_size=32, num_epochs=6)
    agent.settings = Settings(experience=experience, policy=SoftmaxPolicy(), num_envs=4, seed=0)
    agent.train(optimizer=framework.optimizers.adam(agent.param, 1e-3), total_steps=512, jit_compile=False, p=0)
    assert agent.evaluate(20).returns.tolist() == [2.0] * 20


@pytest.mark.slow_in_keras
def test_an_actor_and_its_critic_see_pictures(framework):
    seed_everything(0)
    made = network(framework, hidden_sizes=(16,))
    agent = framework.agents.DDPG(env=lambda: Picture(continuous=True), network=made, gamma=0.5)
    experience = ReplaySettings(capacity=100, batch_size=8, learning_starts=8, train_freq=8, gradient_steps=2)
    agent.settings = Settings(experience=experience, policy=NoisyPolicy(num_random_steps=100), seed=0)
    before = framework.parameters(agent)
    optimizer = framework.optimizers.adam(agent.param, 1e-3)
    result = agent.train(optimizer=optimizer, total_steps=16, jit_compile=False, p=0)
    assert np.isfinite(result.losses[-1])
    for old, new in zip(before, framework.parameters(agent), strict=True):
        assert not np.array_equal(old, new)
