"""A study from stage to stage, once and again: candidates, seeds, baselines, and what a later session goes on with."""

from collections import Counter
from pathlib import Path
from statistics import fmean

import pytest

from tests.tuner.entries import synthetic_curve
from tests.tuner.studies import CONFIG, ControllerDied, FakeExecutor, Script, asha, crash, learn, run_study
from tests.tuner.study_records import Notes, scores
from tuner.errors import UserError
from tuner.executors.base import TrialEnded, TrialReported
from tuner.results.metric import Mixed
from tuner.results.protocol import Pruning, stage_seeds
from tuner.study import StudyError
from tuner.trial.messages import Outcome, TrialSpec


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
        executor = FakeExecutor(2, die_after=53)
        executor.on_event = lambda event: ended.update([event.key]) if isinstance(event, TrialEnded) else None
        try:
            summary = run_study(tmp_path / "dying", executor, **changes)
            break
        except ControllerDied:
            continue
    assert set(ended.values()) == {1}
    assert {(run.stage, run.seed) for run in summary.runs} == {(run.stage, run.seed) for run in whole.runs}
    assert all(run.outcome is Outcome.COMPLETE for run in summary.runs)


def test_the_same_seed_gives_the_same_study(tmp_path: Path) -> None:
    first = run_study(tmp_path / "a", pruner=asha(), num_trials=12, pruning=Pruning(min_trials=4))
    second = run_study(tmp_path / "b", pruner=asha(), num_trials=12, pruning=Pruning(min_trials=4))
    other = run_study(tmp_path / "c", pruner=asha(), num_trials=12, pruning=Pruning(min_trials=4), seed=1)
    assert scores(first) == scores(second)
    assert not {run.value for run in first.runs} & {run.value for run in other.runs}


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


def test_a_study_without_any_good_trial_says_so(tmp_path: Path) -> None:
    further = "These 3 count among study.num_trials; study.num_trials=6 has 3 further ones"
    with pytest.raises(StudyError, match=f"none of the 3 trials of study study came to a good end(.|\n)*{further}"):
        run_study(tmp_path, FakeExecutor(behave=crash), num_trials=3)


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
