"""Simulators take the steps of the environments, and what has none is refused."""

import gymnasium
import numpy as np
import pytest
from gymnasium import spaces

from note_rl.environments import EnvFactory, as_factory, flat_observations
from note_rl.errors import EnvironmentMismatchError
from note_rl.tree_search import CartPoleSimulator, StateSimulator, simulator_of
from tests.note_rl.small_environments import Counting


def walked(env, simulator, num_steps=120, seed=0):
    """Steps of an environment beside those that a simulator takes from the states in between; how many ended it."""
    rng = np.random.default_rng(seed)
    env.reset(seed=seed)
    ends = 0
    for _ in range(num_steps):
        state = np.asarray(env.unwrapped.state, np.float64)
        action = int(rng.integers(env.action_space.n))
        found = simulator.step(state[None], np.array([action]))
        obs, reward, terminated, _, _ = env.step(action)
        np.testing.assert_allclose(found.states[0], env.unwrapped.state, rtol=1e-12, atol=1e-14)
        np.testing.assert_array_equal(found.obs[0], obs)
        assert (found.reward[0], found.terminated[0]) == (reward, terminated)
        if terminated:
            ends += 1
            env.reset()
    return ends


@pytest.mark.parametrize("kind", [CartPoleSimulator, StateSimulator])
@pytest.mark.parametrize("integrator", ["euler", "semi-implicit euler"])
@pytest.mark.parametrize("sutton_barto_reward", [False, True])
def test_cartpole(kind, integrator, sutton_barto_reward):
    envs = [gymnasium.make("CartPole-v1", sutton_barto_reward=sutton_barto_reward) for _ in range(2)]
    for env in envs:
        env.unwrapped.kinematics_integrator = integrator
        env.unwrapped.gravity = 11.0
    assert walked(envs[0], kind(envs[1])) > 3


def test_mountaincar():
    envs = [gymnasium.make("MountainCar-v0") for _ in range(2)]
    assert walked(envs[0], StateSimulator(envs[1])) == 0


@pytest.mark.parametrize("kind", [CartPoleSimulator, StateSimulator])
def test_several_states_are_stepped_apart_and_stay_as_they_are(kind):
    simulator = kind(gymnasium.make("CartPole-v1"))
    obs = np.random.default_rng(0).uniform(-0.2, 0.2, (6, 4)).astype(np.float32)
    states, action = simulator.begin(obs), np.array([0, 1, 1, 0, 1, 0])
    before = states.copy()
    together = simulator.step(states, action)
    np.testing.assert_array_equal(states, before)
    for i in range(6):
        alone = simulator.step(states[i : i + 1], action[i : i + 1])
        np.testing.assert_array_equal(alone.obs[0], together.obs[i])
    assert simulator.step(states, 1 - action).obs[0, 1] != together.obs[0, 1]


def test_cartpole_has_a_simulator_and_so_has_what_says_so():
    assert isinstance(simulator_of(gymnasium.make("CartPole-v1"), None, "Mine"), CartPoleSimulator)

    class Own(Counting):
        def search_simulator(self):
            return "mine"

    assert simulator_of(Own(), None, "Mine") == "mine"
    assert simulator_of(Counting(), lambda env: type(env), "Mine") is Counting


def test_an_environment_without_a_simulator_is_refused():
    with pytest.raises(
        EnvironmentMismatchError, match=r"^Mine searches in a simulator, and MountainCarEnv has none: use"
    ):
        simulator_of(gymnasium.make("MountainCar-v0"), None, "Mine")
    with pytest.raises(EnvironmentMismatchError, match="Counting has no such attribute"):
        StateSimulator(Counting())


@pytest.mark.parametrize("make", [None, CartPoleSimulator, StateSimulator])
def test_a_wrapper_that_may_change_steps_is_refused_unless_a_simulator_includes_it(make):
    env = gymnasium.wrappers.TransformReward(gymnasium.make("CartPole-v1"), lambda reward: 2 * reward)
    with pytest.raises(
        EnvironmentMismatchError, match="and TransformReward may change its steps: leave the wrapper out"
    ):
        simulator_of(env, make, "Mine")
    assert simulator_of(env, lambda env: type(env).__name__, "Mine") == "TransformReward"


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (
            lambda env: gymnasium.wrappers.ClipReward(env, 0, 1),
            "and ClipReward may change its steps: leave the wrapper",
        ),
        (None, "and CartPolePositions-v0 has a wrapper that may change its steps: use another environment, or include"),
    ],
)
def test_a_wrapper_is_named_as_the_user_named_it(make, message):
    """Not `RewardAsItIs`, which is put inside wrappers for training, nor `SomeNumbers`, which the id stands for."""
    made = EnvFactory("note_rl.examples.memory_tasks:CartPolePositions-v0")
    if make is not None:
        made = EnvFactory("CartPole-v1", training_wrappers=[make])
    with pytest.raises(EnvironmentMismatchError, match=f"^Mine steps CartPoleEnv without wrappers, {message}"):
        simulator_of(made(), None, "Mine")


def test_a_vector_environment_that_steps_by_itself_has_no_simulator():
    """One of single environments has that of its first one."""
    whole, of_single_ones = (
        gymnasium.make_vec("CartPole-v1", num_envs=2, vectorization_mode=mode)
        for mode in ("vector_entry_point", "sync")
    )
    message = r"one environment, and CartPole-v1 \(CartPoleVectorEnv\) steps several at once: give the id of"
    with pytest.raises(EnvironmentMismatchError, match=message):
        simulator_of(as_factory(whole)(), None, "Mine")
    assert isinstance(simulator_of(as_factory(of_single_ones)(), None, "Mine"), CartPoleSimulator)


class Doubled(gymnasium.wrappers.TimeLimit):
    """A time limit that does more."""

    def step(self, action):
        obs, reward, *ends = super().step(action)
        return (obs, 2 * reward, *ends)


def test_a_subclass_of_a_known_wrapper_is_refused():
    with pytest.raises(EnvironmentMismatchError, match="and Doubled may change its steps"):
        simulator_of(Doubled(gymnasium.make("CartPole-v1"), 9), None, "Mine")


class Numbers(gymnasium.Env):
    """Shows a number of its own set, which an agent flattens."""

    observation_space = spaces.Discrete(3)
    action_space = spaces.Discrete(2)
    state = 0

    def reset(self, *, seed=None, options=None):
        return 0, {}

    def step(self, action):
        return 0, 0.0, False, False, {}

    def search_simulator(self):
        return "mine"


def test_what_an_agent_puts_around_to_flatten_observations_is_no_unknown_wrapper():
    flat = flat_observations(Numbers())
    assert type(flat).__name__ == "FlatObservation"
    assert simulator_of(flat, None, "Mine") == "mine"
    with pytest.raises(EnvironmentMismatchError, match=r"observation of the shape \[3\], but its state has \[\]"):
        simulator_of(flat, StateSimulator, "Mine")


class Line(gymnasium.Env):
    """A place on a line. A subclass shows something else, or steps by something else, too."""

    observation_space = spaces.Box(-99.0, 99.0, (1,), np.float32)
    action_space = spaces.Discrete(2)

    def reset(self, *, seed=None, options=None):
        super().reset(seed=seed)
        self.state, self.speed = np.zeros(1), 0.0
        return self.shown(), {}

    def step(self, action):
        self.state = np.asarray(self.state) + 2 * action - 1 + self.more(action)
        return self.shown(), 0.0, bool(abs(self.state[0]) > 9), False, {}

    def shown(self):
        return self.state.astype(np.float32)

    def more(self, action):
        return 0.0


class Scaled(Line):
    def shown(self):
        return (self.state / 99).astype(np.float32)


class Longer(Line):
    observation_space = spaces.Box(-99.0, 99.0, (2,), np.float32)

    def shown(self):
        return np.append(self.state, 0.0).astype(np.float32)


class Fast(Line):
    def more(self, action):
        self.speed += 0.1 * action
        return self.speed


class Shaken(Line):
    def more(self, action):
        return self.np_random.normal()


class Named(Line):
    def reset(self, *, seed=None, options=None):
        return super().reset()[0], setattr(self, "state", "home") or {}


def test_a_state_that_is_shown_and_decides_is_simulated():
    step = StateSimulator(Line()).step(np.array([[3.0], [8.5]]), np.array([0, 1]))
    assert (step.obs.tolist(), step.terminated.tolist()) == ([[2.0], [9.5]], [False, True])


@pytest.mark.parametrize(
    ("kind", "message"),
    [
        (Scaled, r"and Scaled shows \[-0.01\d*\] where its state is \[-1.0\]: write a simulator of its own"),
        (Longer, r"and Longer shows an observation of the shape \[2\], but its state has \[1\]"),
        (Fast, "Fast takes another step the second time that action 0 is taken in the state"),
        (Shaken, r"Shaken takes another step the second time that action 0 is taken in the state \[0.0\]"),
        (Named, "that of Named is str, which is no array"),
    ],
)
def test_a_state_that_is_not_all_is_refused(kind, message):
    with pytest.raises(EnvironmentMismatchError, match=message):
        StateSimulator(kind())


def test_acrobot_shows_more_than_its_state():
    with pytest.raises(EnvironmentMismatchError, match=r"of the shape \[6\], but its state has \[4\]"):
        StateSimulator(gymnasium.make("Acrobot-v1"))


class Masked(Line):
    def action_masks(self):
        return np.array([True, False])


@pytest.mark.parametrize("make", [None, StateSimulator])
def test_an_environment_that_forbids_actions_is_refused(make):
    """A search would step and value forbidden actions like others."""
    with pytest.raises(
        EnvironmentMismatchError, match=r"^Mine searches through all actions, and Masked allows only some"
    ):
        simulator_of(Masked(), make, "Mine")
