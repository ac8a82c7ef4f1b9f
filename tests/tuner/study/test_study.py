"""The study engine on synthetic trials: stages, pruning, penalties, retries, continuing, and death at every instant."""

import json
import os
import re
import signal
from collections import Counter
from dataclasses import replace
from pathlib import Path
from statistics import fmean
from typing import Any

import optuna
import pytest
from optuna.pruners import SuccessiveHalvingPruner
from optuna.trial import TrialState

from tests.tuner.entries import quality, synthetic_curve
from tests.tuner.studies import (
    CONFIG,
    SPACE,
    ControllerDied,
    FakeExecutor,
    Script,
    definition,
    die_after_writes,
    journal,
    learn,
    run_study,
)
from tuner.errors import UserError
from tuner.executors.base import TrialEnded, TrialReported
from tuner.results.objective import Mixed, StepsTo
from tuner.results.protocol import Pruning, stage_seeds
from tuner.results.records import StudySummary
from tuner.results.verdict import verdict
from tuner.study import StudyError, StudyListener, StudyStopped, StudyStore, find_winner, summarise
from tuner.trial import folder as files
from tuner.trial.messages import JsonDict, Limits, Outcome, TrialResult, TrialSpec


def asha() -> SuccessiveHalvingPruner:
    return SuccessiveHalvingPruner(min_resource=1, reduction_factor=3)


def stored(folder: Path, stage: str = "screen") -> optuna.Study:
    store = StudyStore(journal(folder))
    study = store.find("study", stage)
    assert study is not None
    return study


# Stages


def test_the_stages_run_the_right_configurations_on_the_right_seeds(tmp_path: Path) -> None:
    summary = run_study(tmp_path, num_trials=6, num_candidates=3, num_select_seeds=2, num_test_seeds=4)
    screened = summary.stage("screen")
    assert [run.label for run in screened] == [f"trial {number}" for number in range(6)]
    assert {run.seed for run in screened} == set(stage_seeds(0, "screen", 1))
    best = sorted(screened, key=lambda run: -run.value)[:3]
    confirmed = summary.stage("confirm")
    pairs = Counter((run.label, run.seed) for run in confirmed)
    assert pairs == Counter({(run.label, seed): 1 for run in best for seed in stage_seeds(0, "confirm", 2)})
    tested = summary.stage("test")
    pairs = Counter((run.label, run.seed) for run in tested)
    labels = (summary.winner_label, "default")
    assert pairs == Counter({(label, seed): 1 for label in labels for seed in stage_seeds(0, "test", 4)})


def test_the_winner_is_chosen_by_confirmation_scores_alone(tmp_path: Path) -> None:
    lucky: list[float] = []

    def behave(spec: TrialSpec, attempt: int) -> Script:
        """Screening flatters the first trial, whose configuration is bad on every other seed."""
        script = learn(spec, attempt)
        if spec.key == "screen/0":
            lucky.append(spec.config["optimizer"]["learning_rate"])
            script.curve = [(step, 1000.0) for step, _ in script.curve]
        elif spec.config["optimizer"]["learning_rate"] in lucky:
            script.curve = [(step, -5.0) for step, _ in script.curve]
        return script

    summary = run_study(tmp_path, FakeExecutor(behave=behave))
    assert max(summary.stage("screen"), key=lambda run: run.value).label == "trial 0"
    assert {run.label for run in summary.stage("confirm")} > {"trial 0"}
    assert summary.winner_label != "trial 0"


def test_the_race_brings_the_promising_to_further_tune_seeds(tmp_path: Path) -> None:
    changes = {"num_trials": 9, "num_race": 4, "num_race_seeds": 3, "num_candidates": 2}
    summary = run_study(tmp_path, **changes)
    screened = summary.stage("screen")
    entrants = sorted(screened, key=lambda run: -run.value)[:4]
    seeds = stage_seeds(0, "race", 3)
    raced = Counter((run.label, run.seed) for run in summary.stage("race"))
    assert set(raced.values()) == {1}
    for entrant in entrants:
        assert {seed for label, seed in raced if label == entrant.label} >= set(seeds[:2])
    means = {
        one.label: fmean([one.value, *(run.value for run in summary.stage("race", one.label))]) for one in entrants
    }
    confirmed = {run.label for run in summary.stage("confirm")}
    most = max(Counter(label for label, _ in raced).values())
    finished = [one.label for one in entrants if len(summary.stage("race", one.label)) == most]
    assert confirmed == set(sorted(finished, key=lambda label: -means[label])[:2])
    assert not {run.seed for run in summary.stage("race")} & {run.seed for run in (*screened, *summary.stage("test"))}
    idle = FakeExecutor()
    assert scores(run_study(tmp_path, idle, **changes)) == scores(summary)
    assert idle.started == []


def test_who_is_clearly_worse_runs_no_further_seeds(tmp_path: Path) -> None:
    """Noise of 2 and qualities tens apart: behind on each of three seeds."""
    summary = run_study(tmp_path, num_trials=9, num_race=4, num_race_seeds=4, num_candidates=1)
    per_label = Counter(run.label for run in summary.stage("race"))
    assert per_label[str(summary.winner_label)] in (2, 4)
    assert min(per_label.values()) == 2
    assert len(summary.stage("race")) < 16


def test_a_race_is_not_run_where_there_is_nothing_to_decide(tmp_path: Path) -> None:
    summary = run_study(tmp_path, num_trials=2, num_race_seeds=2, num_candidates=2)
    assert not summary.stage("race")
    assert {run.label for run in summary.stage("confirm")} == {"trial 0", "trial 1"}


def test_a_race_survives_the_death_of_its_controller(tmp_path: Path) -> None:
    changes = {"num_trials": 6, "num_race": 4, "num_race_seeds": 3, "num_candidates": 2}
    whole = run_study(tmp_path / "whole", **changes)
    ended: Counter[str] = Counter()
    for _ in range(60):
        executor = FakeExecutor(2, die_after=31)
        executor.on_event = lambda event: ended.update([event.key]) if isinstance(event, TrialEnded) else None
        try:
            summary = run_study(tmp_path / "dying", executor, **changes)
            break
        except ControllerDied:
            continue
    assert set(ended.values()) == {1}
    assert {(run.stage, run.seed) for run in summary.runs} == {(run.stage, run.seed) for run in whole.runs}
    assert all(run.outcome is Outcome.COMPLETE for run in summary.runs)


def test_a_folder_that_holds_another_run_is_set_aside(tmp_path: Path) -> None:
    with pytest.raises(ControllerDied):
        run_study(tmp_path, executor := FakeExecutor(die_after=5))
    left = executor.started[-1]
    folder = tmp_path / "studies" / "study" / left.key
    files.prepare(folder, replace(left, seed=left.seed + 3))  # as if the storage were an older one than the folder
    files.write_result(folder, TrialResult(Outcome.COMPLETE, seconds=1.0))
    again = FakeExecutor()
    run_study(tmp_path, again)
    assert [spec.seed for spec in again.started if spec.key == left.key] == [left.seed]
    aside = [path for path in folder.parent.iterdir() if path.name not in map(str, range(6))]
    assert [files.read_trial(path).spec.seed for path in aside] == [left.seed + 3]


def test_a_penalty_is_a_score_of_the_studys_own_metric(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A random policy that scores 20 reaches 50 never: that is less than -1, and not 20."""
    random_score(monkeypatch, 20.0)
    executor = FakeExecutor(behave=ending(0, TrialResult(Outcome.DIVERGED, "nan"), reports=1))
    summary = run_study(tmp_path, executor, metric="steps_to_50", probe="tests.tuner.entries:probe")
    run = summary.stage("screen")[0]
    assert run.value is not None
    expected = [StepsTo(50.0)([(1.0, 20.0)]), StepsTo(50.0)(run.curve)]
    assert run.value == min(expected)
    assert run.value < -1.0


def test_each_run_gets_its_values_its_seed_and_nothing_else_changed(tmp_path: Path) -> None:
    executor = FakeExecutor()
    summary = run_study(tmp_path, executor)
    specs = {spec.key: spec for spec in executor.started}
    for run in summary.runs:
        spec = specs[f"{run.stage}/{run.number}"]
        assert spec.seed == spec.config["seed"] == run.seed
        assert spec.config["agent"]["gamma"] == run.params.get("agent.gamma", 0.99)
        assert spec.config["optimizer"]["learning_rate"] == run.params.get("optimizer.learning_rate", 0.1)
        assert spec.config["buffer"]["batch_size"] == run.params.get("buffer.batch_size", 64)
        assert {key: spec.config[key] for key in ("env", "training", "backend")} == {
            key: CONFIG[key] for key in ("env", "training", "backend")
        }
        assert run.value == Mixed()(synthetic_curve(spec.config, spec.seed))
    assert all(not run.params for run in summary.stage("test", "default"))


def test_what_refers_to_a_searched_value_follows_it(tmp_path: Path) -> None:
    def configure(values: JsonDict) -> JsonDict:
        rate = values.get("optimizer.learning_rate", 0.1)
        return {**CONFIG, "optimizer": {"learning_rate": rate}, "schedule": {"start": rate}}

    executor = FakeExecutor()
    space = {"optimizer": SPACE["optimizer"]}
    run_study(tmp_path, executor, configure=configure, space=space)
    for spec in executor.started:
        assert spec.config["schedule"]["start"] == spec.config["optimizer"]["learning_rate"]


def test_the_winning_config_is_kept(tmp_path: Path) -> None:
    summary = run_study(tmp_path)
    with StudyStore(journal(tmp_path)) as store:
        winner = find_winner(store, "study")
    assert winner is not None
    assert winner.label == summary.winner_label
    assert winner.values == summary.params_of(winner.label)
    assert winner.config["optimizer"]["learning_rate"] == winner.values["optimizer.learning_rate"]


def test_the_storage_says_what_the_coordinates_were(tmp_path: Path) -> None:
    summary = run_study(tmp_path)
    trial = stored(tmp_path).trials[0]
    params = summary.stage("screen")[0].params
    assert trial.params["1-agent.gamma"] == pytest.approx(1.0 - params["agent.gamma"])
    assert 2 ** trial.params["log2(buffer.batch_size)"] == params["buffer.batch_size"]
    assert trial.user_attrs["outcome"] == "complete"
    assert {name: trial.user_attrs[name] for name in params} == params


# The same again


def scores(summary: StudySummary) -> list[tuple[object, ...]]:
    return [(run.stage, run.label, run.seed, dict(run.params), run.value) for run in summary.runs]


def test_the_same_seed_gives_the_same_study(tmp_path: Path) -> None:
    first = run_study(tmp_path / "a", pruner=asha(), num_trials=12, pruning=Pruning(min_trials=4))
    second = run_study(tmp_path / "b", pruner=asha(), num_trials=12, pruning=Pruning(min_trials=4))
    other = run_study(tmp_path / "c", pruner=asha(), num_trials=12, pruning=Pruning(min_trials=4), seed=1)
    assert scores(first) == scores(second)
    assert not {run.value for run in first.runs} & {run.value for run in other.runs}


def test_the_number_of_trials_is_a_total(tmp_path: Path) -> None:
    first = run_study(tmp_path, num_trials=6)
    idle = FakeExecutor()
    assert scores(run_study(tmp_path, idle, num_trials=6)) == scores(first)
    assert idle.started == []
    again = FakeExecutor()
    more = run_study(tmp_path, again, num_trials=9)
    assert len(more.stage("screen")) == 9
    assert [spec.number for spec in again.started if spec.stage == "screen"] == [6, 7, 8]
    assert run_study(tmp_path, idle, num_trials=3).stage("screen") == more.stage("screen")


class Notes(StudyListener):
    """Keeps what the user should read."""

    def __init__(self) -> None:
        self.texts: list[str] = []

    def on_note(self, text: str) -> None:
        self.texts.append(text)


def test_fewer_trials_than_there_are_is_said_once(tmp_path: Path) -> None:
    said = []
    for num_trials in (5, 5, 3):
        notes = Notes()
        run_study(tmp_path, listener=notes, num_trials=num_trials)
        said.append([text for text in notes.texts if "no further one" in text])
    assert said == [[], [], ["5 trials are there already; study.num_trials=3 asks for no further one"]]


def test_a_continued_study_does_not_draw_its_first_points_again(tmp_path: Path) -> None:
    for num_trials in (3, 6, 9):
        summary = run_study(tmp_path, num_trials=num_trials)
    rates = [run.params["optimizer.learning_rate"] for run in summary.stage("screen")]
    assert len(set(rates)) == 9


def test_more_trials_may_bring_another_winner_and_nothing_is_run_twice(tmp_path: Path) -> None:
    executors = [FakeExecutor(), FakeExecutor()]
    run_study(tmp_path, executors[0], num_trials=4)
    summary = run_study(tmp_path, executors[1], num_trials=30)
    started = Counter((spec.stage, spec.number) for executor in executors for spec in executor.started)
    assert set(started.values()) == {1}
    pairs = Counter((run.stage, run.label, run.seed) for run in summary.runs)
    assert set(pairs.values()) == {1}
    assert summary.winner_label is not None
    assert len(summary.stage("test", summary.winner_label)) == 2


# What a study must not change while it goes on


@pytest.mark.parametrize(
    ("changes", "why"),
    [
        (
            {"space": {"agent": SPACE["agent"]}},
            "begun with another search space: buffer.batch_size was searched over 16 .. 256 (powers of 2), and is not",
        ),
        ({"config": {**CONFIG, "training": {"total_steps": 901}}}, "training.total_steps was 900 and is 901"),
        ({"config": {**CONFIG, "extra": 1}}, "extra is new"),
        ({"config": {**CONFIG, "extra": 0, "wrapper_training": {}}}, "other settings: extra is new."),
        ({"agent": "other"}, "study study is one of synthetic, and this is other.\ngo back to that, or begin another"),
        ({"metric": "final"}, "metric was mixed and is final"),
        ({"over_seeds": "worst"}, "over_seeds was mean and is worst"),
        ({"seed": 5}, "seed was 0 and is 5"),
    ],
)
def test_going_on_otherwise_than_begun_is_refused_with_the_difference(
    tmp_path: Path, changes: dict[str, Any], why: str
) -> None:
    before = scores(run_study(tmp_path))
    executor = FakeExecutor()
    with pytest.raises(UserError) as raised:
        run_study(tmp_path, executor, num_trials=10, **changes)
    assert why in str(raised.value)
    assert "study.name=study-2" in str(raised.value)
    assert executor.started == []
    assert scores(run_study(tmp_path)) == before


def test_what_does_not_change_a_score_may_change(tmp_path: Path) -> None:
    run_study(tmp_path, config={**CONFIG, "checkpoint": {"keep": 1}})
    run_study(tmp_path, config={**CONFIG, "checkpoint": {"keep": 2}}, num_test_seeds=3)


def test_a_study_that_is_not_ours_is_left_alone(tmp_path: Path) -> None:
    theirs = optuna.create_study(storage=f"sqlite:///{tmp_path}/studies.db", study_name="study", direction="minimize")
    theirs.add_trial(optuna.trial.create_trial(value=1.0))
    with pytest.raises(UserError, match="was not made by tuner"):
        run_study(tmp_path, url=f"sqlite:///{tmp_path}/studies.db")
    assert len(theirs.trials) == 1


def test_a_study_of_a_later_version_is_refused(tmp_path: Path) -> None:
    run_study(tmp_path)
    study = stored(tmp_path)
    study.set_user_attr("definition", {"format": 99, "versions": {"note-rl": "0.9.1"}, "more": 1})
    with pytest.raises(UserError, match=r"cannot read study study in .*: note-rl 0\.9\.1 wrote it in format 99"):
        run_study(tmp_path)


@pytest.mark.parametrize("name", ["", "a/b", ".hidden"])
def test_names_that_are_no_folder_are_refused(tmp_path: Path, name: str) -> None:
    with pytest.raises(UserError, match=r"study.name=.* must be a plain name"):
        definition(tmp_path, name=name)


def test_folders_that_the_storage_does_not_know_are_put_aside(tmp_path: Path) -> None:
    run_study(tmp_path)
    (tmp_path / "studies.journal").unlink()
    executor = FakeExecutor()
    summary = run_study(tmp_path, executor, seed=9)
    folder = tmp_path / "studies" / "study"
    assert (folder / "screen.old-1" / "0" / "result.json").exists()
    for run in summary.runs:
        used = next(spec.config for spec in executor.started if spec.key == f"{run.stage}/{run.number}")
        assert run.value == Mixed()(synthetic_curve(used, run.seed)), "nothing of the earlier study got in"


# Bad ends


def ending(number: int, result: TrialResult, reports: int = 3) -> Any:
    """All trials learn, but this one ends so after a few reports."""

    def behave(spec: TrialSpec, attempt: int) -> Script:
        script = learn(spec, attempt)
        return Script(script.curve[:reports], result) if spec.key == f"screen/{number}" else script

    return behave


def random_score(monkeypatch: pytest.MonkeyPatch, score: float) -> None:
    monkeypatch.setattr("tuner.study.runner.run_probe", lambda *_: score)


@pytest.mark.parametrize("outcome", [Outcome.DIVERGED, Outcome.OUT_OF_MEMORY, Outcome.TIMED_OUT])
@pytest.mark.parametrize("random", [-7.0, 1000.0])
def test_the_configuration_is_blamed_for_what_it_does(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, outcome: Outcome, random: float
) -> None:
    random_score(monkeypatch, random)
    executor = FakeExecutor(behave=ending(3, TrialResult(outcome, "as it had to come", seconds=2.0)))
    summary = run_study(tmp_path, executor, probe="tests.tuner.entries:probe")
    run = summary.stage("screen")[3]
    worst = min([other.value for other in summary.stage("screen")[:3]] + [value for _, value in run.curve])
    assert run.outcome is outcome
    assert run.value == min(random, worst)
    assert run.reason == "as it had to come"
    assert len(run.curve) == 3
    assert len([spec for spec in executor.started if spec.key == "screen/3"]) == 1
    assert stored(tmp_path).trials[3].state is TrialState.COMPLETE
    assert "trial 3" not in {run.label for run in summary.stage("confirm")}


def test_without_a_random_score_failed_runs_get_the_worst_of_the_whole_study(tmp_path: Path) -> None:
    """Screening sees 40 and less, down to 3; whatever fails later scores 3, however well it began."""

    def behave(spec: TrialSpec, attempt: int) -> Script:
        if spec.stage == "screen":
            return Script([(1.0, [40.0, 30.0, 3.0][spec.number])])
        bad = spec.stage == "test" and spec.config["optimizer"]["learning_rate"] == 0.1  # the default's
        return Script([(1.0, 35.0)], TrialResult(Outcome.DIVERGED, "nan") if bad else TrialResult(Outcome.COMPLETE))

    summary = run_study(tmp_path, FakeExecutor(behave=behave), metric="final", num_trials=3, num_candidates=1)
    assert summary.random_score is None
    assert [(run.label, run.outcome, run.value) for run in summary.stage("test")] == [
        ("trial 0", Outcome.COMPLETE, 35.0),
        ("default", Outcome.DIVERGED, 3.0),
        ("trial 0", Outcome.COMPLETE, 35.0),
        ("default", Outcome.DIVERGED, 3.0),
    ]
    found = verdict(summary)
    assert found.difference is None
    assert found.improvement is None
    assert "The default configuration finished none of its 2 test runs (2 diverged)." in found.sentence
    assert "2 of 4 test runs failed (2 diverged). They count with the worst score seen." in found.details


def test_a_penalty_knows_of_later_stages_of_earlier_sessions(tmp_path: Path) -> None:
    """The tests of three trials saw 1; a fourth trial that fails gets no more."""

    def behave(spec: TrialSpec, attempt: int) -> Script:
        failed = TrialResult(Outcome.DIVERGED, "nan") if spec.key == "screen/3" else TrialResult(Outcome.COMPLETE)
        return Script([(1.0, 1.0 if spec.stage == "test" else 10.0 + spec.number)], failed)

    run_study(tmp_path, FakeExecutor(behave=behave), metric="final", num_trials=3)
    summary = run_study(tmp_path, FakeExecutor(behave=behave), metric="final", num_trials=4)
    assert summary.stage("screen")[3].value == 1.0


def test_the_summary_knows_the_random_score(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    random_score(monkeypatch, -7.0)
    assert run_study(tmp_path, probe="tests.tuner.entries:probe").random_score == -7.0


@pytest.mark.parametrize("outcome", [Outcome.CRASHED, Outcome.HUNG])
def test_a_crash_or_hang_is_continued_once_and_then_told_as_failed(tmp_path: Path, outcome: Outcome) -> None:
    executor = FakeExecutor(behave=ending(2, TrialResult(outcome, "KeyError: 'obs'", seconds=2.0)))
    summary = run_study(tmp_path, executor)
    run = summary.stage("screen")[2]
    assert (run.outcome, run.value, run.reason, run.seconds) == (outcome, None, "KeyError: 'obs'", 4.0)
    assert len([spec for spec in executor.started if spec.key == "screen/2"]) == 2
    trial = stored(tmp_path).trials[2]
    assert trial.state is TrialState.FAIL
    assert [attempt["reason"] for attempt in trial.user_attrs["attempts"]] == ["KeyError: 'obs'"] * 2


def test_a_run_that_crashed_once_goes_on_where_it_was(tmp_path: Path) -> None:
    def behave(spec: TrialSpec, attempt: int) -> Script:
        script = learn(spec, attempt)
        if spec.key == "screen/2" and attempt == 1:
            return Script(script.curve[:4], TrialResult(Outcome.CRASHED, "killed", seconds=2.0))
        return script

    reported: list[tuple[str, float]] = []
    executor = FakeExecutor(behave=behave)
    executor.on_event = lambda event: (
        reported.append((event.key, event.step)) if isinstance(event, TrialReported) else None
    )
    run = run_study(tmp_path, executor).stage("screen")[2]
    assert run.outcome is Outcome.COMPLETE
    assert run.seconds == 3.0
    assert len(run.curve) == 9
    assert Counter(reported)["screen/2", 4 / 9] == 1
    assert len([key for key, _ in reported if key == "screen/2"]) == 9


def test_a_report_that_was_written_but_not_heard_is_not_lost(tmp_path: Path) -> None:
    def behave(spec: TrialSpec, attempt: int) -> Script:
        script = learn(spec, attempt)
        if spec.key == "screen/2" and attempt == 1:
            return Script(script.curve[:4], TrialResult(Outcome.CRASHED, "killed", seconds=2.0))
        return script

    def write_one_more(event: Any) -> None:
        if isinstance(event, TrialEnded) and event.key == "screen/2" and event.result.outcome is Outcome.CRASHED:
            step, value = learn(executor.started[-1], 1).curve[4]
            reports = tmp_path / "studies" / "study" / "screen" / "2" / files.REPORTS_FILE
            with reports.open("a") as file:
                file.write(json.dumps({"step": step, "value": value}) + "\n")

    executor = FakeExecutor(behave=behave)
    executor.on_event = write_one_more
    run = run_study(tmp_path, executor).stage("screen")[2]
    assert run.curve == tuple(learn(executor.started[2], 1).curve)


def test_retries_can_be_had_and_not(tmp_path: Path) -> None:
    for retries in (0, 3):
        executor = FakeExecutor(behave=ending(0, TrialResult(Outcome.CRASHED, "no")))
        run_study(tmp_path / str(retries), executor, retries=retries)
        assert len([spec for spec in executor.started if spec.key == "screen/0"]) == 1 + retries


def test_a_mistake_that_would_be_made_again_is_not_tried_again(tmp_path: Path) -> None:
    executor = FakeExecutor(behave=ending(2, TrialResult(Outcome.CRASHED, "no score", deterministic=True)))
    run = run_study(tmp_path, executor, retries=3).stage("screen")[2]
    assert (run.outcome, run.value, run.reason) == (Outcome.CRASHED, None, "no score")
    assert len([spec for spec in executor.started if spec.key == "screen/2"]) == 1


def test_a_stop_from_outside_counts_as_a_crash(tmp_path: Path) -> None:
    executor = FakeExecutor(behave=ending(0, TrialResult(Outcome.STOPPED, "stopped by SIGTERM")))
    run = run_study(tmp_path, executor).stage("screen")[0]
    assert (run.outcome, run.reason) == (Outcome.CRASHED, "stopped by SIGTERM")


def test_a_run_that_reports_nothing_has_failed(tmp_path: Path) -> None:
    executor = FakeExecutor(behave=ending(1, TrialResult(Outcome.COMPLETE), reports=0))
    run = run_study(tmp_path, executor).stage("screen")[1]
    assert (run.outcome, run.reason) == (Outcome.CRASHED, "it ended without having reported anything")


def test_a_value_that_the_objects_do_not_have_is_found_out(tmp_path: Path) -> None:
    def behave(spec: TrialSpec, attempt: int) -> Script:
        script = learn(spec, attempt)
        if spec.key == "screen/1":
            script.used = {**spec.config, "agent": {"gamma": 0.99}}
        if spec.key == "screen/2":
            script.used = {**spec.config, "buffer": {}}
        return script

    executor = FakeExecutor(behave=behave)
    screened = run_study(tmp_path, executor).stage("screen")
    assert screened[1].reason.startswith("agent.gamma was sampled as 0.9")
    assert screened[1].reason.endswith(
        "but is 0.99 in the objects that were built: the config does not reach the object"
    )
    assert "buffer.batch_size" in screened[2].reason
    assert "is not in what the run says it used" in screened[2].reason
    assert [screened[number].value for number in (1, 2)] == [None, None]
    assert executor.verdicts.count(("screen/1", 1 / 9, "stop")) == 1, "it is stopped at its first report"


def crash(spec: TrialSpec, attempt: int) -> Script:
    return Script([], TrialResult(Outcome.CRASHED, "", "Traceback ...\n  in train\nImportError: no module named x\n"))


def test_failures_in_a_row_end_the_study_with_the_likely_cause(tmp_path: Path) -> None:
    executor = FakeExecutor(parallel=2, behave=crash)
    with pytest.raises(StudyError) as raised:
        run_study(tmp_path, executor, num_trials=20, max_failures=4)
    message = str(raised.value)
    assert "4 runs in a row failed" in message
    assert "ImportError: no module named x" in message
    assert re.search(r"See \S+/screen/\d/result.json; once it is mended", message), "these have printed nothing"
    assert "These 4 count among study.num_trials; study.num_trials=24 has 20 further ones" in message
    assert len({spec.number for spec in executor.started}) <= 5


def test_failures_between_successes_do_not_end_it(tmp_path: Path) -> None:
    def behave(spec: TrialSpec, attempt: int) -> Script:
        return crash(spec, attempt) if spec.stage == "screen" and spec.number % 2 else learn(spec, attempt)

    summary = run_study(tmp_path, FakeExecutor(behave=behave), num_trials=12, max_failures=2)
    assert len([run for run in summary.stage("screen") if run.outcome is Outcome.CRASHED]) == 6


def test_a_limit_that_nothing_keeps_ends_the_study_too(tmp_path: Path) -> None:
    timed_out = TrialResult(Outcome.TIMED_OUT, "it ran longer than limits.wall_s=1 s")
    executor = FakeExecutor(behave=lambda spec, attempt: Script([(1 / 9, 3.0)], timed_out))
    with pytest.raises(StudyError, match=r"5 runs in a row failed.*limits.wall_s=1 s") as raised:
        run_study(tmp_path, executor, num_trials=6)
    assert "raise executor.limits.wall_s if that was too little" in str(raised.value)
    assert "output.log" not in str(raised.value)
    assert "These 5 count among study.num_trials; study.num_trials=11 has 6 further ones" in str(raised.value)
    executor = FakeExecutor()
    run_study(tmp_path, executor, num_trials=11)
    assert len([spec for spec in executor.started if spec.stage == "screen"]) == 6


def test_configurations_that_diverge_in_a_row_do_not_end_a_study_in_which_some_learn(tmp_path: Path) -> None:
    def behave(spec: TrialSpec, attempt: int) -> Script:
        bad = spec.stage == "screen" and spec.number not in (0, 11)
        return Script([(1 / 9, 3.0)], TrialResult(Outcome.DIVERGED, "nan")) if bad else learn(spec, attempt)

    summary = run_study(tmp_path, FakeExecutor(behave=behave), num_trials=12)
    assert len([run for run in summary.stage("screen") if run.outcome is Outcome.DIVERGED]) == 10


def test_one_absurd_score_is_not_what_all_failed_runs_are_told(tmp_path: Path) -> None:
    def behave(spec: TrialSpec, attempt: int) -> Script:
        if spec.key == "screen/2":
            return Script([(1.0, -1.7e308)])
        if spec.stage == "screen" and spec.number > 2:
            return Script([], TrialResult(Outcome.DIVERGED, "nan"))
        return learn(spec, attempt)

    screened = run_study(tmp_path, FakeExecutor(behave=behave), num_trials=8).stage("screen")
    usual = [run.value for run in screened[:2]]
    assert screened[2].value == -1.7e308, "what it said is kept"
    assert [run.outcome for run in screened[3:]] == [Outcome.DIVERGED] * 5
    assert {run.value for run in screened[3:]} == {min(usual)}


def test_that_some_have_learnt_is_known_after_a_restart(tmp_path: Path) -> None:
    run_study(tmp_path, num_trials=6)
    executor = FakeExecutor(
        behave=lambda spec, attempt: (
            Script(learn(spec, attempt).curve[:2], TrialResult(Outcome.DIVERGED, "nan"))
            if spec.stage == "screen"
            else learn(spec, attempt)
        )
    )
    assert len(run_study(tmp_path, executor, num_trials=20).stage("screen")) == 20


def test_a_study_without_any_good_trial_says_so(tmp_path: Path) -> None:
    further = "These 3 count among study.num_trials; study.num_trials=6 has 3 further ones"
    with pytest.raises(StudyError, match=f"none of the 3 trials of study study came to a good end(.|\n)*{further}"):
        run_study(tmp_path, FakeExecutor(behave=crash), num_trials=3)


# Pruning


def test_the_first_runs_are_not_pruned_and_later_ones_are(tmp_path: Path) -> None:
    notes: list[str] = []

    class Notes(StudyListener):
        def on_note(self, text: str) -> None:
            notes.append(text)

    executor = FakeExecutor()
    summary = run_study(
        tmp_path, executor, pruner=asha(), num_trials=24, pruning=Pruning(min_trials=8), listener=Notes()
    )
    screened = summary.stage("screen")
    assert all(run.outcome is Outcome.COMPLETE for run in screened[:8])
    pruned = [run for run in screened if run.outcome is Outcome.PRUNED]
    assert len(pruned) >= 4
    for run in pruned:
        assert len(run.curve) in (1, 3), "runs are pruned at rungs only"
        assert run.value == Mixed().partial(run.curve, 1.0)
        assert stored(tmp_path).trials[run.number].state is TrialState.PRUNED
    assert {run.outcome for run in (*summary.stage("confirm"), *summary.stage("test"))} == {Outcome.COMPLETE}
    (note,) = notes
    assert note.startswith("Pruning is on at 11% of the budget (")
    assert "over the first 8 complete runs, and" in note
    assert note in summary.notes
    best = max(quality({"optimizer": {"learning_rate": run.params["optimizer.learning_rate"]}}) for run in screened)
    assert summary.winner_label is not None
    rate = summary.params_of(summary.winner_label)["optimizer.learning_rate"]
    assert quality({"optimizer": {"learning_rate": rate}}) >= 0.9 * best, "pruning did not cost the best"


def test_reports_at_rungs_compare_like_with_like(tmp_path: Path) -> None:
    summary = run_study(tmp_path, pruner=asha(), num_trials=10, pruning=Pruning(min_trials=8))
    for trial, run in zip(stored(tmp_path).trials, summary.stage("screen"), strict=True):
        expected = {point: Mixed().partial(run.curve, point / 9) for point in (1, 3, 9) if point <= len(run.curve)}
        assert trial.intermediate_values == pytest.approx(expected)


def test_reports_between_rungs_are_judged_by_what_was_reported_before_them(tmp_path: Path) -> None:
    def tenths(spec: TrialSpec, attempt: int) -> Script:
        values = [value for _, value in learn(spec, attempt).curve]
        return Script([(index / 10, values[min(index, 9) - 1]) for index in range(1, 11)])

    executor = FakeExecutor(behave=tenths)
    summary = run_study(tmp_path, executor, pruner=asha(), num_trials=24, pruning=Pruning(min_trials=8))
    screened = summary.stage("screen")
    pruned = [run for run in screened if run.outcome is Outcome.PRUNED]
    assert len(pruned) >= 4
    assert {len(run.curve) for run in pruned} <= {2, 4}  # 0.2 and 0.4 are the first behind 1/9 and 3/9
    for trial, run in zip(stored(tmp_path).trials, screened, strict=True):
        passed = [point for point in (1, 3, 9) if run.curve[-1][0] >= point / 9]
        expected = {point: Mixed().partial(run.curve, point / 9) for point in passed}
        assert trial.intermediate_values == pytest.approx(expected)


def test_a_run_that_says_its_score_at_the_end_only_passes_no_rung_before(tmp_path: Path) -> None:
    executor = FakeExecutor(behave=lambda spec, attempt: Script(learn(spec, attempt).curve[-1:]))
    run_study(tmp_path, executor, pruner=asha(), num_trials=9, pruning=Pruning(min_trials=8))
    assert [list(trial.intermediate_values) for trial in stored(tmp_path).trials] == [[9]] * 9


def test_nothing_is_pruned_where_early_ranks_say_nothing(tmp_path: Path) -> None:
    def behave(spec: TrialSpec, attempt: int) -> Script:
        """Who begins well ends badly."""
        curve = learn(spec, attempt).curve
        return Script([(step, -value if step < 0.5 else 10.0 * value) for step, value in curve])

    executor = FakeExecutor(behave=behave)
    summary = run_study(tmp_path, executor, pruner=asha(), num_trials=20, pruning=Pruning(min_trials=8))
    assert {run.outcome for run in summary.stage("screen")} == {Outcome.COMPLETE}
    assert any(note.startswith("Pruning is off at 11% of the budget (-") for note in summary.notes)


def test_without_a_pruner_nothing_is_decided(tmp_path: Path) -> None:
    summary = run_study(tmp_path, num_trials=12, pruning=Pruning(min_trials=4))
    assert {run.outcome for run in summary.stage("screen")} == {Outcome.COMPLETE}
    assert "Nothing was pruned: pruning is off (pruner=none)." in summary.notes


def test_a_study_too_small_to_prune_says_so(tmp_path: Path) -> None:
    facts = {"pruner": "SuccessiveHalvingPruner"}
    summary = run_study(tmp_path, pruner=asha(), num_trials=6, pruning=Pruning(min_trials=8), facts=facts)
    assert "Nothing was pruned: 6 complete runs are too few to judge early scores by, 8 are needed." in summary.notes


def test_the_decision_about_rungs_is_kept_when_the_study_goes_on(tmp_path: Path) -> None:
    pruning = Pruning(min_trials=8)
    run_study(tmp_path, pruner=asha(), num_trials=8, pruning=pruning)
    before = stored(tmp_path).user_attrs["rungs"]
    run_study(tmp_path, pruner=asha(), num_trials=20, pruning=pruning)
    assert stored(tmp_path).user_attrs["rungs"] == before


# Baselines


KNOWN = {
    "good": {**CONFIG, "optimizer": {"learning_rate": 1e-3}},
    "bad": {**CONFIG, "optimizer": {"learning_rate": 1e-5}},
}


def test_baselines_are_tested_on_the_seeds_of_the_default(tmp_path: Path) -> None:
    summary = run_study(tmp_path, baselines=("good",), known=KNOWN)
    assert summary.baselines == ("experiment good",)
    tests = {label: summary.stage("test", label) for label in ("experiment good", "default", summary.winner_label)}
    seeds = stage_seeds(0, "test", 2)
    assert {tuple(run.seed for run in runs) for runs in tests.values()} == {seeds}
    expected = [Mixed()(synthetic_curve({**KNOWN["good"], "seed": seed}, seed)) for seed in seeds]
    assert [run.score for run in tests["experiment good"]] == expected
    assert [run.params for run in tests["experiment good"]] == [{}, {}]


def test_a_finished_study_takes_further_baselines(tmp_path: Path) -> None:
    first = run_study(tmp_path, baselines=("good",), known=KNOWN)
    executor = FakeExecutor()
    second = run_study(tmp_path, executor, baselines=("bad", "good"), known=KNOWN)
    assert [spec.config["optimizer"]["learning_rate"] for spec in executor.started] == [1e-5, 1e-5]
    assert [run.score for run in second.stage("test", "experiment good")] == [
        run.score for run in first.stage("test", "experiment good")
    ]
    assert run_study(tmp_path).baselines == ()


def test_a_baseline_under_way_must_be_named_again(tmp_path: Path) -> None:
    def die(event: object) -> None:
        if isinstance(event, TrialReported) and event.key.startswith("test/"):
            raise ControllerDied

    executor = FakeExecutor(6)
    executor.on_event = die
    with pytest.raises(ControllerDied):
        run_study(tmp_path, executor, baselines=("good",), known=KNOWN)
    with pytest.raises(UserError, match=r"study study has begun to test study\.baselines=good: name it again"):
        run_study(tmp_path)
    assert len(run_study(tmp_path, baselines=("good",), known=KNOWN).stage("test", "experiment good")) == 2


# Warm start


def test_the_default_configuration_can_be_tried_first(tmp_path: Path) -> None:
    summary = run_study(tmp_path, warm_start={"default": CONFIG})
    first = summary.stage("screen")[0]
    assert first.params == {"agent.gamma": 0.99, "buffer.batch_size": 64, "optimizer.learning_rate": 0.1}
    assert len(summary.stage("screen")) == 6
    assert any("trial 0 is default" in note for note in summary.notes)


def test_a_known_configuration_that_wins_was_not_found(tmp_path: Path) -> None:
    best = {**CONFIG, "optimizer": {"learning_rate": 1e-3}}
    summary = run_study(tmp_path, warm_start={"default": CONFIG, "published": best})
    assert summary.starts == {"trial 0": "default", "trial 1": "published"}
    assert run_study(tmp_path, warm_start={"default": CONFIG, "published": best}).starts == summary.starts
    assert summary.winner_label == "trial 1"
    sentence = "The winner was not found: it is the configuration of experiment published, which"
    assert any(one.startswith(sentence) for one in verdict(summary).details)


def test_a_default_outside_the_space_is_refused_as_a_start(tmp_path: Path) -> None:
    executor = FakeExecutor()
    space = {"optimizer": {"learning_rate": {"low": 1e-5, "high": 1e-2, "log": True}}}
    with pytest.raises(UserError, match=r"optimizer.learning_rate=0.1 cannot be a starting point"):
        run_study(tmp_path, executor, space=space, warm_start={"default": CONFIG})
    assert executor.started == []


# The probe


def test_a_random_policy_is_measured_once(tmp_path: Path) -> None:
    executor = FakeExecutor(
        behave=lambda spec, attempt: Script([(1.0, -7.0)]) if spec.stage == "probe" else learn(spec, 1)
    )
    run_study(tmp_path, executor, probe="tests.tuner.entries:probe")
    assert executor.started[0].key == "probe/0"
    assert executor.started[0].entry == "tests.tuner.entries:probe"
    assert stored(tmp_path).user_attrs["random_score"] == -7.0
    again = FakeExecutor()
    run_study(tmp_path, again, probe="tests.tuner.entries:probe", num_trials=7)
    assert {spec.stage for spec in again.started} <= {"screen", "confirm", "test"}


# Stopping, and death at every instant


def test_ctrl_c_leaves_open_what_is_open_and_the_same_call_goes_on(tmp_path: Path) -> None:
    def interrupt(event: object) -> None:
        if isinstance(event, TrialReported) and (event.key, event.step) == ("screen/3", 5 / 9):
            os.kill(os.getpid(), signal.SIGINT)

    executor = FakeExecutor(parallel=2)
    executor.on_event = interrupt
    with pytest.raises(StudyStopped) as raised:
        run_study(tmp_path, executor)
    assert raised.value.num_open == 2
    study = stored(tmp_path)
    assert Counter(trial.state for trial in study.trials)[TrialState.RUNNING] == 2
    attempts = [trial.user_attrs["attempts"] for trial in study.trials if trial.state is TrialState.RUNNING]
    assert [[attempt["outcome"] for attempt in run] for run in attempts] == [["stopped"], ["stopped"]]
    again = FakeExecutor(parallel=2)
    summary = run_study(tmp_path, again)
    check_complete(summary)
    assert {spec.number for spec in again.started[:2]} == {2, 3}


@pytest.mark.parametrize(("limits", "takes"), [(Limits(grace_s=7.5), ", which takes up to 15 s"), (None, "")])
def test_ctrl_c_says_at_once_what_is_waited_for(tmp_path: Path, limits: Limits | None, takes: str) -> None:
    """Before any run has ended: those that do not answer are waited for."""
    notes, said_at_the_end = Notes(), []

    def interrupt(event: object) -> None:
        if isinstance(event, TrialReported) and (event.key, event.step) == ("screen/0", 5 / 9):
            os.kill(os.getpid(), signal.SIGINT)
        if isinstance(event, TrialEnded):
            said_at_the_end.append(list(notes.texts))

    executor = FakeExecutor(parallel=2)
    executor.limits = limits
    executor.on_event = interrupt
    with pytest.raises(StudyStopped):
        run_study(tmp_path, executor, listener=notes)
    assert said_at_the_end == [[f"stopping 2 runs{takes}; Ctrl-C again ends them now"]] * 2


def check_complete(summary: StudySummary, num_trials: int = 6) -> None:
    assert [run.number for run in summary.stage("screen")] == list(range(num_trials))
    assert len(summary.stage("confirm")) == 4
    assert len(summary.stage("test")) == 4
    for run in summary.runs:
        assert run.outcome is Outcome.COMPLETE
        rate = run.params.get("optimizer.learning_rate", 0.1)
        config = {"optimizer": {"learning_rate": rate}}
        assert run.curve == tuple(synthetic_curve(config, run.seed))
        assert run.value == Mixed()(run.curve)


@pytest.mark.parametrize(("parallel", "lifetime"), [(3, 13), (1, 23)])
def test_a_controller_that_dies_again_and_again_loses_and_repeats_nothing(
    tmp_path: Path, lifetime: int, parallel: int
) -> None:
    ended: Counter[str] = Counter()
    known: dict[tuple[str, int], object] = {}
    for _ in range(200):
        executor = FakeExecutor(parallel, die_after=lifetime)
        executor.on_event = lambda event: ended.update([event.key]) if isinstance(event, TrialEnded) else None
        try:
            summary = run_study(tmp_path, executor)
            break
        except ControllerDied:
            with StudyStore(journal(tmp_path)) as store:
                for run in summarise(store, "study", tmp_path / "studies" / "study").runs:
                    if run.outcome is not None:
                        assert known.setdefault((run.stage, run.number), run) == run
    check_complete(summary)
    assert set(ended.values()) == {1}


@pytest.mark.parametrize(("torn", "lifetime"), [(False, 17), (True, 29)])
def test_dying_in_the_middle_of_any_write_loses_and_repeats_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, lifetime: int, torn: bool
) -> None:
    """Every session may write so many records; the last of them is written, or half written, and then it dies."""
    writes = die_after_writes(monkeypatch, torn=tmp_path / "studies.journal" if torn else None)
    started: Counter[str] = Counter()
    for session in range(100):
        writes.left = lifetime + session % 5
        executor = FakeExecutor(parallel=2)
        executor.on_event = lambda event: started.update([event.key]) if isinstance(event, TrialEnded) else None
        try:
            summary = run_study(tmp_path, executor)
            break
        except ControllerDied:
            continue
    check_complete(summary)
    assert session > 2
    assert set(started.values()) == {1}
    assert len(list(tmp_path.glob("studies.journal.torn-*"))) >= int(torn)


def test_nothing_is_left_running(tmp_path: Path) -> None:
    for lifetime in (30, 60, 90, None):
        try:
            run_study(tmp_path, FakeExecutor(2, die_after=lifetime))
        except ControllerDied:
            continue
    for stage in ("screen", "confirm", "test"):
        assert {trial.state for trial in stored(tmp_path, stage).trials} == {TrialState.COMPLETE}


# What is known of a study


def test_names_are_listed_latest_first_and_a_wrong_one_gets_the_nearest(tmp_path: Path) -> None:
    for name in ("older", "newer"):
        run_study(tmp_path, name=name)
    with StudyStore(journal(tmp_path)) as store:
        assert store.names() == ["newer", "older"]
        with pytest.raises(UserError, match=r"there is no study newr in .*; did you mean newer\?"):
            store.require("newr")


def test_the_summary_says_what_matters_and_how_it_was_got(tmp_path: Path) -> None:
    summary = run_study(tmp_path, num_trials=30)
    assert (summary.agent, summary.env_id, summary.backend, summary.seed) == ("synthetic", "Synthetic-v0", "torch", 0)
    assert max(summary.importances, key=lambda path: summary.importances[path]) == "optimizer.learning_rate"
    assert summary.metric_name == "half area under the curve, half final score"
    assert summary.budget["screening trials"] == 30
    assert summary.budget["environment steps per run"] == 900
    assert summary.versions["optuna"] == optuna.__version__
    assert "tensorflow" not in summary.versions
    run = summary.stage("screen")[0]
    assert run.scores.keys() == {"final", "auc"}
    assert run.value == pytest.approx(0.5 * run.scores["final"] + 0.5 * run.scores["auc"])
    assert run.folder == str(tmp_path / "studies" / "study" / "screen" / "0")
