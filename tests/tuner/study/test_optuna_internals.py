"""One test for each private name of Optuna: it says what breaks if the name is gone or means something else."""

import sqlite3
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import optuna
import pytest
from optuna.artifacts import FileSystemArtifactStore, upload_artifact
from optuna.distributions import FloatDistribution, IntDistribution
from optuna.pruners import HyperbandPruner
from optuna.samplers import CmaEsSampler, GridSampler, RandomSampler
from optuna.storages import JournalStorage, RDBStorage
from optuna.storages.journal import JournalFileBackend
from optuna.trial import TrialState

from tests.tuner.study.test_samplers import factory
from tuner.study import optuna_internals as internals
from tuner.study.sampling.cma import load_state
from tuner.study.space.space import Space
from tuner.study.storage.store import quiet_optuna


@pytest.fixture
def study() -> Iterator[optuna.Study]:
    with quiet_optuna():
        yield optuna.create_study(sampler=RandomSampler(0))


def test_trial_id(study: optuna.Study) -> None:
    """FrozenTrial._trial_id: without it, a study that is continued cannot go on with the trials that are open."""
    study.ask()
    study.ask().set_user_attr("a", 1)
    trial = internals.handle_of(study, study.get_trials(deepcopy=False)[1])
    trial.set_user_attr("b", 2)
    assert (trial.number, study.trials[1].user_attrs) == (1, {"a": 1, "b": 2})


def test_a_storage_with_a_cache(tmp_path: Path) -> None:
    """get_storage: without it, each study object reads all trials of a database again."""
    database = RDBStorage(f"sqlite:///{tmp_path}/studies.db")
    cached = internals.with_cache(database)
    one = optuna.create_study(storage=cached, study_name="a")
    one.tell(one.ask(), 1.0)
    (first,) = one.get_trials(deepcopy=False)
    (again,) = optuna.load_study(study_name="a", storage=cached).get_trials(deepcopy=False)
    assert again is first
    assert internals.with_cache(cached) is cached


def test_artifacts_of_a_study(study: optuna.Study, tmp_path: Path) -> None:
    """ARTIFACTS_ATTR_PREFIX: without it, files of a study are noted again each time that they are looked for."""
    (tmp_path / "page.html").write_text("a page")
    store = FileSystemArtifactStore(tmp_path)
    number = upload_artifact(artifact_store=store, file_path=str(tmp_path / "page.html"), study_or_trial=study)
    outside = '{"artifact_id": "../../x", "filename": "page.html"}'
    for name, text in (("removed-in-the-dashboard", "null"), ("half", '{"filename": "b'), ("outside", outside)):
        study._storage.set_study_system_attr(study._study_id, f"artifacts:{name}", text)
    assert internals.artifacts_of(study) == {"page.html": number}


def test_cached_trials(study: optuna.Study) -> None:
    """Study._thread_local.cached_all_trials: if it is not emptied for a new trial, samplers miss what has ended."""
    study.tell(study.ask(), 1.0)
    study._thread_local.cached_all_trials = []
    assert internals.ask_anew(study).number == 1
    assert len(study._get_trials(deepcopy=False, use_cache=True)) == 2


def test_storage_and_study_id(study: optuna.Study) -> None:
    """Study._storage, Study._study_id: without them, each new trial reads all that are not over."""
    study.enqueue_trial({"x": 0.5})
    trial = internals.ask_anew(study)
    assert (trial.number, internals.enqueued_params(study, trial)) == (1, {})
    assert [one.state for one in study.trials] == [TrialState.WAITING, TrialState.RUNNING]
    assert study.ask().number == 0


def test_fixed_params(study: optuna.Study) -> None:
    """The attribute `fixed_params`: without it, what somebody has enqueued is run unchecked."""
    study.enqueue_trial({"x": 0.5})
    assert internals.enqueued_params(study, study.ask()) == {"x": 0.5}


def test_suggest(study: optuna.Study) -> None:
    """Trial._suggest: without it, nothing is drawn. It keeps the distribution as it is, and draws a name once."""
    trial = study.ask()
    with pytest.warns(UserWarning, match="not divisible"):
        distribution = FloatDistribution(333.0, 333.0 + 5 / 7, step=1 / 7)
    drawn = internals.suggest(trial)("x", distribution)
    assert internals.suggest(trial)("x", distribution) == drawn
    assert study.trials[0].distributions == {"x": distribution}
    assert study.trials[0].params == {"x": drawn}


def test_optimize_loop_and_stop_flag(study: optuna.Study) -> None:
    """Study._thread_local.in_optimize_loop, Study._stop_flag: without them, a grid that is used up raises."""
    with pytest.raises(RuntimeError, match="inside an objective function"):
        study.stop()
    internals.begin_loop(study)
    assert not internals.is_stopped(study)
    study.stop()
    assert internals.is_stopped(study)
    internals.begin_loop(study)
    assert not internals.is_stopped(study)


@pytest.mark.parametrize("name", ["random", "tpe", "gp", "cmaes", "grid", "nsga2", "qmc"])
def test_lazy_random_state(name: str) -> None:
    """LazyRandomState: if a sampler keeps another kind, studies of one seed differ, and nothing else says so."""
    with quiet_optuna():
        sampler = factory(f"sampler={name}")(**({"space": _space()} if name == "grid" else {}), seed=1)
    states = internals.random_states(sampler)
    assert states
    for state in states:
        state.seed(7)
    first = [state.random_sample() for state in internals.random_states(sampler)]
    assert len(set(first)) == 1, "those that are seeded are those that are drawn from"


def _space() -> Any:
    return Space.from_config({"agent": {"gamma": {"low": 0.5, "high": 0.9}}}, {"agent": {"gamma": 0.6}})


def test_samplers_within() -> None:
    """The samplers within a sampler are its attributes: if not, they are not seeded, and CMA-ES there unpickles."""
    inner = CmaEsSampler(seed=0, warn_independent_sampling=False)
    with quiet_optuna():
        outer = optuna.samplers.PartialFixedSampler({"x": 1}, inner)
    assert inner in list(internals.samplers_within(outer))
    assert RandomSampler in {type(one) for one in internals.samplers_within(outer)}


def test_all_grids() -> None:
    """GridSampler._all_grids: without it, a study asks a grid for more trials than it has points."""
    assert internals.num_grid_points(GridSampler({"x": [1, 2, 3], "y": [1, 2]})) == 6


def test_min_resource() -> None:
    """HyperbandPruner._min_resource: without it, a wrong one ends a study at its first report."""
    assert internals.min_resource(HyperbandPruner(min_resource=3)) == 3


def test_populate_tree() -> None:
    """BruteForceSampler._populate_tree: if it is not asked, one trial that was closed early ends the search."""
    with quiet_optuna():
        sampler = optuna.samplers.BruteForceSampler(seed=0)
        internals.pass_over_undrawn(sampler)
        found = optuna.create_study(sampler=sampler)
        internals.begin_loop(found)
        found.tell(found.ask(), state=TrialState.FAIL)
        found._stop_flag = False
        for number in range(4):
            assert not internals.is_stopped(found), number
            found.tell(found.ask({"x": IntDistribution(0, 3)}), 1.0)
    assert sorted(trial.params["x"] for trial in found.trials[1:]) == [0, 1, 2, 3]
    assert internals.is_stopped(found)


@pytest.mark.filterwarnings("ignore::optuna.exceptions.ExperimentalWarning")
@pytest.mark.parametrize("options", [{}, {"use_separable_cma": True}, {"with_margin": True}, {"lr_adapt": True}])
def test_restore_optimizer(study: optuna.Study, options: dict[str, bool]) -> None:
    """CmaEsSampler._restore_optimizer and what it reads: if it is not asked, a stranger's storage runs code here."""
    sampler, read = CmaEsSampler(seed=0, warn_independent_sampling=False, **options), []
    study.sampler = sampler

    def load(content: bytes) -> Any:
        read.append(content)
        return load_state(content)

    internals.restore_with(sampler, load)
    study.optimize(lambda trial: trial.suggest_float("x", -1, 1) ** 2 + trial.suggest_int("y", -4, 4), 20)
    assert read
    ours, theirs = sampler._restore_optimizer(study.trials), CmaEsSampler._restore_optimizer(sampler, study.trials)
    assert ours is not None
    assert theirs is not None
    assert type(ours) is type(theirs)
    assert ours.generation == theirs.generation > 1
    np.testing.assert_array_equal(ours.mean, theirs.mean)


def test_tables_and_schema_version(tmp_path: Path) -> None:
    """models.BaseModel, models.SCHEMA_VERSION: without them, a database without a table is given an empty one."""
    storage = RDBStorage(f"sqlite:///{tmp_path}/s.db")
    storage.engine.dispose()
    connection = sqlite3.connect(tmp_path / "s.db")
    there = {row[0] for row in connection.execute("SELECT name FROM sqlite_master WHERE type = 'table'")}
    assert {"studies", "trials", "version_info"} <= set(internals.TABLES) <= there
    columns = {row[1] for row in connection.execute("PRAGMA table_info(trials)")}
    assert {column.name for column in internals.TABLES["trials"].columns} == columns
    assert connection.execute("SELECT schema_version FROM version_info").fetchall() == [(internals.SCHEMA_VERSION,)]
    connection.close()


def test_journal_operations(tmp_path: Path) -> None:
    """JournalOperation: without it, a journal of a newer Optuna ends in an assertion instead of a sentence."""
    backend = JournalFileBackend(str(tmp_path / "s.journal"))
    study = optuna.create_study(storage=JournalStorage(backend))
    study.tell(study.ask({"x": FloatDistribution(0, 1)}), 1.0)
    written = {line["op_code"] for line in backend.read_logs(0)}
    assert len(written) >= 4
    assert written <= internals.JOURNAL_OPERATIONS


@pytest.mark.parametrize("name", internals.DATABASE_CALLS)
def test_database_calls(name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Methods of RDBStorage that reach the database: one that is not waited for ends a study at a lost connection."""
    called = []
    original = getattr(RDBStorage, name)

    def note(*arguments: Any, **options: Any) -> Any:
        called.append(name)
        return original(*arguments, **options)

    monkeypatch.setattr(RDBStorage, name, note)
    storage = RDBStorage(f"sqlite:///{tmp_path}/s.db")
    study = optuna.create_study(storage=storage)
    study.tell(study.ask({"x": FloatDistribution(0, 1)}), 1.0)
    assert study.best_value == 1.0
    assert study.get_trials()
    storage.remove_session()
    storage.engine.dispose()
    assert called
