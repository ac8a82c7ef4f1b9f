"""A storage from a stranger: nothing that stands in it is built, called or unpickled."""

import os
import pickle
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import optuna
import pytest
from optuna.samplers import CmaEsSampler
from optuna.trial import FrozenTrial, TrialState

from tests.tuner.studies import CONFIG, ControllerDied, FakeExecutor, definition, journal, run_study
from tests.tuner.sweeper.test_sweep_study import SameFolder, with_trials
from tests.tuner.sweeper.test_sweep_study import definition as sweep_definition
from tuner.commands.tune import _winner
from tuner.errors import UserError
from tuner.study import StudyStore, find_winner, home_of
from tuner.study.control import LOCK_FILE
from tuner.study.sampling.cma import CarefulUnpickler
from tuner.study.sampling.samplers import make_sampler
from tuner.study.sampling.vetting import check_values
from tuner.study.sweep.job_registry import SweepRegistry
from tuner.study.sweep.study import SWEEP_FOLDER

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
    "values",
    [
        {"agent._target_": "os.system"},
        {"optimizer.learning_rate": "${oc.env:HOME}"},
        {"agent.gamma": {"_target_": "x"}},
    ],
)
def test_values_that_cannot_have_been_drawn_are_refused(tmp_path: Path, values: dict[str, object]) -> None:
    stop_in_confirm(tmp_path)
    edit(journal(tmp_path), "confirm", (TrialState.RUNNING,), values=values)
    executor = FakeExecutor()
    with pytest.raises(UserError, match="which this search cannot have drawn"):
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


def test_a_report_is_written_only_where_a_sweep_ran(tmp_path: Path) -> None:
    run_study(tmp_path)
    elsewhere = tmp_path / "elsewhere"
    elsewhere.mkdir()
    with StudyStore(journal(tmp_path)) as store:
        store.require("study").set_user_attr(SWEEP_FOLDER, str(elsewhere))
        assert home_of(store, "study", tmp_path / "mine") == tmp_path / "mine"
        (elsewhere / LOCK_FILE).touch()
        assert home_of(store, "study", tmp_path / "mine") == elsewhere


class Opened:
    """What an unpickled one does: leaves a folder named `owned`."""

    def __reduce__(self) -> Any:
        return os.mkdir, ("owned",)


def searched_by_cma(study: optuna.Study, num_trials: int, **options: Any) -> CmaEsSampler:
    def factory(seed: int) -> CmaEsSampler:
        return CmaEsSampler(seed=seed, warn_independent_sampling=False, **options)

    sampler = make_sampler(factory, 0, len(study.trials), None)
    assert isinstance(sampler, CmaEsSampler)
    study.sampler = sampler
    study.optimize(
        lambda trial: (trial.suggest_float("x", -1, 1) - 0.3) ** 2 + trial.suggest_int("y", -4, 4), num_trials
    )
    return sampler


def states(trials: list[FrozenTrial]) -> list[FrozenTrial]:
    return [trial for trial in trials if any("optimizer" in key for key in trial.system_attrs)]


@pytest.mark.filterwarnings("ignore::optuna.exceptions.ExperimentalWarning")
@pytest.mark.parametrize("options", [{}, {"use_separable_cma": True}, {"with_margin": True}, {"lr_adapt": True}])
def test_the_state_of_cma_is_read_as_optuna_reads_it(options: dict[str, bool]) -> None:
    study = optuna.create_study()
    searched_by_cma(study, 20, **options)
    sampler = searched_by_cma(study, 3, **options)
    assert states(study.trials)
    ours = sampler._restore_optimizer(study.trials)
    theirs = CmaEsSampler._restore_optimizer(sampler, study.trials)
    assert type(ours) is type(theirs)
    assert ours is not None
    assert theirs is not None
    assert ours.generation == theirs.generation > 1
    np.testing.assert_array_equal(ours.mean, theirs.mean)


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
    assert not (tmp_path / "owned").exists()
    assert issubclass(CarefulUnpickler, pickle.Unpickler)
