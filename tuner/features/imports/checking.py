"""The configuration of `tuner import`."""

from collections.abc import Sequence
from dataclasses import dataclass

from note_rl.support.setting_fields import setting
from tuner.checking.features import InChecking
from tuner.checking.schema import OF_A_STUDY, Schema
from tuner.config.section_base import Named, Section
from tuner.trial.messages import JsonDict


@dataclass(frozen=True, kw_only=True)
class ImportValues(Section):
    """Of `tuner import`."""

    what: str | Sequence[str] = setting((), Named("study, or zoo and ALGORITHM/ENVIRONMENT"))
    source: str | None = setting(None, Named("a URL or a file"))
    name: str | None = setting(None, Named("the name of a study"))
    keys: JsonDict | None = None
    agent_name: str | None = setting(None, Named("the name of an agent"))
    file: str | None = setting(None, Named("a file of the Zoo"))


PART = InChecking(schemas={"import": Schema(ImportValues, OF_A_STUDY)})
