"""The manuals' adjusters: called from adjust_func and window_size_func, with and without the pool."""

import importlib
from typing import Any

import pytest

from note_rl.errors import SettingsError
from note_rl.policy import EpsGreedyQPolicy, SoftmaxPolicy
from note_rl.settings.window_functions import Removal
from tests.note_rl.frameworks import Framework, frameworks
from tests.note_rl.small_environments import Corridor


def corridor() -> Corridor:
    return Corridor()


def prioritized_ppo(framework: Framework, **options: Any) -> Any:
    """The manuals' example pool_network/PPO_pr, small."""
    examples = importlib.import_module(f"note_rl.examples.{framework.package}.pool_network.PPO_pr")
    agent = examples.PPO(5, 8, 2, 0.2, 0.0, 4, env=corridor)
    agent.set(policy=SoftmaxPolicy(), PPO=True, PR=True, update_steps=64, batch=16, num_epochs=4, seed=0, **options)
    agent.optimizer = framework.optimizers.adam(agent.param, 1e-2)
    return agent


@pytest.mark.slow_in_keras
@pytest.mark.parametrize(
    ("framework", "pool"), [(Framework("pytorch"), False), (Framework("pytorch"), True), (Framework("keras"), False)]
)
def test_prioritized_ppo_adjusts_batch_and_window(framework: Framework, pool: bool) -> None:
    agent = prioritized_ppo(framework)
    removals: list[int] = []

    def window_size_func(p: int) -> int:
        removals.append(agent.adjust_window_size(p, scale=2.0))
        return removals[-1]

    agent.window_size_func = window_size_func
    agent.adjust_func = lambda: agent.adjust_batch_size(
        target_ess=0.9, batch_params={"min": 8, "max": 16, "align": 8}, lr_params={"min": 1e-4, "max": 1e-1}
    )
    arguments = {"pool_network": True, "processes": 2, "parallel_store_and_training": False} if pool else {}
    agent.train(total_steps=256, p=0, jit_compile=False, **arguments)
    assert {one.parameter for one in agent.decisions} == {"batch_size", "learning_rate:0"}
    assert {one.signal for one in agent.decisions} == {"priority_ess"}
    assert all(8 <= one.new <= 16 for one in agent.decisions if one.parameter == "batch_size")
    assert removals
    assert all(isinstance(one, Removal) and 0 <= one <= 48 for one in removals)


def test_a_removal_trims_and_a_plain_number_keeps() -> None:
    framework = Framework("pytorch")
    for answer, expected in ((Removal(3), 61), (20, 20)):
        agent = prioritized_ppo(framework)
        agent.window_size_func = lambda p, answer=answer: answer
        left: list[int] = []
        agent.adjust_func = lambda agent=agent, left=left: left.append(len(agent._trainer.experience.priorities()))
        agent.train(total_steps=64, p=0, jit_compile=False)
        assert left == [expected - (6 if expected == 61 else 0)]  # asked after each of the first 3 epochs


@pytest.mark.slow_in_keras
@pytest.mark.parametrize("framework", frameworks())
def test_every_dictionary_of_the_manuals_takes_effect(framework: Framework) -> None:
    agent = framework.agents.DQN(hidden_size=(8,), env=corridor, tau=0.1)
    agent.set(
        policy=EpsGreedyQPolicy(0.3),
        PR=True,
        pool_size=500,
        batch=16,
        train_freq=16,
        num_updates=4,
        update_batches=4,
        seed=0,
    )
    agent.optimizer = framework.optimizers.adam(agent.param, 1e-3, weight_decay=1e-3)
    names = ("alpha", "lr", "eps", "freq", "tau", "gamma", "store", "weight_decay", "beta1", "beta2", "per_beta")
    params = {f"{name}_params": {"law": "feed_forward"} for name in (*names, "num_updates")}
    agent.adjust_func = lambda: agent.adjust(target_ess=1.0, smooth=1.0, **params)
    agent.train(total_steps=320, p=0, jit_compile=False)
    last = {one.parameter: one for one in agent.decisions}
    expected = {"alpha", "learning_rate:0", "eps", "update_interval", "tau", "gamma", "num_store", "weight_decay:0"}
    assert set(last) == expected | {"beta1:0", "beta2:0", "per_beta", "num_updates"}
    settings, sampler = agent._trainer.experience.settings, agent._trainer.experience.buffer.sampler
    low = [one for one in agent.decisions if one.q < 0.9]
    assert low, "priorities are not all alike"
    moved = {one.parameter for one in low if one.new != one.old}
    assert {"learning_rate:0", "eps", "tau", "weight_decay:0", "beta1:0"} <= moved
    assert sampler.alpha <= 0.7
    assert settings.batch_size == 16


@pytest.mark.slow_in_keras
@pytest.mark.parametrize("framework", frameworks())
def test_noise_of_gradients_sets_several_optimizers(framework: Framework) -> None:
    agent = framework.agents.PPO(hidden_size=(8,), env=corridor)
    agent.set(policy=SoftmaxPolicy(), PPO=True, rollout_steps=16, num_envs=4, batch=16, num_epochs=2, seed=0)
    agent.optimizer = [
        framework.optimizers.adam(group, rate) for group, rate in zip(agent.param, (1e-3, 1e-2), strict=True)
    ]
    further = {"clip_params": {"rate": 0.1}} if framework.package == "pytorch" else {}
    agent.adjust_func = lambda: agent.adabatch(8, target_noise=1e-6, lr_params={}, **further)
    agent.train(total_steps=384, p=0, jit_compile=False)
    parameters = {one.parameter for one in agent.decisions}
    assert parameters == {"learning_rate:0", "learning_rate:1", *(["clip"] if further else [])}
    reasons = [one.reason for one in agent.decisions if one.parameter == "learning_rate:0"]
    assert reasons[0].startswith("unreliable")
    told = [one for one in agent.decisions if one.reason in ("law", "slew", "bound") and one.parameter != "clip"]
    assert all(one.new < one.old or one.reason == "bound" for one in told)


@pytest.mark.parametrize(
    ("call", "words"),
    [
        (lambda agent: agent.adjust_batch_size(batch_parms={}), "did you mean batch_params"),
        (lambda agent: agent.adabatch(0), "num_samples must be at least 1, got 0"),
        (lambda agent: agent.adjust(target_noise=1.0), "needs num_samples"),
        (lambda agent: agent.adjust_window_size(rule="tail"), "rule must be one of mass, ess"),
        (lambda agent: agent.adjust_window_size(scale=0.0), "must be above 0"),
        (lambda agent: agent.adjust(clip_params={"rat": 1}), "clip: there is no 'rat'; did you mean rate"),
        (lambda agent: agent.adjust(lr_params=3), "must be a dict"),
        (lambda agent: agent.adjust(num_updates_params={"min": 0.1, "max": 0.01}), "is above max"),
    ],
)
def test_wrong_calls_are_answered_in_words(call: Any, words: str) -> None:
    agent = prioritized_ppo(Framework("pytorch"))
    agent.adjust_func = lambda: call(agent)
    with pytest.raises(SettingsError, match=words):
        agent.train(total_steps=64, p=0, jit_compile=False)


def test_calls_outside_of_training_are_refused() -> None:
    agent = prioritized_ppo(Framework("pytorch"))
    for call in (agent.adjust_batch_size, agent.adjust_window_size, lambda: agent.adabatch(2)):
        with pytest.raises(SettingsError, match="while train\\(\\) runs"):
            call()
