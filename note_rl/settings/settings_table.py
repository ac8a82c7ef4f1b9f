"""All settings in one table: what set() takes, what of it belongs to which way of training, and how people read it."""

from collections.abc import Iterable
from dataclasses import replace

from note_rl.settings.experience import ReplaySettings, RolloutSettings, SequenceSettings
from note_rl.settings.plateau import Plateau
from note_rl.settings.replay_choices import (
    Hindsight,
    Priority,
    RolloutPriority,
    Window,
    flag_or_hindsight,
    flag_or_priority,
)
from note_rl.settings.training_settings import Settings
from note_rl.settings.workers import WorkerSettings
from note_rl.support.setting_fields import Field, fields_of
from note_rl.support.value_kinds import Kind, flag

ON_POLICY = Field(
    name="PPO",
    manual_name="PPO",
    kind=flag,
    default=False,
    text="On-policy: collect, train for some epochs, forget; else from replay.",
    part="RolloutSettings",
)
IN_SEQUENCES = Field(
    name="sequences",
    manual_name="sequences",
    kind=flag,
    default=False,
    text="Each rollout is learned from, and kept: sequences of a pool are read again.",
    part="SequenceSettings",
)
_ONLY_IN_SET = (
    Field(
        name="policy",
        manual_name="policy",
        text="How to explore; a list has one per environment, or one per agent with MARL.",
        part="Settings",
    ),
    Field(
        name="noise",
        manual_name="noise",
        text="Noise on actions that are numbers, in place of a policy; a list as for policy.",
        part="Settings",
    ),
    ON_POLICY,
    IN_SEQUENCES,
)
# Objects that set() also makes of flags and words.
_SWITCHES: dict[str, Kind] = {"PR": flag_or_priority, "HER": flag_or_hindsight}


def _fields(*parts: type) -> tuple[Field, ...]:
    """The fields of these parts, as arguments of set() where they are."""
    fields = (one for part in parts for one in fields_of(part))
    return tuple(replace(one, kind=_SWITCHES.get(str(one.manual_name), one.kind)) for one in fields)


def _in_set(*parts: type) -> tuple[Field, ...]:
    return tuple(one for one in _fields(*parts) if one.manual_name not in (None, "window_size_ppo"))  # of train()


COMMON = (*_ONLY_IN_SET, *_in_set(Settings))
REPLAY = _in_set(ReplaySettings, Priority)
ROLLOUT = _in_set(RolloutSettings, RolloutPriority)
SEQUENCES = _in_set(SequenceSettings)
SYNONYMS = {"gradient_steps": "num_updates", "MA": "MARL"}
"""Arguments of set() that are the same as another one."""

ALL = (
    *_ONLY_IN_SET,
    *_fields(Settings, ReplaySettings, Priority, Hindsight, Window, RolloutSettings, RolloutPriority, SequenceSettings),
    *_fields(WorkerSettings, Plateau),
)
"""All settings of a run; what only concerns one call of train() is in `TrainOptions`."""


def manual_names(fields: Iterable[Field]) -> list[str]:
    """Their names in set(), each once."""
    return list(dict.fromkeys(str(one.manual_name) for one in fields))


def arguments_of_set(meant: tuple[Field, ...] = REPLAY) -> dict[str, Field]:
    """By argument, what set() takes; where several kinds of experience have one of the same name, that which is meant.

    Args:
        meant: `REPLAY`, `ROLLOUT` or `SEQUENCES`.
    """
    everything = (*COMMON, *REPLAY, *ROLLOUT, *SEQUENCES)
    arguments = {str(one.manual_name): one for one in reversed((*COMMON, *meant, *everything))}
    in_order = {name: arguments[name] for name in manual_names(everything)}
    return {**in_order, **{name: in_order[other] for name, other in SYNONYMS.items()}}


def as_table(fields: Iterable[Field] = ALL) -> list[tuple[str, str, str, str, str, str]]:
    """Rows of words: the class, the name in it, the manual's name, default, range, text."""
    return [(one.part, one.name, one.manual_name or "", one.default_in_words, one.range, one.text) for one in fields]
