"""Studies whose winner is chosen by all runs, or by a model of them: what is run, chosen, said and refused."""

import re
from collections import Counter, defaultdict
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from tests.tuner.command_line import CommandLine
from tests.tuner.features.environments.test_several import STUDY as SEVERAL
from tests.tuner.features.environments.test_several import act
from tests.tuner.reporting.summaries import full_study, run
from tests.tuner.studies import (
    CONFIG,
    QUICK_PRUNING,
    ControllerDied,
    FakeExecutor,
    Script,
    asha,
    definition,
    die_after_writes,
    ending,
    learn,
    run_study,
)
from tuner.commands.preflight import preflight
from tuner.commands.tune import define
from tuner.errors import UserError
from tuner.features import parts
from tuner.features.decision.decision_rules import DECISIONS
from tuner.features.decision.facts import BELIEVED, DECISION, Believed
from tuner.features.decision.study import AllRunsSelection
from tuner.reporting.features import InReporting
from tuner.results.protocol import StagePlan, stage_seeds
from tuner.results.records import RunRecord, StudySummary
from tuner.results.summary_json import summary_from_json, summary_to_json
from tuner.results.verdict import verdict
from tuner.trial.messages import Outcome, TrialResult, TrialSpec

BY_MODEL: dict[str, Any] = {
    "decision": DECISIONS["model"],
    "num_trials": 8,
    "num_race": 3,
    "num_race_seeds": 1,
    "num_candidates": 2,
    "num_select_seeds": 2,
}
NUM_AGAIN = 3 * 1 + 2 * 2
"""Runs that race and confirmation would have."""


def study(folder: Path, executor: FakeExecutor | None = None, **changes: Any) -> StudySummary:
    found = run_study(folder, executor, **{**BY_MODEL, **changes})
    assert isinstance(found, StudySummary)
    return found


@pytest.fixture(scope="module")
def whole(tmp_path_factory: pytest.TempPathFactory) -> StudySummary:
    """A study in one go."""
    return study(tmp_path_factory.mktemp("whole"))


def ran_again(summary: StudySummary) -> list[tuple[str, int, float | None]]:
    return [(one.label, one.seed, one.value) for one in summary.stage("confirm")]


# What is run


@pytest.mark.parametrize("parallel", [1, 3])
def test_as_many_runs_as_race_and_confirmation_would_have_on_the_seeds_of_confirmation(
    tmp_path: Path, parallel: int
) -> None:
    summary = study(tmp_path, FakeExecutor(parallel))
    assert not summary.stage("race")
    again = summary.stage("confirm")
    assert len(again) == NUM_AGAIN
    seeds: dict[str, list[int]] = defaultdict(list)
    for one in again:
        seeds[one.label].append(one.seed)
    for own in seeds.values():
        assert own == list(stage_seeds(0, "confirm", len(own)))
    assert len(seeds) > 1
    assert {one.label for one in summary.stage("test")} == {summary.winner_label, "default"}
    words = {"runs after screening, shared out by a model": NUM_AGAIN}
    assert summary.budget == {"screening trials": 8, **words, "test seeds": 2, "environment steps per run": 900}


@pytest.mark.parametrize(
    ("bound", "num_screened", "num_again"),
    [
        ({"max_env_steps": 41 * 900}, 25, 12),  # and 2 + 2 of the test: 26 screened would bring 13 further runs
        ({"max_env_steps": 25 * 900}, 14, 7),
        ({"max_env_steps": 20 * 900}, 9, 7),  # no fewer than without a budget
        ({"budget": 41.0}, 25, 12),
        ({"num_trials": 25}, 25, 7),  # without a budget as many as are asked for
    ],
)
def test_a_budget_gives_one_run_behind_screening_for_two_of_it(
    tmp_path: Path, bound: dict[str, Any], num_screened: int, num_again: int
) -> None:
    summary = study(tmp_path, **{"num_trials": 100, **bound})
    assert (len(summary.stage("screen")), len(summary.stage("confirm"))) == (num_screened, num_again)
    assert summary.budget["runs after screening, shared out by a model"] == num_again
    more = study(tmp_path, **{"num_trials": 100, **bound})  # nothing is left to do
    assert len(more.runs) == len(summary.runs)


def quicker_behind_screening(spec: TrialSpec, attempt: int) -> Script:
    """A run of screening takes three seconds, any other one second."""
    return lasting(3.0 if spec.key.startswith("screen/") else 1.0, spec, attempt)


def slower_behind_screening(spec: TrialSpec, attempt: int) -> Script:
    """A run of screening takes one second, any other three."""
    return lasting(1.0 if spec.key.startswith("screen/") else 3.0, spec, attempt)


def lasting(seconds: float, spec: TrialSpec, attempt: int) -> Script:
    return replace(learn(spec, attempt), result=TrialResult(Outcome.COMPLETE, seconds=seconds))


def test_what_screening_leaves_of_a_budget_of_time_goes_into_the_decision(tmp_path: Path) -> None:
    """Ten trials: 30 s, and with 7 + 4 runs behind of 3 s each 63. These take 1 s: 29 + 4 fit in the other 33 s."""
    summary = study(tmp_path, FakeExecutor(behave=quicker_behind_screening), num_trials=100, budget=63.0)
    assert [len(summary.stage(name)) for name in ("screen", "confirm", "test")] == [10, 29, 4]
    assert sum(one.seconds for one in summary.runs) == 63.0
    assert summary.budget["runs after screening, shared out by a model"] == 29
    again = study(tmp_path, FakeExecutor(behave=quicker_behind_screening), num_trials=100, budget=63.0)
    assert len(again.runs) == len(summary.runs)


@pytest.mark.parametrize(
    ("bound", "num_screened", "num_again"),
    [
        ({"budget": 100.0}, 64, 8),  # 64 s, for 32 and 4 runs of 1 s each 36: of 3 s only 8 and 4 fit
        ({"budget": 41.0}, 25, 7),  # no fewer than without a budget
        ({"budget": 100.0, "max_env_steps": 71 * 900}, 45, 14),  # 45 s; in the other 55, 14 and 4 of 3 s, not 22
    ],
)
def test_runs_that_take_longer_than_those_of_screening_are_fewer(
    tmp_path: Path, bound: dict[str, Any], num_screened: int, num_again: int
) -> None:
    for _ in range(2):  # the second time there is nothing left to do
        summary = study(tmp_path, FakeExecutor(behave=slower_behind_screening), **{"num_trials": 100, **bound})
        assert [len(summary.stage(name)) for name in ("screen", "confirm", "test")] == [num_screened, num_again, 4]
        assert summary.budget["runs after screening, shared out by a model"] == num_again


@pytest.mark.parametrize(
    ("bound", "num_screened", "num_again"),
    [
        ({"num_trials": 100, "budget": 150.0}, 31, 50),  # at most
        ({"num_trials": 10, "budget": 150.0}, 10, 7),  # the budget has not ended screening
        ({"num_trials": 100, "max_env_steps": 41 * 900}, 25, 12),  # known beforehand
        ({"num_trials": 100, "max_env_steps": 41 * 900, "budget": 1000.0}, 25, 12),
    ],
)
def test_further_runs_of_the_decision_are_few(
    tmp_path: Path, bound: dict[str, Any], num_screened: int, num_again: int
) -> None:
    summary = study(tmp_path, FakeExecutor(behave=quicker_behind_screening), **bound)
    assert (len(summary.stage("screen")), len(summary.stage("confirm"))) == (num_screened, num_again)


@pytest.mark.parametrize("die_after", [250, 330, 380])
def test_a_decision_that_was_killed_goes_on_as_long_as_time_is_left(tmp_path: Path, die_after: int) -> None:
    sizes: dict[str, Any] = {"num_trials": 100, "budget": 63.0}
    with pytest.raises(ControllerDied):
        study(tmp_path, FakeExecutor(behave=quicker_behind_screening, die_after=die_after), **sizes)
    summary = study(tmp_path, FakeExecutor(behave=quicker_behind_screening), **sizes)
    assert [len(summary.stage(name)) for name in ("screen", "confirm", "test")] == [10, 29, 4]


def test_a_study_that_has_ended_stays_so_under_another_budget(tmp_path: Path) -> None:
    """The configurations to choose from are the same, so nothing is decided anew."""
    before = study(tmp_path, num_trials=25)
    assert len(before.stage("confirm")) == NUM_AGAIN
    now = study(tmp_path, num_trials=25, max_env_steps=100 * 900)
    assert (len(now.runs), now.winner_label) == (len(before.runs), before.winner_label)


def test_a_larger_budget_has_its_runs_in_all_not_on_top(tmp_path: Path) -> None:
    assert len(study(tmp_path, num_trials=100, max_env_steps=41 * 900).stage("confirm")) == 12
    more = study(tmp_path, num_trials=100, max_env_steps=71 * 900)
    assert (len(more.stage("screen")), len(more.stage("confirm"))) == (45, 22)
    assert more.budget["runs after screening, shared out by a model"] == 22


def test_a_pruned_run_counts_by_its_share(tmp_path: Path) -> None:
    pruning = {"pruner": asha(), "pruning": QUICK_PRUNING}
    summary = study(tmp_path, num_trials=100, max_env_steps=41 * 900, **pruning)
    screened = summary.stage("screen")
    assert any(one.outcome is Outcome.PRUNED for one in screened)
    num_whole = sum(one.curve[-1][0] if one.outcome is Outcome.PRUNED else 1.0 for one in screened)
    assert 24.0 < num_whole < len(screened)
    assert len(summary.stage("confirm")) == num_whole // 2


def test_configurations_that_cannot_be_distinguished_have_most_runs(tmp_path: Path) -> None:
    """All but two configurations come to nothing: these two have all runs, or all but a few."""
    good: list[float] = []

    def behave(spec: TrialSpec, attempt: int) -> Script:
        rate = spec.config["optimizer"]["learning_rate"]
        if spec.key in ("screen/2", "screen/5"):
            good.append(rate)
        luck = spec.seed % 7 / 10.0
        return Script([(point / 9, (50.0 if rate in good else 0.0) + luck) for point in range(1, 10)])

    summary = study(tmp_path, FakeExecutor(behave=behave))
    counts = Counter(one.label for one in summary.stage("confirm"))
    assert counts["trial 2"] + counts["trial 5"] >= NUM_AGAIN - 1
    assert min(counts["trial 2"], counts["trial 5"]) >= 2


@pytest.mark.parametrize("best", [0, 1])
def test_the_best_of_two_wins_though_a_single_run_follows(tmp_path: Path, best: int) -> None:
    good: list[float] = []

    def behave(spec: TrialSpec, attempt: int) -> Script:
        rate = spec.config["optimizer"]["learning_rate"]
        if spec.key == f"screen/{best}":
            good.append(rate)
        return Script([(point / 9, 5.0 if rate in good else 3.0) for point in range(1, 10)])

    few = {"num_trials": 2, "num_race_seeds": 0, "num_candidates": 1, "num_select_seeds": 1}
    summary = study(tmp_path, FakeExecutor(behave=behave), **few)
    assert [one.label for one in summary.stage("confirm")] == [summary.winner_label] == [f"trial {best}"]


def test_pruned_and_failed_trials_are_no_candidates(tmp_path: Path) -> None:
    executor = FakeExecutor(behave=ending(3, TrialResult(Outcome.DIVERGED, "nan", seconds=1.0)))
    summary = study(tmp_path, executor, pruner=asha(), pruning=QUICK_PRUNING, num_trials=16)
    outcomes = {one.label: one.outcome for one in summary.stage("screen")}
    assert Outcome.PRUNED in outcomes.values()
    assert outcomes["trial 3"] is Outcome.DIVERGED
    assert {outcomes[one.label] for one in summary.stage("confirm")} == {Outcome.COMPLETE}


def test_who_crashes_on_fresh_seeds_does_not_win(tmp_path: Path) -> None:
    best = max(run_study(tmp_path / "before").stage("screen"), key=lambda one: one.value)

    def behave(spec: TrialSpec, attempt: int) -> Script:
        same = spec.config["optimizer"]["learning_rate"] == best.params["optimizer.learning_rate"]
        if spec.key.startswith("confirm") and same:
            return Script([], TrialResult(Outcome.CRASHED, "it crashed"))
        return learn(spec, attempt)

    summary = study(tmp_path, FakeExecutor(behave=behave), num_trials=6, max_failures=50)
    crashed = [one for one in summary.stage("confirm") if one.outcome is Outcome.CRASHED]
    assert {one.label for one in crashed} == {best.label}
    assert summary.winner_label not in (None, best.label)


def test_several_environments_are_decided_by_their_common_score(tmp_path: Path) -> None:
    summary = run_study(tmp_path, FakeExecutor(behave=act), **{**SEVERAL, **BY_MODEL})
    again = summary.stage("confirm")
    assert len(again) == NUM_AGAIN
    assert all([part.environment for part in one.parts] == ["low", "high"] for one in again)
    assert summary.params_of(summary.winner_label)["agent.x"] == 0.5
    assert BELIEVED.of(summary)[0].label == summary.winner_label


# What goes on after a kill


def test_a_study_that_dies_again_and_again_decides_as_in_one_go(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, whole: StudySummary
) -> None:
    writes = die_after_writes(monkeypatch)
    for session in range(200):
        writes.left = 31 + session % 7
        try:
            summary = study(tmp_path / "parts", FakeExecutor())
            break
        except ControllerDied:
            continue
    assert session > 3
    assert ran_again(summary) == ran_again(whole)
    assert summary.winner_label == whole.winner_label
    assert BELIEVED.of(summary) == BELIEVED.of(whole)


def test_more_trials_are_decided_anew(tmp_path: Path) -> None:
    """Those that are new have as many runs to share as the first ones had, and the best of all is one of them."""
    first = study(tmp_path, num_test_seeds=1)

    def behave(spec: TrialSpec, attempt: int) -> Script:
        rate = spec.config["optimizer"]["learning_rate"]
        if spec.key == "screen/10":
            good.append(rate)
        return Script([(point / 9, 1e4 if rate in good else 0.0) for point in range(1, 10)])

    good: list[float] = []
    for _ in range(2):  # the second time there is nothing left to do
        more = study(tmp_path, FakeExecutor(behave=behave), num_trials=12, num_select_seeds=3, num_test_seeds=1)
        again = ran_again(more)
        assert again[:NUM_AGAIN] == ran_again(first)
        assert len(again) == NUM_AGAIN + NUM_AGAIN + 2
        assert BELIEVED.of(more)[0].label == more.winner_label == "trial 10"


def test_a_study_begun_with_another_decision_is_refused(tmp_path: Path) -> None:
    """One that was begun before there were others has kept none, and goes on as confirmed."""
    small: dict[str, Any] = {"num_trials": 2, "num_candidates": 1, "num_select_seeds": 1, "num_test_seeds": 1}
    begun = run_study(tmp_path, **small)
    assert not DECISION.of(begun)
    assert run_study(tmp_path, **small, decision=DECISIONS["confirmed"]).winner_label == begun.winner_label
    with pytest.raises(UserError, match="other settings: decision was confirmed and is all_runs"):
        run_study(tmp_path, **small, decision=DECISIONS["all_runs"])


# What is chosen and said


def test_the_winner_has_the_highest_posterior_mean_and_that_is_its_tuning_score(whole: StudySummary) -> None:
    summary = whole
    winner, *others = BELIEVED.of(summary)
    assert winner.label == summary.winner_label
    assert all(one.mean <= winner.mean for one in others)
    assert winner.low < winner.mean < winner.high
    counts = Counter(one.label for one in summary.stage("confirm"))
    assert {one.label: one.num_runs for one in (winner, *others)} == {label: 1 + n for label, n in counts.items()}
    found = verdict(summary)
    assert found.tuning is not None
    assert (found.tuning.iqm, found.tuning.low, found.tuning.high) == (winner.mean, winner.low, winner.high)
    assert summary_from_json(summary_to_json(summary)) == summary


def believed(**labels: tuple[float, float, float, int]) -> tuple[Believed, ...]:
    return tuple(Believed(label.replace("_", " "), *numbers) for label, numbers in labels.items())


def test_the_posterior_is_said_plainly() -> None:
    known = believed(trial_8=(80.0, 70.0, 90.0, 5), trial_7=(75.0, 65.0, 85.0, 3), trial_6=(50.0, 45.0, 55.0, 2))
    details = verdict(full_study(facts={"posterior": known})).details
    assert (
        "Score of the winner in the search: 80 [70, 90] (a model's estimate, with its 95 % interval). The model uses "
        "the 5 runs of the winner before the test and those of similar configurations. It takes into account that the "
        "best of many scores is usually too high."
    ) in details
    assert "By this model trial 7 may be as good: its interval reaches the score of the winner." in details
    assert "Selection optimism -2.0: score in the search (estimated) minus score in the test." in details


def test_the_page_has_a_row_for_each_that_ran_again() -> None:
    known = believed(trial_8=(80.0, 70.0, 90.0, 5), trial_7=(75.0, 65.0, 85.0, 3))
    summary = full_study(facts={"posterior": known})
    (shown,) = (str(one) for part in parts(InReporting) for one in part.result_sections(summary, verdict(summary)))
    rows = re.findall(r"<tr.*?</tr>", shown, re.DOTALL)[1:]
    cells = [re.findall(r"<td[^>]*>(.*?)</td>", row) for row in rows]
    assert cells == [["trial 8", "5", "80", "[70, 90]"], ["trial 7", "3", "75", "[65, 85]"]]
    assert ["winner" in row for row in rows] == [True, False]
    nothing = full_study()
    assert not [one for part in parts(InReporting) for one in part.result_sections(nothing, verdict(nothing))]


def by_label(**scores: list[float | None]) -> dict[str, list[float | None]]:
    return {f"trial {name[1:]}": values for name, values in scores.items()}


def records(stage: str, scores: dict[str, list[float | None]]) -> list[RunRecord]:
    first = 10 * ["screen", "race", "confirm"].index(stage)  # stages have seeds of their own
    return [
        run(label, stage, score, seed=seed, outcome=Outcome.CRASHED if score is None else Outcome.COMPLETE)
        for label, own in scores.items()
        for seed, score in enumerate(own, first)
    ]


def test_all_runs_decide_by_their_mean() -> None:
    """Means 6 and 5.5 on the fresh seeds alone, 4 and 5 over all: the second one."""
    screened = records("screen", by_label(t0=[3.0], t1=[5.0]))
    raced = records("race", by_label(t0=[1.0], t1=[4.0]))
    confirmed = records("confirm", by_label(t0=[6.0, 6.0], t1=[5.0, 6.0]))
    selection = AllRunsSelection()
    assert [one.label for one in selection.chosen(confirmed, screened, raced)] == ["trial 1"]
    assert [one.label for one in selection.chosen(confirmed, screened, [])] == ["trial 1"]  # 5 and 5.33
    alone = records("confirm", by_label(t0=[6.0, 6.0], t1=[None, None]))
    assert [one.label for one in selection.chosen(alone, screened, raced)] == ["trial 0"]
    assert selection.chosen(records("confirm", by_label(t0=[None], t1=[None])), screened, raced) == ()


def test_all_runs_are_the_tuning_score(tmp_path: Path) -> None:
    summary = study(tmp_path, decision=DECISIONS["all_runs"])
    own = [one.score for one in summary.runs if one.label == summary.winner_label and one.stage != "test"]
    assert len(own) == 1 + 1 + 2
    found = verdict(summary)
    assert found.tuning is not None
    assert sorted(found.tuning.points) == sorted(score for score in own if score is not None)


# What is planned and refused


def test_the_plan_has_one_stage_behind_screening() -> None:
    def plan(decision: str) -> tuple[StagePlan, ...]:
        config = {**CONFIG, "training": {"total_steps": 100}}
        settings = {**BY_MODEL, "num_test_seeds": 5, "decision": DECISIONS[decision]}
        return definition(Path(), config=config, **settings).plan()

    stages = plan("model")
    assert [(plan.stage, plan.num_runs, plan.env_steps) for plan in stages] == [
        ("screen", 8, 800),
        ("confirm", NUM_AGAIN, 100 * NUM_AGAIN),
        ("test", 10, 1000),
    ]
    assert plan("all_runs") == plan("confirmed")
    assert StagePlan("confirm", 2, (1, 2, 3), 600).num_runs == 6


@pytest.mark.parametrize("name", ["all_runs", "model"])
def test_several_objectives_are_refused(tmp_path: Path, name: str) -> None:
    with pytest.raises(UserError, match=f"study.decision={name} goes by one score, and study.metric names several"):
        definition(tmp_path, decision=DECISIONS[name], metric=("mixed", "seconds"))


def test_a_model_of_means_says_nothing_of_the_worst_seed(tmp_path: Path) -> None:
    with pytest.raises(UserError, match=r"leave out study\.over_seeds=worst, or take study\.decision=confirmed"):
        definition(tmp_path, decision=DECISIONS["model"], over_seeds="worst")
    definition(tmp_path, decision=DECISIONS["all_runs"], over_seeds="worst")


@pytest.mark.parametrize(
    ("typed", "decides"),
    [
        ([], "model"),
        (["study=full"], "model"),
        (["study.decision=confirmed"], None),
        (["study.decision=all_runs"], "all_runs"),
        (["study.metric=[mixed,seconds]", "study.baselines=[]"], None),
        (["study.constraints=['seconds<600']"], None),
        (["study.over_seeds=worst"], None),
        (["study=pbt"], None),
    ],
)
def test_the_model_decides_wherever_it_can(typed: list[str], decides: str | None) -> None:
    decision = define(preflight("tune", typed)).decision
    assert (decision and decision.name) == decides


@pytest.mark.parametrize(
    ("typed", "why"),
    [
        (["study.decision=modle"], "must be auto, confirmed, all_runs or model"),
        (["study.decision=modle"], "; did you mean model?"),
        (["study=pbt", "study.decision=model"], "study.decision=model chooses among screened trials, and population"),
    ],
)
def test_what_is_typed_wrongly_is_refused_before_anything_runs(tuner: CommandLine, typed: list[str], why: str) -> None:
    answer = tuner("tune", "agent=synthetic", "executor=inline", *typed)
    assert answer.status != 0
    assert why in answer.errors
    assert not (tuner.folder / "studies").exists()


def test_the_plan_says_how_many_runs_are_shared_out(tuner: CommandLine) -> None:
    answer = tuner("tune", "agent=synthetic", "executor=inline", "study.decision=model", "plan=true")
    assert answer.status == 0, answer.errors
    said = " ".join(answer.output.split())
    assert "runs on fresh seeds, each of a configuration that a model selects to make the choice more certain" in said
    assert "confirm 10 runs" in said
    assert "race" not in said.partition("confirm")[0].partition("screen")[2]
