"""A storage from a stranger: nothing that stands in it is built, called or unpickled."""

import os
import pickle
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import optuna
import pytest
from optuna.samplers import CmaEsSampler, PartialFixedSampler
from optuna.trial import FrozenTrial, TrialState

from tests.tuner.command_line import CommandLine, files_read_once, tuner
from tests.tuner.studies import CONFIG, ControllerDied, FakeExecutor, definition, journal, run_study
from tests.tuner.sweeper.test_sweep_study import SameFolder, with_trials
from tests.tuner.sweeper.test_sweep_study import definition as sweep_definition
from tuner.commands.tune import _winner
from tuner.errors import UserError
from tuner.study import StudyStore, find_winner, home_of, own_home
from tuner.study.control import LOCK_FILE
from tuner.study.sampling.cma import CarefulUnpickler
from tuner.study.sampling.sampler_factory import make_sampler
from tuner.study.sampling.stored_values import check_values
from tuner.study.storage.homes import KEY_FILE, key_of
from tuner.study.storage.ownership import OWNER
from tuner.study.sweep.job_registry import SweepRegistry
from tuner.study.sweep.sweep_study import SWEEP_FOLDER

__all__ = ["files_read_once", "tuner"]

EVIL = {"_target_": "os.system", "command": "mkdir owned"}


def edit(url: str, stage: str, states: tuple[TrialState, ...], **changes: Any) -> None:
    """Changes what a storage says of the runs of a stage."""
    with StudyStore(url) as store:
        study = store.find("study", stage)
        assert study is not None
        trials = study.get_trials(states=states)
        assert trials
        for trial in trials:
            about = {**trial.user_attrs["run"], **changes}
            study._storage.set_trial_user_attr(trial._trial_id, "run", about)


def stop_in_confirm(folder: Path) -> None:
    """A controller that dies while a run of the second stage is open."""
    executor = FakeExecutor()

    def watch(event: Any) -> None:
        if event.key.startswith("confirm/1"):
            raise ControllerDied

    executor.on_event = watch
    with pytest.raises(ControllerDied):
        run_study(folder, executor, num_race_seeds=0)


def test_the_config_of_a_run_is_made_from_its_values(tmp_path: Path) -> None:
    stop_in_confirm(tmp_path)
    edit(journal(tmp_path), "confirm", (TrialState.RUNNING,), config={**CONFIG, "agent": EVIL})
    executor = FakeExecutor()
    run_study(tmp_path, executor, num_race_seeds=0)
    assert executor.started[0].key == "confirm/1"
    assert all("_target_" not in spec.config["agent"] for spec in executor.started)


@pytest.mark.parametrize(
    ("values", "said"),
    [
        ({"agent._target_": "os.system"}, "changed by hand .*agent._target_ is missing"),
        ({"optimizer.learning_rate": "${oc.env:HOME}"}, "changed by hand .*optimizer.learning_rate is .*the run has"),
        ({"agent.gamma": {"_target_": "x"}}, "changed by hand .*agent.gamma is .*the run has"),
    ],
)
def test_values_that_cannot_have_been_drawn_are_refused(tmp_path: Path, values: dict[str, object], said: str) -> None:
    stop_in_confirm(tmp_path)
    edit(journal(tmp_path), "confirm", (TrialState.RUNNING,), values=values)
    executor = FakeExecutor()
    with pytest.raises(UserError, match=said):
        run_study(tmp_path, executor, num_race_seeds=0)
    assert executor.started == []


def test_a_choice_is_one_of_those_offered(tmp_path: Path) -> None:
    space = definition(tmp_path, space={"agent": {"kind": {"choices": ["plain", "fancy"]}}}).space
    check_values(space, {"agent.kind": "fancy"})
    with pytest.raises(UserError, match="is none of 'plain', 'fancy'"):
        check_values(space, {"agent.kind": "os.system"})


def test_a_share_that_is_chosen_is_stored_as_a_number(tmp_path: Path) -> None:
    share = {"choices": [0.25, 0.5], "of": "buffer.train_freq"}
    space = definition(tmp_path, space={"buffer": {"gradient_steps": share}}).space
    check_values(space, {"buffer.gradient_steps": 2})
    with pytest.raises(UserError, match="which this search cannot have drawn"):
        check_values(space, {"buffer.gradient_steps": "two"})


def test_what_is_taken_home_is_made_from_values(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    run_study(tmp_path, num_race_seeds=0)
    with StudyStore(journal(tmp_path)) as store:
        before = find_winner(store, "study")
        assert before is not None
        edited = replace(before, config={**before.config, "agent": EVIL})
        monkeypatch.setattr("tuner.commands.tune.find_winner", lambda *arguments: edited)
        after = _winner(definition(tmp_path, num_race_seeds=0), store)
    assert after is not None
    assert {**after.config, "seed": 0} == {**before.config, "seed": 0}


def test_the_overrides_of_a_job_are_made_from_its_values(tmp_path: Path) -> None:
    study = with_trials(("minimize",))
    registry = SweepRegistry(study, sweep_definition(), SameFolder("x"), tmp_path, total=3)
    run = registry.next_run()
    assert run is not None
    about = study.trials[0].user_attrs["run"]
    study._storage.set_trial_user_attr(0, "run", {**about, "overrides": ["+x={_target_: os.system}"]})
    (again,) = SweepRegistry(study, sweep_definition(), SameFolder("x"), tmp_path, total=3).open_runs()
    assert again.config == run.config
    for outside in ("../elsewhere", "a/../../b", str(tmp_path.parent)):
        study._storage.set_trial_user_attr(0, "run", {**about, "subdir": outside})
        with pytest.raises(UserError, match="is not in that of its sweep"):
            SweepRegistry(study, sweep_definition(), SameFolder("x"), tmp_path, total=3).open_runs()


def named(store: StudyStore, folder: Path, is_sweep: bool = True, **changes: Any) -> None:
    """Has a storage say that a study lies in a folder, and what else its last controller has left there."""
    study = store.require("study")
    mark = {**study.user_attrs[OWNER], "folder": str(folder), **changes}
    if is_sweep:
        study.set_user_attr(SWEEP_FOLDER, str(folder))
    study.set_user_attr(OWNER, {key: value for key, value in mark.items() if value != "none"})


@pytest.mark.parametrize("home_in", [own_home, home_of], ids=["ablation", "report of a sweep"])
def test_a_folder_that_a_storage_names_is_written_to_only_if_it_has_its_key(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, home_in: Callable[[StudyStore, str, Path], Path]
) -> None:
    monkeypatch.chdir(tmp_path)
    theirs, mine = tmp_path / "theirs", tmp_path / "typed" / "study"
    run_study(tmp_path / "of_mine")
    run_study(theirs)
    victim = tmp_path / "of_mine" / "studies" / "study"
    with StudyStore(journal(theirs)) as store:
        named(store, theirs / "studies" / "study")
        assert home_in(store, "study", mine) == theirs / "studies" / "study"
        named(store, victim)  # a controller has run there, but no controller of this storage
        assert home_in(store, "study", mine) == mine
        for key in (None, "", 7, {"a": 1}):
            named(store, victim, key=key)
            assert home_in(store, "study", mine) == mine
        named(store, victim, key=(victim / KEY_FILE).read_text())  # what only one knows who has seen the folder
        assert home_in(store, "study", mine) == victim


def test_a_link_is_no_key(tmp_path: Path) -> None:
    (tmp_path / "elsewhere").write_text("0" * 32)
    (tmp_path / KEY_FILE).symlink_to(tmp_path / "elsewhere")
    assert key_of(tmp_path) is None
    (tmp_path / KEY_FILE).unlink()
    (tmp_path / KEY_FILE).symlink_to(tmp_path / "new")
    assert key_of(tmp_path) is None
    assert not (tmp_path / "new").exists()
    assert key_of(tmp_path / "nowhere") is None


def test_without_a_key_a_folder_is_below_the_working_directory(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    run_study(tmp_path)
    home, mine = tmp_path / "studies" / "study", tmp_path / "typed"
    elsewhere = tmp_path / "elsewhere"
    elsewhere.mkdir()
    with StudyStore(journal(tmp_path)) as store:
        named(store, home, key="none")
        monkeypatch.chdir(elsewhere)
        assert home_of(store, "study", mine) == own_home(store, "study", mine) == mine
        monkeypatch.chdir(tmp_path)
        assert home_of(store, "study", mine) == own_home(store, "study", mine) == home
        (home / LOCK_FILE).unlink()
        assert home_of(store, "study", mine) == own_home(store, "study", mine) == mine


@pytest.mark.parametrize("key", [None, "0" * 32])
def test_an_ablation_writes_nothing_where_a_strangers_storage_says(
    tuner: CommandLine, tmp_path_factory: pytest.TempPathFactory, key: str | None
) -> None:
    victim = tmp_path_factory.mktemp("home") / "study"
    victim.mkdir()
    (victim / "report.html").write_text("mine")
    (victim / LOCK_FILE).touch()
    small = ("agent=synthetic", "executor=inline", "tracker=jsonl", "study.num_trials=2", "study.name=study")
    assert tuner("tune", *small, "study=quick", "storage=journal").status == 0
    with StudyStore("journal:///studies.journal") as store:
        named(store, victim, is_sweep=False, key=key)
    answer = tuner("ablate", "study", "executor=inline", "tracker=jsonl", "storage=journal", "num_seeds=5")
    assert answer.status == 2
    assert f"lie in {victim}, and checkpoints with them: go on with study.folder={victim.parent}" in answer.errors
    assert sorted(path.name for path in victim.iterdir()) == [LOCK_FILE, "report.html"]
    assert (victim / "report.html").read_text() == "mine"


class Opened:
    """Leaves a folder named `owned` when it is unpickled."""

    def __reduce__(self) -> Any:
        return os.mkdir, ("owned",)


def searched_by_cma(study: optuna.Study, num_trials: int) -> CmaEsSampler:
    def factory(seed: int) -> CmaEsSampler:
        return CmaEsSampler(seed=seed, warn_independent_sampling=False)

    study.sampler = seeded = make_sampler(factory, 0, len(study.trials), None)
    sampler = seeded.inner
    assert isinstance(sampler, CmaEsSampler)
    study.optimize(
        lambda trial: (trial.suggest_float("x", -1, 1) - 0.3) ** 2 + trial.suggest_int("y", -4, 4), num_trials
    )
    return sampler


def states(trials: list[FrozenTrial]) -> list[FrozenTrial]:
    return [trial for trial in trials if any("optimizer" in key for key in trial.system_attrs)]


@pytest.mark.filterwarnings("ignore::optuna.exceptions.ExperimentalWarning")
def test_the_state_of_cma_runs_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    study = optuna.create_study()
    sampler = searched_by_cma(study, 12)
    newest = states(study.trials)[-1]
    kept = {key: value for key, value in newest.system_attrs.items() if "optimizer" not in key}
    newest.system_attrs = {**kept, **sampler._split_optimizer_str(pickle.dumps(Opened()).hex())}
    study.add_trial(newest)
    with pytest.raises(UserError, match=r"names \w+\.mkdir, which is no part of one"):
        searched_by_cma(study, 3)
    study.sampler = make_sampler(
        lambda seed: PartialFixedSampler({"y": 2}, CmaEsSampler(seed=seed, warn_independent_sampling=False)),
        0,
        12,
        None,
    )
    with pytest.raises(UserError, match=r"names \w+\.mkdir, which is no part of one"):
        study.optimize(lambda trial: trial.suggest_float("x", -1, 1), 3)
    assert not (tmp_path / "owned").exists()
    assert issubclass(CarefulUnpickler, pickle.Unpickler)
