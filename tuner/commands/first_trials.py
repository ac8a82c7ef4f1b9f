"""Configurations that a search tries first: the default, then the default with one choice changed.

A choice, such as that of an activation, often decides alone whether an agent learns. In a random configuration all else
changes with it, and with many parameters most random configurations do not learn, so a search of few trials does not
see what the choice does.
"""

from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from dataclasses import replace
from itertools import islice
from typing import Final

from tuner.commands.baselines import AUTO, named_starts
from tuner.commands.earlier_studies import starts_of
from tuner.config.overrides import to_hydra
from tuner.config.paths import get_path
from tuner.errors import UserError
from tuner.results.protocol import DEFAULT_BASELINE
from tuner.results.records import EARLIER_STUDY, ONE_CHANGED, PRIORS
from tuner.study.definition import StudyDefinition
from tuner.study.space.coordinates import Bounds
from tuner.study.space.space import Space
from tuner.trial.messages import JsonDict

ONE_IN: Final = 5
"""At most one trial in five has a changed choice."""

Begun = Callable[[], JsonDict | None]
"""Gives the stored definition of a study that was begun."""


def first_names(typed: str | bool | Sequence[str], tries_default: bool, begun: Begun) -> list[str]:
    """Names of known configurations that are tried first.

    Args:
        typed: Value of `warm_start`.
        tries_default: Whether a new study that is left the choice tries the default configuration.
        begun: Gives the definition of a study that goes on as it began; None: it begins here.
    """
    starts = named_starts(typed)
    if starts != [AUTO] and not str(typed).startswith(EARLIER_STUDY):
        return starts
    named = [name for name in starts if name != AUTO]
    if tries_default and (before := begun()) is not None:
        names = [one for one in before.get("warm_start") or [] if one != PRIORS and not one.startswith(ONE_CHANGED)]
        tries_default = (names[:1] if named else names) == [DEFAULT_BASELINE]
    return [DEFAULT_BASELINE, *named] if tries_default else named


def with_first_trials(
    found: StudyDefinition, typed: str | bool | Sequence[str], url: str, begun: Begun
) -> StudyDefinition:
    """The study with what it tries first besides known configurations: that of all priors, changed choices, a study's.

    Args:
        found: The study with the known ones.
        typed: Value of `warm_start`.
        url: Of its storage.
        begun: As of `first_names`.

    Raises:
        UserError: A search without trials by a sampler has priors, or an earlier study has nothing for this one.
    """
    if (expected := found.space.with_priors(found.config)) is not None:
        if found.search is not None:
            raise UserError(f"{found.search.name} has no use for a prior in the search space: leave prior out")
        found = replace(found, warm_start={PRIORS: expected, **found.warm_start})
    elif named_starts(typed) == [AUTO] and DEFAULT_BASELINE in found.warm_start:
        changed = choices_changed(found.space, found.config, found.settings.num_trials, begun())
        found = replace(found, warm_start={**found.warm_start, **changed})
    for name in named_starts(typed):
        if name.startswith(EARLIER_STUDY):
            earlier = starts_of(found, url, name.removeprefix(EARLIER_STUDY))
            found = replace(found, warm_start={**found.warm_start, **earlier})
    return found


def choices_changed(space: Space, config: JsonDict, num_trials: int, begun: JsonDict | None) -> dict[str, JsonDict]:
    """The default with one choice changed, by what each configuration is called.

    Args:
        space: What is searched.
        config: The default configuration, which lies in the space.
        num_trials: Of screening, at most.
        begun: The definition of a study that goes on, and has those that it began with; None: it begins here.
    """
    found = dict(_choices_changed(space, config))
    if begun is None:
        return dict(islice(found.items(), num_trials // ONE_IN))
    return {name: found[name] for name in begun.get("warm_start") or [] if name in found}


def _choices_changed(space: Space, config: JsonDict) -> Iterator[tuple[str, JsonDict]]:
    default = space.drawn(config)
    for parameter in space.parameters:
        if isinstance(parameter.coordinate.domain, Bounds):
            continue
        for drawn in parameter.ends:
            changed = space.apply(config, {parameter.path: parameter.value(drawn, config)})
            with suppress(UserError, ArithmeticError, TypeError):
                if space.drawn(changed) != default:  # which has only what is searched with these values
                    yield f"{ONE_CHANGED}{parameter.path}={to_hydra(get_path(changed, parameter.path))}", changed
