"""Declares a setting, under the path that agents of users import; it lives in `note_rl.support.setting_fields`."""

from note_rl.support.setting_fields import setting

__all__ = ["setting"]
