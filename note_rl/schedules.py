"""Schedules under the path that configurations name; they live in `note_rl.settings.schedules`."""

from note_rl.settings.schedules import Constant, Exponential, Linear, Schedule

__all__ = ["Constant", "Exponential", "Linear", "Schedule"]
