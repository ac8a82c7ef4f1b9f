"""Agents whose losses are worked out in NumPy."""

from note_rl.seeding import seed_everything
from tests.note_rl.small_environments import Counting


def dqn(framework, seed=0, **options):
    seed_everything(seed)
    return framework.agents.DQN(hidden_size=(8,), env=Counting, **options)
