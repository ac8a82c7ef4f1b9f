"""Experiences by a few settings, and what a learner would hand back to them."""

import numpy as np

from note_rl.replay.experience import AgentView, ReplayExperience, RolloutExperience
from note_rl.settings import ReplaySettings, RolloutSettings
from note_rl.types import Update


def replay(view=None, seed=0, **settings):
    view = view or AgentView(gamma=lambda: 0.9)
    return ReplayExperience(ReplaySettings(**settings), view, np.random.default_rng(seed))


def rollout(view=None, **settings):
    return RolloutExperience(RolloutSettings(**settings), view or AgentView(), np.random.default_rng(0))


def update_with(sample, td_error=None, ratio=None):
    return Update(np.zeros((sample.num_gradient_steps, 1)), td_error, ratio)


def pool(experience):
    """Rewards of what is kept, the oldest first."""
    ring = experience.buffer.ring
    return ring.column("reward", ring.slots(np.arange(len(ring)))).tolist()


def learned(obs, action, next_obs):
    return 100.0 * action + obs[:, 0] + 10.0 * next_obs[:, 0]
