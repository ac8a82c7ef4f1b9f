"""The configurations of `tuner push` and `tuner pull`."""

from collections.abc import Sequence
from dataclasses import dataclass

from note_rl.support.setting_fields import setting
from note_rl.support.value_kinds import OneOf
from tuner.checking.features import InChecking
from tuner.checking.schema import Schema
from tuner.config.section_base import Named, Section


@dataclass(frozen=True, kw_only=True)
class PushValues(Section):
    """Of `tuner push`."""

    run: str | None = setting(None, Named("the folder of a run, or a study"))
    environment: str | None = setting(None, Named("the name of an environment"))
    trust: str | Sequence[str] | None = None
    weights: str = setting("last", OneOf(("last", "best")))
    file: str | None = setting(None, Named("the name of a file that ends in .zip"))


@dataclass(frozen=True, kw_only=True)
class PullValues(Section):
    """Of `tuner pull`."""

    file: str | None = setting(None, Named("a file that tuner push has written"))
    folder: str | None = setting(None, Named("a folder that is not there yet"))


PART = InChecking(schemas={"push": Schema(PushValues), "pull": Schema(PullValues)})
