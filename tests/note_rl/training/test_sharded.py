"""Ranks that have environments of their own; here they are threads, in test_replicas.py processes."""

import functools
from typing import ClassVar

import gymnasium
import numpy as np
import pytest
import torch

from note_rl.agents.pytorch import DQN, PPO, TD3
from note_rl.environments import EnvFactory
from note_rl.errors import (
    AgentContractError,
    CheckpointError,
    DivergedError,
    EnvironmentMismatchError,
    PeerError,
    SettingsError,
)
from note_rl.policy import EpsGreedyQPolicy, SoftmaxPolicy
from note_rl.policy.noise import GaussianWhiteNoiseProcess
from note_rl.seeding import integer, seed_everything
from note_rl.settings import Adaptive, Budget, Distributed
from note_rl.settings.schedules import Linear
from note_rl.training.callbacks import Callback
from note_rl.training.shard import check_can_be_sharded
from tests.note_rl.ranks import alike, trained_together
from tests.note_rl.recorded_samples import Recorder, concatenated

CLIP = 0.05  # so low that it always acts: averages are taken before
REPLAY = {"batch": 16, "pool_size": 400, "train_freq": 8, "num_updates": 4, "learning_starts": 32, "update_batches": 4}
NORMALISED = {"normalise_obs": True, "normalise_reward": True}


def dqn(**settings):
    agent = DQN(hidden_size=(8,))
    basic = {"policy": EpsGreedyQPolicy(0.2), "num_envs": 4, "max_grad_norm": CLIP, **REPLAY}
    agent.set(**{**basic, **settings}, seed=1)
    return agent, [torch.optim.Adam(agent.param, 1e-3)], 200


def prioritized():
    schedules = {"learning_rate": Linear(1e-3, 1e-4), "eps": Linear(1.0, 0.1)}
    return dqn(PR=True, alpha=0.7, num_steps=3, schedules=schedules, **NORMALISED)


def ppo():
    agent = PPO(hidden_size=(8,))
    rollouts = {"rollout_steps": 32, "num_epochs": 3, "batch": 16, "target_kl": 0.002}
    agent.set(policy=SoftmaxPolicy(), PPO=True, num_envs=4, **rollouts, **NORMALISED, max_grad_norm=CLIP, seed=1)
    return agent, [torch.optim.Adam(group, 1e-2) for group in agent.param], 512


def td3():
    agent = TD3((8,))
    agent.set(noise=GaussianWhiteNoiseProcess(sigma=0.1), num_envs=2, **REPLAY, max_grad_norm=CLIP, seed=1)
    return agent, [torch.optim.Adam(agent.param[0], 1e-3), torch.optim.SGD(agent.param[1], 1e-3)], 160


def made(make):
    seed_everything(0)
    return make()


def of(agent, optimizers):
    """The optimizers, for a copy of the agent that they were made for."""
    groups = agent.learner.groups
    owners = [[p for group in groups for p in group]] if len(optimizers) == 1 else groups
    several = [type(one)(owned, **one.defaults) for one, owned in zip(optimizers, owners, strict=True)]
    return several[0] if len(several) == 1 else several


def together(make, size=2, restored=None, steps=None, **options):
    agent, optimizers, total = made(make)
    agents = alike(agent, size)
    if restored is not None:
        agent.restore(restored)
    recorders, errors = [Recorder(one) for one in agents], []
    given = [of(one, optimizers) for one in agents]
    budget = Budget(total_steps=steps or total)
    result, _ = trained_together(agents, given, budget, errors, feeding="sharded", **options)
    assert not errors
    return agents, result, [recorder.samples for recorder in recorders]


@functools.cache
def trained(make):
    """Read only."""
    return together(make)


def parameters(agent):
    return {name: values for name, values in agent.learner.get_state().items() if name.startswith("agent/")}


ALL = pytest.mark.parametrize("make", [dqn, prioritized, ppo, td3], ids=lambda make: make.__name__)


@ALL
def test_ranks_take_the_steps_of_one_process_that_is_given_all_their_minibatches(make):
    agents, result, samples = trained(make)
    assert result.num_gradient_steps > 20
    sizes = {sample.reward.shape[1] for several in samples for sample, _ in several}
    assert sizes == {8}  # of 16
    alone, optimizers, _ = made(make)
    names = [name for name in samples[0][0][1] if name != "learning_rate"]
    alone.learner.prepare(of(alone, optimizers), CLIP, names, False)
    norms = []
    for blocks in zip(*samples, strict=True):
        assert all(hyperparameters == blocks[0][1] for _, hyperparameters in blocks)
        vars(alone).update({name: blocks[0][1][name] for name in names})
        update = alone.learner.update(concatenated([sample for sample, _ in blocks]), blocks[0][1])
        norms.extend(max(values) for name, values in update.reported.items() if name.startswith("gradient_norm"))
    assert min(norms) > 0
    assert max(norms) > CLIP  # it acts
    for name, values in parameters(alone).items():
        np.testing.assert_allclose(parameters(agents[0])[name], values, rtol=0, atol=1e-5)


@ALL
def test_ranks_are_equal_to_the_bit_and_have_seen_different_things(make):
    agents, result, samples = trained(make)
    first, second = (agent.learner.get_state() for agent in agents)
    for name, values in first.items():
        if name.startswith(("agent/", "optimizer/")):
            np.testing.assert_array_equal(second[name], values)
    for (mine, _), (theirs, _) in zip(*samples, strict=True):
        assert not np.isin(mine.obs.ravel(), theirs.obs.ravel()).all()
    for other in agents[1:]:
        assert other.obs_normaliser.get_state().keys() == agents[0].obs_normaliser.get_state().keys()
        for name, values in agents[0].obs_normaliser.get_state().items():
            np.testing.assert_array_equal(other.obs_normaliser.get_state()[name], values)
    assert result.num_env_steps == agents[0].num_env_steps == made(make)[2]


def by_environment_steps():
    return dqn(update_batches=None, update_steps=24)


@pytest.mark.parametrize("make", [dqn, by_environment_steps], ids=lambda make: make.__name__)
def test_ranks_learn_as_often_and_move_targets_when_one_process_does(make):
    alone, optimizers, steps = made(make)
    recorder = Recorder(alone)
    expected = alone.train(optimizers[0], total_steps=steps, p=0)
    _, result, samples = trained(make)
    assert (result.num_env_steps, len(result.losses)) == (expected.num_env_steps, len(expected.losses))
    moves = [sample.sync.tolist() for sample, _ in recorder.samples]
    assert 0 < sum(map(sum, moves)) < sum(map(len, moves))
    for rank in range(2):
        assert [sample.sync.tolist() for sample, _ in samples[rank]] == moves


def test_ranks_explore_and_draw_by_random_numbers_of_their_own():
    state = trained(dqn)[0][0]._trainer.state
    mine, theirs = state.to_json()["random"], state.shards[0].head["random"]
    for name in ("exploration", "sampling"):
        assert mine[name]["state"]["inc"] != theirs[name]["state"]["inc"]  # of the stream, wherever in it they are


class Seen(gymnasium.Wrapper):
    """Writes down which seeds its episodes begin with."""

    seeds: ClassVar[list[int]] = []

    def reset(self, *, seed=None, options=None):
        self.seeds.append(seed)
        return self.env.reset(seed=seed, options=options)


def test_environments_have_the_seeds_that_they_have_in_one_process():
    def seeded():
        agent, optimizers, _ = dqn(learning_starts=400)
        agent.env = EnvFactory("CartPole-v1", wrappers=[Seen], max_episode_steps=5)  # so that all begin alike
        return agent, optimizers, 80

    Seen.seeds.clear()
    alone, optimizers, steps = made(seeded)
    alone.train(optimizers[0], total_steps=steps, p=0)
    expected = sorted(Seen.seeds)
    Seen.seeds.clear()
    _, result, _ = together(seeded)
    assert sorted(Seen.seeds) == expected
    assert len(set(expected)) == 4 * 5
    assert (result.lengths, result.episode_steps) == ([5] * 16, [20] * 4 + [40] * 4 + [60] * 4 + [80] * 4)


def test_weights_are_divided_by_the_largest_of_all_ranks():
    _, _, (mine, theirs) = trained(prioritized)
    largest = np.concatenate(
        [[one.weights.max(1), other.weights.max(1)] for (one, _), (other, _) in zip(mine, theirs, strict=True)], axis=1
    )
    np.testing.assert_array_equal(largest.max(0), 1.0)
    assert (largest.min(1) < 0.9).all()  # now the one, now the other


def test_moments_are_those_of_what_all_ranks_have_seen():
    agents, _, _ = trained(prioritized)
    state = agents[0]._trainer.state
    stored = [
        state.experience.get_state(),
        {n[11:]: v for n, v in state.shards[0].arrays.items() if n[:11] == "experience/"},
    ]
    obs = np.concatenate([one["obs"][:100] for one in stored]).astype(np.float64)
    assert agents[0].obs_normaliser.moments.count == len(obs) == 200
    np.testing.assert_allclose(agents[0].obs_normaliser.moments.mean, obs.mean(0), rtol=1e-6, atol=1e-12)
    np.testing.assert_allclose(agents[0].obs_normaliser.moments.std, obs.std(0), rtol=1e-6)
    moments = state.reward_normaliser.get_state()
    assert moments["count"] == 200
    for name in ("count", "mean", "squares"):
        np.testing.assert_array_equal(state.shards[0].arrays[f"reward_normaliser/{name}"], moments[name])
    assert not np.array_equal(state.shards[0].arrays["reward_normaliser/return"], moments["return"])


def test_advantages_are_standardised_over_the_rollouts_of_all_ranks():
    _, _, samples = trained(ppo)
    epoch = [several[0][0].extras["advantage"] for several in samples]
    assert epoch[0].shape == (8, 8)  # one pass, as target_kl may end each
    assert abs(np.mean(epoch[0])) > 0.01
    np.testing.assert_allclose([np.mean(epoch), np.std(epoch)], [0.0, 1.0], atol=1e-5)


def test_target_kl_ends_passes_on_all_ranks_at_once():
    _, result, _ = trained(ppo)
    assert result.num_gradient_steps < 3 * 512 // 16  # else the other tests prove nothing of it


class Stopping(Callback):
    def __init__(self, phase, path=None):
        self.phase, self.path = phase, path

    def on_phase_end(self, phase, logs):
        if phase == self.phase:
            if self.path is not None:
                self.agent.save(self.path)
            self.agent.stop_training = True


@pytest.mark.parametrize(("make", "phase"), [(prioritized, 12), (ppo, 2)], ids=["prioritized", "ppo"])
@pytest.mark.parametrize("when", ["while training", "afterwards"])
def test_a_run_that_was_stopped_goes_on_exactly(make, phase, when, tmp_path):
    path = tmp_path / "file"
    torn, _, _ = together(make, callbacks=Stopping(phase, path if when == "while training" else None))
    if when == "afterwards":
        torn[0].save(path)
    agents, result, samples = together(make, restored=path)
    straight, expected, whole = trained(make)
    assert result.num_env_steps == expected.num_env_steps
    assert 0 < len(samples[1]) < len(whole[1])
    for name, values in parameters(straight[0]).items():
        np.testing.assert_array_equal(parameters(agents[0])[name], values)
    np.testing.assert_array_equal(samples[1][-1][0].obs, whole[1][-1][0].obs)  # by its own environments and pool


def test_training_goes_on_in_a_second_call_and_alone_with_new_environments():
    agent, optimizers, steps = made(dqn)
    agents = alike(agent, 2)
    given, errors = [of(one, optimizers) for one in agents], []
    for total in (96, steps):
        recorders = [Recorder(one) for one in agents]
        trained_together(agents, given, Budget(total_steps=total), errors, feeding="sharded")
    assert not errors
    assert agent.batch == 16
    expected = trained(dqn)[2][1][-1][0]
    np.testing.assert_array_equal(recorders[1].samples[-1][0].obs, expected.obs)  # as without schedules
    agent.train(total_steps=steps + 64, p=0)
    assert (agent.num_env_steps, len(agent._trainer.experience.buffer)) == (264, 64)  # of 4 environments
    assert agent._trainer.collector.num_envs == 4


def test_frameworks_draw_other_numbers_on_each_rank_and_go_on_where_they_were(tmp_path):
    told = []
    for total, restored in ((96, None), (160, tmp_path / "file")):
        agent, optimizers, _ = made(dqn)
        agents = alike(agent, 2)
        if restored is not None:
            agents[0].restore(restored)
        given, errors = [of(one, optimizers) for one in agents], []
        _, groups = trained_together(agents, given, Budget(total_steps=total), errors, feeding="sharded")
        assert not errors
        agents[0].save(tmp_path / "file")
        told.append((groups[1].seeds[0], groups[1].put))
    first, second = told
    assert first == (integer(1, "rank", 1), None)  # before the first update, which seeds anew
    assert second[0] != first[0]
    np.testing.assert_array_equal(second[1]["of"], [1])


def test_a_checkpoint_of_another_number_of_ranks_is_refused(tmp_path):
    agents, _, _ = trained(dqn)
    agents[0].save(tmp_path / "two")
    agent, optimizers, steps = made(dqn)
    agent.restore(tmp_path / "two")
    with pytest.raises(CheckpointError, match="pools of 2 ranks with feeding=sharded, and one process would go on"):
        agent.train(optimizers[0], total_steps=2 * steps, p=0)
    other = made(lambda: dqn(num_envs=2, pool_size=200))[0]
    with pytest.raises(CheckpointError, match="holds 4 environments, this run 2"):
        other.restore(tmp_path / "two")
    agent, optimizers, _ = made(dqn)
    agent.train(optimizers[0], total_steps=40, p=0)
    agent.save(tmp_path / "one")
    with pytest.raises(CheckpointError, match="pools of one process, and 2 ranks with feeding=sharded would go on"):
        together(dqn, restored=tmp_path / "one")


class Failing(gymnasium.Wrapper):
    """Fails in the fifth step of an episode that has begun with one of these seeds."""

    unlucky: ClassVar[set[int]] = set()
    closed: ClassVar[set[int]] = set()

    def __init__(self, env):
        super().__init__(env)
        self.left = 5

    def step(self, action):
        self.left -= 1
        if self.left == 0 and self.unwrapped.np_random_seed in self.unlucky:
            raise OSError("the simulator has gone")
        return self.env.step(action)

    def close(self):
        self.closed.add(self.unwrapped.np_random_seed)
        super().close()


def test_a_rank_whose_environment_fails_ends_all_and_its_pool_is_lost(tmp_path):
    def failing():
        agent, optimizers, steps = dqn()
        agent.env = EnvFactory("CartPole-v1", wrappers=[Failing])
        return agent, optimizers, steps

    Failing.unlucky = {integer(1, "environment", 3, 0)}  # the last one of rank 1
    agent, optimizers, _ = made(failing)
    agents, errors = alike(agent, 2), []
    given = [of(one, optimizers) for one in agents]
    with pytest.raises(PeerError, match="rank 1 has failed: OSError: the simulator has gone"):
        trained_together(agents, given, Budget(total_steps=200), errors, feeding="sharded")
    assert [type(error) for error in errors] == [OSError]
    assert Failing.closed >= Failing.unlucky
    agent.save(tmp_path / "file")
    Failing.unlucky = set()
    agent.train(given[0], total_steps=agent.num_env_steps + 64, p=0)  # what it has learned is there
    assert agent._trainer.collector.num_envs == 4
    with pytest.raises(CheckpointError, match="after other ranks were lost with what they had collected"):
        together(failing, restored=tmp_path / "file")


class Blind(gymnasium.Wrapper):
    """What is seen of an episode that has begun with this seed is not a number from its fifth step on."""

    seed = -1

    def __init__(self, env):
        super().__init__(env)
        self.left = 5

    def step(self, action):
        obs, *rest = self.env.step(action)
        self.left -= 1
        spoilt = self.left <= 0 and self.unwrapped.np_random_seed == self.seed
        return obs * np.nan if spoilt else obs, *rest


def test_a_rank_whose_environment_gives_what_is_not_finite_is_named():
    agent, optimizers, _ = made(dqn)
    agent.env = EnvFactory("CartPole-v1", wrappers=[Blind])
    Blind.seed = integer(1, "environment", 3, 0)  # the last one of rank 1
    agents, errors = alike(agent, 2), []
    given = [of(one, optimizers) for one in agents]
    with pytest.raises(
        PeerError, match=r"rank 1 has failed: EnvironmentMismatchError: an observation of CartPole.*nan"
    ):
        trained_together(agents, given, Budget(total_steps=400), errors, feeding="sharded")
    assert [type(error) for error in errors] == [EnvironmentMismatchError]


def test_a_rank_whose_td_error_is_not_finite_has_diverged():
    agent, optimizers, _ = made(prioritized)
    agents, errors = alike(agent, 2), []

    class Overflowing(type(agent)):
        """Its priorities overflow, while its loss does not."""

        def __call__(self, s, a, next_s, r, d):
            q = self.q_net(s).mean(1)
            self.prioritized_replay.update(torch.full_like(q.detach(), torch.inf))
            self.report(q_mean=q)
            return q

    agents[1].__class__ = Overflowing
    given = [of(one, optimizers) for one in agents]
    with pytest.raises(DivergedError, match="rank 1 has diverged: a TD error handed to prior"):
        trained_together(agents, given, Budget(total_steps=200), errors, feeding="sharded")
    assert [type(error) for error in errors] == [DivergedError]


def test_the_criterion_ends_all_ranks_by_the_episodes_of_all():
    _, result, _ = together(lambda: dqn(trial_count=6, criterion=5.0))
    assert result.stop_reason == "criterion"
    assert 6 <= len(result.returns) < 12


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"num_envs": 3}, "num_envs=3 is that of all 2 ranks together, .* it a multiple of 2, such as num_envs=4"),
        (
            {"num_envs": 3, "pool_size": 401},
            "num_envs=3, pool_size/capacity=401 are those of all 2 ranks together, .* make them multiples of 2, such as"
            " num_envs=4, pool_size/capacity=402",
        ),
        ({"num_envs": None}, "num_envs=1 is that of all 2 ranks together"),
        ({"num_envs": "auto"}, 'num_envs="auto" cannot be combined: each rank would measure another number'),
        ({"pool_size": 401}, "pool_size/capacity=401"),
        (
            {"train_freq": None},
            r"training once per episode \(no train_freq\) cannot be combined: episodes end at other",
        ),
        ({"train_freq": 9}, "train_freq=9"),
        ({"learning_starts": 33}, "learning_starts=33"),
        ({"update_batches": None, "update_steps": 15}, "update_steps/target_update_env_steps=15"),
        (
            {"adaptive": Adaptive(signals=["gradient_noise"], parameters={"batch_size": {}})},
            "adaptive cannot be combined",
        ),
        (
            {"policy": [EpsGreedyQPolicy(0.1), EpsGreedyQPolicy(0.5)]},
            "a list of policies or noises, one per environment cannot",
        ),
        ({"TRL": True}, r"TRL \(trajectories\) cannot be combined"),
    ],
)
def test_settings_that_cannot_be_sharded_are_refused(settings, message):
    agent, _, _ = made(lambda: dqn(**settings))
    with pytest.raises(SettingsError, match=message):
        check_can_be_sharded(agent, agent.settings, 2, agent.env)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"pool_network": True, "processes": 2}, r"worker processes \(pool_network, collector\) cannot be combined"),
        ({"window_size": 100}, r"a window \(window_size, clearing_freq, ...\) cannot be combined: what it leaves"),
        ({"feeding": "dealt"}, "feeding must be one of split, sharded, got 'dealt'"),
    ],
)
def test_options_that_cannot_be_sharded_are_refused_before_a_process_starts(options, message):
    agent, optimizers, _ = made(dqn)
    with pytest.raises(SettingsError, match=message):
        agent.distributed_training(optimizers[0], "ddp", replicas=2, total_steps=9, **{"feeding": "sharded", **options})


def test_agents_that_decide_for_themselves_and_vector_environments_are_refused():
    agent, _, _ = made(dqn)
    with pytest.raises(SettingsError, match=r"agent\.env is a vector environment"):
        check_can_be_sharded(
            agent, agent.settings, 2, gymnasium.vector.SyncVectorEnv([lambda: gymnasium.make("CartPole-v1")] * 4)
        )
    agent.adjust_func = lambda: None
    with pytest.raises(AgentContractError, match="each rank would decide by what it has seen alone"):
        check_can_be_sharded(agent, agent.settings, 2)


def test_callbacks_that_adjust_are_refused():
    class Adjusting(Callback):
        def on_phase_end(self, phase, logs):
            if self.agent._trainer.adaptation.measurements.last is not None:
                self.agent.adjust(batch_params={})

    agent, optimizers, _ = made(dqn)
    agents, errors = alike(agent, 2), []
    given = [of(one, optimizers) for one in agents]
    with pytest.raises(SettingsError, match=r"feeding=sharded and \w+\(\) cannot be combined: it would go by"):
        trained_together(agents, given, Budget(total_steps=200), errors, feeding="sharded", callbacks=Adjusting())


@pytest.mark.parametrize("strategy", ["mirrored", "parameter_server"])
def test_strategies_without_ranks_are_refused(strategy):
    with pytest.raises(SettingsError, match=f"which goes with strategy=ddp .* of strategy={strategy}, "):
        Distributed(strategy=strategy, feeding="sharded")
