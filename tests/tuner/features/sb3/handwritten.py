"""PPO of Stable-Baselines3 in a function, as somebody writes it who does not use agent=sb3."""

from typing import Any

import gymnasium
import numpy as np

import tuner

NUM_POINTS, NUM_EPISODES, LONGEST_EPISODE = 3, 2, 40


def train(learning_rate: float, total_steps: int, seed: int) -> None:
    """Learns to the end of the budget, and reports the mean return of episodes at each third of it."""
    from stable_baselines3 import PPO
    from stable_baselines3.common.callbacks import BaseCallback

    def evaluated(model: Any, point: int) -> float:
        env, returns = _environment(), []
        for one in np.random.SeedSequence([seed, point]).generate_state(NUM_EPISODES):
            (obs, _), total, ended = env.reset(seed=int(one)), 0.0, False
            while not ended:
                obs, reward, terminated, truncated, _ = env.step(model.predict(obs, deterministic=True)[0])
                total, ended = total + float(reward), bool(terminated or truncated)
            returns.append(total)
        return float(np.mean(returns))

    class Grid(BaseCallback):
        def _on_step(self) -> bool:
            for point in range(1, NUM_POINTS + 1):
                if self.num_timesteps == round(total_steps * point / NUM_POINTS):
                    tuner.report(point / NUM_POINTS, evaluated(self.model, point))
            return self.num_timesteps < total_steps

    model = PPO(
        "MlpPolicy",
        _environment(),
        learning_rate=learning_rate,
        n_steps=32,
        batch_size=16,
        n_epochs=2,
        policy_kwargs={"net_arch": [8]},
        seed=seed % 2**31,
        device="cpu",
    )
    model.learn(total_steps, callback=Grid())


def _environment() -> gymnasium.Env[Any, Any]:
    return gymnasium.make("CartPole-v1", max_episode_steps=LONGEST_EPISODE)
