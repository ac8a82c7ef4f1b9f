"""The names of Optuna that are no part of its interface, all of them in this file; written for Optuna 5.0.

Each function says what it needs and why Optuna offers no public way. `tests/tuner/study/test_optuna_internals.py` holds
one test for each name, which says what breaks without it.
"""

import json
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from typing import Any, Final
from uuid import UUID

import numpy as np
import optuna
from optuna.artifacts._upload import ARTIFACTS_ATTR_PREFIX
from optuna.distributions import BaseDistribution
from optuna.pruners import HyperbandPruner
from optuna.samplers import BaseSampler, BruteForceSampler, CmaEsSampler, GridSampler
from optuna.samplers._lazy_random_state import LazyRandomState
from optuna.storages import BaseStorage, get_storage
from optuna.storages._rdb import models
from optuna.storages.journal._storage import JournalOperation
from optuna.trial import FrozenTrial

from tuner.trial.messages import JsonDict

TABLES: Final = models.BaseModel.metadata.tables
"""The tables of a database, by name. Optuna documents none, and a damaged file must be found before it is opened."""

SCHEMA_VERSION: Final = models.SCHEMA_VERSION
"""Of these tables, as a database of the same layout states it."""

JOURNAL_OPERATIONS: Final = frozenset(map(int, JournalOperation))
"""Codes of the operations in a journal. Optuna fails at an unknown one with an assertion only."""

DATABASE_CALLS: Final = ("_create_new_trial", "_get_best_trial_id", "_get_trials", "_set_trial_param")
"""Methods of `RDBStorage` that open a session by themselves; public methods call them more than once."""


def with_cache(storage: BaseStorage) -> BaseStorage:
    """A database whose trials are read once when they are over; other storages stay as they are.

    `load_study` and `create_study` make such a cache for each study object, so that trials are read and kept again for
    each. The function that makes it stands in no page of Optuna's.
    """
    return get_storage(storage)


def handle_of(study: optuna.Study, trial: FrozenTrial) -> optuna.Trial:
    """A trial of the study as an object with `ask` and `tell`.

    `Study.ask` makes one for a new trial only, and its constructor takes the number in the storage, which is private.
    """
    return optuna.Trial(study, trial._trial_id)


def ask_anew(study: optuna.Study) -> optuna.Trial:
    """As `Study.ask`, but always a new trial: those that wait in the storage are not looked for.

    `Study.ask` reads all trials that are not over each time, and there is no option against it.
    """
    study._thread_local.cached_all_trials = None
    return optuna.Trial(study, study._storage.create_new_trial(study._study_id))


def artifacts_of(study: optuna.Study) -> dict[str, str]:
    """The artifacts that are noted with a study: the name of each file and its number.

    `optuna.artifacts.get_all_artifact_meta` fails at one that somebody has removed in the dashboard, which leaves null.
    """
    attributes = study._storage.get_study_system_attrs(study._study_id)
    found = {}
    for key, text in attributes.items():
        if key.startswith(ARTIFACTS_ATTR_PREFIX):
            with suppress(
                ValueError, KeyError, TypeError, AttributeError
            ):  # of null, of half an object, of what was edited
                one = json.loads(text)
                found[str(one["filename"])] = str(UUID(one["artifact_id"]))  # it is a file's name: nothing but that
    return found


def suggest(trial: optuna.Trial) -> Callable[[str, BaseDistribution], Any]:
    """A function from a name and a distribution to what the sampler draws.

    The public `suggest_float` takes the bounds and makes the distribution again. It rounds the upper end of a stepped
    range a second time, which can lose the last step.
    """
    return trial._suggest


def enqueued_params(study: optuna.Study, trial: optuna.Trial) -> JsonDict:
    """The parameters that a trial was enqueued with; none of one that was sampled.

    A trial that is open does not show them, and `Study.get_trials` reads every other trial, too.
    """
    fixed: JsonDict = study._storage.get_trial_system_attrs(trial._trial_id).get("fixed_params", {})
    return fixed


def begin_loop(study: optuna.Study) -> None:
    """Lets samplers call `Study.stop`, as `Study.optimize` does: elsewhere Optuna answers with an error."""
    study._thread_local.in_optimize_loop = True
    study._stop_flag = False


def is_stopped(study: optuna.Study) -> bool:
    """Whether a sampler has called `Study.stop` since `begin_loop`, because nothing is left to try."""
    return study._stop_flag


def samplers_within(sampler: BaseSampler) -> Iterator[BaseSampler]:
    """The sampler, and those that it draws with. None of Optuna's samplers shows these."""
    yield sampler
    for value in vars(sampler).values():
        if isinstance(value, BaseSampler):
            yield from samplers_within(value)


def random_states(sampler: BaseSampler) -> tuple[np.random.RandomState, ...]:
    """All random states that one of Optuna's samplers draws from. One of another make has none.

    `BaseSampler.reseed_rng` takes no seed, and a sampler made anew would forget what it has been given.
    """
    values = [value for one in samplers_within(sampler) for value in vars(one).values()]
    return tuple(value.rng for value in values if isinstance(value, LazyRandomState))


def num_grid_points(sampler: GridSampler) -> int:
    """Points of a grid. Optuna shows neither the grid nor the space that it was made of."""
    return len(sampler._all_grids)


def min_resource(pruner: HyperbandPruner) -> int:
    """The lowest rung of Hyperband. Optuna refuses a wrong one at the first report only."""
    return pruner._min_resource


def pass_over_undrawn(sampler: BruteForceSampler) -> None:
    """Has a sampler leave out trials that ended before anything was drawn: it takes one for all points there are.

    The method is replaced on this one object. What it is given are trials that the sampler has read itself, so a
    sampler around this one cannot leave any out.
    """
    populate = sampler._populate_tree

    def populate_tree(tree: Any, trials: list[FrozenTrial], params: dict[str, Any]) -> None:
        populate(tree, [trial for trial in trials if trial.params or not trial.state.is_finished()], params)

    setattr(sampler, "_populate_tree", populate_tree)  # noqa: B010 - a method is replaced


def restore_with(sampler: CmaEsSampler, load: Callable[[bytes], Any]) -> None:
    """Has a sampler read the state that it keeps in the storage with a function, in place of `pickle.loads`.

    The method is replaced on this one object. A sampler around this one could look at the state first, but this one
    would read it from the storage again.
    """
    prefix = sampler._attr_key_optimizer

    def restore(completed: Sequence[FrozenTrial]) -> Any:
        """As `CmaEsSampler._restore_optimizer`: what the newest trial with a state holds."""
        for trial in reversed(completed):
            parts = {key: value for key, value in trial.system_attrs.items() if key.startswith(prefix)}
            if parts:
                return load(bytes.fromhex(sampler._concat_optimizer_attrs(parts)))
        return None

    setattr(sampler, "_restore_optimizer", restore)  # noqa: B010 - a method is replaced
