import io
import random
from collections import Counter
from collections.abc import Iterable
from dataclasses import replace

import pytest
from rich.console import Console

from tests.tuner.reporting.summaries import full_study, run
from tuner.reporting.figures.parameter_effects import slice_figures
from tuner.reporting.figures.study_figures import parallel_figure
from tuner.reporting.final import FinalTable
from tuner.reporting.study_progress import RunningRun, Schedule, StudyProgress, StudyTally
from tuner.reporting.terminal import LiveTable, progress_line
from tuner.results.features import all_stages
from tuner.results.findings import Estimate, estimate
from tuner.results.insights.safe_ranges import safe_ranges
from tuner.results.records import RunRecord, StudySummary
from tuner.results.verdict import verdict
from tuner.trial.messages import Outcome

TOTALS = {"screen": 12, "confirm": 4, "test": 10}


def text_of(summary: StudySummary, width: int) -> str:
    console = Console(width=width, file=io.StringIO(), force_terminal=False)
    console.print(FinalTable(summary))
    assert isinstance(console.file, io.StringIO)
    text = console.file.getvalue()
    assert max((len(line) for line in text.splitlines()), default=0) <= width
    return text


def tally_of(runs: Iterable[RunRecord]) -> StudyTally:
    tally = StudyTally()
    for record in runs:
        tally.add(record)
    return tally


class Clock:
    """Seconds that pass only when told."""

    def __init__(self) -> None:
        self.now = 1000.0

    def __call__(self) -> float:
        return self.now


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


def test_the_current_stage_is_told_and_not_guessed() -> None:
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
    """What a tally has to say, from scratch."""
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


def progress(**changes: object) -> StudyProgress:
    fields: dict[str, object] = {"title": "poles: dqn", "stage": "screen", "num_ended": 1, "num_total": 4}
    return StudyProgress(**{**fields, **changes})  # type: ignore[arg-type]


def test_a_terminal_shows_everything_in_place() -> None:
    console = Console(width=80, file=io.StringIO(), force_terminal=True, color_system=None)
    clock = Clock()
    with LiveTable(console, clock=clock) as table:
        clock.now += 1.0
        table.update(progress(running=(RunningRun("[red]trial 3", 1, 0.5, 210.4, 12.0),)))
        assert isinstance(console.file, io.StringIO)
        shown = console.file.getvalue()
        table.update(progress(num_ended=2))  # at once: not drawn yet
        assert console.file.getvalue() == shown
        clock.now += 1.0
        table.update(progress(num_ended=3))
        assert "3/4" in console.file.getvalue()[len(shown) :]
        table.note("pruning is off [really]")
    for part in ("poles: dqn", "1/4", "[red]trial 3", "50%", "last 210.4", "12 s", "best  none yet"):
        assert part in shown
    assert "pruning is off [really]" in console.file.getvalue()


def test_a_pipe_gets_a_line_now_and_then() -> None:
    clock = Clock()
    console = Console(width=80, file=io.StringIO(), force_terminal=False)
    with LiveTable(console, line_interval_s=15.0, clock=clock) as table:
        table.update(progress())  # the first state of a stage: shown
        table.update(progress(num_ended=2))  # too soon
        clock.now += 16.0
        table.update(progress(num_ended=1, seconds=16.0))  # nothing new
        table.update(progress(num_ended=3))  # shown
        table.update(progress(stage="confirm", num_ended=0))  # a new stage: shown
        table.update(progress(stage="confirm", num_ended=2))  # the last state: shown at the end
    assert isinstance(console.file, io.StringIO)
    lines = [line.partition(":")[0] for line in console.file.getvalue().splitlines()]
    assert lines == ["screen 1/4", "screen 3/4", "confirm 0/4", "confirm 2/4"]


def test_FinalTable_shows_the_best_first_and_fits() -> None:
    wide = text_of(full_study(), 120)
    rows = [line.split() for line in wide.splitlines() if line.startswith(" trial ")]
    assert rows[0] == ["trial", "screen", "confirm", "learning_rate", "gamma"]
    assert rows[1] == ["trial", "8", "*", "80", "70", "0.001", "0.98"]
    assert rows[2] == ["trial", "7", "70", "70", "0.001", "0.98"]
    assert rows[3] == ["trial", "6", "60", "0.001", "0.98"]
    assert "no room" not in wide
    interval = str(estimate([20.0, 21.0, 22.0, 23.0, 24.0])).split()[1:]
    expected = ["default", "22.0", *interval, "24", "23", "22", "21", "20"]
    assert expected in [line.split() for line in wide.splitlines()]
    assert "1 diverged" in wide
    assert "RuntimeError: </script>" in wide
    narrow = text_of(full_study(), 48)
    assert "no room for gamma" in narrow
    assert " trial 8: learning_rate 0.001, gamma 0.98\n" in narrow
    assert "trial 8:" not in wide


def test_an_order_that_chance_explains_is_not_shown() -> None:
    noise = full_study(importance_null={"optimizer.learning_rate": 0.8, "agent.gamma": 0.4})
    params = {"agent.gamma": 0.98, "optimizer.learning_rate": 1e-3}  # a space is in the order of its paths
    noise = replace(noise, runs=tuple(replace(one, params=params if one.params else {}) for one in noise.runs))
    assert noise.weights == {}
    told = replace(noise, importance_null=full_study().importance_null)
    for summary, order in ((noise, ["gamma", "learning_rate"]), (told, ["learning_rate", "gamma"])):
        heads = next(line.split() for line in text_of(summary, 120).splitlines() if line.startswith(" trial "))
        assert heads[-2:] == order
        words = [f"{name} {value}" for name, value in (("learning_rate", "0.001"), ("gamma", "0.98"))]
        assert ", ".join(words if order[0] == "learning_rate" else words[::-1]) in verdict(summary).sentence
        assert [one.path.partition(".")[2] for one in safe_ranges(summary)] == order
        assert [one["layout"]["xaxis"]["title"]["text"].replace("<br>", "") for one in slice_figures(summary)] == order
        lines = parallel_figure(summary)
        assert lines is not None
        assert [name.replace("<br>", "") for name in lines["layout"]["xaxis"]["ticktext"][:2]] == order


def test_FinalTable_of_few_test_seeds_has_no_interval() -> None:
    runs = [record for record in full_study().runs if record.stage != "test" or record.seed < 2]
    text = text_of(full_study(runs=tuple(runs)), 80)
    assert "too few seeds" in text
    assert "[" not in text.partition("On test seeds")[2].partition("Failed")[0]


def test_FinalTable_names_test_runs_without_a_score() -> None:
    lost = [run("default", "test", None, seed=9, outcome=Outcome.CRASHED, reason="boom")]
    text = text_of(full_study(runs=(*full_study().runs, *lost)), 120)
    assert "(1 without a score)" in text
    assert "none of 1 runs has a score" in text_of(full_study(runs=tuple(lost)), 80)


def test_FinalTable_of_an_empty_study_is_empty() -> None:
    assert text_of(full_study(runs=()), 80).strip() == ""
