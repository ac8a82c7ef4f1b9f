"""MADDPG: what its losses are made of, and that it learns what independent learners do not."""

import importlib

import numpy as np
import pytest

from note_rl.collect.evaluation import random_policy_returns
from note_rl.environments.multi_agent import joint_environments
from note_rl.errors import EnvironmentMismatchError
from note_rl.examples.coordination import CoordinationGame
from note_rl.policy import EpsGreedyQPolicy, SoftmaxPolicy
from note_rl.policy.noise import GaussianWhiteNoiseProcess
from note_rl.seeding import seed_everything
from note_rl.training.callbacks import LambdaCallback
from tests.note_rl.environments.several_agents import Lists, Unlike
from tests.note_rl.frameworks import frameworks

QUIETLY = {"p": 0, "jit_compile": False}  # compiling eight networks takes longer than these runs
FRAMEWORKS = pytest.mark.parametrize("framework", frameworks())


def maddpg(framework, env, seed=1, policy=None, noise=None, agent=None, **settings):
    make_agent = framework.agents.MADDPG
    seed_everything(seed)
    made = make_agent(**{"hidden_size": (8,), **(agent or {})}, env=env)
    explore = {"noise": noise} if noise is not None else {"policy": policy or SoftmaxPolicy()}
    replay = {"pool_size": 1000, "batch": 8, "train_freq": 8, "num_updates": 2}
    made.set(MARL=True, seed=seed, **explore, **{**replay, **settings})
    return made, [framework.optimizers.adam(group, 1e-3) for group in made.param]


def learned(framework, centralised, seed):
    agent, _ = maddpg(
        framework,
        CoordinationGame,
        seed,
        agent={"hidden_size": (64, 64), "centralised": centralised, "gamma": 0.9, "entropy_coef": 0.1},
        **{
            "pool_size": 10_000,
            "batch": 64,
            "train_freq": 16,
            "learning_starts": 1000,
            "num_updates": 8,
            "num_envs": 4,
        },
    )
    rates = (1e-3, 1e-3, 5e-3, 5e-3)
    optimizers = [framework.optimizers.adam(group, rate) for group, rate in zip(agent.param, rates, strict=True)]
    agent.train(optimizer=optimizers, total_steps=3000, p=0)
    return agent.evaluate(20).mean


@pytest.mark.slow
@pytest.mark.parametrize("framework", frameworks()[:1])
def test_two_learn_together(framework):
    assert random_policy_returns(joint_environments(CoordinationGame), 100, 0).mean() < 0.0
    assert learned(framework, centralised=True, seed=2) == pytest.approx(20.0, abs=1e-4)


@pytest.mark.slow
@FRAMEWORKS
@pytest.mark.parametrize("seed", [1, 2, 3])
def test_with_other_seeds_too_and_neither_learns_it_alone(framework, seed):
    assert learned(framework, centralised=True, seed=seed) > 15.0
    assert learned(framework, centralised=False, seed=seed) < 5.0  # passing for ever gives 2


@FRAMEWORKS
@pytest.mark.parametrize("centralised", [True, False])
def test_losses_against_a_slow_reference(framework, centralised):
    agent, _ = maddpg(framework, Unlike, agent={"centralised": centralised, "entropy_coef": 0.5, "tau": 0.3})
    tensor = importlib.import_module("torch").from_numpy if framework.package == "pytorch" else lambda x: x
    agent.update_param()
    rng = np.random.default_rng(1)
    s, next_s = rng.normal(size=(2, 5, 2, 2)).astype(np.float32)
    a = rng.integers(2, size=(5, 2)).astype(np.int32)
    r, discount = rng.normal(size=(2, 5, 2)).astype(np.float32)
    agent.discount = tensor(discount)
    agent.prioritized_replay.begin(5)
    losses = agent(*(tensor(x) for x in (s, a, next_s, r, r * 0)))
    td_error, _ = agent.prioritized_replay.take()

    def net(model, x):
        return framework.array(model(tensor(x[None].astype(np.float32))))[0]

    def probabilities(actors, seen, i):
        scores = net(actors[i], seen[i])[: 2 + i]  # the scout has two actions, the carrier three
        shares = np.exp(scores - scores.max())
        return np.append(shares / shares.sum(), [0.0] * (1 - i))

    def value(critics, seen, actions, i):
        hot = np.eye(3)[actions]
        parts = (seen.ravel(), hot.ravel()) if centralised else (seen[i], hot[i])
        return net(critics[i], np.concatenate(parts))[0]

    errors = np.zeros((5, 2))
    for row in range(5):
        then = [int(probabilities(agent.target_actors, next_s[row], i).argmax()) for i in range(2)]
        now = [int(probabilities(agent.actors, s[row], i).argmax()) for i in range(2)]
        for i in range(2):
            target = r[row, i] + discount[row, i] * value(agent.target_critics, next_s[row], then, i)
            errors[row, i] = value(agent.critics, s[row], a[row], i) - target
            np.testing.assert_allclose(framework.array(losses[2 + i])[row], errors[row, i] ** 2, rtol=2e-4, atol=1e-6)
            own = probabilities(agent.actors, s[row], i)
            expected = sum(
                own[k] * value(agent.critics, s[row], [k if j == i else now[j] for j in range(2)], i) for k in range(3)
            )
            entropy = -sum(share * np.log(share) for share in own if share > 0)
            actor_loss = -expected - 0.5 * entropy
            np.testing.assert_allclose(framework.array(losses[i])[row], actor_loss, rtol=2e-4, atol=1e-5)
    np.testing.assert_allclose(framework.array(td_error), np.abs(errors).mean(1), rtol=2e-4)


@FRAMEWORKS
@pytest.mark.parametrize("centralised", [True, False])
def test_observations_of_whole_numbers_are_numbers(framework, centralised):
    agent, _ = maddpg(framework, CoordinationGame, agent={"centralised": centralised})
    tensor = importlib.import_module("torch").from_numpy if framework.package == "pytorch" else lambda x: x
    rng = np.random.default_rng(1)
    s, next_s = rng.integers(2, size=(2, 5, 2, 3))
    a = rng.integers(5, size=(5, 2)).astype(np.int32)
    r, agent.discount = (tensor(x) for x in rng.normal(size=(2, 5, 2)).astype(np.float32))
    found = []
    for dtype in (np.int64, np.float32):
        seen, then = (tensor(x.astype(dtype)) for x in (s, next_s))
        agent.prioritized_replay.begin(5)
        found.append([framework.array(loss) for loss in agent(seen, tensor(a), then, r, r * 0)])
        agent.prioritized_replay.take()
    np.testing.assert_array_equal(*found)


@pytest.mark.slow_in_keras  # learners/test_base.py has groups and their losses in Keras
@FRAMEWORKS
def test_each_is_trained_by_its_own_loss_with_its_own_optimizer(framework):
    agent, optimizers = maddpg(framework, CoordinationGame)
    before = [[framework.array(p) for p in group] for group in agent.param]
    optimizers[1] = framework.optimizers.sgd(agent.param[1], 1e-20)  # the second actor stands still, and it alone
    agent.train(optimizer=optimizers, total_steps=24, **QUIETLY)
    moved = [
        any(np.abs(framework.array(p) - old).max() > 1e-6 for p, old in zip(group, olds, strict=True))
        for group, olds in zip(agent.param, before, strict=True)
    ]
    assert moved == [True, False, True, True]


@pytest.mark.slow_in_keras
@FRAMEWORKS
def test_continuous_actions_in_lists(framework):
    inner = []

    def make():
        inner.append(Lists())
        return inner[-1]

    agent, optimizers = maddpg(framework, make, noise=GaussianWhiteNoiseProcess(sigma=0.5), train_freq=32)
    result = agent.train(optimizer=optimizers, total_steps=64, **QUIETLY)
    assert result.num_gradient_steps == 4
    taken = [action for env in inner for action in env.taken]
    assert all(first.shape == (1,) and second.shape == (2,) for first, second in taken)
    assert max(float(np.abs(first).max()) for first, _ in taken) <= 1.0
    assert 1.0 < max(float(np.abs(second).max()) for _, second in taken) <= 2.0
    assert agent.evaluate(2).returns.tolist() == [9.0, 9.0]


@FRAMEWORKS
@pytest.mark.slow_in_keras
def test_two_groups_for_two_optimizers_and_a_policy_per_agent(framework):
    agent, optimizers = maddpg(
        framework, CoordinationGame, policy=[SoftmaxPolicy(), EpsGreedyQPolicy(0.3)], agent={"grouped": True}, PR=True
    )
    assert len(agent.param) == len(optimizers) == 2
    result = agent.train(optimizer=optimizers, total_steps=64, **QUIETLY)
    assert result.num_gradient_steps > 0
    assert np.isfinite(result.losses[-1])


@FRAMEWORKS
@pytest.mark.slow_in_keras
def test_in_two_halves_it_is_the_same(framework, tmp_path):
    whole, optimizers = maddpg(framework, Unlike, num_updates=1)
    straight = whole.train(optimizer=optimizers, total_steps=32, **QUIETLY)
    first, optimizers = maddpg(framework, Unlike, num_updates=1)
    stop = LambdaCallback(on_phase_end=lambda n: setattr(first, "stop_training", n == 2))
    first.train(optimizer=optimizers, total_steps=32, callbacks=[stop], **QUIETLY)
    first.save(tmp_path / "half")
    second, optimizers = maddpg(framework, Unlike, seed=9, num_updates=1)
    second.restore(tmp_path / "half")
    rest = second.train(optimizer=optimizers, total_steps=32, **QUIETLY)
    assert first.num_gradient_steps > 0
    assert straight.returns[-len(rest.returns) :] == rest.returns
    for mine, theirs in zip(framework.parameters(second), framework.parameters(whole), strict=True):
        np.testing.assert_array_equal(mine, theirs)


@pytest.mark.slow_in_keras  # rewards are changed before any framework
@FRAMEWORKS
def test_the_agents_own_reward_function_is_used_in_training_and_evaluation(framework):
    agent, optimizers = maddpg(framework, CoordinationGame, num_updates=1)
    agent.reward_done_func_ma = lambda rewards, dones: (rewards * 0 + 1, dones)
    assert agent.train(optimizer=optimizers, episodes=2, **QUIETLY).returns == [20.0, 20.0]
    assert agent.evaluate(1).returns.tolist() == [20.0]


@FRAMEWORKS
def test_a_film(framework, tmp_path):
    agent, _ = maddpg(framework, CoordinationGame)
    agent.animate_agent(5, tmp_path / "film.gif")
    assert (tmp_path / "film.gif").read_bytes()[:3] == b"GIF"


@FRAMEWORKS
def test_other_environments_are_refused(framework):
    with pytest.raises(EnvironmentMismatchError, match="has one action space"):
        framework.agents.MADDPG(env="CartPole-v1")
