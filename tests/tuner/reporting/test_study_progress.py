"""How far a study is: its stage, its failures, its best, and the time left."""

import random
from collections import Counter
from collections.abc import Iterable
from dataclasses import replace

import pytest

from tests.tuner.reporting.summaries import full_study, run
from tuner.reporting.study_progress import RunningRun, Schedule, StudyTally
from tuner.reporting.terminal import progress_line
from tuner.results.features import all_stages
from tuner.results.findings import Estimate, estimate
from tuner.results.records import RunRecord
from tuner.trial.messages import Outcome

TOTALS = {"screen": 12, "confirm": 4, "test": 10}


def tally_of(runs: Iterable[RunRecord]) -> StudyTally:
    tally = StudyTally()
    for record in runs:
        tally.add(record)
    return tally


def test_progress_counts_the_stage_and_all_failures() -> None:
    runs = [record for record in full_study().runs if record.stage == "screen"][:11]
    progress = tally_of(runs).progress("poles", Schedule("screen", TOTALS, 2), [RunningRun("trial 11", 1, 0.5)], 60.0)
    assert (progress.stage, progress.num_ended, progress.num_total) == ("screen", 11, 12)
    assert (progress.num_complete, progress.num_pruned) == (9, 1)
    assert progress.failures == {Outcome.CRASHED: 1}
    assert progress.failures_text == "1 (1 crashed)"
    assert progress.best_text == "80 (trial 8, screen, 1 seed)"
    assert "left" not in progress_line(replace(progress, seconds_left=0.3)), "nothing to wait for"
    assert progress_line(replace(progress, seconds_left=200.0)) == (
        "screen 11/12: 9 complete, 1 running, 1 pruned, failed 1 (1 crashed); best 80 (trial 8, screen, 1 seed); "
        "about 3 min 20 s left"
    )


def test_the_current_stage_is_given_and_not_guessed() -> None:
    runs = full_study().runs[:14]  # 2 of confirm
    schedule = Schedule("confirm", {**TOTALS, "race": 4})  # the race left nothing behind
    now = tally_of(runs).progress("poles", schedule, [], 0.0)
    assert (now.stage, now.num_ended, now.num_total) == ("confirm", 2, 4)


def test_best_is_over_seeds_in_the_newest_stage() -> None:
    runs = full_study().runs
    confirmed, label = tally_of(runs[:16]).best()
    assert (confirmed, label) == (Estimate(70.0, None, None, 2, (70.0, 70.0)), "trial 8, confirm")
    tested, label = tally_of(runs).best()
    assert label == "trial 8, test"
    assert tested is not None
    assert tested.low is not None
    assert StudyTally().best() == (None, "")


def worked_out(runs: list[RunRecord], stage: str) -> tuple[object, ...]:
    """The numbers of a tally, computed from scratch."""
    own = [one for one in runs if one.stage == stage]
    best: tuple[Estimate | None, str] = (None, "")
    for newest in all_stages():
        groups: dict[str, list[float]] = {}
        for one in runs:
            if one.stage == newest and one.complete and one.score is not None:
                groups.setdefault(one.label, []).append(one.score)
        if groups:
            label = max(groups, key=lambda name: estimate(groups[name]).iqm)
            best = estimate(groups[label]), f"{label}, {newest}"
    pruned = sum(one.outcome is Outcome.PRUNED for one in own)
    return len(own), sum(one.complete for one in own), pruned, Counter(o.outcome for o in runs if o.failed), best


def test_a_tally_says_after_each_run_what_all_of_them_say() -> None:
    rng, tally, ended = random.Random(0), StudyTally(), list[RunRecord]()
    outcomes = [Outcome.COMPLETE] * 4 + [Outcome.PRUNED, Outcome.CRASHED, Outcome.DIVERGED]
    for number in range(120):
        stage = all_stages()[number // 30]
        label = f"trial {number if stage == 'screen' else rng.randrange(4)}"
        value, outcome = float(rng.randrange(20)), rng.choice(outcomes)
        one = replace(run(label, stage, value, outcome=outcome, seconds=rng.random()), number=number)
        ended.append(one)
        for _ in range(rng.choice([1, 2])):  # a study that goes on tells of a run again
            tally.add(one)
        tally.add(replace(one, number=number + 1000, outcome=None))  # one under way
        now = tally.progress("poles", Schedule(stage, dict.fromkeys(all_stages(), 30)), [], 0.0)
        counts = now.num_ended, now.num_complete, now.num_pruned, now.failures, (now.best, now.best_label)
        assert counts == worked_out(ended, stage)


def test_time_left_by_hand() -> None:
    screen = [run("trial 0", "screen", 1.0, seconds=10.0), run("trial 1", "screen", 2.0, seconds=20.0)]
    screen.append(run("trial 2", "screen", 0.1, seconds=3.0, outcome=Outcome.PRUNED))
    screen.append(run("trial 3", "screen", None, seconds=0.1, outcome=Outcome.CRASHED))  # says nothing about run time
    running = [RunningRun("trial 4", 1, 0.4), RunningRun("trial 5", 1, None)]
    # 3 screening runs of (10 + 20 + 3) / 3 = 11 s and 2 confirm runs of 15 s, less 0.4 * 15 s done; two at a time.
    schedule = Schedule("screen", {"screen": 7, "confirm": 2}, 2)
    assert tally_of(screen).seconds_left(schedule, running) == pytest.approx((33 + 30 - 6) / 2)
    assert tally_of(screen[:1]).seconds_left(schedule, running) is None
