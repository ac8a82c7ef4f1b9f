"""Configurations from an earlier study that a search begins with: `warm_start=study:NAME`."""

from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import replace
from itertools import islice
from typing import Final, TypeGuard

from tuner.config.paths import get_path, has_path
from tuner.errors import UserError
from tuner.results.features import chosen
from tuner.results.number_format import join_words
from tuner.results.protocol import DEFAULT_BASELINE
from tuner.results.records import EARLIER_STUDY, SCREEN, Scalar, StudySummary
from tuner.results.selection import choose_candidates
from tuner.study import StudyStore, home_to_read, summarise
from tuner.study.definition import StudyDefinition
from tuner.study.storage.open_storage import check_url, has_studies
from tuner.study.storage.store import DEFINITION
from tuner.support.names import did_you_mean
from tuner.trial.messages import JsonDict

NUM_STARTS: Final = 4
"""Best configurations that are tried, behind the default one. In eight pairs of an earlier and a new environment, with
10 trials, the regret of the winner was that with the default alone and -3 to +3 (`tests/benchmarks/search.md`)."""


def starts_of(definition: StudyDefinition, url: str, name: str) -> dict[str, JsonDict]:
    """The best configurations of an earlier study, in the config of this one, by what they are called.

    One that is the default configuration here is called so: it is then not tested twice if it wins.
    Values of what is not searched here are left aside; those beyond a range here are moved to its nearest end. What is
    searched here and was fixed there keeps the value that it had there.

    Args:
        definition: Of this study, without them.
        url: Of the storage of both.
        name: Of the earlier study.

    Raises:
        UserError: There is no such study, it has found nothing yet, or it is of another agent.
    """
    typed = f"warm_start={EARLIER_STUDY}{name}"
    if name == definition.name:
        raise UserError(f"{typed} is the study that begins here: name an earlier one")
    check_url(url)
    if not has_studies(url):
        raise UserError(f"{typed}: there is no study in this storage yet")
    with StudyStore(url) as store:
        begun = _begun_with(store, definition.name)
        goes_on = any(one.startswith(f"{EARLIER_STUDY}{name}/") for one in begun)
        if (earlier := store.find(name)) is None:
            if goes_on:
                return {}  # they have been tried, and the earlier study was deleted since
            raise UserError(f"{typed}: there is no study {name}{did_you_mean(name, store.names())}")
        summary = summarise(store, name, home_to_read(store, name))
        fixed = _fixed_values(earlier.user_attrs.get(DEFINITION, {}).get("config", {}), definition)
    if summary.agent and summary.agent != definition.agent:  # nothing: that of another program
        raise UserError(f"{typed} searched {summary.agent}, and {definition.agent} is searched: leave it out")
    found = list(islice(_values_of_best(summary), NUM_STARTS))
    if not found:
        raise UserError(f"{typed} has no complete trial yet: let it go on first, or leave it out")
    if not any(values.keys() & set(definition.space.paths) for values in found):
        raise UserError(
            f"{typed} searched {join_words(sorted(found[0]))}, and this search has none of these: name the keys that "
            "they have here (tuner guide tune), or leave it out"
        )
    starts = {}
    for place, values in enumerate(found, start=1):
        config = _fitting(definition, {**fixed, **values})
        starts[DEFAULT_BASELINE if config == definition.config else f"{EARLIER_STUDY}{name}/{place}"] = config
    return {one: config for one, config in starts.items() if one in begun} if goes_on else starts


def _begun_with(store: StudyStore, study: str) -> list[str]:
    """Names of the configurations that a study was started with; none if it was not begun."""
    begun = store.find(study)
    about = {} if begun is None else begun.user_attrs.get(DEFINITION, {})
    return [str(name) for name in about.get("warm_start", ())]


def _fixed_values(earlier: JsonDict, definition: StudyDefinition) -> JsonDict:
    """Values in the configuration of an earlier study for the parameters of this one; none of an imported study."""
    return {path: get_path(earlier, path) for path in definition.space.paths if has_path(earlier, path)}


def _values_of_best(summary: StudySummary) -> Iterator[Mapping[str, Scalar]]:
    """Values by path, the winner's first, then by the score of screening; infeasible ones come last."""
    screened = [run for run in summary.runs if run.stage == SCREEN]
    if not summary.maximised:
        screened = [replace(run, value=None if run.value is None else -run.value) for run in screened]
    ranked = choose_candidates(screened, len(screened))
    best = [run.label for run in sorted(ranked, key=lambda run: not run.feasible)]
    labels = dict.fromkeys((*chosen(summary).labels, *best))
    return filter(None, map(summary.params_of, labels))


def _fitting(definition: StudyDefinition, values: Mapping[str, Scalar]) -> JsonDict:
    """The config with these values; where one has no place in the space, with another one.

    Beyond an end of a range that is this end; of a value that lies between those of a grid, or is no choice here, the
    default.
    """
    space, config = definition.space, definition.config
    for parameter in sorted(space.parameters, key=lambda one: bool(one.rests_on)):  # parts of a whole behind that
        default = get_path(config, parameter.path)
        wished = values.get(parameter.path, default)
        ends = sorted((parameter.value(end, config) for end in parameter.ends), key=lambda end: _distance(end, wished))
        for value in (wished, *(ends[:1] if _is_beyond(wished, ends) else ()), default, *ends):
            tried = space.apply(config, {parameter.path: value})
            with suppress(ValueError):
                parameter.drawn(tried)
                config = tried
                break
    return config


def _is_beyond(value: object, ends: Sequence[object]) -> bool:
    numbers = [end for end in ends if _is_number(end)]
    return _is_number(value) and bool(numbers) and not min(numbers) <= value <= max(numbers)


def _distance(one: object, other: object) -> float:
    """Between two numbers; other values are all alike."""
    return abs(one - other) if _is_number(one) and _is_number(other) else 0.0


def _is_number(value: object) -> TypeGuard[float]:
    return isinstance(value, int | float) and not isinstance(value, bool)
