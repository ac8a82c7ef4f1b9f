"""PPO on CartPole, started with a learning rate ten times too high or too low: minutes, hence slow."""

import numpy as np
import pytest

from note_rl.policy import SoftmaxPolicy
from note_rl.seeding import seed_everything
from note_rl.settings import Adaptive

BY_RATIO = {
    "signals": ["ratio_ess"],
    "targets": {"ratio_ess": 0.97},
    "parameters": {"learning_rate": {"law": "kl_step", "gain": 2.0, "min_factor": 0.1, "max_factor": 10.0}},
    "period": 1,
    "smooth": 0.5,
    "warm_up": 2,
}


STARTS = {1e-2: 0.9, 1e-4: 0.9, 1e-3: 0.95}  # and the least share of the tuned area


def area(learning_rate: float, adaptive: Adaptive | None, seed: int) -> float:
    """Mean return over the steps of training, in shares of the best there is (500)."""
    from note_rl.agents.pytorch import PPO
    from note_rl.optimizers.pytorch import adam

    seed_everything(seed)
    agent = PPO()
    agent.set(
        policy=SoftmaxPolicy(),
        PPO=True,
        rollout_steps=32,
        num_envs=8,
        batch=256,
        num_epochs=20,
        gamma=0.98,
        gae_lambda=0.8,
        max_grad_norm=0.5,
        seed=seed,
        adaptive=adaptive,
    )
    result = agent.train(adam(agent.param, learning_rate), total_steps=60_000, p=0)
    ends = np.array(result.episode_steps)
    grid = np.arange(2_000, 60_001, 2_000)
    recent = [np.mean(np.array(result.returns)[(ends <= at) & (ends > at - 4_000)]) for at in grid]
    return float(np.nanmean(recent)) / 500.0


@pytest.mark.slow
def test_ratios_bring_a_wrong_learning_rate_back_and_do_not_harm_a_tuned_one() -> None:
    seeds = (1, 2, 3, 4, 5)
    tuned = np.array([area(1e-3, None, seed) for seed in seeds])
    adapted = {start: np.array([area(start, Adaptive(**BY_RATIO), seed) for seed in seeds]) for start in STARTS}
    for start, least in STARTS.items():
        assert adapted[start].mean() >= least * tuned.mean(), (start, tuned, adapted)
