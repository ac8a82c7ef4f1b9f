"""Studies with constraints: what is typed, what samplers know, who is chosen, what is said and refused."""

from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

import optuna
import pytest
from optuna.pruners import MedianPruner
from optuna.samplers import NSGAIISampler, TPESampler

import tuner as api
from tests.tuner.command_line import CommandLine
from tests.tuner.reporting.summaries import run
from tests.tuner.studies import (
    ControllerDied,
    FakeExecutor,
    Script,
    definition,
    die_after_writes,
    journal,
    learn,
    run_study,
)
from tests.tuner.study_records import scores, stored
from tuner.errors import UserError
from tuner.features.constraints.checking import PART
from tuner.features.constraints.facts import CONSTRAINTS
from tuner.features.constraints.feasibility import Feasibility, standing
from tuner.features.constraints.inequalities import Constraint, parse_constraint, parse_constraints
from tuner.features.constraints.study import FeasiblePruner
from tuner.features.objectives.facts import FRONT
from tuner.results.columns import rows
from tuner.results.findings import Finding
from tuner.results.records import Objective, RunRecord, StudySummary
from tuner.results.summary_json import summary_from_json, summary_to_json
from tuner.results.verdict import verdict
from tuner.study import StudyRunner, StudyStore
from tuner.study.study_errors import StudyError
from tuner.study.summary import summarise
from tuner.trial.messages import Outcome, TrialResult, TrialSpec

# What is typed


@pytest.mark.parametrize(
    ("text", "name", "comparison", "limit"),
    [
        ("seconds<600", "seconds", "<", 600.0),
        (" num_parameters <= 1e5 ", "num_parameters", "<=", 100_000.0),
        ("final>-.5", "final", ">", -0.5),
        ("train/loss<0.1", "train/loss", "<", 0.1),
        ("steps_to_475>=-1", "steps_to_475", ">=", -1.0),
    ],
)
def test_a_constraint_is_a_name_an_operator_and_a_number(text: str, name: str, comparison: str, limit: float) -> None:
    assert parse_constraint(text) == Constraint(name, comparison, limit)


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ("seconds=600", "'seconds=600' is no constraint; write NAME OP NUMBER"),
        ("seconds<10min", "is no constraint"),
        ("600>seconds", "is no constraint"),
        ("0<seconds<600", "is no constraint"),
        ("seconds<1e999", "is no constraint"),
        ("seconds<nan", "is no constraint"),
        ("", "is no constraint"),
        ("secnds<600", r"'secnds<600' names secnds, which no run has; .* train/loss; did you mean seconds\?"),
        ("parameters<600", r"did you mean num_parameters\?"),
        ("steps_to_x>-1", "must end in a number"),
        ("seconds<0", "'seconds<0' cannot hold: seconds is never below 0; give a limit above 0"),
        ("num_parameters<=-1", "cannot hold"),
        ("seconds>=0", "'seconds>=0' always holds"),
        ("seconds>-1", "always holds"),
        ("steps_to_475<20000", "always holds: .* minus a share of .* for half of it, write steps_to_475>=-0.5"),
        ("steps_to_475>0", "cannot hold: steps_to_475 is minus a share"),
    ],
)
def test_what_is_no_constraint_is_refused(text: str, why: str) -> None:
    with pytest.raises(UserError, match=why):
        parse_constraint(text)


@pytest.mark.parametrize(
    ("texts", "why"),
    [
        (("seconds<5", "seconds<=9"), "give seconds one limit above, the stricter one"),
        (("final>5", "final>=9"), "give final one limit below, the stricter one"),
        (("seconds<5", "seconds>5"), "no value of seconds holds both seconds<5 and seconds>5"),
        (("final>=5", "final<5"), "no value of final holds both"),
    ],
)
def test_constraints_that_do_not_go_together_are_refused(texts: tuple[str, ...], why: str) -> None:
    with pytest.raises(UserError, match=why):
        parse_constraints(texts)


def test_constraints_that_leave_something_are_not_refused() -> None:
    assert len(parse_constraints(("final>=5", "final<=5"))) == 2
    assert len(parse_constraints(("seconds>5", "seconds<6", "num_parameters<1e5"))) == 3


# Values, by hand


@pytest.mark.parametrize(
    ("text", "value", "excess"),
    [
        ("seconds<600", 734.0, 134 / 600),
        ("seconds<600", 300.0, -0.5),
        ("final>=400", 300.0, 0.25),
        ("final>0", -5.0, 5.0),  # of a limit of 0 there is no share
        ("final>-200", -300.0, 0.5),
        ("final>=400", 400.0, 0.0),
    ],
)
def test_the_excess_is_a_share_of_the_limit(text: str, value: float, excess: float) -> None:
    constraint = parse_constraint(text)
    assert constraint.excess(value) == pytest.approx(excess)
    assert constraint.holds(value) == (constraint.excess(value) <= 0.0)


@pytest.mark.parametrize("text", ["seconds<600", "final>600"])
def test_the_limit_itself_is_infeasible_where_it_is_to_be_stayed_clear_of(text: str) -> None:
    assert 0.0 < parse_constraint(text).excess(600.0) < 1e-9


def taking(label: str, seconds: float, seed: int = 1, stage: str = "screen", **more: float) -> RunRecord:
    return replace(run(label, stage, 1.0, seed=seed, scores=more), seconds=seconds)


def test_over_seeds_the_mean_decides_or_the_worst() -> None:
    runs = [taking("trial 0", 500.0), taking("trial 0", 650.0, seed=2)]  # 575 in the mean
    constraints = parse_constraints(("seconds<600",))
    assert Feasibility(constraints).violated(runs) == []
    assert Feasibility(constraints, "worst").violated(runs) == ["seconds 650 against < 600"]
    lower = parse_constraints(("seconds>550",))
    assert Feasibility(lower).violated(runs) == []
    assert Feasibility(lower, "worst").violated(runs) == ["seconds 500 against > 550"]


def test_the_nearest_is_the_one_with_the_smallest_sum_of_shares() -> None:
    constraints = parse_constraints(("seconds<600", "num_parameters<1e5"))
    runs = [
        taking("trial 0", 900.0, num_parameters=1e3),  # 0.5 beyond
        taking("trial 1", 660.0, num_parameters=1.3e5),  # 0.1 + 0.3
        taking("trial 2", 1.0),  # it has not said
    ]
    assert Feasibility(constraints).none_feasible(runs, runs) == (
        "None of 3 configurations is feasible (seconds<600, num_parameters<100000); the smallest violation is that of "
        "trial 1: seconds 660 against < 600 and num_parameters 130,000 against < 100,000"
    )
    assert Feasibility(constraints).violated(runs[2:]) == ["num_parameters unknown against < 100000"]


def test_values_that_are_the_same_for_all_are_named_as_no_trial_helps() -> None:
    constraints = parse_constraints(("seconds<600", "num_parameters<1e3", "evaluation/return>5"))
    runs = [taking(f"trial {number}", 900.0 + number, num_parameters=4610.0) for number in range(3)]
    assert Feasibility(constraints).unmoved(runs, runs) == ["num_parameters"]
    assert Feasibility(constraints).unmoved(runs[:1], runs) == [], "one says nothing of others"
    other = [*runs, taking("trial 3", 1.0, num_parameters=2000.0)]
    assert Feasibility(constraints).unmoved(other, other) == []


def test_the_interval_over_seeds_says_how_sure_it_is() -> None:
    constraint = parse_constraint("seconds<600")
    for shift, told in (
        (-100.0, "holds"),
        (100.0, "does not hold"),
        (-2.0, "not certain, as the interval contains the limit"),
    ):
        found = standing(constraint, [taking("a", 600.0 + shift + spread, seed=spread) for spread in (-9, -5, 0, 5, 9)])
        assert found is not None
        assert found[1].startswith(told)


# Studies

SMALL: dict[str, Any] = {"metric": "final", "num_trials": 10, "num_candidates": 3}


def timed(spec: TrialSpec, attempt: int) -> Script:
    """A run takes a second for 16 of a batch: from 1 to 16."""
    script = learn(spec, attempt)
    seconds = spec.config["buffer"]["batch_size"] / 16
    return Script(script.curve, TrialResult(Outcome.COMPLETE, seconds=seconds))


def constrained(folder: Path, *texts: str, executor: FakeExecutor | None = None, **changes: Any) -> StudySummary:
    return run_study(folder, executor or FakeExecutor(1, timed), **{**SMALL, "constraints": texts, **changes})


def test_only_feasible_configurations_are_chosen(tmp_path: Path) -> None:
    summary = constrained(tmp_path, "seconds<5")
    quick = {one.label for one in summary.stage("screen") if one.seconds < 5.0}
    best_of_all = max(summary.stage("screen"), key=lambda one: one.score or 0.0)
    assert 0 < len(quick) < 10
    assert best_of_all.label not in quick, "or nothing is shown here"
    assert {one.label for one in summary.stage("confirm")} <= quick
    assert summary.winner_label in quick
    assert [one.feasible for one in summary.stage("screen")] == [one.label in quick for one in summary.stage("screen")]
    assert CONSTRAINTS.of(summary) == ("seconds<5",)
    assert summary_from_json(summary_to_json(summary)) == summary


def test_samplers_get_constraints_by_set_constraint(tmp_path: Path) -> None:
    constrained(tmp_path, "seconds<5", "final>3")
    for trial in stored(tmp_path).trials:
        seconds, final = trial.user_attrs["ending"]["seconds"], trial.value
        assert final is not None
        assert list(trial.constraints) == ["seconds<5", "final>3"]
        assert trial.constraints["seconds<5"] == pytest.approx((seconds - 5) / 5)
        assert trial.constraints["final>3"] == pytest.approx((3 - final) / 3)


@pytest.mark.parametrize("kind", [TPESampler, NSGAIISampler])
def test_a_sampler_that_knows_constraints_keeps_to_them(tmp_path: Path, kind: Any) -> None:
    """One of five batch sizes is feasible."""
    few = {"n_startup_trials": 10} if kind is TPESampler else {"population_size": 10}
    with StudyStore(journal(tmp_path)) as store:
        made = definition(tmp_path, **{**SMALL, "num_trials": 40, "constraints": ("seconds<2",), "num_test_seeds": 1})
        summary = StudyRunner(made, store, FakeExecutor(1, timed), partial(kind, **few)).run()
    feasible = [one.feasible for one in summary.stage("screen")]
    assert sum(feasible[:10]) < 5
    assert sum(feasible[20:]) > 10


def test_failed_runs_store_the_violations_that_they_have_shown(tmp_path: Path) -> None:
    def behave(spec: TrialSpec, attempt: int) -> Script:
        ends = {"screen/3": 0.5, "screen/4": 50.0}
        if spec.key in ends:
            return Script([(1 / 9, 1.0)], TrialResult(Outcome.DIVERGED, "nan", seconds=ends[spec.key]))
        return timed(spec, attempt)

    constrained(tmp_path, "seconds<5", executor=FakeExecutor(1, behave))
    trials = stored(tmp_path).trials
    assert trials[3].constraints == {"seconds<5": 0.0}  # it might have taken longer
    assert trials[4].constraints == {"seconds<5": 9.0}


def test_where_none_is_feasible_the_nearest_is_named(tmp_path: Path) -> None:
    why = r"None of 10 configurations is feasible \(seconds<0.5\); the smallest violation is that of trial \d: "
    why += r"seconds \S+ against < 0.5"
    with pytest.raises(StudyError, match=why + r"\.\nLoosen study.constraints .* study.num_trials=20"):
        constrained(tmp_path, "seconds<0.5")
    with StudyStore(journal(tmp_path)) as store:
        summary = summarise(store, "study", tmp_path / "studies" / "study")
    found = verdict(summary)
    assert found.finding is Finding.NONE_FEASIBLE
    nearest = min(summary.stage("screen"), key=lambda one: (one.seconds, one.number))
    assert f"the smallest violation is that of {nearest.label}: " in found.sentence
    assert summary.stage("confirm") == ()
    more = constrained(tmp_path, "seconds<0.5", executor=FakeExecutor(1, faster_later), num_trials=12)
    assert more.winner_label in ("trial 10", "trial 11")


def faster_later(spec: TrialSpec, attempt: int) -> Script:
    late = spec.stage != "screen" or spec.number >= 10
    return (
        Script(learn(spec, attempt).curve, TrialResult(Outcome.COMPLETE, seconds=0.1)) if late else timed(spec, attempt)
    )


@pytest.mark.parametrize("stage", ["race", "confirm"])
def test_a_candidate_that_takes_too_long_on_further_seeds_is_not_chosen(tmp_path: Path, stage: str) -> None:
    raced = {"num_race_seeds": 1, "num_race": 6}
    plain = constrained(tmp_path / "plain", "seconds<50", **raced)
    assert plain.winner_label is not None
    rate = plain.params_of(plain.winner_label)["optimizer.learning_rate"]

    def slow(spec: TrialSpec, attempt: int) -> Script:
        seconds = 200.0 if spec.stage == stage and spec.config["optimizer"]["learning_rate"] == rate else 1.0
        return Script(learn(spec, attempt).curve, TrialResult(Outcome.COMPLETE, seconds=seconds))

    summary = constrained(tmp_path / "slow", "seconds<50", executor=FakeExecutor(1, slow), **raced)
    assert summary.winner_label not in (None, plain.winner_label)
    seen = {one.stage for one in summary.runs if one.label == plain.winner_label}
    assert seen == {"screen", "race", stage}  # after the race it is 100 in the mean, with the screening run


def test_a_metric_that_runs_log_is_kept_and_constrained(tmp_path: Path) -> None:
    summary = constrained(tmp_path, "eval/mean_return>3")  # the last one logged is that of the last evaluation
    for one in summary.runs:
        assert one.scores["eval/mean_return"] == one.curve[-1][1]
    assert all(one.scores["eval/mean_return"] > 3 for one in summary.stage("screen") if one.feasible)


def test_a_metric_that_no_run_logs_ends_the_study_at_once(tmp_path: Path) -> None:
    executor = FakeExecutor(1, timed)
    with pytest.raises(StudyError, match=r"trial 0 has come to its end and has never logged train/loss"):
        constrained(tmp_path, "train/loss<3", executor=executor)
    assert len(executor.started) == 1


def test_other_constraints_are_another_study(tmp_path: Path) -> None:
    constrained(tmp_path, "seconds<5")
    with pytest.raises(UserError, match=r"constraints were \['seconds<5'\] and are \['seconds<6'\]"):
        constrained(tmp_path, "seconds<6")


def test_a_controller_that_dies_at_any_write_loses_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    small = {"num_trials": 3, "num_candidates": 2, "num_test_seeds": 1, "num_select_seeds": 1}
    straight = constrained(tmp_path / "straight", "seconds<20", **small)
    writes, num_deaths, summary = die_after_writes(monkeypatch), 0, None
    while summary is None:
        writes.left = 3 + num_deaths
        try:
            summary = constrained(tmp_path / "killed", "seconds<20", **small)
        except ControllerDied:
            num_deaths += 1
    assert num_deaths > 5
    writes.left = 10**6
    assert scores(summary) == scores(straight)
    assert [trial.constraints for trial in stored(tmp_path / "killed").trials] == [
        trial.constraints for trial in stored(tmp_path / "straight").trials
    ]


def test_with_several_objectives_the_front_is_of_feasible_configurations(tmp_path: Path) -> None:
    summary = constrained(tmp_path, "seconds>=3", metric=("mixed", "seconds"))
    assert FRONT.of(summary)
    for label in FRONT.of(summary):
        assert all(one.seconds >= 3.0 for one in summary.stage("screen", label))
    infeasible = [one for one in summary.stage("screen") if one.seconds < 3.0]
    assert infeasible
    assert not {one.label for one in infeasible} & {one.label for one in summary.stage("confirm")}


def test_a_pruner_does_not_compare_with_infeasible_trials() -> None:
    study = optuna.create_study(direction="maximize", pruner=FeasiblePruner(MedianPruner(1, 0)))
    for score, excess in ((9.0, 1.0), (8.0, 1.0), (1.0, -1.0)):
        trial = study.ask()
        trial.report(score, 1)
        trial.set_constraint("seconds<5", excess)
        study.tell(trial, score)
    for score, ends in ((2.0, False), (0.5, True)):
        trial = study.ask()
        trial.report(score, 1)
        assert bool(trial.should_prune()) is ends


# What is said


def test_tables_and_verdict_say_it(tmp_path: Path) -> None:
    summary = constrained(tmp_path, "seconds<5", num_test_seeds=5)
    told = {(row["stage"], row["number"]): row["feasible"] for row in rows(summary)}
    for one in summary.runs:
        assert told[one.stage, one.number] == (
            "yes" if one.seconds < 5.0 else f"no: seconds {one.seconds:g} against < 5"
        )
    num = sum(one.seconds < 5.0 for one in summary.stage("screen"))
    found = verdict(summary)
    assert found.details[0] == f"study.constraints seconds<5: {num} of 10 complete trials are feasible."
    seconds = summary.stage("test", summary.winner_label)[0].seconds
    assert (
        found.details[1]
        == f"On test seeds, {summary.winner_label}: seconds {seconds:g} [{seconds:g}, {seconds:g}] against < 5: holds."
    )
    default = summary.stage("test", "default")[0].seconds
    assert default == 4.0
    assert "not feasible" not in found.sentence


def test_a_winner_that_does_not_hold_on_test_seeds_is_not_praised(tmp_path: Path) -> None:
    def slow(spec: TrialSpec, attempt: int) -> Script:
        script = timed(spec, attempt)
        return replace(script, result=replace(script.result, seconds=7.0)) if spec.stage == "test" else script

    found = verdict(constrained(tmp_path, "seconds<5", executor=FakeExecutor(1, slow)))
    assert found.sentence.endswith(
        "On test seeds the winner is not feasible (seconds 7 against < 5). On test seeds the default configuration is "
        "not feasible (seconds 7 against < 5), so it is no alternative."
    )


@pytest.mark.parametrize(("seconds", "kept"), [(4.0, True), (7.0, False)])
def test_a_better_default_that_is_not_feasible_is_not_kept(tmp_path: Path, seconds: float, kept: bool) -> None:
    summary = constrained(tmp_path, "seconds<5", num_test_seeds=5)
    better = [
        replace(one, value=(one.score or 0.0) + 100.0, seconds=seconds) if one.label == "default" else one
        for one in summary.runs
    ]
    found = verdict(replace(summary, runs=tuple(better)))
    assert (found.finding is Finding.DEFAULT_AS_GOOD) is kept
    assert ("keep it" in found.sentence) is kept
    assert ("for the default configuration, which cannot be chosen. On test seeds the" in found.sentence) is not kept
    failing = [replace(one, outcome=Outcome.CRASHED) if one.label == summary.winner_label else one for one in better]
    without = verdict(replace(summary, runs=tuple(failing)))
    assert ("Keep the default configuration" in without.sentence) is kept
    assert ("On test seeds the default configuration is not feasible" in without.sentence) is not kept


@pytest.mark.parametrize(("seconds", "feasible"), [(4.0, True), (7.0, False)])
def test_a_default_that_is_not_feasible_beats_no_front(tmp_path: Path, seconds: float, feasible: bool) -> None:
    later = [("trial 0", 50.0, 3.0), ("trial 1", 90.0, 4.5), ("default", 95.0, seconds)]
    runs = [taking(label, took, seed, "test", final=score) for label, score, took in later for seed in range(5)]
    runs = [replace(one, value=one.scores["final"]) for one in runs]
    screened = [taking("trial 0", 3.0), taking("trial 1", 4.5)]
    summary = StudySummary("s", "score", "E-v0", "dqn", "torch", (*screened, *runs), "trial 1")
    summary = replace(
        summary,
        others=(Objective("final", "final", maximised=True),),
        facts={FRONT.key: ("trial 1", "trial 0"), CONSTRAINTS.key: ("seconds<5",)},
    )
    found = verdict(summary).sentence
    assert ("on test seeds none is unbeaten" in found) is feasible
    assert ("trial 1 with score 90" in found) is not feasible
    refused = (
        "On test seeds the default configuration is not feasible (seconds 7 against < 5), so it is no alternative."
    )
    assert found.endswith(refused) is not feasible


@pytest.mark.parametrize(("seconds", "advised"), [(4.0, True), (7.0, False)])
def test_known_settings_that_are_not_feasible_are_not_advised(tmp_path: Path, seconds: float, advised: bool) -> None:
    summary = constrained(tmp_path, "seconds<5", num_test_seeds=5)
    winners = summary.stage("test", summary.winner_label)
    known = [
        replace(one, label="experiment big", number=50 + i, value=(one.score or 0.0) + 100.0, seconds=seconds)
        for i, one in enumerate(winners)
    ]
    found = verdict(replace(summary, runs=(*summary.runs, *known), baselines=("experiment big",))).sentence
    assert ("train with experiment=big instead" in found) is advised
    refused = "On test seeds experiment big is not feasible (seconds 7 against < 5), so it is no alternative."
    assert (refused in found) is not advised


def test_a_study_without_constraints_has_no_such_column(tmp_path: Path) -> None:
    summary = run_study(tmp_path, FakeExecutor(1, timed), **SMALL)
    assert "feasible" not in rows(summary)[0]
    assert "constraints" not in stored(tmp_path).user_attrs["definition"]


# The command line

INLINE = ("agent=synthetic", "executor=inline", "storage=memory", "tracker=jsonl", "study.num_trials=4")


@pytest.mark.parametrize(
    ("typed", "meant"),
    [
        ("[seconds<5]", "['seconds<5']"),
        ("seconds<5", "'seconds<5'"),
        ("['seconds<5',\"final>=3\"]", "['seconds<5',\"final>=3\"]"),
        ("['seconds<5', train/loss<=3]", "['seconds<5', 'train/loss<=3']"),
    ],
)
def test_quotation_marks_are_added_where_there_are_none(typed: str, meant: str) -> None:
    others = ["study.name=a<b", "agent=dqn"]
    assert PART.meant([f"study.constraints={typed}", *others]) == [f"study.constraints={meant}", *others]


def test_constraints_from_python() -> None:
    result = api.tune([*INLINE, "study.constraints=[final<1e9]", "study.name=limits", "study.num_test_seeds=1"])
    assert CONSTRAINTS.of(result.summary) == ("final<1e9",)
    assert result.rows[0]["feasible"] == "yes"


@pytest.mark.parametrize(
    ("typed", "why"),
    [
        ("train/nosuch<5", "'train/nosuch<5' names train/nosuch, which no run of PPO logs; there is eval/mean_"),
        ("train/clip_fracton<0.2", "; did you mean train/clip_fraction?"),
        ("eval/mean_returns>100", "; did you mean eval/mean_return?"),
        ("train/q_mean<5", "names train/q_mean, which no run of PPO logs"),
    ],
)
def test_a_metric_that_no_run_logs_is_refused_before_any_runs(tuner: CommandLine, typed: str, why: str) -> None:
    assert why in tuner.refused("tune", "agent=ppo", "tracker=jsonl", f"study.constraints=[{typed}]")


@pytest.mark.parametrize("typed", ["train/explained_variance>0.1", "train/learning_rate<0.1", "train/entropy>0.1"])
def test_a_metric_that_runs_log_is_not_refused(tuner: CommandLine, typed: str) -> None:
    answer = tuner("tune", "agent=ppo", "tracker=jsonl", f"study.constraints=[{typed}]", "plan=true")
    assert (answer.status, answer.errors) == (0, "")


@pytest.mark.parametrize(
    ("arguments", "why"),
    [
        (["study.constraints=['seconds=600']"], "'seconds=600' is no constraint"),
        (["study.constraints=[secnds<600]"], "did you mean seconds?"),
        (["study.constraints=[seconds<0]"], "cannot hold"),
        (["study.constraints=[seconds<9]", "study=pbt"], "has no meaning with a search by"),
        (["study.constraints=[seconds<9]", "study.decision=model"], "type study.decision=confirmed, and"),
    ],
)
def test_what_makes_no_sense_is_refused(tuner: CommandLine, arguments: list[str], why: str) -> None:
    assert why in tuner.refused("tune", *INLINE, *arguments)
