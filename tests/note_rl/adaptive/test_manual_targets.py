"""Targets of the manuals' adjusters: the batch by target_ess, windows by the effective size, noise with several."""

import logging
from typing import Any

import numpy as np
import pytest

from note_rl.adaptive import ess
from note_rl.adaptive.window import beyond_effective
from note_rl.errors import SettingsError
from note_rl.policy import EpsGreedyQPolicy, SoftmaxPolicy
from note_rl.seeding import seed_everything
from note_rl.training.callbacks import LambdaCallback
from tests.note_rl.adaptive.test_manual_adjusters import corridor, prioritized_ppo
from tests.note_rl.frameworks import Framework, frameworks

BOUNDS = {"min": 16, "max": 256, "align": 8}


def prioritized_dqn(framework: Framework, **options: Any) -> Any:
    seed_everything(0)  # weights, too: how errors differ depends on them
    agent = framework.agents.DQN(hidden_size=(8,), env=corridor, tau=0.1)
    arguments = {"pool_size": 500, "batch": 32, "train_freq": 16, "num_updates": 2, "update_batches": 4, **options}
    agent.set(policy=EpsGreedyQPolicy(0.3), PR=True, seed=0, **arguments)
    agent.optimizer = framework.optimizers.adam(agent.param, 1e-2)
    return agent


def nearest_rung(wanted: float) -> float:
    """Of the sizes 16 to 256 that a batch of 32 may become."""
    return min((16.0, 32.0, 64.0, 128.0, 256.0), key=lambda rung: abs(np.log(rung / wanted)))


@pytest.mark.slow_in_keras
@pytest.mark.parametrize("framework", frameworks())
@pytest.mark.parametrize(("target", "scale"), [(0.2, 1.0), (0.9, 1.0), (100, 1.0), (0.9, 4.0)])
def test_the_batch_follows_the_manuals_formula(framework: Framework, target: float, scale: float) -> None:
    agent, expected, found = prioritized_dqn(framework), [], []

    def adjust() -> None:
        weights = np.asarray(agent._trainer.experience.priorities(), np.float64)
        effective = weights.sum() ** 2 / (weights**2).sum()
        wished = target if target > 1 else target * len(weights)
        now = found[-1] if found else 32.0
        expected.append(nearest_rung(min(max(now * effective / wished * scale, 16), 256)))
        agent.adjust_batch_size(smooth=1.0, target_ess=target, batch_params={"scale": scale, **BOUNDS})
        found.append(agent.decisions[-1].new)

    agent.adjust_func = adjust
    agent.train(total_steps=160, p=0, jit_compile=False)
    assert found == expected
    assert found  # a larger batch waits until the pool has as many
    assert len(set(found)) > 1 or target > 0.2


def test_without_a_target_the_batch_is_capped_as_before() -> None:
    def schedule(target: float | None) -> list[list[float]]:
        agent = prioritized_dqn(Framework("pytorch"))
        agent.adjust_func = lambda: agent.adjust_batch_size(target_ess=target, batch_params=BOUNDS)
        agent.train(total_steps=160, p=0, jit_compile=False)
        assert {one.signal for one in agent.decisions} == {"priority_ess"}
        return agent.adapted_schedule["batch_size"]

    assert min(size for _, size in schedule(None)) == 16.0  # a quarter of fewer than 64 transitions
    assert schedule(0.05)[-1][1] == 256.0
    assert schedule(0.9)[-1][1] == 16.0


@pytest.mark.slow_in_keras
@pytest.mark.parametrize("framework", frameworks())
def test_a_rollouts_target_may_be_a_number_of_transitions(framework: Framework) -> None:
    agent = framework.agents.PPO(hidden_size=(8,), env=corridor)
    agent.set(policy=SoftmaxPolicy(), PPO=True, rollout_steps=16, num_envs=4, batch=16, num_epochs=2, seed=0)
    agent.optimizer = framework.optimizers.adam(agent.param, 1e-4)
    agent.adjust_func = lambda: agent.adjust_batch_size(target_ess=32, batch_params={"align": 8})
    agent.train(total_steps=64, p=0, jit_compile=False)
    (decision,) = agent.decisions
    assert decision.signal == "ratio_ess"
    assert decision.q == pytest.approx(decision.value * 64 / 32, rel=1e-6)
    assert decision.new == 32  # the ratios are 1 nearly, so that 64 transitions count where 32 are wished


@pytest.mark.parametrize(
    ("weights", "scale", "dropped"),
    [
        (np.ones(1000), 1.0, 1),
        (np.ones(1000), 2.0, 1),
        (np.r_[np.full(900, 1e-6), np.ones(100)], 1.0, 900),  # effective: 100.0...
        (np.r_[np.full(900, 1e-6), np.ones(100)], 2.0, 800),
        (np.r_[np.ones(100), np.full(900, 1e-6)], 1.0, 900),
        (np.ones(2), 10.0, 1),
        (np.ones(1), 1.0, 0),
        (np.empty(0), 1.0, 0),
    ],
)
def test_the_manuals_window_by_hand(weights: Any, scale: float, dropped: int) -> None:
    assert beyond_effective(weights, scale) == dropped
    size = len(weights)
    if size > 1:
        kept = np.clip(int(ess.of_weights(weights).ess * scale), 1, size - 1)
        assert dropped == size - kept
    assert beyond_effective(weights, scale, ess=float("nan")) == 0


@pytest.mark.parametrize(("scale", "dropped"), [(0.5, 18), (1.0, 36), (2.0, 72), (4.0, 144), (8.0, 288)])
def test_scale_counts_in_the_rule_of_mass_too(scale: float, dropped: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """Of 1,000 weights the 900 oldest are 1 and the others 9.05, 1,805 in all: 2 % of that are the 36 oldest."""
    weights = np.r_[np.ones(900), np.full(100, 9.05)]
    agent, answers = prioritized_ppo(Framework("pytorch")), []

    def adjust() -> None:
        monkeypatch.setattr(agent._trainer.experience, "priorities", lambda: weights)
        answers.append(agent.adjust_window_size(scale=scale, ema=1.0))

    agent.adjust_func = adjust
    agent.train(total_steps=64, p=0, jit_compile=False)
    assert answers == [dropped]


@pytest.mark.parametrize("rule", ["mass", "ess"])
def test_prioritized_rollouts_are_trimmed(rule: str) -> None:
    agent, answers, left = prioritized_ppo(Framework("pytorch")), [], []

    def window_size_func(p: int) -> int:
        left.append(len(agent._trainer.experience.priorities()))
        answers.append(agent.adjust_window_size(p, scale=1.0 if rule == "ess" else 10.0, rule=rule))
        return answers[-1]

    agent.window_size_func = window_size_func
    agent.train(total_steps=64, p=0, jit_compile=False)
    assert len(answers) == 3
    assert all(answer > 0 for answer in answers)
    assert left[1] == left[0] - answers[0]


@pytest.mark.slow_in_keras
@pytest.mark.parametrize("framework", frameworks())
def test_noise_sets_batch_and_learning_rate_together(framework: Framework) -> None:
    """The batch takes the learning rate along unless that goes by the noise itself."""
    agent = prioritized_dqn(framework)
    agent.adjust_func = lambda: agent.adabatch(2, batch_params=BOUNDS, lr_params={"min": 1e-4, "max": 1e-1})
    agent.train(total_steps=160, p=0, jit_compile=False)
    assert {one.parameter for one in agent.decisions} == {"batch_size", "learning_rate:0"}
    decided = {one.num_env_steps: one.new for one in agent.decisions if one.parameter == "learning_rate:0"}
    used = agent.adapted_schedule["learning_rate:0"]
    assert all(value == pytest.approx(decided[step], rel=1e-6) for step, value in used if step in decided)


def test_a_target_that_is_a_variance_is_warned_of(caplog: pytest.LogCaptureFixture) -> None:
    agent = prioritized_dqn(Framework("pytorch"))
    agent.adjust_func = lambda: agent.adabatch(2, target_noise=1e-3, batch_params=BOUNDS)
    with caplog.at_level(logging.WARNING):
        agent.train(total_steps=64, p=0, jit_compile=False)
    assert caplog.text.count("target_noise=0.001): here it is the noise scale over the batch size, about 1") == 1


@pytest.mark.slow_in_keras
@pytest.mark.parametrize("framework", frameworks())
def test_a_callback_may_adjust_from_the_first_episode_on(framework: Framework) -> None:
    agent = prioritized_dqn(framework, learning_starts=100)

    def adjust(episode: int, logs: Any) -> None:
        agent.adjust_batch_size(target_ess=0.3, batch_params=BOUNDS)
        agent.adabatch(2, lr_params={"min": 1e-4, "max": 1e-1})
        agent.adjust_window_size()
        asked.append(len(agent.decisions))

    asked: list[int] = []
    agent.train(total_steps=320, p=0, jit_compile=False, callbacks=[LambdaCallback(on_episode_end=adjust)])
    assert asked[0] == 0  # the pool fills
    assert asked[-1] > 0
    for call in (agent.adjust_batch_size, lambda: agent.adabatch(2)):
        with pytest.raises(SettingsError, match=r"call it while train\(\) runs"):
            call()


def test_a_window_before_the_first_rollout_is_none() -> None:
    agent, asked = prioritized_ppo(Framework("pytorch")), []
    ask = LambdaCallback(on_episode_begin=lambda episode, logs: asked.append(agent.adjust_window_size()))
    agent.train(total_steps=64, p=0, jit_compile=False, callbacks=[ask])
    assert asked[0] == 0
