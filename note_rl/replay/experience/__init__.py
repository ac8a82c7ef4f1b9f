"""The ways of training from experience: from a replay pool, from the rollout just taken, and from both in sequences."""

from note_rl.replay.experience.base import AgentView, Clock, Experience
from note_rl.replay.experience.replay_experience import ReplayExperience
from note_rl.replay.experience.rollout_experience import RolloutExperience
from note_rl.replay.experience.sequences import SequenceExperience

__all__ = ["AgentView", "Clock", "Experience", "ReplayExperience", "RolloutExperience", "SequenceExperience"]
