"""A study that goes on is refused if code of the user's own was edited since, unless that is wished."""

from collections.abc import Iterator

import optuna
from optuna.trial import FrozenTrial

from tuner.config.own_code import digests_of_config
from tuner.config.paths import get_path
from tuner.features.edited_code.facts import EDITED
from tuner.study.definition import StudyDefinition
from tuner.study.features import InStudy, Probe
from tuner.study.storage.store import DEFINITION
from tuner.trial.messages import JsonDict

_CODE = "own_code"
"""Digests by file, in what the storage keeps as the definition; studies of before this was kept have none."""
_GOES_ON = "edited_code"


def _described(definition: StudyDefinition) -> JsonDict:
    digests = {file: digest for config in _configs(definition) for file, digest in digests_of_config(config).items()}
    goes_on = {_GOES_ON: True} if definition.settings.edited_code else {}
    return {**({_CODE: digests} if digests else {}), **goes_on}


def _configs(definition: StudyDefinition) -> Iterator[JsonDict]:
    """All configs of runs, as far as they name code: the default, the known ones, and one for each choice."""
    yield from [one.config for one in definition.environments] or [definition.config]
    yield from definition.known.values()
    for parameter in definition.space.parameters:
        if not _has(definition.config, parameter.path):  # of an imported study, or of a sweep over another application
            continue
        for drawn in parameter.ends if isinstance(parameter.ends[0], str) else ():
            value = parameter.value(drawn, definition.config)
            if isinstance(value, str):
                others = {path: choices[0] for path, choices in parameter.when.items()}
                yield definition.run_config({**others, parameter.path: value}, seed=0)


def _has(config: JsonDict, path: str) -> bool:
    try:
        get_path(config, path)
    except LookupError:
        return False
    return True


def _changed(before: JsonDict, now: JsonDict) -> list[str]:
    files = [] if now.get(_GOES_ON) else _edited(before, now)
    code = now.get(_CODE, {})
    remedy = "study.edited_code=true goes on with it as it is now"
    return [f"{file} was {'edited' if file in code else 'removed'} since ({remedy})" for file in files]


def _edited(before: JsonDict, now: JsonDict) -> list[str]:
    """Files with another content than when the study began, or without any; a file that was moved is the same."""
    if _CODE not in before:
        return []
    old, new = before[_CODE], now.get(_CODE, {})
    edited = [file for file, digest in new.items() if digest not in ([old[file]] if file in old else old.values())]
    return [*edited, *(file for file, digest in old.items() if file not in new and digest not in new.values())]


def _prepare(definition: StudyDefinition, study: optuna.Study, probe: Probe) -> None:
    """Keeps the code that the study goes on with, and which files are no longer as they were."""
    del probe
    now = _described(definition)
    if _note_edits(study, now):
        study.set_user_attr(DEFINITION, {**study.user_attrs[DEFINITION], _CODE: now.get(_CODE, {})})


def _before_end(definition: StudyDefinition, study: optuna.Study, trial: FrozenTrial) -> None:
    """Notices files that are edited while trials run: the next trials execute what is then in them."""
    del trial
    _leave(definition, study)


def _leave(definition: StudyDefinition, study: optuna.Study) -> None:
    """Notices what was edited while later stages ran."""
    if _CODE in study.user_attrs.get(DEFINITION, {}):
        _note_edits(study, _described(definition))


def _note_edits(study: optuna.Study, now: JsonDict) -> list[str]:
    files = _edited(study.user_attrs[DEFINITION], now)
    known = EDITED.read(study.user_attrs.get(EDITED.key_kept, []))
    if set(files) - set(known):
        study.set_user_attr(EDITED.key_kept, list(dict.fromkeys([*known, *files])))
    return files


PART = InStudy(prepare=_prepare, before_end=_before_end, leave=_leave, described=_described, changed=_changed)
