"""A study that goes on is refused if code of the user's own was edited since, unless that is wished."""

import optuna
from optuna.trial import FrozenTrial

from tuner.config.own_code import digests_of_config
from tuner.features.edited_code.facts import EDITED
from tuner.study.definition import StudyDefinition
from tuner.study.features import InStudy, Probe
from tuner.study.storage.store import DEFINITION
from tuner.trial.messages import JsonDict

_CODE = "own_code"
"""Digests by file, in what the storage keeps as the definition; studies of before this was kept have none."""
_GOES_ON = "edited_code"


def _described(definition: StudyDefinition) -> JsonDict:
    configs = [one.config for one in definition.environments] or [definition.config]
    digests = {file: digest for config in configs for file, digest in digests_of_config(config).items()}
    goes_on = {_GOES_ON: True} if definition.settings.edited_code else {}
    return {**({_CODE: digests} if digests else {}), **goes_on}


def _changed(before: JsonDict, now: JsonDict) -> list[str]:
    files = () if now.get(_GOES_ON) else _edited(before, now)
    return [f"{file} was edited since (study.edited_code=true goes on with it as it is now)" for file in files]


def _edited(before: JsonDict, now: JsonDict) -> list[str]:
    """Files with another content than when the study began; a file that was moved is the same."""
    if _CODE not in before:
        return []
    return [file for file, digest in now.get(_CODE, {}).items() if digest not in before[_CODE].values()]


def _prepare(definition: StudyDefinition, study: optuna.Study, probe: Probe) -> None:
    """Keeps the code that the study goes on with, and which files are no longer as they were."""
    del probe
    now = _described(definition)
    if _note_edits(study, now):
        study.set_user_attr(DEFINITION, {**study.user_attrs[DEFINITION], _CODE: now[_CODE]})


def _before_end(definition: StudyDefinition, study: optuna.Study, trial: FrozenTrial) -> None:
    """Notices files that are edited while trials run: the next trials execute what is then in them."""
    del trial
    if _CODE in (now := _described(definition)):
        _note_edits(study, now)


def _note_edits(study: optuna.Study, now: JsonDict) -> list[str]:
    files = _edited(study.user_attrs[DEFINITION], now)
    known = EDITED.read(study.user_attrs.get(EDITED.key_kept, []))
    if set(files) - set(known):
        study.set_user_attr(EDITED.key_kept, list(dict.fromkeys([*known, *files])))
    return files


PART = InStudy(prepare=_prepare, before_end=_before_end, described=_described, changed=_changed)
