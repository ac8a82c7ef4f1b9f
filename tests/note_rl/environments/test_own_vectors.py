"""An environment's own vector implementation is stepped where it gives the same, and only there."""

import types

import gymnasium
import numpy as np
import pytest
from gymnasium import spaces
from gymnasium.envs.classic_control.cartpole import CartPoleVectorEnv

from note_rl.environments import EnvFactory, VectorEnvironment, training_environments
from note_rl.environments.gymnasium_vector import ForeignVector, foreign_environments
from note_rl.environments.own_vectors import SeededCartPole, own_vector
from note_rl.environments.training_only import SignOfReward
from tests.note_rl.environments.vectors import Numbered, collected, same
from tests.note_rl.small_environments import Counting


def test_the_vector_cartpole_gives_what_cartpoles_give():
    factory = EnvFactory("CartPole-v1", {"sutton_barto_reward": True}, max_episode_steps=30)
    vector = SeededCartPole(9, max_episode_steps=30, sutton_barto_reward=True)
    envs, alone = training_environments(vector, 9, 6), VectorEnvironment([factory() for _ in range(9)], 6)
    rng = np.random.default_rng(1)
    ends = np.zeros(2)
    for _ in range(150):
        ours, theirs = envs.step(action := rng.integers(2, size=9)), alone.step(action)
        for mine, other in zip((*ours, envs.obs), (*theirs, alone.obs), strict=True):
            np.testing.assert_array_equal(mine, other)
        ends += [ours[3].sum(), ours[4].sum()]
    assert ends[1] > ends[0] > 20  # both kinds of end were met


def test_observations_lie_in_memory_as_those_of_single_environments_do():
    """Sums of floats go by the layout: runs of one seed would differ by whether an own vector was measured faster."""
    envs = foreign_environments(SeededCartPole(num_envs=3), seed=0)
    assert SeededCartPole(num_envs=3).reset(seed=0)[0].flags.f_contiguous
    shown = [envs.obs, *(part for part in envs.step(np.zeros(3, np.int64)) if part.ndim == 2), envs.obs]
    assert [part.flags.c_contiguous for part in shown] == [True] * 4


def test_an_own_vector_is_taken_only_where_it_changes_nothing(monkeypatch):
    clock = types.SimpleNamespace(perf_counter=iter(range(10**6)).__next__)  # a second for every step
    monkeypatch.setattr("note_rl.environments.own_vectors.time", clock)
    assert isinstance(own_vector(EnvFactory("CartPole-v1"), 16, 0), ForeignVector)
    assert own_vector(EnvFactory("CartPole-v1"), 4, 0) is None
    assert own_vector(EnvFactory("Pendulum-v1"), 16, 0) is None
    wrapped = EnvFactory("CartPole-v1", wrappers=[gymnasium.wrappers.FlattenObservation])
    assert own_vector(wrapped, 16, 0) is None
    assert isinstance(training_environments("CartPole-v1", 16, 0), ForeignVector)

    def heavier(self, *args, **kwargs):
        CartPoleVector.__init__(self, *args, **kwargs)
        self.gravity = 9.9

    CartPoleVector = SeededCartPole.__mro__[1]  # noqa: N806
    monkeypatch.setattr(SeededCartPole, "__init__", heavier)
    assert own_vector(EnvFactory("CartPole-v1"), 16, 0) is None


class Step(Counting):
    """Shows the number of the step only."""

    def __init__(self, length=3):
        super().__init__(length)
        self.observation_space = spaces.Box(-np.inf, np.inf, (1,), np.float32)

    def _observation(self):
        return super()._observation()[:1]


@pytest.fixture
def registered(monkeypatch):
    """Registers Count-v0 with a vector entry point, and takes it away again."""
    monkeypatch.setattr("note_rl.errors._said", set())

    def register(vector_entry_point):
        gymnasium.register("Count-v0", Step, vector_entry_point=vector_entry_point)

    yield register
    gymnasium.registry.pop("Count-v0", None)


def test_one_that_does_not_tell_of_lost_lives_is_not_even_made_for_what_is_for_training_only(registered):
    def never(num_envs):
        raise AssertionError("it was made")

    registered(never)
    factory = EnvFactory("Count-v0", training_wrappers=[SignOfReward])
    assert isinstance(training_environments(factory, 4, 0), VectorEnvironment)


class Halved(gymnasium.Wrapper):
    """Learns from half of the rewards."""

    @staticmethod
    def of_vector(reward, terminated, info):
        return reward / 2, terminated


def test_what_is_for_training_only_is_done_to_one_that_equals_single_environments_too(monkeypatch):
    monkeypatch.setattr(CartPoleVectorEnv, "tells_lost_lives", True, raising=False)
    monkeypatch.setattr("note_rl.environments.own_vectors._probed", lambda factory, num_envs: True)
    envs = training_environments(EnvFactory("CartPole-v1", training_wrappers=[Halved]), 8, 0)
    assert type(envs.env) is SeededCartPole
    assert envs.step(np.zeros(8, np.int64))[1].tolist() == [0.5] * 8
    assert envs.counted.tolist() == [1.0] * 8


def test_what_is_registered_with_a_vector_of_its_own_is_stepped_in_it(registered, caplog):
    caplog.set_level("INFO")
    registered(lambda num_envs: Numbered((3,) * num_envs))
    envs = training_environments("Count-v0", 4, 0)
    assert type(envs.env) is Numbered
    steps, episodes = collected(envs, 12)
    expected, _ = collected(VectorEnvironment([Step() for _ in range(4)], 0), 12)
    same(steps, expected)
    assert {one.length for one in episodes} == {3}
    assert "in its own vector implementation, Numbered" in caplog.text
    assert isinstance(training_environments("Count-v0", 1, 0), VectorEnvironment)
    told = EnvFactory("Count-v0", wrappers=[gymnasium.wrappers.FlattenObservation])
    assert isinstance(training_environments(told, 4, 0), VectorEnvironment)


class Wider(Numbered):
    """Shows two numbers, as it says."""

    def __init__(self, num_envs):
        super().__init__((3,) * num_envs)
        self.single_observation_space = spaces.Box(-1, 1, (2,), np.float32)


class Silent(Numbered):
    """Does not say when it begins anew."""

    def __init__(self, num_envs):
        super().__init__((3,) * num_envs)
        self.metadata = {}


@pytest.mark.parametrize(
    ("kind", "why"),
    [(Wider, "its environments have Box"), (Silent, "no 'autoreset_mode'"), (lambda: 1, "cannot be made")],
)
@pytest.mark.filterwarnings("ignore:.*missing AutoresetMode metadata")
def test_a_vector_of_its_own_that_does_not_fit_is_said_not_to_be_used(registered, caplog, kind, why):
    caplog.set_level("INFO")
    registered(kind)
    assert isinstance(training_environments("Count-v0", 3, 0), VectorEnvironment)
    assert "Count-v0: its vector implementation is not used, as" in caplog.text
    assert why in caplog.text


def test_a_vector_of_its_own_that_cannot_be_loaded_is_said_not_to_be_used(registered, caplog):
    registered("no_such_package.vectors:Vector")
    assert isinstance(training_environments("Count-v0", 3, 0), VectorEnvironment)
    assert "cannot be made: No module named 'no_such_package'" in caplog.text


def test_no_time_limit_is_none_in_a_vector_either():
    envs = training_environments(EnvFactory("CartPole-v1", max_episode_steps=-1), 16, 0)
    assert isinstance(envs, VectorEnvironment)
