"""Agents that train for a few steps."""

from note_rl.policy import EpsGreedyQPolicy
from note_rl.seeding import seed_everything
from note_rl.settings import ReplaySettings, Settings


def dqn(framework, env="CartPole-v1", seed=3, **settings):
    seed_everything(seed)
    agent = framework.agents.DQN(hidden_size=(16,), env=env, gamma=0.9)
    replay = {"capacity": 300, "batch_size": 16, "learning_starts": 32, "train_freq": 8, "gradient_steps": 4}
    experience = ReplaySettings(**{**replay, "target_update_interval": 6, **settings.pop("replay", {})})
    policy = EpsGreedyQPolicy(0.1)
    agent.settings = Settings(experience=experience, policy=policy, seed=seed, **settings)
    return agent, framework.optimizers.adam(agent.param, 1e-2)


def quietly(framework):
    """Options of runs of a few steps, which XLA would take longer to compile than they take."""
    return {"p": 0, "jit_compile": "auto" if framework.package == "pytorch" else False}
