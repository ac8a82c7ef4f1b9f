"""Several ranks come to the numbers of one process; here they are threads, in test_replicas.py processes."""

import threading

import numpy as np
import pytest
import torch

from note_rl.agents.pytorch import DQN, PPO, TD3
from note_rl.errors import DivergedError, PeerError
from note_rl.learners.pytorch.step_graph.builder import Builder
from note_rl.policy import EpsGreedyQPolicy, SoftmaxPolicy
from note_rl.policy.noise import GaussianWhiteNoiseProcess
from note_rl.settings import Budget
from note_rl.settings.schedules import Linear
from note_rl.training.callbacks import Callback
from tests.note_rl.distributed.rank_agents import CLIP, REPLAY, dqn, made, optimizer_of, parameters
from tests.note_rl.distributed.ranks import alike, trained_together


def ppo():
    agent = PPO(hidden_size=(8,))
    agent.set(
        policy=SoftmaxPolicy(),
        PPO=True,
        rollout_steps=32,
        num_epochs=3,
        batch=16,
        max_grad_norm=CLIP,
        target_kl=0.01,
        seed=1,
    )
    return agent, [torch.optim.Adam(group, 1e-3) for group in agent.param], 128


def td3():
    agent = TD3((8,))
    agent.set(noise=GaussianWhiteNoiseProcess(sigma=0.1), **REPLAY, max_grad_norm=CLIP, seed=1)
    return agent, [torch.optim.Adam(agent.param[0], 1e-3), torch.optim.SGD(agent.param[1], 1e-3)], 100


def prioritized():
    return dqn(PR=True, alpha=0.7, num_steps=3, schedules={"learning_rate": Linear(1e-3, 1e-4)})


def together(make, size=2, **options):
    agent, optimizers, steps = made(make)
    agents = alike(agent, size)
    given = [optimizer_of(one, optimizers) for one in agents]
    errors = []
    result, groups = trained_together(agents, given, Budget(total_steps=steps), errors, **options)
    assert not errors
    return agents, result, groups


@pytest.mark.parametrize(
    ("make", "jit"),
    [
        *(pytest.param(make, False, id=f"eager-{make.__name__}") for make in (dqn, ppo, td3, prioritized)),
        *(  # several optimizers and groups that wait, recorded: step_graph/test_program.py
            pytest.param(make, True, id=f"recorded-{make.__name__}", marks=[pytest.mark.slow] * (make in (ppo, td3)))
            for make in (dqn, ppo, td3, prioritized)
        ),
    ],
)
def test_two_ranks_take_the_steps_of_one(make, jit, monkeypatch):
    if jit:  # recorded, by one thread at a time, and not compiled
        replayed, turn = Builder.replayed, threading.Lock()

        def in_turn(*arguments):
            with turn:
                return replayed(*arguments)

        monkeypatch.setattr(Builder, "replayed", in_turn)
        monkeypatch.setattr(Builder, "compile", lambda *arguments: None)
    alone, optimizers, steps = made(make)
    expected = alone.train(optimizer_of(alone, optimizers), total_steps=steps, jit_compile=jit, p=0)
    agents, result, groups = together(make, jit_compile=jit)
    assert result.num_gradient_steps == expected.num_gradient_steps > 20
    assert groups[0].num_exchanges == groups[1].num_exchanges == result.num_gradient_steps  # one each
    np.testing.assert_allclose(result.losses, expected.losses, rtol=1e-4, atol=1e-5)
    assert result.returns == expected.returns
    for name, values in parameters(alone).items():
        np.testing.assert_allclose(parameters(agents[0])[name], values, rtol=0, atol=1e-5)
        np.testing.assert_array_equal(parameters(agents[1])[name], parameters(agents[0])[name])
    norms = [value for name, value in agents[0].reported.items() if name.startswith("gradient_norm")]
    assert norms
    assert max(norms) > CLIP  # it acts


def test_four_ranks_are_equal_to_the_bit_after_100_steps():
    agents, result, _ = together(lambda: (*dqn(num_updates=8, batch=8)[:2], 136), size=4)
    assert result.num_gradient_steps >= 100
    first = agents[0].learner.get_state()
    for other in agents[1:]:
        for name, values in other.learner.get_state().items():
            if name.startswith(("agent/", "optimizer/")):
                np.testing.assert_array_equal(values, first[name])


def test_priorities_are_those_of_one_process():
    alone, optimizers, steps = made(prioritized)
    alone.train(optimizer_of(alone, optimizers), total_steps=steps, p=0)
    agents, _, _ = together(prioritized)
    expected = alone._trainer.experience.priorities()
    assert len(np.unique(expected)) > 50
    np.testing.assert_allclose(agents[0]._trainer.experience.priorities(), expected, rtol=1e-3)


def test_numbers_that_change_on_the_way_reach_every_rank():
    class Changing(Callback):
        def __init__(self, agent, optimizer):
            self.agent, self.optimizer = agent, optimizer

        def on_phase_end(self, phase, logs):
            self.agent.gamma = 0.99 - 0.01 * phase
            self.optimizer.param_groups[0]["lr"] = 0.01 / (1 + phase)

    results = []
    for size in (1, 2):
        agent, optimizers, steps = made(dqn)
        agents = alike(agent, size)
        given = [optimizer_of(one, optimizers) for one in agents]
        changing = Changing(agent, given[0])
        if size == 1:
            agent.train(given[0], total_steps=steps, callbacks=changing, p=0)
        else:
            trained_together(agents, given, Budget(total_steps=steps), [], callbacks=changing)
        results.append(parameters(agent))
    for name, values in results[0].items():
        np.testing.assert_allclose(results[1][name], values, rtol=0, atol=1e-5)


def test_train_goes_on_alone_afterwards_and_the_other_way_round():
    alone, optimizers, steps = made(dqn)
    given = optimizer_of(alone, optimizers)
    alone.train(given, total_steps=steps // 2, p=0)
    alone.train(given, total_steps=steps, p=0)
    agents, _, groups = together(lambda: (*made(dqn)[:2], steps // 2))
    exchanges = groups[0].num_exchanges
    agents[0].train(total_steps=steps, p=0)
    assert groups[0].num_exchanges == exchanges
    for name, values in parameters(alone).items():
        np.testing.assert_allclose(parameters(agents[0])[name], values, rtol=0, atol=1e-5)


def test_a_rank_that_fails_ends_all_with_its_words():
    agent, optimizers, steps = made(dqn)
    agents = alike(agent, 2)
    plain = type(agents[1]).__call__

    class Failing(type(agent)):
        def __call__(self, *arguments):
            if self.discount.shape[0] == 8:
                raise KeyError("out of luck")
            return plain(self, *arguments)

    agents[1].__class__ = Failing
    with pytest.raises(PeerError, match=r"rank 1 has failed: KeyError: 'out of luck'|an exchange between ranks"):
        trained_together(agents, [optimizer_of(one, optimizers) for one in agents], Budget(total_steps=steps), [])


def test_what_rank_0_raises_ends_the_others():
    class Raising(Callback):
        def on_phase_end(self, phase, logs):
            if phase == 6:
                raise OSError("disk full")

    agent, optimizers, steps = made(dqn)
    agents = alike(agent, 2)
    given = [optimizer_of(one, optimizers) for one in agents]
    words = []
    with pytest.raises(OSError, match="disk full"):
        trained_together(agents, given, Budget(total_steps=steps), words, callbacks=Raising())
    assert [str(one) for one in words] == ["rank 0 has failed: OSError: disk full"]


def test_a_rank_with_other_parameters_is_found_out(monkeypatch):
    monkeypatch.setattr("note_rl.distributed.leader._COMPARED_OFTEN", 2)

    class Meddling(Callback):
        changes_parameters = False

        def on_phase_end(self, phase, logs):
            with torch.no_grad():
                agents[1].param[0].add_(1e-3)

    agent, optimizers, steps = made(dqn)
    agents = alike(agent, 2)
    given = [optimizer_of(one, optimizers) for one in agents]
    with pytest.raises(PeerError, match="rank 1 holds other parameters than rank 0"):
        trained_together(agents, given, Budget(total_steps=steps), [], callbacks=Meddling())


def test_all_ranks_go_back_where_a_loss_is_not_finite():
    class Infinite(DQN):
        def __call__(self, s, a, next_s, r, d):
            return super().__call__(s, a, next_s, r, d) * self.factor

    def make():
        agent = Infinite(hidden_size=(8,))
        agent.factor = 1.0
        agent.set(
            policy=EpsGreedyQPolicy(0.2), batch=16, pool_size=500, train_freq=8, num_updates=4, learning_starts=32
        )
        return agent, [torch.optim.Adam(agent.param, 1e-3)], 200

    class Spoiling(Callback):
        def __init__(self, agent):
            self.agent = agent

        def on_phase_end(self, phase, logs):
            if phase == 8:
                self.before = parameters(self.agent)
                self.agent.factor = float("inf")

    agent, optimizers, steps = made(make)
    agents = alike(agent, 2)
    spoiling = Spoiling(agent)
    given = [optimizer_of(one, optimizers) for one in agents]
    with pytest.raises(DivergedError):
        trained_together(agents, given, Budget(total_steps=steps), [], callbacks=spoiling)
    for one in agents:
        for name, values in spoiling.before.items():
            np.testing.assert_array_equal(parameters(one)[name], values)
