"""Environments as an agent is given them: ids, factories, objects and lists of them."""

import threading
from typing import Any

import gymnasium
import numpy as np
import pytest
import torch
from gymnasium import spaces

from note_rl.agents.pytorch import DQN, PPO
from note_rl.environments import EnvFactory, VectorEnvironment, as_factory, make_environments
from note_rl.environments.environment_factory import bounded_actions
from note_rl.environments.multi_agent import joint_environments
from note_rl.errors import EnvironmentMismatchError
from note_rl.policy import EpsGreedyQPolicy, SoftmaxPolicy
from tests.note_rl.environments.odd_environments import Plain
from tests.note_rl.frameworks import frameworks
from tests.note_rl.small_environments import Corridor, Counting

NOTHING = [
    spaces.Box(-1, 1, (0,)),
    spaces.Dict({}),
    spaces.Tuple(()),
    spaces.Dict({"a": spaces.Box(-1, 1, (2, 0)), "b": spaces.Dict({})}),
]


@pytest.mark.parametrize("framework", frameworks())
@pytest.mark.parametrize("space", NOTHING, ids=str)
def test_observations_without_a_number_are_refused(framework: Any, space: Any) -> None:
    env = Plain()
    env.observation_space = space
    with pytest.raises(EnvironmentMismatchError, match=r"Plain has the observation space .*, which holds no number"):
        framework.agents.DQN(env=env)


def test_what_gymnasium_knows_of_an_environment_makes_it() -> None:
    spec = gymnasium.spec("CartPole-v1")
    with pytest.raises(EnvironmentMismatchError, match=r"got EnvSpec: give its method make, as env=spec\.make$"):
        DQN(env=spec)  # type: ignore[arg-type]
    assert DQN(env=spec.make).q_net is not None
    assert as_factory(spec.make)().spec.id == "CartPole-v1"  # type: ignore[union-attr]


class OfNoKind:
    """Steps as an environment does, and is none of Gymnasium's."""

    observation_space, action_space = spaces.Box(-1, 1, (3,), np.float32), spaces.Discrete(2)

    def reset(self, *, seed: Any = None, options: Any = None) -> Any:
        return np.zeros(3, np.float32), {}

    def step(self, action: Any) -> Any:
        return np.zeros(3, np.float32), 0.0, True, False, {}


@pytest.mark.parametrize("env", [OfNoKind, OfNoKind()], ids=["class", "object"])
def test_what_is_no_environment_of_gymnasium_is_refused(env: Any) -> None:
    with pytest.raises(EnvironmentMismatchError, match=r"OfNoKind.* class does not derive from gymnasium\.Env"):
        DQN(env=env)


class TenTimes(gymnasium.Wrapper):
    """A wrapper as users write it: Gymnasium cannot tell how it was made."""

    def step(self, action):
        obs, reward, terminated, truncated, info = self.env.step(action)
        return obs, 10.0 * reward, terminated, truncated, info


class ThirdRows(gymnasium.Wrapper):
    """The same with an argument, and with something inside that cannot be copied."""

    def __init__(self, env, lock):
        super().__init__(env)
        self.lock = lock


def dqn(env, **settings):
    agent = DQN(hidden_size=8, env=env)
    agent.set(policy=EpsGreedyQPolicy(0.5), batch=8, num_updates=1, seed=0, **settings)
    return agent, torch.optim.Adam(agent.param)


def wrapped():
    return TenTimes(gymnasium.make("CartPole-v1"))


@pytest.mark.parametrize("num_envs", [None, 2])
def test_a_custom_wrapper_takes_part_in_training_evaluation_and_film(num_envs, tmp_path):
    agent, optimizer = dqn(wrapped(), num_envs=num_envs)
    result = agent.train(optimizer, 3, p=0)
    np.testing.assert_array_equal(result.returns, 10.0 * np.array(result.lengths))
    played = agent.evaluate(2)
    np.testing.assert_array_equal(played.returns, 10.0 * played.lengths)
    assert agent.animate_agent(3, tmp_path / "film.gif") == 30.0
    assert (tmp_path / "film.gif").stat().st_size > 100


def test_a_custom_wrapper_goes_to_worker_processes_and_so_do_factories():
    agent, optimizer = dqn([wrapped(), wrapped, wrapped])
    result = agent.train(optimizer, 3, pool_network=True, processes=1, parallel_store_and_training=False, p=0)
    assert agent._trainer.collector.num_envs == 3
    np.testing.assert_array_equal(result.returns, 10.0 * np.array(result.lengths))


def test_what_cannot_be_copied_is_to_be_given_as_a_factory():
    env = ThirdRows(gymnasium.make("CartPole-v1"), threading.Lock())
    with pytest.raises(EnvironmentMismatchError, match=r"ThirdRows cannot be copied .*; give env as a function"):
        as_factory(env)()
    with pytest.raises(EnvironmentMismatchError, match="ThirdRows cannot be copied"):
        DQN(hidden_size=8, env=env)
    make = lambda: ThirdRows(gymnasium.make("CartPole-v1"), threading.Lock())  # noqa: E731
    agent, optimizer = dqn(make)
    assert len(agent.train(optimizer, 2, p=0).returns) == 2
    assert len(agent.evaluate(2).returns) == 2


def test_copies_share_nothing():
    env = wrapped()
    first, second = make_environments(env, 2)
    first.reset(seed=0)
    second.reset(seed=0)
    while not first.step(0)[2]:
        pass
    assert env.unwrapped.state is None
    assert not second.step(0)[2]


@pytest.mark.parametrize(
    "env",
    [
        ["CartPole-v1", "CartPole-v1"],
        [lambda: gymnasium.make("CartPole-v1")] * 2,
        ["CartPole-v1", gymnasium.make("CartPole-v1")],
    ],
)
def test_a_list_may_hold_ids_and_factories(env):
    agent, optimizer = dqn(env)
    assert len(agent.train(optimizer, 3, p=0).returns) == 3
    assert len(agent._trainer.collector.envs) == 2
    assert len(agent.evaluate(1).returns) == 1


@pytest.mark.parametrize("options", [{}, {"pool_network": True, "processes": 2}])
def test_the_same_environment_several_times_is_refused(options):
    env = gymnasium.make("CartPole-v1")
    for listed in ([env] * 4, [env, TenTimes(env)]):
        agent, optimizer = dqn(listed)
        with pytest.raises(EnvironmentMismatchError, match="holds the same environment more than once"):
            agent.train(optimizer, 1, p=0, **options)


def test_the_same_environment_of_several_agents_is_refused_too():
    class Two(gymnasium.Env):
        n = 2

    with pytest.raises(EnvironmentMismatchError, match="more than once"):
        joint_environments([Two()] * 2)


def test_environments_of_unlike_spaces_are_refused():
    agent, optimizer = dqn(["CartPole-v1", "Acrobot-v1"])
    with pytest.raises(EnvironmentMismatchError, match=r"environments 0 and 1 .* observations Box.*\(4,\).*\(6,\)"):
        agent.train(optimizer, 1, p=0)
    other = Counting()
    other.action_space = gymnasium.spaces.Discrete(3)
    with pytest.raises(EnvironmentMismatchError, match=r"environments 0 and 2 .* actions Discrete\(2\) and Disc"):
        VectorEnvironment([Counting(), Counting(), other], seed=0)


def test_a_new_environment_counts_from_the_next_call_on():
    """Episodes of 7 steps until then, of 3 steps after; the pool goes on, the running episode does not."""
    agent, optimizer = dqn(Counting(7), pool_size=100, num_steps=2)
    agent.set(train_freq=11)
    agent.train(optimizer, total_steps=7 + 4, p=0)  # an episode and the first four steps of another
    agent.env = Counting(3)
    agent.set(train_freq=6)
    result = agent.train(optimizer, 2, p=0)
    assert result.lengths == [3, 3]
    assert result.returns == [6.0, 6.0]
    assert agent.evaluate(1).lengths.tolist() == [3]
    assert agent.num_env_steps == len(agent._trainer.experience.buffer) == 11 + 6


def test_a_new_environment_counts_on_policy():
    agent = PPO(hidden_size=8, env=Counting(7))
    agent.set(policy=SoftmaxPolicy(), PPO=True, rollout_steps=10, batch=10, num_epochs=1, seed=0)
    optimizer = [torch.optim.Adam(group) for group in agent.param]
    assert agent.train(optimizer, total_steps=10, p=0).lengths == [7]
    agent.env = lambda: Counting(3)
    assert agent.train(optimizer, total_steps=20, p=0).lengths == [3, 3, 3]


def test_a_new_environment_that_does_not_fit_is_refused():
    agent, optimizer = dqn("CartPole-v1")
    agent.train(optimizer, 1, p=0)
    agent.env = Corridor()
    with pytest.raises(EnvironmentMismatchError, match=r"cannot go on: observations .*\(4,\).*\(5,\).*another agent"):
        agent.train(optimizer, 1, p=0)
    agent.env = "CartPole-v1"
    assert len(agent.train(optimizer, 1, p=0).returns) == 1


@pytest.mark.parametrize(
    ("env_id", "remedy"),
    [
        ("LunarLander-v3", r"its packages are missing: pip install 'note-rl\[box2d\]'"),
        ("HalfCheetah-v5", r"its packages are missing: pip install 'note-rl\[mujoco\]'"),
        ("CartPole-v1", "nothing to draw with"),
    ],
)
def test_a_package_of_gymnasium_that_is_missing_is_named_by_our_extra(monkeypatch, env_id, remedy):
    def missing(*_, **__):
        raise gymnasium.error.DependencyNotInstalled("nothing to draw with")

    monkeypatch.setattr(gymnasium, "make", missing)
    with pytest.raises(EnvironmentMismatchError, match=f"cannot make environment '{env_id}': {remedy}"):
        EnvFactory(env_id)()


class Far(Counting):
    """Shows numbers far from zero, as what is put behind a normalising wrapper does."""

    def _observation(self):
        return np.array([1000.0 + self.step_number, 5.0], np.float32)


gymnasium.register("Far-v0", entry_point=Far, max_episode_steps=50)


def test_an_evaluation_sees_through_what_a_wrapper_has_measured_in_training():
    env = gymnasium.wrappers.NormalizeObservation(gymnasium.make("Far-v0"))
    agent, optimizer = dqn(env, train_freq=8)
    agent.train(optimizer, total_steps=60, p=0)
    first = (1000.0 - env.obs_rms.mean[0]) / np.sqrt(env.obs_rms.var[0] + env.epsilon)
    shown = []
    agent.evaluate(1, acting_in=lambda space: lambda obs, starts: (shown.append(obs), np.zeros(1, np.int64))[1])
    assert first < -0.5
    np.testing.assert_allclose(shown[0][0, 0], first, rtol=0.05)  # it goes on measuring


def test_statistics_that_begin_anew_in_an_evaluation_are_said(monkeypatch, caplog):
    monkeypatch.setattr("note_rl.errors._said", set())
    factory = EnvFactory("Far-v0", wrappers=[gymnasium.wrappers.NormalizeObservation])
    agent, _ = dqn(factory)
    agent.evaluate(1)
    assert "NormalizeObservation around Far-v0 (Far) begins anew" in caplog.text


@pytest.mark.parametrize("num_envs", [None, 2])
def test_what_was_changed_in_an_environment_holds_wherever_it_is_played(num_envs):
    env = gymnasium.make("Far-v0")
    env.unwrapped.length = 5
    agent, optimizer = dqn(env, num_envs=num_envs)
    assert set(agent.train(optimizer, 4, p=0).lengths) == {5}
    assert agent.evaluate(2).lengths.tolist() == [5, 5]


def test_what_cannot_be_copied_is_made_again_where_it_is_known_how():
    env = gymnasium.make("Far-v0")
    env.unwrapped.lock = threading.Lock()
    again = as_factory(env)()
    assert again.spec.id == "Far-v0"
    assert not hasattr(again.unwrapped, "lock")


def test_a_spec_that_is_none_of_gymnasium_does_not_matter():
    env = Counting()
    env.spec = "mine"
    assert as_factory(env)().length == 3
    agent, optimizer = dqn(env)
    assert set(agent.train(optimizer, 6, p=0).lengths) == {3}
    assert agent.predict(np.zeros(2))[0] in (0, 1)
    env.action_space = gymnasium.spaces.Box(-np.inf, np.inf, (1,))
    with pytest.raises(EnvironmentMismatchError, match="Counting has Box"):
        bounded_actions(env, "DDPG")


class NeedsSize(gymnasium.Env):
    def __init__(self, size):
        self.size = size


def test_what_the_constructor_of_an_environment_needs_is_named():
    gymnasium.register("NeedsSize-v0", entry_point=NeedsSize)
    try:
        with pytest.raises(EnvironmentMismatchError, match="'NeedsSize-v0': it needs 1 required positional argument"):
            EnvFactory("NeedsSize-v0")()
    finally:
        del gymnasium.registry["NeedsSize-v0"]


@pytest.mark.filterwarnings("ignore:.*out of date:DeprecationWarning")
def test_an_environment_that_has_moved_is_refused_and_a_missing_import_in_user_code_is_shown():
    with pytest.raises(EnvironmentMismatchError, match=r"cannot make environment 'Reacher-v2': .*gymnasium-robotics"):
        EnvFactory("Reacher-v2")()

    def needs_another_package(**arguments):
        del arguments
        raise ImportError("no module of mine")

    gymnasium.register("NeedsMore-v0", entry_point=needs_another_package)
    try:
        with pytest.raises(ImportError, match="no module of mine"):
            EnvFactory("NeedsMore-v0")()
    finally:
        del gymnasium.registry["NeedsMore-v0"]
