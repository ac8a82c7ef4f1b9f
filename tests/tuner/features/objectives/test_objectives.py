"""Studies of several objectives: what is run, what samplers get, which front comes out, what is said and refused."""

import io
import math
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from rich.console import Console

import tuner as api
from tests.tuner.command_line import CommandLine
from tests.tuner.reporting.summaries import run
from tests.tuner.studies import CONFIG, ControllerDied, FakeExecutor, Script, asha, journal, learn, run_study
from tests.tuner.study_records import check_complete
from tuner.errors import UserError
from tuner.features.constraints.facts import CONSTRAINTS
from tuner.features.objectives.facts import FRONT
from tuner.features.objectives.figure import front_figure
from tuner.features.objectives.front_selection import FrontSelection
from tuner.features.objectives.front_verdict import front_members
from tuner.features.objectives.pareto_front import front_of
from tuner.reporting import FinalTable, write_page
from tuner.results.features import chosen
from tuner.results.findings import estimate
from tuner.results.metric import make_others, other_values
from tuner.results.records import Objective, RunRecord, StudySummary
from tuner.results.summary_json import summary_from_json, summary_to_json
from tuner.results.verdict import verdict
from tuner.study import StudyStore
from tuner.trial.messages import Outcome, TrialResult, TrialSpec

TIME = (Objective("seconds", "seconds of a run"),)
SEVERAL: dict[str, Any] = {"metric": ("final", "seconds"), "num_trials": 10, "num_candidates": 3}


def timed(spec: TrialSpec, attempt: int) -> Script:
    """A run with large batches scores as any other and takes longer; trial 2 diverges at once."""
    script = learn(spec, attempt)
    seconds = spec.config["buffer"]["batch_size"] / 16 * (1.0 if script.curve[-1][1] < 50 else 10.0)
    if spec.key == "screen/2":
        return Script(script.curve[:1], TrialResult(Outcome.DIVERGED, "nan", seconds=0.1))
    return Script(script.curve, TrialResult(Outcome.COMPLETE, seconds=seconds))


# Values


def test_objectives_behind_the_metric() -> None:
    others = make_others(("seconds", "auc", "steps_to_5"), "final")
    assert [(other.name, other.maximised) for other in others] == [
        ("seconds", False),
        ("auc", True),
        ("steps_to_5", True),
    ]
    assert other_values(others, [(0.5, 0.0), (1.0, 10.0)], 12.5) == (12.5, 5.0, -0.75)


@pytest.mark.parametrize(
    ("names", "why"),
    [(("final",), "names final twice"), (("auc", "auc"), "names auc twice"), (("secnds",), "secnds is unknown")],
)
def test_objectives_that_make_no_sense_are_refused(names: tuple[str, ...], why: str) -> None:
    with pytest.raises(UserError, match=why):
        make_others(names, "final")


def measured(label: str, score: float | None, seconds: float, stage: str = "screen", seed: int = 1) -> RunRecord:
    outcome = Outcome.CRASHED if score is None else Outcome.COMPLETE
    return run(label, stage, score, scores={"seconds": seconds}, outcome=outcome, seed=seed)


def test_the_front_is_chosen_by_means_over_confirmation_seeds() -> None:
    screened = [measured(f"trial {n}", float(n), 10.0) for n in range(4)]
    confirmed = [
        *(measured("trial 0", score, 5.0, "confirm", seed) for seed, score in enumerate((10.0, 20.0))),  # 15 in 5 s
        *(measured("trial 1", score, 4.0, "confirm", seed) for seed, score in enumerate((12.0, 14.0))),  # 13 in 4 s
        *(measured("trial 2", score, 4.5, "confirm", seed) for seed, score in enumerate((12.0, 13.0))),  # beaten by 1
        *(measured("trial 3", score, 9.0, "confirm", seed) for seed, score in enumerate((90.0, None))),  # half crashed
    ]
    front = FrontSelection(TIME).chosen(confirmed, screened)
    assert [one.label for one in front] == ["trial 3", "trial 0", "trial 1"]  # 3: (90 + the worst, 10) / 2 = 50
    worst = FrontSelection(TIME, "worst").chosen(confirmed, screened)
    assert [one.label for one in worst] == ["trial 1"]  # 12 in 4 s; the others have a seed with 10 or less, and slower
    assert FrontSelection(TIME).chosen([measured("trial 0", None, 1.0, "confirm")], screened) == ()


def test_candidates_are_spread_over_the_front() -> None:
    screened = [measured(f"trial {n}", float(n), float(n)) for n in range(9)] + [measured("trial 9", 1.0, 9.0)]
    assert [one.number for one in FrontSelection(TIME).entrants(screened, 3)] == [8, 0, 4]


# Studies


def test_a_study_ends_with_a_tested_front(tmp_path: Path) -> None:
    summary = run_study(tmp_path, FakeExecutor(2, timed), pruner=asha(), **SEVERAL)
    complete = {one.number: one for one in summary.stage("screen") if one.complete}
    assert all(one.scores["seconds"] == one.seconds for one in complete.values())
    screen_front = front_of({n: (-(one.score or 0.0), one.seconds) for n, one in complete.items()})
    confirmed = {one.label for one in summary.stage("confirm")}
    assert len(confirmed) == 3
    assert confirmed <= {f"trial {n}" for n in screen_front} or len(screen_front) < 3
    assert FRONT.of(summary)
    assert set(FRONT.of(summary)) <= confirmed
    assert {one.label for one in summary.stage("test")} == {*FRONT.of(summary), "default"}
    assert summary.stage("race") == ()
    assert not any(one.outcome is Outcome.PRUNED for one in summary.runs)
    assert any(note.startswith("No run can be pruned") for note in summary.notes), "all take as long until a rung"
    assert summary_from_json(summary_to_json(summary)) == summary


def test_a_run_that_failed_has_the_worst_of_each_objective(tmp_path: Path) -> None:
    summary = run_study(tmp_path, FakeExecutor(1, timed), **SEVERAL)
    failed = summary.stage("screen")[2]
    before = summary.stage("screen")[:2]
    assert failed.outcome is Outcome.DIVERGED
    assert failed.scores["seconds"] == max(one.seconds for one in before)  # not 0.1, which would be the best of all
    assert failed.value is not None
    assert failed.value <= min(one.value or 0.0 for one in before)
    with StudyStore(journal(tmp_path)) as store:
        study = store.require("study")
        assert [direction.name for direction in study.directions] == ["MAXIMIZE", "MINIMIZE"]
        assert study.trials[2].values == [failed.value, failed.scores["seconds"]]


def test_a_controller_that_dies_loses_nothing(tmp_path: Path) -> None:
    def die(executor: FakeExecutor) -> None:
        with pytest.raises(ControllerDied):
            run_study(tmp_path, executor, **SEVERAL)

    for events in (60, 90, 120):
        die(FakeExecutor(2, timed, die_after=events))
    summary = run_study(tmp_path, FakeExecutor(2, timed), **SEVERAL)
    assert len({(one.stage, one.number) for one in summary.runs}) == len(summary.runs)
    assert all(one.outcome is not None for one in summary.runs)
    assert FRONT.of(summary)


def test_a_default_that_joins_the_front_later_is_one_of_it(tmp_path: Path) -> None:
    """It was tested as the default before, when one candidate was confirmed."""
    config = {**CONFIG, "optimizer": {"learning_rate": 2e-3}, "buffer": {**CONFIG["buffer"], "batch_size": 16}}
    known: dict[str, Any] = {**SEVERAL, "config": config, "warm_start": {"default": config}}
    first = run_study(tmp_path, FakeExecutor(2, timed), **{**known, "num_candidates": 1})
    assert first.default_label == "default"
    assert "trial 0" not in FRONT.of(first)
    later = run_study(tmp_path, FakeExecutor(2, timed), **{**known, "num_candidates": 10})
    assert "trial 0" in FRONT.of(later)
    assert later.default_label == "trial 0"
    assert [one.label for one in front_members(later)] == sorted(
        FRONT.of(later), key=lambda label: -estimate([one.value or 0.0 for one in later.stage("test", label)]).iqm
    )
    assert "Trial 0, one of the front, is the default configuration." in verdict(later).sentence
    more = run_study(tmp_path, FakeExecutor(2, timed), **{**known, "num_candidates": 10, "num_test_seeds": 4})
    assert len(more.stage("test", "trial 0")) == 4
    assert "All values are interquartile means on held-out test seeds." in verdict(more).details


def test_a_front_of_the_default_alone_is_said_to_be_that() -> None:
    runs = [measured("trial 0", 50.0, 5.0, stage, seed) for stage in ("screen", "test") for seed in range(5)]
    summary = StudySummary("s", "final score", "E-v0", "dqn", "torch", tuple(runs), "trial 0", others=TIME)
    summary = replace(summary, facts={FRONT.key: ("trial 0",)}, default_label="trial 0")
    said = "Trial 0 is the default configuration, and no other one is of the front."
    assert verdict(summary).sentence.endswith(said)
    better = [measured("trial 1", 60.0, 4.0, stage, seed) for stage in ("screen", "test") for seed in range(5)]
    beaten = replace(summary, runs=(*runs, *better), facts={FRONT.key: ("trial 1", "trial 0")})
    assert verdict(beaten).sentence.endswith("Trial 0, which was of the front, is the default configuration.")


def test_going_on_with_other_objectives_is_refused(tmp_path: Path) -> None:
    run_study(tmp_path, FakeExecutor(2, timed), **SEVERAL)
    with pytest.raises(UserError, match=r"others was \['seconds'\] and is \[\]"):
        run_study(tmp_path, FakeExecutor(2, timed), **{**SEVERAL, "metric": "final"})
    check_complete(run_study(tmp_path, FakeExecutor(2), name="plain"))


def front_study() -> Iterator[RunRecord]:
    for label, score, seconds in (("trial 0", 50.0, 5.0), ("trial 1", 90.0, 20.0), ("default", 40.0, 6.0)):
        if label != "default":
            yield measured(label, score + 9.0, seconds)
        yield from (measured(label, score + seed, seconds, "test", seed) for seed in range(5))


def test_advice_says_where_the_default_has_a_better_score_than_all_of_the_front() -> None:
    summary = StudySummary("s", "final score", "E-v0", "dqn", "torch", tuple(front_study()), "trial 1", others=TIME)
    summary = replace(summary, facts={FRONT.key: ("trial 1", "trial 0")})
    assert chosen(summary).best == "trial 1, the best in score,"
    better = tuple(replace(one, value=95.0) if one.label == "default" else one for one in summary.runs)
    summary = replace(summary, runs=better)  # of 6 s: nothing beats it
    assert chosen(summary).best == "trial 1, the best in score of the front, behind the default configuration,"
    constrained = replace(summary, facts={**summary.facts, CONSTRAINTS.key: ("seconds>10",)})  # only trial 1 meets it
    assert chosen(constrained).best == "trial 1, the best in score,"
    slower = tuple(replace(one, scores={"seconds": 30.0}) if one.label == "default" else one for one in better)
    lower = tuple(replace(one, value=80.0) if one.label == "default" else one for one in slower)
    assert chosen(replace(summary, runs=lower)).best == "trial 1, the best in score,"


def test_the_verdict_names_the_front_and_who_beats_the_default(tmp_path: Path) -> None:
    summary = StudySummary("s", "final score", "E-v0", "dqn", "torch", tuple(front_study()), "trial 1", others=TIME)
    summary = replace(summary, facts={FRONT.key: ("trial 1", "trial 0")})
    assert [(one.label, one.beaten) for one in front_members(summary)] == [
        ("trial 1", False),
        ("trial 0", False),
        ("default", True),
    ]
    sentence = verdict(summary).sentence
    assert sentence.startswith(
        "2 of 2 complete trials were unbeaten in score (higher is better) and seconds (lower is better) in screening; "
        "on test seeds 2 are unbeaten: trial 1 with score 92.0, seconds 20 ("
    )
    assert sentence.endswith("In all objectives together trial 0 beats default with score 42.0, seconds 6.")
    console = Console(width=120, record=True, file=io.StringIO())
    console.print(FinalTable(summary))
    table = console.export_text()
    assert "trial 1 *" in table
    assert "trial 0 *" in table
    assert "* unbeaten among those confirmed" in table
    assert 'id="front-table"' in write_page(summary, tmp_path).read_text()
    assert math.isclose(front_members(summary)[0].losses[0], -92.0)


def test_a_test_stage_that_has_not_finished_decides_nothing() -> None:
    """Of five test seeds, trial 0 and the default have no run yet: on test seeds nobody would beat trial 1."""
    runs = [run for run in front_study() if run.stage != "test" or run.label == "trial 1"]
    confirmed = [measured(label, score, 5.0, "confirm") for label, score in (("trial 0", 70.0), ("trial 1", 60.0))]
    summary = StudySummary("s", "final", "E-v0", "dqn", "torch", (*runs, *confirmed), "trial 1", others=TIME)
    summary = replace(summary, facts={FRONT.key: ("trial 1", "trial 0")}, budget={"test seeds": 5})
    assert [(one.label, one.beaten) for one in front_members(summary)] == [("trial 0", False), ("trial 1", True)]
    found = verdict(summary)
    assert "on their seeds 1 is unbeaten: trial 0" in found.sentence
    assert "on test seeds" not in found.sentence
    assert "The test stage has not finished (missing: 10 of 15 runs)." in found.details[0]
    finished = replace(summary, runs=(*front_study(), *confirmed))
    assert "on test seeds 2 are unbeaten" in verdict(finished).sentence


def test_a_spread_over_a_wider_front_is_not_called_the_front() -> None:
    screened = [measured(f"trial {n}", 10.0 * n, 10.0 + n) for n in range(1, 6)]  # each better and slower: none beaten
    screened.append(measured("trial 6", 9.0, 30.0))  # beaten by all
    chosen = {"trial 1": (5.0, 20.0), "trial 3": (30.0, 13.0), "trial 5": (50.0, 15.0)}  # 1 disappoints
    later = [
        measured(label, score, seconds, stage)
        for stage in ("confirm", "test")
        for label, (score, seconds) in chosen.items()
    ]
    summary = StudySummary("s", "final", "E-v0", "dqn", "torch", (*screened, *later), "trial 5", others=TIME)
    summary = replace(summary, facts={FRONT.key: ("trial 5", "trial 3", "trial 1")})
    found = verdict(summary)
    assert found.sentence.startswith(
        "5 of 6 complete trials were unbeaten in score (higher is better) and seconds (lower is better) in screening; "
        "3 of them, spread over the front, were confirmed; on test seeds 2 are unbeaten: trial 5 with score 50, "
        "seconds 15"
    )
    assert "trial 1" not in found.sentence
    assert "On these seeds trial 1 turned out to be beaten after all." in found.details
    drawing = front_figure(summary)
    assert drawing is not None
    traces = {trace["name"]: trace for trace in drawing["data"]}
    line = traces["the front, latest stage"]
    assert "lines" in line["mode"]
    assert (line["x"], line["y"], line["text"]) == ([13.0, 15.0], [30.0, 50.0], ["trial 3", "trial 5"])
    assert "lines" not in traces["beaten after all, latest stage"]["mode"]
    assert traces["beaten after all, latest stage"]["text"] == ["trial 1"]


# The command line

INLINE = ("agent=synthetic", "executor=inline", "storage=memory", "tracker=jsonl", "study.num_trials=6")


def test_a_list_of_metrics_is_tuned_and_every_member_of_the_front_can_be_trained(tuner: CommandLine) -> None:
    result = api.tune([*INLINE, "study.metric=[final,steps_to_20]", "study.name=two", "pruner=none", "warm_start=off"])
    summary = result.summary
    assert [other.name for other in summary.others] == ["steps_to_20"]
    assert summary.winner_label == FRONT.of(summary)[0]
    files = {path.stem for path in (tuner.folder / "studies/two/experiment").iterdir()}
    assert files == {"winner", *(label.replace(" ", "-") for label in FRONT.of(summary))}
    trained = tuner("train", "--config-dir", "studies/two", f"experiment={FRONT.of(summary)[-1].replace(' ', '-')}")
    assert trained.status == 0, trained.errors


@pytest.mark.parametrize(
    ("arguments", "why"),
    [
        (
            ["pruner=asha"],
            "pruner=asha goes by one score, and study.metric names several objectives; leave it out, and",
        ),
        (["study.num_race_seeds=2"], "study.num_race_seeds=2 goes by one score"),
        (["sampler=cmaes"], "CmaEsSampler knows one objective only"),
        (["study.metric=[seconds,final]"], "seconds cannot be the first objective"),
        (["study.metric=[final,final]"], "names final twice"),
        (["study.metric=[final,secnds]"], "secnds is unknown"),
    ],
)
def test_what_goes_by_one_score_is_refused(tuner: CommandLine, arguments: list[str], why: str) -> None:
    assert why in tuner.refused("tune", *INLINE, "study.metric=[final,seconds]", *arguments)
