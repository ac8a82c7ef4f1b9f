"""Single environments of what makes vectors, and copies of environments."""

import sys
import threading
import types

import gymnasium
import numpy as np
import pytest
from gymnasium.vector import SyncVectorEnv

from note_rl.collect.evaluation import evaluate
from note_rl.environments import as_factory, training_environments
from note_rl.errors import EnvironmentMismatchError
from tests.note_rl.environments.vectors import Numbered, makers
from tests.note_rl.small_environments import Counting


def test_what_a_factory_of_vectors_makes_is_not_copied():
    class Locked(Numbered):
        def __init__(self):
            super().__init__()
            self.lock = threading.Lock()

    single = as_factory(Locked)()
    single.reset(seed=0)
    assert [single.step(0)[1] for _ in range(2)] == [1.0, 2.0]
    assert evaluate(lambda space: lambda obs, starts: np.zeros(len(obs), np.int64), Locked, 2, 0).lengths.tolist() == [
        2,
        2,
    ]
    assert len(training_environments(Locked, None, 0)) == 3
    with pytest.raises(
        EnvironmentMismatchError, match=r"Locked cannot be copied .*give a function that makes a new one"
    ):
        as_factory(Locked())()


def test_a_vector_that_is_made_to_see_a_single_environment_is_closed():
    made = []

    def make():
        made.append(SyncVectorEnv(makers(Counting)))
        return made[-1]

    assert as_factory(make)().length == 2
    assert [one.closed for one in made] == [True]


def test_a_factory_of_vectors_and_what_is_evaluated():
    envs = training_environments(lambda: Numbered((4, 6)), 2, seed=0)
    assert len(envs) == 2
    single = as_factory(Numbered((4, 6)))()
    assert (single.observation_space.shape, single.action_space.n) == ((1,), 2)
    result = evaluate(lambda space: lambda obs, starts: np.zeros(len(obs), int), lambda: Numbered((4, 2)), 12, seed=0)
    assert result.lengths.tolist() == [4] * 12
    assert result.returns.tolist() == [10.0] * 12
    assert as_factory(SyncVectorEnv(makers(Counting)))().length == 2


pybullet = types.ModuleType("pybullet")
pybullet.places = []


class Bullet:
    """A simulator that is kept elsewhere, as those of PyBullet."""

    def __init__(self):
        self.number = len(pybullet.places)
        pybullet.places.append(0)


class Push(Counting):
    """Moves what is in its simulator."""

    def __init__(self):
        super().__init__(3)
        self.number = Bullet().number

    def step(self, action):
        pybullet.places[self.number] += 1
        return super().step(action)


def test_an_environment_whose_copy_would_step_the_same_simulator_is_made_again_or_refused(monkeypatch):
    holder = Counting(3)
    as_factory(holder)()
    monkeypatch.setitem(sys.modules, "pybullet", pybullet)
    as_factory(holder)()
    holder.simulator = Bullet()
    for env, name in ((Push(), "Push"), (holder, "Counting")):
        with pytest.raises(
            EnvironmentMismatchError, match=rf"^{name} cannot be copied \(pybullet.*give env as a function"
        ):
            as_factory(env)()
    monkeypatch.setitem(gymnasium.registry, "Push-v0", gymnasium.envs.registration.EnvSpec("Push-v0", Push))
    env = gymnasium.make("Push-v0", disable_env_checker=True)
    another = as_factory(env)()
    another.reset(seed=0)
    another.step(0)
    assert another.unwrapped.number == env.unwrapped.number + 1
    assert pybullet.places[-2:] == [0, 1]
