"""Sweeps in Optuna's books: directions, Pareto sets, folders, steps."""

import re
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import optuna
import pytest
from optuna.samplers import BruteForceSampler, CmaEsSampler, GridSampler, NSGAIISampler, TPESampler

import tuner
from tuner.errors import UserError
from tuner.features.objectives.facts import FRONT
from tuner.features.objectives.front_verdict import front_members
from tuner.reporting import write_page
from tuner.reporting.figures.scores import history_figure
from tuner.results.protocol import StudySettings
from tuner.results.records import StudySummary
from tuner.results.verdict import verdict
from tuner.study import StudyDefinition, StudyStore, home_of, summarise
from tuner.study.control import LOCK_FILE
from tuner.study.run_registry import RunEnd
from tuner.study.space.coordinates import Bounds, Plain
from tuner.study.space.space import Parameter, Space
from tuner.study.storage.homes import key_of
from tuner.study.storage.ownership import OWNER
from tuner.study.storage.store import begin_or_continue
from tuner.study.sweep.job_registry import JobJudge, SweepRegistry
from tuner.study.sweep.sweep_study import SWEEP_FOLDER, Direction, SweepSampler, best_jobs
from tuner.sweeper.grammar import SweepSpace, parse_sweep
from tuner.trial.messages import JsonDict, Outcome

MANY: tuple[Direction, ...] = ("minimize", "maximize")


class SameFolder:
    """An application whose subdir does not tell its jobs apart."""

    def __init__(self, subdir: str) -> None:
        self._subdir = subdir

    def added(self, trial: optuna.Trial, values: JsonDict) -> JsonDict:
        return {}

    def overrides(self, values: JsonDict) -> list[str]:
        return [f"x={values['x']}"]

    def subdir(self, number: int, overrides: Sequence[str]) -> str:
        return self._subdir


def definition() -> StudyDefinition:
    space = Space((Parameter("x", Plain(Bounds(0.0, 1.0))),))
    return StudyDefinition("s", {}, space, StudySettings(num_trials=3), probe=None)


def with_trials(directions: tuple[Direction, ...], *trials: tuple[str, tuple[float, ...]]) -> optuna.Study:
    study = StudyStore("memory").open("s", "screen", directions=directions)
    for number, (outcome, values) in enumerate(trials):
        about = {"run": {"values": {"x": number}, "subdir": str(number)}, "outcome": outcome}
        study.add_trial(optuna.trial.create_trial(values=values, user_attrs=about))
    return study


def test_the_best_job_is_a_complete_one() -> None:
    trials = (("complete", (3.0,)), ("complete", (1.0,)), ("diverged", (0.5,)), ("complete", (1.0,)))
    assert [job.number for job in best_jobs(with_trials(("minimize",), *trials))] == [1]
    assert [job.number for job in best_jobs(with_trials(("maximize",), *trials))] == [0]
    assert best_jobs(with_trials(("minimize",))) == []


def test_of_several_objectives_all_jobs_that_no_other_beats() -> None:
    trials = [(1.0, 1.0), (2.0, 3.0), (2.0, 2.0), (3.0, 3.0), (0.5, -1.0), (2.0, 3.0)]
    study = with_trials(MANY, *(("complete", values) for values in trials))
    assert [job.number for job in best_jobs(study)] == [0, 1, 4, 5]
    registry = SweepRegistry(study, definition(), SameFolder("."), Path(), total=3)
    assert registry.worst() == (3.0, -1.0)


@pytest.mark.parametrize(("subdir", "folders"), [("x", ["x", "x_1", "x_2"]), (".", ["0", "1", "2"])])
def test_no_two_jobs_share_a_folder(tmp_path: Path, subdir: str, folders: list[str]) -> None:
    study = with_trials(("minimize",))
    registry = SweepRegistry(study, definition(), SameFolder(subdir), tmp_path, total=3)
    runs = [registry.next_run() for _ in range(4)]
    assert [run and run.folder for run in runs] == [*(tmp_path / folder for folder in folders), None]
    again = SweepRegistry(study, definition(), SameFolder(subdir), tmp_path, total=3)
    assert [run.folder for run in again.open_runs()] == [tmp_path / folder for folder in folders]
    assert again.next_run() is None


@pytest.mark.parametrize(("steps", "entered"), [((1, 2, 3), [1, 2, 3]), ((0.25, 0.5, 1.0), [250, 500, 1000])])
def test_steps_are_whole_numbers_or_fractions(tmp_path: Path, steps: tuple[float, ...], entered: list[int]) -> None:
    study = with_trials(("minimize",))
    registry = SweepRegistry(study, definition(), SameFolder("x"), tmp_path, total=3)
    run = registry.next_run()
    assert run is not None
    for step in steps:
        run.curve[float(step)] = 10.0 * step
        assert JobJudge().answer(registry, run, float(step)) == "continue"
    assert study.trials[0].intermediate_values == dict(zip(entered, (10.0 * step for step in steps), strict=True))


@pytest.mark.parametrize("kind", [optuna.samplers.GridSampler, optuna.samplers.BruteForceSampler])
def test_every_combination_is_run_once_and_all_its_values_are_recorded(tmp_path: Path, kind: type) -> None:
    space = parse_sweep({}, ["m=choice(a,b)", "x=range(3)"])
    sweep = StudyDefinition("s", {}, space.space, StudySettings(num_trials=50), probe=None)
    sampler = SweepSampler(kind, space.grid(), num_objectives=2)
    study = with_trials(MANY)
    study.sampler = sampler.make(0, 0)
    registry = SweepRegistry(study, sweep, SpaceJobs(space), tmp_path, sampler.total(50))
    while run := registry.next_run():
        number = float(run.number)
        record = registry.tell(run, RunEnd(Outcome.COMPLETE, number, "", 1.0, (-number,)))
        assert (record.value, record.outcome) == (number, Outcome.COMPLETE)
    assert registry.is_done
    assert sorted((record.params["m"], record.params["x"]) for record in registry.records()) == [
        *(("a", 0), ("a", 1), ("a", 2), ("b", 0), ("b", 1), ("b", 2)),
    ]
    assert [trial.values for trial in study.trials] == [[n, -n] for n in range(6)]


class SpaceJobs:
    """An application with the overrides of a real search."""

    def __init__(self, space: SweepSpace) -> None:
        self.overrides = space.overrides

    def added(self, trial: optuna.Trial, values: JsonDict) -> JsonDict:
        return {}

    def subdir(self, number: int, overrides: Sequence[str]) -> str:
        return str(number)


@pytest.mark.parametrize(
    ("kind", "asked", "total"),
    [
        (GridSampler, None, 60),
        (BruteForceSampler, None, 60),
        (GridSampler, 7, 7),
        (GridSampler, 100, 60),
        (TPESampler, None, 20),
        (TPESampler, 100, 100),
    ],
)
def test_a_grid_is_run_whole_unless_a_number_is_asked_for(kind: type, asked: int | None, total: int) -> None:
    assert SweepSampler(kind, {"x": list(range(30)), "y": ["a", "b"]}).total(asked) == total


def test_samplers_that_cannot_do_it_are_refused() -> None:
    with pytest.raises(UserError, match="knows one objective only"):
        SweepSampler(CmaEsSampler, {"x": None}, num_objectives=2).make(0, 0)
    assert isinstance(SweepSampler(NSGAIISampler, {"x": None}, num_objectives=2).make(0, 0).inner, NSGAIISampler)
    grid = SweepSampler(optuna.samplers.GridSampler, {"x": [1, 2], "y": ["a", "b", "c"]})
    assert (grid.total(100), grid.total(4)) == (6, 4)
    assert SweepSampler(NSGAIISampler, {"x": [1]}).total(100) == 100


def test_reports_outside_of_a_study_are_no_ops() -> None:
    assert tuner.report(1, 2.0) is False


def reported(tmp_path: Path, directions: tuple[Direction, ...], returned: Sequence[tuple[float, ...]]) -> StudySummary:
    """A sweep as a report sees it; the second of its jobs crashed."""
    sweep = replace(definition(), settings=StudySettings(num_trials=len(returned)), agent="app")
    with StudyStore("memory") as store:
        study = store.open("s", "screen", directions=directions)
        begin_or_continue(study, sweep, store.url)
        study.set_user_attr(SWEEP_FOLDER, str(tmp_path))
        mark = {"host": "here", "pid": None, "started": None, "folder": str(tmp_path), "at": 0.0}
        study.set_user_attr(OWNER, {**mark, "key": key_of(tmp_path)})
        (tmp_path / LOCK_FILE).touch()
        registry = SweepRegistry(study, sweep, SameFolder("job"), tmp_path, total=len(returned))
        for values in returned:
            run = registry.next_run()
            assert run is not None
            if run.number == 1:
                registry.tell(run, RunEnd(Outcome.CRASHED, None, "KeyError: 'x'", 2.0))
            else:
                registry.tell(run, RunEnd(Outcome.COMPLETE, values[0], "", 1.0, values[1:]))
        assert home_of(store, "s", Path("elsewhere")) == tmp_path
        return summarise(store, "s", Path("elsewhere"))


def test_a_sweep_that_minimises_has_a_report(tmp_path: Path) -> None:
    summary = reported(tmp_path, ("minimize",), [(float(value),) for value in (5, 9, 3, 8, 2, 7, 2, 6, 9, 9, 9, 9)])
    assert (summary.winner_label, summary.maximised, summary.is_sweep) == ("trial 4", False, True)
    assert summary.importances.keys() == {"x"}
    assert [run.folder for run in summary.runs[:2]] == [str(tmp_path / "job"), str(tmp_path / "job_1")]
    found = verdict(summary)
    assert found.sentence.startswith("Best of 11 finished jobs: trial 4 (x=")
    assert "returned 2. Each job ran once" in found.sentence
    assert found.details == ("Of 12 jobs, 1 failed.",)
    drawn = history_figure(summary)
    assert drawn is not None
    assert drawn["data"][0]["y"] == [5.0, 3.0, 2.0, 2.0], "each improvement, and the end"
    page = write_page(summary, tmp_path).read_text()
    assert '<section id="comparison">' not in page
    rows = page.partition('id="trial-table"')[2].partition("</table>")[0]
    assert re.findall(r"trial \d+", rows)[:3] == ["trial 4", "trial 6", "trial 2"]


def test_a_sweep_of_several_objectives_has_a_report(tmp_path: Path) -> None:
    returned = [(1.0, 1.0), (9.0, 9.0), (2.0, 3.0), (2.0, 2.0), (3.0, 3.0), (0.5, -1.0)]
    summary = reported(tmp_path, MANY, returned)
    assert (summary.winner_label, FRONT.of(summary)) == (None, ("trial 0", "trial 2", "trial 5"))
    members = front_members(summary)
    assert [(member.label, [value.iqm for value in member.values]) for member in members] == [
        ("trial 5", [0.5, -1.0]),
        ("trial 0", [1.0, 1.0]),
        ("trial 2", [2.0, 3.0]),
    ]
    sentence = verdict(summary).sentence
    assert "3 configurations are beaten by no other in score (lower is better) and objective 2 (higher" in sentence
    assert "trial 5 with score 0.5, objective 2 -1" in sentence
    page = write_page(summary, tmp_path).read_text()
    assert "front-figure" in page
    assert page.partition('id="front-table"')[2].partition("</table>")[0].count("<tr") == 1 + 3
