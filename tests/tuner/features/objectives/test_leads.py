"""Which runs end early with several objectives: margins worked out by hand, and whole studies."""

import math
from collections.abc import Iterable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from tests.tuner.studies import ControllerDied, FakeExecutor, Script, asha, definition, run_study
from tests.tuner.study_records import Notes, scores, stored
from tuner.executors.base import Seats
from tuner.features.objectives.facts import FRONT, MARGINS
from tuner.features.objectives.leads import (
    Margins,
    Objectives,
    RungMargins,
    describe_margins,
    lost_lead,
    measure_margins,
    measured,
    rung_points,
)
from tuner.results.metric import Final, SecondsTo
from tuner.results.protocol import Pruning
from tuner.results.records import Objective, StudySummary
from tuner.study.plan import describe_plan
from tuner.trial.messages import Outcome, TrialResult, TrialSpec

SECONDS = Objective("seconds", "seconds of a run")
BEST = Objective("best", "best evaluation", maximised=True)
CURVE = ((0.25, 1.0), (0.5, 3.0), (0.75, 2.0), (1.0, 4.0))
TIMES = ((0.25, 2.0), (0.5, 4.0), (0.75, 6.0), (1.0, 8.0))


# Values and margins, by hand


def test_what_a_run_has_come_to_at_a_rung() -> None:
    objectives = Objectives(Final(), (SECONDS, BEST))
    assert objectives.early(CURVE, TIMES, 0.75) == (-2.0, math.log(6.0), -3.0)
    assert objectives.early(CURVE, TIMES[:2], 0.75) is None  # its time is not known
    assert objectives.early(CURVE, TIMES, 0.1) is None  # nothing was reported by then
    to_3 = Objectives(SecondsTo(3.0), (SECONDS,), limit=8.0)
    assert to_3.early(CURVE, TIMES, 0.5) == (4.0, math.log(4.0))
    assert (to_3.early(CURVE, TIMES, 0.25) or (0.0,))[0] > 80.0  # not reached: ten times the limit, and more


@pytest.mark.parametrize(
    ("early", "final", "lead"),
    [
        ((0, 1, 2, 3), (0, 1, 2, 3), 0.0),
        ((0, 1, 2, 3), (0, 2, 1, 3), 1.0),  # of 6 pairs one has lost a lead of 1: more than 5 %
        ((0, 1, 2, 3), (3, 2, 1, 0), 3.0),
        ((0, 1, 2, 3, 4, 5, 6, 7), (0, 1, 3, 2, 4, 5, 6, 7), 0.0),  # one of 28 pairs is less
        ((0, 1, 2, 3, 4, 5, 6, 7), (0, 1, 3, 2, 4, 5, 7, 6), 1.0),  # two are more
        ((0, 1, 2, 9), (0, 0, 0, 0), 0.0),  # a tie in the end has lost nothing
    ],
)
def test_the_margin_is_a_lead_that_hardly_any_pair_has_lost(
    early: tuple[float, ...], final: tuple[float, ...], lead: float
) -> None:
    assert lost_lead(early, final) == lead


def test_margins_are_measured_where_all_values_are_known_and_ranks_agree() -> None:
    early = [(1.0, 5.0), (2.0, 4.0), (4.0, 3.0)]
    final = [(2.0, 5.0), (1.0, 4.0), (4.0, 3.0)]
    few = Pruning(min_rank_agreement=0.4, min_rank_bound=-1.0)  # of the first values the ranks agree by 0.5
    assert measure_margins(few, early, final) == (1.0, 0.0)
    assert measure_margins(replace(few, min_rank_agreement=0.6), early, final) == ()
    assert measure_margins(few, [*early[:2], None], final) == ()
    assert measure_margins(replace(few, min_rank_agreement=-1.0), [(1.0, five) for _, five in early], final) == ()


def test_a_run_is_hopeless_if_three_are_ahead_in_all_objectives_by_more_than_the_margin() -> None:
    rung = RungMargins(1, 0.25, (1.0, 0.5))
    ahead, in_one, at_the_margin = (3.0, 4.0), (3.0, 6.0), (4.0, 4.0)
    own = (5.0, 5.0)
    assert rung.is_hopeless(own, [ahead, in_one, ahead, ahead])
    assert not rung.is_hopeless(own, [ahead, in_one, ahead])
    assert not rung.is_hopeless(own, [ahead, ahead, at_the_margin])
    assert not RungMargins(1, 0.25).is_hopeless(own, [ahead, ahead, ahead])


@pytest.mark.parametrize(
    ("rungs", "num_points", "points"),
    [
        ((0.11, 0.33), 9, (1, 2, 3, 4, 5, 6, 7, 8)),
        ((1 / 3,), 9, (3, 4, 5, 6, 7, 8)),
        ((0.5,), 20, (10, 11, 13, 16, 18)),  # 5/9 is 11.1 of 20
        ((0.11, 0.33), 4, (1, 2, 3)),
        ((0.11, 0.33), 1, ()),
        ((), 9, ()),
    ],
)
def test_runs_are_compared_at_all_ninths_behind_the_first_rung(
    rungs: tuple[float, ...], num_points: int, points: tuple[int, ...]
) -> None:
    assert rung_points(Pruning(rungs=rungs), num_points) == points


def test_rungs_that_are_not_used_are_measured_again_after_four_more_runs() -> None:
    """At the first rung scores are in the wrong order; at the second one those of the first three runs are."""
    pruning = Pruning(rungs=(0.25,), min_trials=3, min_rank_agreement=0.4, min_rank_bound=-1.0)
    final = [(float(score), float(score)) for score in (1, 2, 3, 4, 5, 6, 7)]
    early: dict[int, list[tuple[float, float] | None]] = {
        1: [(-one, -other) for one, other in final],
        2: [(3.0, 3.0), (2.0, 2.0), (1.0, 1.0), *final[3:]],
    }

    def after(number: int, known: Margins | None) -> Margins | None:
        return measured(pruning, 4, known, {point: there[:number] for point, there in early.items()}, final[:number])

    assert after(2, None) is None
    first = after(3, None)
    assert first == Margins(3, (RungMargins(1, 0.25), RungMargins(2, 0.5)))
    assert after(6, first) is None
    again = after(7, first)
    # three of 21 pairs have lost a lead of 1 or 2: one that is exceeded in no more than 5 % of the pairs is 1
    assert again == Margins(7, (RungMargins(1, 0.25), RungMargins(2, 0.5, (1.0, 1.0))))
    early[2] = [(-one, -other) for one, other in final]
    assert after(7, Margins(3, again.used)) == Margins(7, (RungMargins(1, 0.25), *again.used)), "a used one stays"
    assert measured(pruning, 4, Margins(3, again.used), {2: early[2]}, final) is None, "all are used"


def test_margins_are_described() -> None:
    rungs = (RungMargins(1, 1 / 9), RungMargins(3, 1 / 3, (2.5, math.log(1.2))), RungMargins(4, 4 / 9, (1.0, 0.0)))
    told = describe_margins(Objectives(Final(), (SECONDS,)), Margins(8, rungs))
    assert told == (
        "A run is pruned at one of these parts of the budget if 3 complete runs are ahead of it in every objective by "
        "more than the margin in brackets: 33% (final 2.5 and seconds 20%) and 44% (final 1 and seconds 0%). Of the "
        "pairs of complete runs by which a margin was measured, 5% have lost such a lead by the end."
    )
    assert describe_margins(Objectives(Final(), (SECONDS,)), Margins(8, rungs[:1])).startswith("No run can be pruned")


# Studies: (score at the end, seconds) of each trial

RUNS = ((10, 40), (8, 30), (6, 20), (4, 10), (5, 50), (9, 50), (3, 5), (7.5, 35), (5, 31), (4.5, 32))
PRUNED = {4, 9}
"""10 in 40, 8 in 30 and 6 in 20 are ahead of 5 in 50; the last two of 5 in 31, and with this one of 4.5 in 32."""
SEVERAL: dict[str, Any] = {"metric": ("final", "seconds"), "num_trials": 10, "num_candidates": 2}


def straight(spec: TrialSpec, attempt: int) -> Script:
    """A run that gets to its score, and takes its time, in equal steps; of later stages all are alike."""
    score, seconds = RUNS[spec.number] if spec.stage == "screen" else (5, 20)
    curve = [(point / 9, score * point / 9) for point in range(1, 10)]
    return Script(curve, TrialResult(Outcome.COMPLETE, seconds=float(seconds)), whole_s=float(seconds))


def pruned_study(folder: Path, executor: FakeExecutor | None = None, **changes: Any) -> StudySummary:
    changes = {"pruning": Pruning(rungs=(1 / 3,), min_trials=4), "pruner": asha(), **SEVERAL, **changes}
    return run_study(folder, executor or FakeExecutor(1, straight), **changes)


def outcomes(summary: StudySummary) -> dict[int, tuple[Outcome | None, int]]:
    return {one.number: (one.outcome, len(one.curve)) for one in summary.stage("screen")}


def test_runs_that_three_others_are_ahead_of_end_at_the_rung(tmp_path: Path) -> None:
    notes = Notes()
    summary = pruned_study(tmp_path, listener=notes)
    ended = {number: (Outcome.PRUNED, 3) if number in PRUNED else (Outcome.COMPLETE, 9) for number in range(10)}
    assert outcomes(summary) == ended
    kept = stored(tmp_path).user_attrs[MARGINS.key]
    rungs = [{"point": point, "fraction": point / 9, "margins": [0.0, 0.0]} for point in range(3, 9)]
    assert kept == {"num_trials": 4, "rungs": rungs}
    for told in (notes.texts, summary.notes):
        assert sum("in brackets: 33% (final 0 and seconds 0%), 44% (final 0" in text for text in told) == 1
    assert MARGINS.of(summary) == Margins(4, tuple(RungMargins(point, point / 9, (0.0, 0.0)) for point in range(3, 9)))
    assert FRONT.of(summary)
    assert [trial.values for trial in stored(tmp_path).trials if trial.number in PRUNED] == [None] * len(PRUNED)


def test_the_plan_says_when_a_rung_is_used(tmp_path: Path) -> None:
    several = definition(tmp_path, **{**SEVERAL, "pruning": Pruning(rungs=(1 / 3,), min_trials=4)})
    assert (
        "after 3/9, 4/9, 5/9, 6/9, 7/9 and 8/9 of a run, used for runs that 3 others are ahead of in all objectives by "
        "more than chance, as measured in the first 4 runs or later"
    ) in " ".join(describe_plan(several, Seats(1), None).split())


def test_a_study_measures_again_what_did_not_agree_at_first(tmp_path: Path) -> None:
    """The first four runs learn all at the end, the next four by and by; then a bad run is behind three of them."""
    runs = [(10, 40), (8, 30), (6, 20), (4, 10), (9, 36), (7, 26), (5, 16), (3, 8), (1, 60)]

    def late(spec: TrialSpec, attempt: int) -> Script:
        score, seconds = runs[spec.number] if spec.stage == "screen" else (5, 20)
        early = 0.1 if spec.number < 4 else float(score)
        curve = [(point / 9, early if point < 9 else float(score)) for point in range(1, 10)]
        return Script(curve, TrialResult(Outcome.COMPLETE, seconds=float(seconds)), whole_s=float(seconds))

    notes = Notes()
    pruning = Pruning(rungs=(8 / 9,), min_trials=4, min_rank_agreement=0.5, min_rank_bound=-1.0)
    summary = pruned_study(tmp_path, FakeExecutor(1, late), num_trials=9, pruning=pruning, listener=notes)
    assert outcomes(summary) == {**dict.fromkeys(range(8), (Outcome.COMPLETE, 9)), 8: (Outcome.PRUNED, 8)}
    told = [text for text in notes.texts if "can be pruned" in text or "is pruned" in text]
    assert [text.split(" run ")[0] for text in told] == ["No", "A"]
    assert stored(tmp_path).user_attrs[MARGINS.key]["num_trials"] == 8


def test_nothing_is_pruned_without_a_pruner(tmp_path: Path) -> None:
    summary = pruned_study(tmp_path, pruner=None)
    assert {outcome for outcome, _ in outcomes(summary).values()} == {Outcome.COMPLETE}
    assert any("pruning is off" in note for note in summary.notes)


def test_infeasible_runs_end_no_other_one(tmp_path: Path) -> None:
    """Of those with less than 6 none is ahead of 5 in 50, and one of 4.5 in 32."""
    summary = pruned_study(
        tmp_path, constraints=("eval/mean_return<6",), pruning=Pruning((1 / 3,), 3, 0.6, -1.0), num_candidates=1
    )
    feasible = {one.number for one in summary.stage("screen") if one.feasible}
    assert feasible == {3, 4, 6, 8, 9}
    assert {outcome for outcome, _ in outcomes(summary).values()} == {Outcome.COMPLETE}


@pytest.mark.parametrize(
    ("parallel", "moments"),
    [(1, (39, 66)), (2, (55,)), pytest.param(1, range(30, 110, 9), marks=pytest.mark.slow)],
)
def test_a_study_that_is_killed_decides_alike(tmp_path: Path, parallel: int, moments: Iterable[int]) -> None:
    whole = pruned_study(tmp_path / "whole", FakeExecutor(parallel, straight))
    assert {number for number, (outcome, _) in outcomes(whole).items() if outcome is Outcome.PRUNED} <= PRUNED
    for events in moments:
        folder = tmp_path / f"killed-{events}"
        with pytest.raises(ControllerDied):
            pruned_study(folder, FakeExecutor(parallel, straight, die_after=events))
        executor = FakeExecutor(parallel, straight)
        executor.tells_again = True  # as agents do, since nobody may have answered
        summary = pruned_study(folder, executor)
        assert outcomes(summary) == outcomes(whole)
        assert scores(summary) == scores(whole)


def test_margins_that_are_kept_are_used_again(tmp_path: Path) -> None:
    pruned_study(tmp_path, num_trials=4)
    wide = [{"point": point, "fraction": point / 9, "margins": [100.0, 100.0]} for point in range(3, 9)]
    stored(tmp_path).set_user_attr(MARGINS.key, {"num_trials": 4, "rungs": wide})
    assert {outcome for outcome, _ in outcomes(pruned_study(tmp_path)).values()} == {Outcome.COMPLETE}


def test_runs_that_do_not_say_how_long_they_took_are_not_pruned(tmp_path: Path) -> None:
    def silent(spec: TrialSpec, attempt: int) -> Script:
        return replace(straight(spec, attempt), whole_s=None)

    summary = pruned_study(tmp_path, FakeExecutor(1, silent))
    assert {outcome for outcome, _ in outcomes(summary).values()} == {Outcome.COMPLETE}
