"""A study that goes on is refused if code of the user's own was edited since, unless that is wished."""

from collections.abc import Iterator

import optuna
from optuna.trial import FrozenTrial

from tuner.config.own_code import digests_of_config
from tuner.config.paths import has_path
from tuner.features.edited_code.facts import EDITED
from tuner.study.definition import StudyDefinition
from tuner.study.features import InStudy, Probe
from tuner.study.space.coordinates import Labels
from tuner.study.storage.store import DEFINITION
from tuner.trial.messages import JsonDict

_CODE = "own_code"
"""Digests by file, in what the storage keeps as the definition; studies of before this was kept have none."""
_BASELINES = "own_code_of_baselines"
"""The same by the name of a baseline: sessions of a study may have different ones."""
_GOES_ON = "edited_code"


def _described(definition: StudyDefinition) -> JsonDict:
    baselines = {name: digests_of_config(config) for name, config in definition.known.items()}
    kept = {
        _CODE: {file: digest for config in _configs(definition) for file, digest in digests_of_config(config).items()},
        _BASELINES: {name: digests for name, digests in baselines.items() if digests},
        _GOES_ON: definition.settings.edited_code,
    }
    return {key: value for key, value in kept.items() if value}


def _configs(definition: StudyDefinition) -> Iterator[JsonDict]:
    """All configs of runs, as far as they name code: the default, and one for each choice."""
    yield from [one.config for one in definition.environments] or [definition.config]
    for parameter in definition.space.parameters:
        if not has_path(definition.config, parameter.path):  # of an imported study, or a sweep over another application
            continue
        for drawn in parameter.ends if isinstance(parameter.coordinate.domain, Labels) else ():
            value = parameter.value(drawn, definition.config)
            if isinstance(value, str | dict):
                others = {path: choices[0] for path, choices in parameter.when.items()}
                yield definition.run_config({**others, parameter.path: value}, seed=0)


def _changed(before: JsonDict, now: JsonDict) -> list[str]:
    files = [] if now.get(_GOES_ON) else _edited(before, now)
    old, new = _compared(before, now), _compared(now, before)
    remedy = "study.edited_code=true goes on with it as it is now"
    how = ["is new" if file not in old else "was edited" if file in new else "was removed" for file in files]
    return [f"{file} {what} since ({remedy})" for file, what in zip(files, how, strict=True)]


def _edited(before: JsonDict, now: JsonDict) -> list[str]:
    """Files with another content than when the study began, or without any; a file that was moved is the same."""
    if not {_CODE, _BASELINES} & before.keys():
        return []
    old, new = _compared(before, now), _compared(now, before)
    edited = [file for file, digest in new.items() if digest not in ([old[file]] if file in old else old.values())]
    return [*edited, *(file for file, digest in old.items() if file not in new and digest not in new.values())]


def _compared(session: JsonDict, other: JsonDict) -> dict[str, str]:
    """Digests of one session, by file; of its baselines, those that the other session has, too."""
    shared = session.get(_BASELINES, {}).keys() & other.get(_BASELINES, {}).keys()
    of_shared = {file: digest for name in sorted(shared) for file, digest in session[_BASELINES][name].items()}
    return {**of_shared, **session.get(_CODE, {})}


def _prepare(definition: StudyDefinition, study: optuna.Study, probe: Probe) -> None:
    """Keeps the code that the study goes on with, and which files are no longer as they were."""
    del probe
    before, now = study.user_attrs[DEFINITION], _described(definition)
    _note_edits(study, now)
    kept = {_CODE: now.get(_CODE, {}), _BASELINES: {**before.get(_BASELINES, {}), **now.get(_BASELINES, {})}}
    if any(value != before.get(key, {}) for key, value in kept.items()):
        study.set_user_attr(DEFINITION, {**before, **kept})


def _before_end(definition: StudyDefinition, study: optuna.Study, trial: FrozenTrial) -> None:
    """Notices files that are edited while trials run: the next trials execute what is then in them."""
    del trial
    _leave(definition, study)


def _leave(definition: StudyDefinition, study: optuna.Study) -> None:
    """Notices what was edited while later stages ran."""
    if {_CODE, _BASELINES} & study.user_attrs.get(DEFINITION, {}).keys():
        _note_edits(study, _described(definition))


def _note_edits(study: optuna.Study, now: JsonDict) -> None:
    files = _edited(study.user_attrs[DEFINITION], now)
    known = EDITED.read(study.user_attrs.get(EDITED.key_kept, []))
    if set(files) - set(known):
        study.set_user_attr(EDITED.key_kept, list(dict.fromkeys([*known, *files])))


PART = InStudy(prepare=_prepare, before_end=_before_end, leave=_leave, described=_described, changed=_changed)
