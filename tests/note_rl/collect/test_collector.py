import gymnasium
import numpy as np
import pytest
from gymnasium import spaces

from note_rl.collect.collector import Collector
from note_rl.environments import VectorEnvironment, flat_observations, training_environments
from note_rl.environments.goals import goal_layout
from note_rl.errors import EnvironmentMismatchError
from note_rl.learners.numpy_policy import NumpyPolicy
from note_rl.policy import (
    EpsGreedyQPolicy,
    GaussianPolicy,
    GreedyQPolicy,
    NoisyPolicy,
    PolicyPerEnvironment,
    SoftmaxPolicy,
)
from note_rl.policy.noise import OrnsteinUhlenbeckProcess
from note_rl.replay.rollout import Rollout
from tests.note_rl.environments.vectors import COLUMNS
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


def test_likelihoods_under_another_policy_are_kept_for_a_loss_that_reads_them():
    """Answers are 0.3 and 0.7 everywhere; eps is 0.5, so that mu is 0.25 and 0.75."""

    def act(obs):
        return np.tile(np.float32([0.3, 0.7]), (len(obs), 1))

    collecting = collector([Counting(5), Counting(5)], EpsGreedyQPolicy(0.5), reads=("importance_ratio",))
    steps, _ = collecting.collect(act, 40)
    chosen = steps.action
    assert set(chosen.ravel()) == {0, 1}
    np.testing.assert_allclose(steps.log_prob, np.log(np.where(chosen == 1, 0.75, 0.25)), rtol=1e-6)
    expected = np.where(chosen == 1, 0.7 / 0.75, 0.3 / 0.25)
    np.testing.assert_allclose(steps.extras["importance_ratio"], expected, rtol=1e-6)
    kept = Rollout(steps, 0.9).gather(np.arange(80)[None], np.zeros(1, np.bool_)).extras
    np.testing.assert_allclose(np.exp(kept["log_prob_old"][0]), np.where(chosen == 1, 0.7, 0.3).ravel(), rtol=1e-5)
    others, _ = collector([Counting(5)], EpsGreedyQPolicy(0.5)).collect(act, 5)
    assert others.log_prob is None
    assert "importance_ratio" not in others.extras


def test_infinity_is_refused_before_anything_is_worked_out_with_it():
    """NumPy warns of a product with infinity and 0, and warnings are errors here."""

    class Bursting(Counting):
        def _observation(self):
            return np.array([np.inf if self.step_number == 3 else 0.0, 1.0], np.float32)

    act = NumpyPolicy(lambda: [(np.zeros((2, 2), np.float32), np.zeros(2, np.float32), "linear")])
    collecting = collector([Bursting(9)], GreedyQPolicy())
    assert collecting.collect(act, 2)[0].num_env_steps == 2
    with pytest.raises(EnvironmentMismatchError, match="an observation of Bursting holds inf"):
        collecting.collect(act, 5)


def test_each_environment_has_likelihoods_of_its_own_policy():
    def act(obs):
        return np.tile(np.float32([0.3, 0.7]), (len(obs), 1))

    policy = PolicyPerEnvironment([EpsGreedyQPolicy(0.5), EpsGreedyQPolicy(1.0)])
    assert policy.tells_importance
    steps, _ = collector([Counting(5), Counting(5)], policy, reads=("importance_ratio",)).collect(act, 20)
    mu = np.where(steps.action == 1, [0.75, 0.5], [0.25, 0.5])
    np.testing.assert_allclose(np.exp(steps.log_prob), mu, rtol=1e-6)
    pi = np.where(steps.action == 1, 0.7, 0.3)
    np.testing.assert_allclose(steps.extras["importance_ratio"], pi / mu, rtol=1e-5)


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


def test_bytes_that_are_no_colours_are_warned_of(caplog, monkeypatch):
    monkeypatch.setattr("note_rl.errors._said", set())
    board = spaces.Box(0, 3, (2,), np.uint8)
    dark = gymnasium.wrappers.TransformObservation(Counting(length=3), lambda obs: np.zeros(2, np.uint8), board)
    collector([dark], GreedyQPolicy())
    assert "shows bytes of at most 3" in caplog.text


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


def reference(envs, policy, act, num_steps):
    """The plainest collector there is: rows stacked at the end."""
    rng = np.random.default_rng(7)
    rows = []
    for _ in range(num_steps):
        scores = act(envs.obs)
        action = policy.select(scores, rng)
        log_prob = policy.log_prob(scores, action)
        obs, reward, next_obs, terminated, ended = envs.step(action)
        rows.append((obs, action, reward, next_obs, terminated, ended, log_prob))
    columns = list(zip(*rows, strict=True))
    return [None if column[0] is None else np.stack(column) for column in columns]


def scaled():
    """CartPole with rewards whose sums are rounded."""
    return gymnasium.wrappers.TransformReward(gymnasium.make("CartPole-v1"), lambda reward: 0.1 * reward)


class OneByOne:
    """The plainest stepping there is, with the seeds that a `VectorEnvironment` has."""

    def __init__(self, num_envs, seed):
        from note_rl.seeding import integer

        self.envs = [scaled() for _ in range(num_envs)]
        self.seed_of = lambda index, episode: integer(seed, "environment", index, episode)
        self.episode = [0] * num_envs
        self.obs = np.stack([env.reset(seed=self.seed_of(i, 0))[0] for i, env in enumerate(self.envs)])

    def step(self, action):
        rows, shown = [], []
        for index, env in enumerate(self.envs):
            obs, reward, terminated, truncated, _ = env.step(int(action[index]))
            ended = terminated or truncated
            rows.append((self.obs[index], np.float64(reward), obs, terminated, ended))
            if ended:
                self.episode[index] += 1
                obs, _ = env.reset(seed=self.seed_of(index, self.episode[index]))
            shown.append(obs)
        self.obs = np.stack(shown)
        return [np.stack(column) for column in zip(*rows, strict=True)]


def played(reward, ended):
    """Return, length and environment of every episode, in the order of their ends."""
    total, length, found = np.zeros(reward.shape[1]), np.zeros(reward.shape[1], int), []
    for gained, over in zip(reward, ended, strict=True):
        total += gained
        length += 1
        for index in np.flatnonzero(over):
            found.append((total[index], length[index], index))
            total[index], length[index] = 0.0, 0
    return found


@pytest.mark.parametrize("num_envs", [1, 8])
@pytest.mark.parametrize("policy", [EpsGreedyQPolicy, SoftmaxPolicy])
def test_collecting_gives_what_the_plainest_loop_gives(policy, num_envs):
    rng = np.random.default_rng(3)
    last = "softmax" if policy is SoftmaxPolicy else "linear"
    sizes = [(4, 16, "tanh"), (16, 2, last)]
    layers = [(rng.normal(size=(a, b)).astype(np.float32), np.zeros(b, np.float32), name) for a, b, name in sizes]
    act = NumpyPolicy(lambda: layers)
    envs = training_environments(scaled, num_envs, seed=9)
    collector = Collector(envs, policy(), np.random.default_rng(7))
    parts, episodes = zip(*[collector.collect(act, length) for length in (50, 1, 149)], strict=True)
    expected = reference(OneByOne(num_envs, 9), policy(), act, 200)
    returns = [(episode.return_, episode.length, episode.env_index) for one in episodes for episode in one]
    assert returns == played(expected[2], expected[5])  # of rewards as they came
    expected[2] = expected[2].astype(np.float32)
    for name, wanted in zip((*COLUMNS, "log_prob"), expected, strict=True):
        if wanted is None:
            assert all(getattr(part, name) is None for part in parts)
        else:
            np.testing.assert_array_equal(np.concatenate([getattr(part, name) for part in parts]), wanted, name)
