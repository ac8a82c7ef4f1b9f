"""The two ways of training from experience: from a replay pool, and from the rollout just taken."""

from note_rl.replay.experience.base import AgentView, Clock, Experience
from note_rl.replay.experience.replay import ReplayExperience
from note_rl.replay.experience.rollout import RolloutExperience

__all__ = ["AgentView", "Clock", "Experience", "ReplayExperience", "RolloutExperience"]
