"""The arguments of set() and train(), checked and in clear names: one frozen dataclass per part.

from note_rl.settings import ReplaySettings, Settings
"""

from note_rl.settings.adaptive import Adaptive
from note_rl.settings.demonstrations import Demonstrations
from note_rl.settings.distributed import Distributed
from note_rl.settings.experience import (
    ExperienceSettings,
    ReplaySettings,
    RolloutSettings,
    SequenceSettings,
    with_train_arguments,
)
from note_rl.settings.plateau import Plateau
from note_rl.settings.recordings import RecordedSteps
from note_rl.settings.replay_choices import Hindsight, Priority, RolloutPriority, Window
from note_rl.settings.state_dependent_noise import GSDE
from note_rl.settings.training_settings import Budget, Settings
from note_rl.settings.workers import WorkerSettings

__all__ = [
    "GSDE",
    "Adaptive",
    "Budget",
    "Demonstrations",
    "Distributed",
    "ExperienceSettings",
    "Hindsight",
    "Plateau",
    "Priority",
    "RecordedSteps",
    "ReplaySettings",
    "RolloutPriority",
    "RolloutSettings",
    "SequenceSettings",
    "Settings",
    "Window",
    "WorkerSettings",
    "with_train_arguments",
]
