import gymnasium
import numpy as np
import pytest
from gymnasium import spaces

from note_rl.collect.collector import Collector
from note_rl.environments import VectorEnvironment, flat_observations
from note_rl.environments.goals import goal_layout
from note_rl.errors import EnvironmentMismatchError
from note_rl.policy import GaussianPolicy, GreedyQPolicy, NoisyPolicy, SoftmaxPolicy
from note_rl.policy.noise import OrnsteinUhlenbeckProcess
from tests.note_rl.small_environments import Counting


class Reach(gymnasium.Env):
    """A point on a line that moves by the action; after `length` steps time is up."""

    def __init__(self, length=3):
        box = spaces.Box(-np.inf, np.inf, (1,), np.float64)
        self.observation_space = spaces.Dict(
            {"observation": spaces.Box(-1, 1, (2,), np.float64), "achieved_goal": box, "desired_goal": box}
        )
        self.action_space = spaces.Box(-1.0, 1.0, (1,), np.float32)
        self.length = length
        self.taken = []

    def reset(self, *, seed=None, options=None):
        super().reset(seed=seed)
        self.position, self.steps = 0.0, 0
        return self._observation(), {}

    def step(self, action):
        self.taken.append(action.tolist())
        self.position += float(action[0])
        self.steps += 1
        return self._observation(), 0.0, False, self.steps == self.length, {}

    def _observation(self):
        return {
            "observation": np.array([self.position, 0.5]),
            "achieved_goal": np.array([self.position]),
            "desired_goal": np.array([7.0]),
        }

    def compute_reward(self, achieved, desired, info):
        return -np.abs(achieved - desired).sum(-1)


def collector(envs, policy, **options):
    return Collector(VectorEnvironment([flat_observations(env) for env in envs], seed=0), policy, rng(), **options)


def rng(seed=0):
    return np.random.default_rng(seed)


def test_goal_observations_become_one_vector_and_what_was_achieved_goes_along():
    collecting = collector([Reach(), Reach()], NoisyPolicy())
    steps, episodes = collecting.collect(lambda obs: np.full((2, 1), 0.25, np.float32), 4)
    assert steps.obs[:, 0].tolist() == [[0, 0.5, 7], [0.25, 0.5, 7], [0.5, 0.5, 7], [0, 0.5, 7]]
    assert steps.obs.dtype == np.float32
    # of the observation that follows, the last one of the episode included
    assert steps.extras["achieved_goal"].shape == (4, 2, 1)
    assert steps.extras["achieved_goal"][:, 1, 0].tolist() == [0.25, 0.5, 0.75, 0.25]
    assert steps.next_obs[2, 0].tolist() == [0.75, 0.5, 7]
    assert [episode.length for episode in episodes] == [3, 3]


def test_layout_of_goal_observations():
    env = flat_observations(gymnasium.wrappers.TimeLimit(Reach(), 5))
    layout = goal_layout(env)
    assert (layout.obs_size, layout.goal_size) == (2, 1)
    assert layout.compute_reward(np.array([[1.0], [7.0]]), np.array([[7.0], [7.0]]), {}).tolist() == [-6.0, 0.0]
    assert env.observation_space.shape == (3,)
    assert goal_layout(gymnasium.make("CartPole-v1")) is None


def test_bits_are_goals_too():
    class Bits(Reach):
        def __init__(self):
            super().__init__()
            bits = spaces.MultiBinary(4)
            self.observation_space = spaces.Dict({"observation": bits, "achieved_goal": bits, "desired_goal": bits})

        def _observation(self):
            return dict.fromkeys(self.observation_space.spaces, np.array([1, 0, 1, 1], np.int8))

    env = flat_observations(Bits())
    assert env.reset(seed=0)[0].tolist() == [1, 0, 1, 1, 1, 0, 1, 1]
    assert goal_layout(env).goal_size == 4


def test_other_dictionaries_are_flattened():
    class Other(Reach):
        def __init__(self):
            super().__init__()
            self.observation_space = spaces.Dict({"observation": spaces.Box(0, 1, (2,)), "clock": spaces.Discrete(3)})

        def _observation(self):
            return {"observation": np.array([0.25, 0.5], np.float32), "clock": 1}

    env = flat_observations(Other())
    assert env.reset(seed=0)[0].tolist() == [0, 1, 0, 0.25, 0.5]
    assert goal_layout(env) is None


def test_a_gaussian_action_is_stored_as_sampled_and_played_clipped():
    env = Reach(length=100)
    collecting = collector([env], GaussianPolicy())
    steps, _ = collecting.collect(lambda obs: np.array([[0.0, np.log(3.0)]]), 50)
    assert np.abs(steps.action).max() > 1.0
    np.testing.assert_array_equal(np.array(env.taken), np.clip(steps.action[:, 0], -1, 1))
    expected = -0.5 * (steps.action[:, :, 0] / 3.0) ** 2 - np.log(3.0) - 0.5 * np.log(2 * np.pi)
    np.testing.assert_allclose(steps.log_prob, expected, rtol=1e-5)


def test_frames_are_shown_together_and_stored_once():
    shown = []

    def act(obs):
        shown.append(obs[0, ::2].tolist())  # of (step, mark) pairs, the steps
        return np.zeros((1, 2))

    steps, _ = collector([Counting(length=3)], GreedyQPolicy(), frame_stack=3).collect(act, 5)
    assert shown == [[0, 0, 0], [0, 0, 1], [0, 1, 2], [0, 0, 0], [0, 0, 1]]
    assert steps.obs.shape == (5, 1, 2)


def test_state_brings_exploration_and_frames_back():
    def make(seed):
        noise = OrnsteinUhlenbeckProcess(0.15, sigma=0.3, sigma_min=0.1, n_steps_annealing=50)
        made = collector([Reach(7), Reach(7)], NoisyPolicy(noise, num_random_steps=4), frame_stack=2)
        made.rng = rng(seed)
        return made

    def act(obs):
        return obs[:, :1] * 0.1 - obs[:, 3:4] * 0.05

    first, second = make(1), make(2)
    first.collect(act, 10)
    state = {name: array.copy() for name, array in first.get_state().items()}
    assert {"policy/noise/x", "frames/frames"} <= set(state)
    assert second.set_state(state)
    second.rng.bit_generator.state = first.rng.bit_generator.state
    steps, episodes = first.collect(act, 9)
    again, episodes_again = second.collect(act, 9)
    np.testing.assert_array_equal(steps.action, again.action)
    np.testing.assert_array_equal(steps.obs, again.obs)
    assert episodes == episodes_again


def test_noise_begins_anew_with_each_episode():
    noise = OrnsteinUhlenbeckProcess(0.15)
    collecting = collector([Reach(2), Reach(3)], NoisyPolicy(noise))
    starts = []
    for _ in range(6):
        collecting.collect(lambda obs: np.zeros((2, 1)), 1)
        starts.append(noise._starts.tolist())
    assert starts == [[n % 2 == 0, n % 3 == 0] for n in range(1, 7)]


def test_a_policy_that_does_not_fit_is_refused():
    with pytest.raises(EnvironmentMismatchError, match="SoftmaxPolicy chooses one of several actions"):
        collector([Reach()], SoftmaxPolicy())
    with pytest.raises(EnvironmentMismatchError, match="GaussianPolicy chooses vectors"):
        collector([Counting()], GaussianPolicy())


def test_actions_get_the_shape_of_the_space():
    class Matrix(Reach):
        def __init__(self):
            super().__init__()
            self.action_space = spaces.Box(-1.0, 1.0, (2, 2), np.float32)

        def step(self, action):
            self.shape = action.shape
            return super().step(action[0])

    env = Matrix()
    steps, _ = collector([env], NoisyPolicy()).collect(lambda obs: np.array([[0.1, 0.2, 0.3, 9.0]]), 1)
    assert env.shape == (2, 2)
    np.testing.assert_allclose(steps.action[0, 0], [0.1, 0.2, 0.3, 1.0])
