"""How often update_param() is called where set() does not say it."""

import logging
from dataclasses import replace
from typing import Any

from note_rl.errors import say_once
from note_rl.learners.base import Learner
from note_rl.settings import ReplaySettings, Settings
from note_rl.settings.experience import UPDATES_OF_COPIES
from note_rl.support.setting_fields import named

_log = logging.getLogger(__name__)


def with_target_updates(settings: Settings, agent: Any, learner: Learner) -> Settings:
    """The settings with a number for what was left open.

    Target networks that are moved by a small share lag behind by themselves. Where they are copied, there is no lag
    unless they are copied seldom, and without one Q-learning diverges (Mnih et al. 2015, table 3).

    Args:
        settings: The settings of set().
        agent: May say in `default_update_batches` what suits it.
        learner: Knows what update_param() does.
    """
    experience = settings.experience
    if not isinstance(experience, ReplaySettings):
        return settings
    if experience.target_update_interval is not None or experience.target_update_env_steps is not None:
        return settings
    name, interval = type(agent).__name__, agent.default_update_batches
    if interval is None and learner.copies_targets():
        interval = UPDATES_OF_COPIES
        say_once(
            _log,
            "{}.update_param() copies, and no setting says how often: targets are updated every {} gradient steps; "
            "give {} (or {}, in environment steps) for another number",
            *(name, interval, *(named(ReplaySettings, f"target_update_{unit}") for unit in ("interval", "env_steps"))),
        )
    if interval is None:
        return settings
    return replace(settings, experience=replace(experience, target_update_interval=interval))
