"""Vector environments made elsewhere give what environments stepped one by one give."""

import functools
import sys
import threading
import types

import gymnasium
import numpy as np
import pytest
from gymnasium import spaces
from gymnasium.vector import AsyncVectorEnv, AutoresetMode, SyncVectorEnv, VectorEnv

from note_rl.collect.collector import Collector
from note_rl.collect.evaluation import evaluate
from note_rl.environments import EnvFactory, VectorEnvironment, as_factory, training_environments
from note_rl.environments.env_pool import EnvPoolVector
from note_rl.environments.gymnasium_vector import ForeignVector, foreign_environments
from note_rl.environments.own_vectors import SeededCartPole, own_vector
from note_rl.errors import CheckpointError, EnvironmentMismatchError
from note_rl.learners.numpy_policy import NumpyPolicy
from note_rl.policy import EpsGreedyQPolicy, GreedyQPolicy, SoftmaxPolicy
from tests.note_rl.small_environments import Counting

COLUMNS = ("obs", "action", "reward", "next_obs", "terminated", "ended")
MODES = list(AutoresetMode)


class Walk(Counting):
    """Counting, moved by its actions; episodes of different lengths, which a reset without a seed does not change."""

    def reset(self, *, seed=None, options=None):
        super().reset(seed=seed)
        if seed is None:
            self.mark = self.first_mark
        self.first_mark = self.mark
        return self._observation(), {}

    def step(self, action):
        _, reward, terminated, truncated, info = super().step(action)
        self.mark = self.mark + 10.0 * action
        return self._observation(), reward + self.mark, terminated, truncated, info


def makers(kind, by_time=False):
    return [functools.partial(kind, length, by_time) for length in (2, 3, 5)]


class Numbered(VectorEnv):
    """E countings written as one, in the mode NEXT_STEP, as the users' own vector environments are."""

    says_ends_twice = False  # in the dead step too

    def __init__(self, lengths=(2, 3, 5), by_time=False, mode=AutoresetMode.NEXT_STEP):
        self.num_envs = len(lengths)
        self.lengths, self.by_time = np.array(lengths), by_time
        self.metadata = {"autoreset_mode": mode}
        self.single_observation_space = spaces.Box(-np.inf, np.inf, (1,), np.float32)
        self.single_action_space = spaces.Discrete(2)
        self.observation_space = gymnasium.vector.utils.batch_space(self.single_observation_space, self.num_envs)
        self.action_space = gymnasium.vector.utils.batch_space(self.single_action_space, self.num_envs)
        self.dead = np.zeros(self.num_envs, bool)
        self.steps = np.zeros(self.num_envs)

    def reset(self, *, seed=None, options=None):
        mask = (options or {}).get("reset_mask", np.ones(self.num_envs, bool))
        self.steps[mask] = 0
        self.dead[mask] = False
        return self.steps[:, None].astype(np.float32), {}

    def step(self, actions):
        if self.metadata["autoreset_mode"] is AutoresetMode.DISABLED:
            assert not self.dead.any(), "stepped after the end"
        self.steps = np.where(self.dead, 0, self.steps + 1)
        over = (self.steps >= self.lengths) & ~self.dead
        reward = np.where(self.dead, -999.0, self.steps)
        self.dead, over = over, over | (self.dead & self.says_ends_twice)
        none = np.zeros(self.num_envs, bool)
        obs = self.steps[:, None].astype(np.float32)
        return obs, reward, none if self.by_time else over, over if self.by_time else none, {}


def collected(envs, num_steps, times=1):
    """What a collector gathers whose actions depend on what it sees only, joined along T, and its episodes."""
    collector = Collector(envs, GreedyQPolicy(), np.random.default_rng(0))
    rounds, episodes = [], []
    for _ in range(times):
        steps, ended = collector.collect(lambda obs: np.stack([obs[:, 0] % 2, np.full(len(obs), 0.5)], 1), num_steps)
        rounds.append(steps)
        episodes.extend(ended)
    return {name: np.concatenate([getattr(one, name) for one in rounds]) for name in COLUMNS}, episodes


def same(ours, theirs):
    for name in COLUMNS:
        np.testing.assert_array_equal(ours[name], theirs[name], err_msg=name)
        assert ours[name].dtype == theirs[name].dtype, name


@pytest.mark.parametrize("by_time", [True, False])
@pytest.mark.parametrize("mode", MODES)
def test_every_mode_gives_what_one_by_one_gives(mode, by_time):
    expected, episodes = collected(VectorEnvironment([make() for make in makers(Walk, by_time)], seed=4), 20)
    if mode is AutoresetMode.SAME_STEP:  # later seeds are not ours to give: each environment keeps its first mark
        expected = first_marks(by_time)
    vector = SyncVectorEnv(makers(Walk, by_time), autoreset_mode=mode)
    steps, ended = collected(training_environments(vector, None, seed=4), 20)
    same(steps, expected)
    assert [(one.length, one.env_index) for one in ended] == [(one.length, one.env_index) for one in episodes]
    assert {one.length for one in ended if one.env_index == 1} == {3}
    assert steps["terminated"].any() == (not by_time)


def first_marks(by_time):
    """One by one, every episode begun without a seed but the first."""
    envs = VectorEnvironment([make() for make in makers(Walk, by_time)], seed=4)
    for env in envs.envs:
        env.reset = functools.partial(lambda reset, **_: reset(), env.reset)
    return collected(envs, 20)[0]


def test_workers_of_gymnasium_give_the_same():
    expected, _ = collected(VectorEnvironment([make() for make in makers(Walk)], seed=4), 12)
    envs = training_environments(AsyncVectorEnv(makers(Walk)), 3, seed=4)
    try:
        same(collected(envs, 12)[0], expected)
    finally:
        envs.close()


@pytest.mark.parametrize("num_steps", [1, 4, 10])
@pytest.mark.parametrize("by_time", [True, False])
@pytest.mark.parametrize("twice", [True, False])
def test_dead_steps_are_neither_stored_nor_counted(by_time, num_steps, twice):
    times = 40 // num_steps
    vector = Numbered(by_time=by_time)
    vector.says_ends_twice = twice
    envs = training_environments(vector, None, seed=0)
    steps, episodes = collected(envs, num_steps, times)
    for index, length in enumerate((2, 3, 5)):
        count = np.arange(40) % length  # what a counting of its own would show, without a gap
        assert steps["obs"][:, index, 0].tolist() == count.tolist()
        assert steps["next_obs"][:, index, 0].tolist() == (count + 1).tolist()  # the true last one included
        assert steps["reward"][:, index].tolist() == (count + 1).tolist()
        assert steps["action"][:, index].tolist() == [int(one % 2 > 0.5) ^ 1 for one in count]
        assert steps["ended"][:, index].tolist() == (count + 1 == length).tolist()
        assert (steps["terminated"] == steps["ended"]).all() == (not by_time)
        mine = [one for one in episodes if one.env_index == index]
        assert {(one.return_, one.length) for one in mine} == {(length * (length + 1) / 2, length)}
        assert len(mine) >= 40 // length


def test_frames_and_phases_of_one_episode_with_dead_steps():
    shown = []

    def act(obs):
        shown.append(obs[0].tolist())
        return np.zeros((1, 2))

    envs = training_environments(Numbered((2,)), None, seed=0)
    collector = Collector(envs, GreedyQPolicy(), np.random.default_rng(0), frame_stack=2)
    lengths = [len(collector.collect(act, None)[0].ended) for _ in range(3)]
    assert lengths == [2, 2, 2]
    assert shown == [[0, 0], [0, 1], [2, 2], [0, 0], [0, 1], [2, 2], [0, 0], [0, 1]]  # the third is a dead step's


def test_vectors_that_are_told_are_never_stepped_after_an_end():
    steps, _ = collected(training_environments(Numbered(mode=AutoresetMode.DISABLED), None, seed=0), 30)
    assert steps["obs"][:, 1, 0].tolist() == [0, 1, 2] * 10


def test_the_true_last_observation_of_the_same_step_is_asked_for():
    envs = training_environments(Numbered(mode=AutoresetMode.SAME_STEP), None, seed=0)
    with pytest.raises(EnvironmentMismatchError, match="final_obs"):
        collected(envs, 5)


def test_what_does_not_fit_is_refused():
    with pytest.raises(EnvironmentMismatchError, match="num_envs=2, but env is a vector environment of 3"):
        training_environments(Numbered(), 2, seed=0)
    with pytest.raises(EnvironmentMismatchError, match="autoreset_mode"):
        training_environments(Numbered(mode=None), None, seed=0)
    taxi = SyncVectorEnv([lambda: gymnasium.make("FrozenLake-v1")])
    with pytest.raises(EnvironmentMismatchError, match="FlattenObservation"):
        training_environments(taxi, None, seed=0)


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


def test_goals_of_a_vector():
    import note_rl.examples.environments  # noqa: F401 (registers it)

    make = functools.partial(gymnasium.make, "BitFlipping8-v0")
    alone = training_environments(make, 3, seed=2)
    for mode in MODES[::2]:
        envs = training_environments(SyncVectorEnv([make] * 3, autoreset_mode=mode), None, seed=2)
        alone = training_environments(make, 3, seed=2)
        for step in range(20):
            for mine, theirs in zip(envs.step(np.full(3, step % 8)), alone.step(np.full(3, step % 8)), strict=True):
                np.testing.assert_array_equal(mine, theirs)
            np.testing.assert_array_equal(envs.achieved_goal, alone.achieved_goal)
        assert envs.goal_layout.goal_size == 8


def test_episodes_of_a_seeded_vector_are_brought_back():
    def make():
        factories = [functools.partial(gymnasium.make, "CartPole-v1")] * 3
        return training_environments(SyncVectorEnv(factories), None, seed=3)

    rng = np.random.default_rng(0)
    envs, alone = make(), VectorEnvironment([gymnasium.make("CartPole-v1") for _ in range(3)], seed=3)
    for _ in range(57):
        envs.step(rng.integers(2, size=3))
    state = {name: values.copy() for name, values in envs.get_state().items()}
    other = make()
    assert other.set_state(state)
    assert alone.set_state(state)  # and the other way round: one kind of state
    assert make().set_state(alone.get_state())
    for action in rng.integers(2, size=(40, 3)):
        for mine, theirs, third in zip(envs.step(action), other.step(action), alone.step(action), strict=True):
            np.testing.assert_array_equal(mine, theirs)
            np.testing.assert_array_equal(mine, third)
    with pytest.raises(CheckpointError, match="num_envs"):
        training_environments(SyncVectorEnv(makers(Counting)[:2]), None, seed=3).set_state(state)


def test_other_vectors_say_that_they_cannot_be_brought_back():
    envs = training_environments(Numbered(), None, seed=0)
    envs.step(np.zeros(3, int))
    assert not envs.set_state(envs.get_state())
    assert envs.obs.tolist() == [[0], [0], [0]]


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


class Pool(Numbered):
    """EnvPool's interface as version 1.2 has it: seeded when made; reset(indices) gives the rows of these only."""

    def __init__(self, num_envs, seed, max_episode_steps=3):
        super().__init__(tuple(range(2, 2 + num_envs)))
        self.seed, self.limit, self.closed_ = seed, max_episode_steps, False
        self.lengths = np.minimum(self.lengths, max_episode_steps)

    def reset(self, env_id=None):
        if env_id is None:
            return super().reset()
        assert env_id.dtype == np.int32
        mask = np.isin(np.arange(self.num_envs), env_id)
        obs, _ = super().reset(options={"reset_mask": mask})
        return obs[env_id], {"env_id": env_id}

    def step(self, actions):
        assert not self.dead.any()
        return super().step(actions)

    def close(self):
        self.closed_ = True


@pytest.fixture
def envpool(monkeypatch):
    made = []

    def make_gymnasium(task, **kwargs):
        assert task == "Count-v0", f"{task} is not supported"
        made.append(Pool(**kwargs))
        return made[-1]

    module = types.ModuleType("envpool")
    module.make_gymnasium = make_gymnasium
    monkeypatch.setitem(sys.modules, "envpool", module)
    return made


def test_environments_of_envpool(envpool):
    steps, _ = collected(training_environments("envpool:Count-v0", 2, seed=5), 12)
    assert steps["obs"][:, :, 0].T.tolist() == [[0, 1] * 6, [0, 1, 2] * 4]
    assert steps["next_obs"][:, :, 0].T.tolist() == [[1, 2] * 6, [1, 2, 3] * 4]
    assert 0 <= envpool[0].seed < 2**31
    assert len(envpool) == 1
    single = EnvFactory("envpool:Count-v0", max_episode_steps=1)()
    assert single.reset(seed=11)[0].tolist() == [0]
    seed = envpool[-1].seed
    single.reset(seed=12)
    assert envpool[-1].seed != seed  # a seed can only be given to a new pool
    single.reset(seed=11)
    assert (envpool[-1].seed, envpool[-1].limit, envpool[-2].closed_) == (seed, 1, True)
    assert single.step(0)[2]
    single.close()
    assert envpool[-1].closed_
    with pytest.raises(EnvironmentMismatchError, match="No-v0 is not supported"):
        EnvPoolVector("envpool:No-v0", 2)
    with pytest.raises(EnvironmentMismatchError, match="cannot be wrapped"):
        training_environments(EnvFactory("envpool:Count-v0", wrappers=[lambda env: env]), 2, seed=0)


def test_envpool_that_is_not_installed_is_named(monkeypatch):
    monkeypatch.setitem(sys.modules, "envpool", None)
    with pytest.raises(EnvironmentMismatchError, match=r"note-rl\[envpool\]"):
        training_environments("envpool:CartPole-v1", 2, seed=0)


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
