"""One configuration for several environments: every number of these studies is worked out by hand.

x is searched among three values. The environments disagree about the best one, and the best for both is a third:

    return           x = 0    x = 0.5    x = 1    score 0    score 1
    low                 10          8        0          0         10
    high              -100         60      100       -100        100
    mean score         0.5        0.8      0.5
"""

import os
import signal
from collections import Counter
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from tests.tuner.studies import CONFIG, ControllerDied, FakeExecutor, Script, die_after_writes, journal, run_study
from tuner.errors import UserError
from tuner.executors.base import TrialEnded, TrialReported
from tuner.features.environments.facts import ENVIRONMENTS, OWN_WINNERS
from tuner.features.environments.rows import by_environment
from tuner.features.environments.scales import ScoreScale
from tuner.results.columns import trials_csv
from tuner.results.protocol import stage_seeds
from tuner.results.records import RunRecord, StudySummary
from tuner.results.summary_json import summary_from_json, summary_to_json
from tuner.results.verdict import verdict
from tuner.study import StudyError, StudyListener, StudyStopped, StudyStore, summarise
from tuner.study.definition import StudyEnvironment
from tuner.study.watching.trial_tracking import TrackingListener
from tuner.trackers.base import RunInfo, Tracker
from tuner.trial.messages import JsonDict, Outcome, TrialResult, TrialSpec

RETURNS = {"low": {0.0: 10.0, 0.5: 8.0, 1.0: 0.0}, "high": {0.0: -100.0, 0.5: 60.0, 1.0: 100.0}}
SCORES = {0.0: 0.5, 0.5: 0.8, 1.0: 0.5}
SPACE = {"agent": {"x": {"choices": [0.0, 0.5, 1.0]}}}
STEPS = {"low": 900, "high": 1800}


def config(name: str) -> JsonDict:
    return {**CONFIG, "env": {"id": name}, "agent": {"x": 1.0}, "training": {"total_steps": STEPS[name]}}


LOW = StudyEnvironment("low", config("low"), good=10.0, random=0.0)
HIGH = StudyEnvironment("high", config("high"), good=100.0, random=-100.0)
STUDY: dict[str, Any] = {"environments": (LOW, HIGH), "config": LOW.config, "space": SPACE, "num_trials": 8}


def act(spec: TrialSpec, attempt: int) -> Script:
    """The same return from the first evaluation on, so that a score is that of the return, whatever the metric."""
    value = RETURNS[spec.config["env"]["id"]][spec.config["agent"]["x"]]
    return Script([(point / 9, value) for point in range(1, 10)], TrialResult(Outcome.COMPLETE, seconds=2.0))


class Counting(FakeExecutor):
    """Counts ends by folder: the parts of a run have its key, one after the other."""

    ended: Counter[str]

    def _end(self, spec: TrialSpec, folder: Path, result: TrialResult) -> TrialEnded:
        self.ended[f"{folder.parent.parent.name}/{folder.parent.name}/{folder.name}"] += 1
        return super()._end(spec, folder, result)


def study(folder: Path, executor: FakeExecutor | None = None, **changes: Any) -> StudySummary:
    found = run_study(folder, executor or FakeExecutor(behave=act), **{**STUDY, **changes})
    assert isinstance(found, StudySummary)
    return found


def test_the_winner_of_all_is_that_of_none(tmp_path: Path) -> None:
    summary = study(tmp_path, num_test_seeds=5)
    screened = summary.stage("screen")
    assert {run.params["agent.x"] for run in screened} == {0.0, 0.5, 1.0}
    for run in screened:
        x = run.params["agent.x"]
        assert isinstance(x, float)
        assert run.value == pytest.approx(SCORES[x])
        assert [score for _, score in run.curve] == pytest.approx([SCORES[x]] * 9)
        assert [(part.environment, part.curve[0][1]) for part in run.parts] == [
            (name, RETURNS[name][x]) for name in ("low", "high")
        ]
        assert [part.value for part in run.parts] == pytest.approx(
            [LOWEST.score(RETURNS["low"][x]), HIGHEST.score(RETURNS["high"][x])]
        )
        assert run.seconds == 4.0
    assert summary.winner_label is not None
    assert summary.params_of(summary.winner_label) == {"agent.x": 0.5}
    low, high = by_environment(summary)
    told = [[one and one.iqm for one in (row.default, row.winner, row.difference)] for row in (low, high)]
    assert told == [pytest.approx([0.0, 8.0, 8.0]), pytest.approx([100.0, 60.0, -40.0])]
    found = verdict(summary)
    assert found.difference is not None
    assert found.difference.iqm == pytest.approx(0.3)
    assert "In high the default configuration is better (difference -40 [-40, -40])." in found.details


def test_what_is_no_better_than_random_actions_is_said_in_the_verdict(tmp_path: Path) -> None:
    summary = study(tmp_path, num_test_seeds=5)

    def scoring(low: Mapping[str, float]) -> str:
        """The verdict, with other scores in one environment."""
        runs = [
            replace(run, parts=tuple(replace(part, value=low.get(run.label, part.value)) for part in run.parts[:1]))
            for run in summary.runs
        ]
        return verdict(replace(summary, runs=tuple(runs))).sentence

    winner = str(summary.winner_label)
    assert "random policy" not in scoring({winner: 0.1, "default": -0.2})
    said = "In low the winner does not beat a random policy (score "
    assert scoring({winner: 0.0, "default": 0.1}).endswith(f"{said}0).")
    both = f"{said}-0.1), and neither does the default configuration (-0.2)."
    assert scoring({winner: -0.1, "default": -0.2}).endswith(both)


def test_a_winner_that_is_the_default_has_no_difference(tmp_path: Path) -> None:
    summary = study(tmp_path, warm_start={"default": {**LOW.config, "agent": {"x": 0.5}}})
    assert summary.winner_label is not None
    rows = by_environment(replace(summary, default_label=summary.winner_label))
    assert [(row.default, row.difference) for row in rows] == [(row.winner, None) for row in rows]


LOWEST, HIGHEST = ScoreScale(0.0, 10.0), ScoreScale(-100.0, 100.0)


@pytest.mark.parametrize("parallel", [1, 3])
def test_every_environment_has_its_run_on_every_seed(tmp_path: Path, parallel: int) -> None:
    executor = FakeExecutor(parallel, behave=act)
    summary = study(tmp_path, executor, num_race=3, num_race_seeds=1)
    ran = Counter((spec.stage, spec.number, spec.seed, spec.config["env"]["id"]) for spec in executor.started)
    expected = Counter((run.stage, run.number, run.seed, name) for run in summary.runs for name in ("low", "high"))
    assert ran == expected
    assert {run.seed for run in summary.stage("test")} == set(stage_seeds(0, "test", 2))
    for spec in executor.started:
        assert spec.config["training"]["total_steps"] == STEPS[spec.config["env"]["id"]]
    assert summary.budget["environment steps per run"] == 2700


def test_what_was_written_reads_the_same(tmp_path: Path) -> None:
    summary = study(tmp_path)
    assert summary_from_json(summary_to_json(summary)) == summary
    header, first = trials_csv(summary).splitlines()[:2]
    columns = dict(zip(header.split(","), first.split(","), strict=True))
    run = summary.runs[0]
    assert [float(columns[name]) for name in ("low", "high")] == [part.value for part in run.parts]


FEW = {"num_trials": 3, "num_candidates": 1}


@pytest.mark.parametrize(
    ("parallel", "lifetime"), [(3, 47), *(pytest.param(*how, marks=pytest.mark.slow) for how in ((1, 29), (3, 23)))]
)
def test_a_controller_that_dies_again_and_again_loses_and_repeats_nothing(
    tmp_path: Path, lifetime: int, parallel: int
) -> None:
    ended: Counter[str] = Counter()
    known: dict[tuple[str, int, str], RunRecord] = {}
    for _ in range(200):
        executor = Counting(parallel, behave=act, die_after=lifetime)
        executor.ended = ended
        try:
            summary = study(tmp_path, executor, **FEW)
            break
        except ControllerDied:
            with StudyStore(journal(tmp_path)) as store:
                runs = summarise(store, "study", tmp_path / "studies" / "study").runs
            for part in (part for run in runs for part in run.parts if part.outcome is not None):
                assert known.setdefault((part.stage, part.number, part.environment), part) == part
    assert len(known) > 2
    assert set(ended.values()) == {1}
    assert len(ended) == 2 * len(summary.runs)
    assert [run.stage for run in summary.runs] == ["screen"] * 3 + ["confirm"] * 2 + ["test"] * 4
    assert all(run.outcome is Outcome.COMPLETE and len(run.parts) == 2 for run in summary.runs)


def test_dying_in_the_middle_of_any_write_loses_and_repeats_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Every session may write a number of records, and then it dies: also between the last part and its whole."""
    writes = die_after_writes(monkeypatch)
    ended: Counter[str] = Counter()
    for session in range(100):
        writes.left = 13 + session % 7
        executor = Counting(2, behave=act)
        executor.ended = ended
        try:
            summary = study(tmp_path, executor, **FEW)
            break
        except ControllerDied:
            continue
    assert session > 2
    assert set(ended.values()) == {1}
    assert len(summary.runs) == 9
    for run in summary.runs:
        x = run.params.get("agent.x", 1.0)
        assert isinstance(x, float)
        assert run.outcome is Outcome.COMPLETE
        assert run.value == pytest.approx(SCORES[x])


def test_a_stopped_study_goes_on_in_the_environment_where_it_was(tmp_path: Path) -> None:
    def interrupt(event: object) -> None:
        if isinstance(event, TrialReported) and event.key == "screen/2" and event.value in RETURNS["high"].values():
            os.kill(os.getpid(), signal.SIGINT)

    executor = FakeExecutor(behave=act)
    executor.on_event = interrupt
    with pytest.raises(StudyStopped):
        study(tmp_path, executor)
    again = FakeExecutor(behave=act)
    summary = study(tmp_path, again)
    first = again.started[0]
    assert (first.stage, first.number, first.config["env"]["id"]) == ("screen", 2, "high")
    assert ("screen", 2, "low") not in {(one.stage, one.number, one.config["env"]["id"]) for one in again.started}
    assert len(summary.stage("screen")) == 8


def ending(outcome: Outcome, in_environment: str) -> Any:
    def behave(spec: TrialSpec, attempt: int) -> Script:
        script = act(spec, attempt)
        if spec.stage == "screen" and spec.number == 1 and spec.config["env"]["id"] == in_environment:
            return Script(script.curve[:3], TrialResult(outcome, "as it had to come", seconds=1.0))
        return script

    return behave


def test_what_diverges_in_one_environment_has_learnt_nothing_there(tmp_path: Path) -> None:
    summary = study(tmp_path, FakeExecutor(behave=ending(Outcome.DIVERGED, "low")))
    run = summary.stage("screen")[1]
    x = run.params["agent.x"]
    assert isinstance(x, float)
    assert run.outcome is Outcome.DIVERGED
    assert [part.outcome for part in run.parts] == [Outcome.DIVERGED, Outcome.COMPLETE]
    assert run.parts[0].value == 0.0
    assert run.value == pytest.approx(HIGHEST.score(RETURNS["high"][x]) / 2)
    assert run.reason == "in low: as it had to come"
    assert Path(run.place).name == "low"


def test_what_was_worst_in_another_environment_is_no_penalty(tmp_path: Path) -> None:
    """Evaluations of "high" come down to -900, which is score -4; a run that diverges in "low" has score 0 there."""

    def behave(spec: TrialSpec, attempt: int) -> Script:
        if spec.stage == "screen" and spec.config["env"]["id"] == "high":
            return Script([(point / 9, -900.0) for point in range(1, 10)])
        return ending(Outcome.DIVERGED, "low")(spec, attempt)

    summary = study(tmp_path, FakeExecutor(behave=behave))
    assert summary.stage("screen")[0].parts[1].value == -4.0
    assert [part.value for part in summary.stage("screen")[1].parts] == [0.0, -4.0]


def test_what_crashes_in_one_environment_has_no_score_and_costs_no_further_run(tmp_path: Path) -> None:
    executor = FakeExecutor(behave=ending(Outcome.CRASHED, "low"))
    summary = study(tmp_path, executor)
    run = summary.stage("screen")[1]
    assert (run.outcome, run.value) == (Outcome.CRASHED, None)
    ran = [spec.config["env"]["id"] for spec in executor.started if spec.key == "screen/1"]
    assert ran == ["low", "low"]  # with its retry


def test_an_environment_in_which_nothing_works_ends_the_study(tmp_path: Path) -> None:
    """Runs in the other one, which come to a good end in between, are no reason to go on."""

    def behave(spec: TrialSpec, attempt: int) -> Script:
        works = spec.config["env"]["id"] == "low"
        return act(spec, attempt) if works else Script([], TrialResult(Outcome.CRASHED, "no display", seconds=1.0))

    executor = FakeExecutor(behave=behave)
    with pytest.raises(StudyError, match=r"2 runs in a row failed.*screen/1: in high: no display") as raised:
        study(tmp_path, executor, max_failures=2)
    assert f"{Path('screen', '1', 'high')}" in str(raised.value)
    assert {spec.number for spec in executor.started} == {0, 1}


def test_a_random_policy_is_measured_where_nobody_says_what_it_scores(tmp_path: Path) -> None:
    def behave(spec: TrialSpec, attempt: int) -> Script:
        return Script([(1.0, -30.0)]) if spec.stage == "probe" else act(spec, attempt)

    unknown = StudyEnvironment("high", HIGH.config, good=100.0)
    changes: dict[str, Any] = {"environments": (LOW, unknown), "probe": "tests.tuner.entries:probe"}
    executor = FakeExecutor(behave=behave)
    summary = study(tmp_path, executor, **changes)
    assert ENVIRONMENTS.of(summary) == {"low": ScoreScale(0.0, 10.0), "high": ScoreScale(-30.0, 100.0)}
    probes = [spec.config["env"]["id"] for spec in executor.started if spec.stage == "probe"]
    assert probes == ["low", "high"]
    again = FakeExecutor(behave=behave)
    assert ENVIRONMENTS.of(study(tmp_path, again, **changes)) == ENVIRONMENTS.of(summary)
    assert again.started == []


def test_a_good_policy_is_better_than_a_random_one(tmp_path: Path) -> None:
    wrong = StudyEnvironment("high", HIGH.config, good=-200.0)
    executor = FakeExecutor(behave=lambda spec, attempt: Script([(1.0, -30.0)]))
    with pytest.raises(UserError, match=r"env=high: its good return, -200, must be above .* random policy, -30"):
        study(tmp_path, executor, environments=(LOW, wrong), probe="tests.tuner.entries:probe")


@pytest.mark.parametrize(
    ("environments", "said"),
    [
        ((HIGH, LOW), "environments were low and high and are high and low"),
        ((), "environments were low and high and are one"),
        (
            (LOW, StudyEnvironment("high", HIGH.config, 50.0, -100.0)),
            r"the good return of high was 100\.0 and is 50\.0",
        ),
        (
            (LOW, StudyEnvironment("high", {**HIGH.config, "agent": {"x": 0.0}}, 100.0, -100.0)),
            r"in high, agent\.x was 1\.0 and is 0\.0",
        ),
    ],
)
def test_environments_that_would_falsify_stored_scores_are_refused(
    tmp_path: Path, environments: tuple[StudyEnvironment, ...], said: str
) -> None:
    study(tmp_path, **FEW)
    with pytest.raises(UserError, match=said):
        study(tmp_path, **FEW, environments=environments)


def test_a_budget_counts_the_steps_in_all_environments(tmp_path: Path) -> None:
    """Confirmation takes 2 x 2 runs and the test 2 x 2 of 2,700 steps each, so that 4 of 32,400 are screened."""
    assert len(study(tmp_path, max_env_steps=32_400).stage("screen")) == 4


class Noting(StudyListener):
    def __init__(self) -> None:
        self.parts: list[tuple[str, int, str]] = []
        self.wholes: list[tuple[str, int]] = []

    def on_end(self, run: Any, record: RunRecord) -> None:
        self.parts.append((record.stage, record.number, record.environment))

    def on_whole(self, record: RunRecord) -> None:
        assert [part.environment for part in record.parts] == ["low", "high"]
        self.wholes.append((record.stage, record.number))


def test_listeners_are_called_for_each_part_and_once_for_the_whole(tmp_path: Path) -> None:
    told = Noting()
    summary = study(tmp_path, listener=told)
    assert Counter(told.wholes) == Counter((run.stage, run.number) for run in summary.runs)
    assert Counter(told.parts) == Counter((*run, name) for run in told.wholes for name in ("low", "high"))


class Kept(Tracker):
    def __init__(self) -> None:
        self.infos: list[RunInfo] = []
        self.values: list[object] = []
        self.steps: dict[str, int] = {}

    def start_run(self, info: RunInfo) -> "Kept":
        self.infos.append(info)
        return self

    def log(self, step: int, metrics: Mapping[str, float]) -> None:
        self.steps[self.infos[-1].name] = step

    def finish(self, exit_code: int = 0, summary: Mapping[str, object] | None = None) -> None:
        assert summary is not None
        self.values.append(summary["value"])

    def close(self, timeout_s: float = 10.0) -> None:
        pass


def test_trackers_have_a_run_for_each_environment(tmp_path: Path) -> None:
    kept = Kept()
    listener = TrackingListener(kept, "study", 1000, tmp_path)
    summary = study(tmp_path, listener=listener, **FEW)
    parts = [part for run in summary.runs for part in run.parts]
    assert [info.folder for info in kept.infos] == [Path(part.folder) for part in parts]
    assert kept.values == [part.value for part in parts]
    first, second = kept.infos[:2]
    assert (first.name, second.name) == ("screen/0 in low", "screen/0 in high")
    assert second.config["env"] == {"id": "high"}
    assert "high" in second.tags
    assert {name: kept.steps[name] for name in (first.name, second.name)} == {first.name: 900, second.name: 1800}


def test_winners_of_one_environment_alone_stand_beside(tmp_path: Path) -> None:
    """Alone, x = 1 is the best of "high" and comes to 100; a study of another number of steps is not comparable."""
    other = {**HIGH.config, "training": {"total_steps": 500}}
    scale = {"scale": {"_target_": "my_rl.Scale"}}
    scaled, shaped = ({**HIGH.config, part: scale} for part in ("wrapper", "wrapper_training"))
    for name, alone in (("alone", HIGH.config), ("longer", other), ("scaled", scaled), ("shaped", shaped)):
        run_study(tmp_path, FakeExecutor(behave=act), name=name, config=alone, space=SPACE, num_trials=8)
    summary = study(tmp_path)
    assert {name: own.study for name, own in OWN_WINNERS.of(summary).items()} == {"high": "alone"}
    low, high = by_environment(summary)
    assert low.own is None
    assert high.own is not None
    assert high.own.iqm == 100.0
    assert summary_from_json(summary_to_json(summary)) == summary


@pytest.mark.parametrize("name", ["../../elsewhere", "", "/tmp"])
def test_a_storage_that_names_other_folders_is_refused(tmp_path: Path, name: str) -> None:
    study(tmp_path, **FEW)
    path = tmp_path / "studies.journal"
    path.write_text(
        path.read_text().replace('"environments":{"low":{"outcome"', f'"environments":{{"{name}":{{"outcome"')
    )
    with pytest.raises(UserError, match="is not the name of an environment"), StudyStore(journal(tmp_path)) as store:
        summarise(store, "study", tmp_path / "studies" / "study")
