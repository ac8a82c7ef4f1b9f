"""The synthetic learner: its numbers, its accidents, and the whole platform run on it in seconds."""

import json
import math
import os
import re
import shlex
import signal
import statistics
import subprocess
import sys
from pathlib import Path

import psutil
import pytest

from tests.tuner.command_line import CommandLine
from tuner.commands.winner import TrainingConfigs
from tuner.config.composition import compose, config_loader, to_json
from tuner.errors import UserError
from tuner.executors.base import TrialEnded, TrialReported
from tuner.executors.inline import InlineExecutor
from tuner.executors.local import LocalExecutor
from tuner.runs.functions import ENTRY
from tuner.runs.simulator import Synthetic
from tuner.study import StudyStore, summarise
from tuner.trackers.jsonl import read_metrics
from tuner.trial.folder import read_reports, read_times
from tuner.trial.messages import JsonDict, Limits, Outcome, TrialResult, TrialSpec

ROOT = Path(__file__).parents[3]
BEST = Synthetic(learning_rate=1e-3, gamma=0.99, batch_size=64, activation="tanh")


def finish(executor: InlineExecutor | LocalExecutor) -> TrialResult:
    while True:
        for event in executor.wait(30.0):
            if isinstance(event, TrialReported):
                executor.answer(event.key, "continue")
            if isinstance(event, TrialEnded):
                return event.result


def spec(seed: int = 0, **arguments: object) -> TrialSpec:
    agent = {"_target_": "tuner.simulator.Synthetic", **arguments}
    config: JsonDict = {"agent": agent, "training": {"total_steps": 900}, "evaluation": {"num_points": 9}}
    return TrialSpec("study", "screen", 0, seed, config, entry=ENTRY)


def run(folder: Path, seed: int = 0, **arguments: object) -> TrialResult:
    with InlineExecutor() as executor:
        executor.start(spec(seed, **arguments), folder)
        return finish(executor)


# Numbers


def test_the_best_configuration_scores_100_and_others_as_their_distance_says() -> None:
    assert BEST.quality == 100.0
    assert Synthetic(1e-2, 0.99, 64, "tanh").quality == pytest.approx(100 * math.exp(-0.5 / 0.49))
    assert Synthetic(1e-3, 0.9, 512, "relu").quality == pytest.approx(100 * math.exp(-0.5 * (1 + 1 + 0.25)))
    assert Synthetic(1e-3, 0.99, 64, "tanh", entropy_coef=0.7).quality == 100.0


def test_curves_rise_to_the_quality_on_an_even_grid() -> None:
    curve = Synthetic(1e-3, 0.99, 64, "tanh", num_points=4).expected_curve()
    assert [step for step, _ in curve] == [0.25, 0.5, 0.75, 1.0]
    expected = [100 * (1 - math.exp(-4 * x)) / (1 - math.exp(-4)) for x in (0.25, 0.5, 0.75, 1.0)]
    assert [value for _, value in curve] == pytest.approx(expected)


def test_seeds_differ_by_the_noise_asked_for_and_a_seed_repeats_itself() -> None:
    noisy = Synthetic(1e-3, 0.99, 64, "tanh", seed_noise=8.0, evaluation_noise=0.0)
    ends = [noisy.curve(seed)[-1][1] for seed in range(400)]
    assert statistics.mean(ends) == pytest.approx(100.0, abs=3 * 8 / 20)
    assert statistics.stdev(ends) == pytest.approx(8.0, rel=0.15)
    steps = [second[1] - first[1] for first, second in zip(noisy.curve(3), noisy.expected_curve(), strict=True)]
    assert max(steps) - min(steps) < 1e-9, "a seed moves the whole curve"
    assert noisy.curve(3) == noisy.curve(3)
    quiet = Synthetic(1e-3, 0.99, 64, "tanh", seed_noise=0.0, evaluation_noise=3.0)
    assert statistics.stdev(quiet.curve(seed)[0][1] for seed in range(400)) == pytest.approx(3.0, rel=0.15)


@pytest.mark.parametrize(
    ("arguments", "why"),
    [
        ({"crash_rate": 1.5}, "agent.crash_rate=1.5 is not possible: it must lie between 0 and 1"),
        ({"learning_rate": 0.0}, "learning_rate=0.0"),
        ({"gamma": 1.0}, "gamma=1.0"),
        ({"activation": "gelu"}, "must be one of tanh, relu, sigmoid"),
        ({"seed_noise": -1.0}, "seed_noise=-1.0"),
    ],
)
def test_values_out_of_range_are_refused(arguments: dict[str, object], why: str) -> None:
    with pytest.raises(UserError, match=why):
        Synthetic(**arguments)  # type: ignore[arg-type]


def test_without_a_run_around_it_it_returns_its_score() -> None:
    assert BEST(seed=5) == BEST.curve(5)[-1][1]


# Accidents


def test_a_run_that_crashes_gets_through_when_it_is_continued(tmp_path: Path) -> None:
    first = run(tmp_path / "a", crash_rate=1.0)
    assert (first.outcome, first.reason) == (Outcome.CRASHED, "RuntimeError: a synthetic crash")
    reports, times = read_reports(tmp_path / "a"), read_times(tmp_path / "a")
    assert 1 <= len(reports) <= 9
    assert run(tmp_path / "a", crash_rate=1.0).outcome is Outcome.COMPLETE
    assert run(tmp_path / "b").outcome is Outcome.COMPLETE
    undisturbed = read_reports(tmp_path / "b")
    assert read_reports(tmp_path / "a") == undisturbed
    assert undisturbed[: len(reports)] == reports
    in_all = read_times(tmp_path / "a")
    assert {step: in_all[step] for step in times} == times
    assert list(in_all.values()) == sorted(in_all.values()), "time goes on where it was"


@pytest.mark.parametrize(
    ("arguments", "outcome"),
    [
        ({"diverge_rate": 1.0}, Outcome.DIVERGED),
        ({"learning_rate": 0.5, "diverge_above": 0.3}, Outcome.DIVERGED),
        ({"learning_rate": 0.2, "diverge_above": 0.3}, Outcome.COMPLETE),
        ({"memory_rate": 1.0, "memory_mb": 20.0}, Outcome.OUT_OF_MEMORY),
    ],
)
def test_a_configuration_that_fails_does_so_every_time(
    tmp_path: Path, arguments: dict[str, object], outcome: Outcome
) -> None:
    assert [run(tmp_path / "0", seed, **arguments).outcome for seed in (1, 2, 2)] == [outcome] * 3


def test_accidents_happen_to_the_share_of_runs_asked_for(tmp_path: Path) -> None:
    crashes = sum("crash" in Synthetic(crash_rate=0.25)._accidents(seed) for seed in range(400))
    assert crashes == pytest.approx(100, abs=30)  # 3.5 standard deviations


def test_a_hang_is_ended_by_the_limit_on_silence(tmp_path: Path) -> None:
    with LocalExecutor(limits=Limits(silence_s=0.5, grace_s=0.5)) as executor:
        executor.start(spec(hang_rate=1.0), tmp_path / "0")
        assert finish(executor).outcome is Outcome.HUNG


def test_a_run_needs_its_helper_processes_and_leaves_none(tmp_path: Path) -> None:
    with LocalExecutor() as executor:
        executor.start(spec(num_helpers=2, sleep_s=0.2), tmp_path / "0")
        event = next(event for event in iter(lambda: executor.wait(30.0), []) for event in event
                     if isinstance(event, TrialReported))  # fmt: skip
        trial = next(child for child in psutil.Process().children(True) if len(child.children()) == 2)
        helpers = trial.children()
        os.kill(helpers[0].pid, signal.SIGKILL)
        executor.answer(event.key, "continue")
        result = finish(executor)
        assert (result.outcome, result.reason) == (Outcome.CRASHED, "RuntimeError: a helper process has died")
        psutil.wait_procs(helpers, timeout=10.0)
        assert not any(helper.is_running() for helper in helpers)


# The platform on it

SMALL = (
    *("agent=synthetic", "executor=inline", "storage=journal", "study.num_trials=6", "study.name=mine"),
    *("study.num_candidates=2", "study.num_race_seeds=0", "study.num_select_seeds=1", "study.num_test_seeds=2"),
)


def test_a_user_tries_the_platform_out_without_a_framework(tmp_path: Path) -> None:
    program = (
        "import sys; from tuner.cli import main; status = main(sys.argv[1:]); "
        "sys.stdout.write(' '.join({name.partition('.')[0] for name in sys.modules})); sys.exit(status)"
    )
    command = [sys.executable, "-c", program, "tune", *SMALL, "study.num_trials=2", "study.num_candidates=1"]
    done = subprocess.run(
        command, cwd=tmp_path, env={**os.environ, "PYTHONPATH": str(ROOT)}, capture_output=True, text=True
    )
    assert done.returncode == 0, done.stderr
    assert done.stderr == ""
    loaded = done.stdout.splitlines()[-1].split()
    assert "optuna" in loaded
    assert not {"torch", "tensorflow", "keras", "wandb"} & set(loaded)


def test_trackers_get_the_reports_of_a_function(tuner: CommandLine) -> None:
    answer = tuner("train", *SMALL[:1], "seed=3", "training.total_steps=900", "hydra.run.dir=run")
    assert answer.status == 0, answer.errors
    curve = Synthetic(entropy_coef=0.01, diverge_above=0.3).curve(3)
    expected = [(round(900 * part), {"report/value": score, "report/step": part}) for part, score in curve]
    assert list(read_metrics(tuner.folder / "run")) == expected
    reports = (tuner.folder / "run" / "reports.jsonl").read_text().splitlines(keepends=True)
    (tuner.folder / "run" / "reports.jsonl").write_text("".join(reports[:4]))  # as if it had been killed there
    assert tuner("train", "resume=run").status == 0
    assert list(read_metrics(tuner.folder / "run")) == expected, "once each"


def test_both_ways_to_train_the_winner_again_do(tuner: CommandLine) -> None:
    answer = tuner("tune", *SMALL)
    assert answer.status == 0, answer.errors
    lines = answer.output.splitlines()
    finals = []
    for words in ("train the winner again:", "the same as a file:"):
        line = shlex.split(lines[lines.index(words) + 1])
        assert line[:2] == ["tuner", "train"]
        trained = tuner(*line[1:], "seed=7", f"hydra.run.dir={words[:5]}")
        assert trained.status == 0, trained.errors
        assert "tuner play" not in trained.output, "there is nothing to play"
        finals.append(trained.output.splitlines()[-1].split(" after ")[0])
    assert finals[0] == finals[1]


def test_the_same_study_again_is_the_same_to_the_last_digit(tuner: CommandLine) -> None:
    import tuner as api

    study = ("executor.parallel=3", "agent.crash_rate=0.2", "study.num_trials=8", "pruner=asha")
    runs = []
    for folder in ("a", "b"):
        result = api.tune([*SMALL, *study, f"study.folder={folder}", f"storage.url=journal:///{folder}/s.journal"])
        runs.append([(run.stage, run.label, run.seed, dict(run.params), run.value) for run in result.summary.runs])
    assert runs[0] == runs[1]


NOT_REPEATABLE = "not exactly repeatable"


@pytest.mark.parametrize(
    ("executor", "by_chance"),
    [
        (["executor=inline", "executor.parallel=3"], False),
        pytest.param(["executor.parallel=1"], False, marks=pytest.mark.slow),
        ([], True),
    ],
)
def test_only_where_ends_come_in_any_order_it_is_said(tuner: CommandLine, executor: list[str], by_chance: bool) -> None:
    quick = [*SMALL[:1], "storage=memory", "study.num_trials=2", "study.num_select_seeds=1", "study.num_test_seeds=1"]
    answer = tuner("tune", *quick, "study.num_race_seeds=0", *executor)
    assert answer.status == 0, answer.errors
    assert (NOT_REPEATABLE in " ".join(answer.output.split())) == by_chance


@pytest.mark.parametrize(
    ("arguments", "why"),
    [
        (["agent=synthetic", "agent.crash_rate=2"], "crash_rate=2 is not possible"),
        (["agent=synthetic", "env=cartpole"], "env has no meaning here: Synthetic is a function and gets agent only"),
        (["agent=synthetic", "space.agent.gamma.high=1.0"], "must stay below 1"),
        (["agent=synthetic", "agent.gama=1"], "did you mean agent.gamma?"),
        (["agent=function"], "agent._target_ is missing"),
        (["agent=function", "agent._target_=my_package.train"], "no module named 'my_package'"),
        (["agent=synthetic", "space=function"], "the search space is empty"),
    ],
)
def test_mistakes_are_answered_in_a_line_or_two(tuner: CommandLine, arguments: list[str], why: str) -> None:
    assert why in tuner.refused("tune", *arguments)


FUNCTION = """
import numpy

import tuner

def train(width, scale=1.0):
    tuner.report(0.5, width / 2)
    return scale * width

def silent(width):
    pass

def single(width):
    return numpy.float32(width)

def by_epochs(width):
    tuner.report(3, width)

def stops_early(width, returned=None):
    tuner.report(0.1, width)
    tuner.report(0.2, width)
    return returned

def sums_tenths(width):
    tuner.report(0.1 * 3 + 0.7 - 1e-12, width)
"""
CONF = {
    "agent": "# @package _global_\ndefaults: [function]\n"
    "agent: {_target_: mine_to_tune.train, width: 3, scale: 2.0}\ntracker: {}\n",
    "space": "agent: {width: {low: 1, high: 9}}\n",
}


def test_a_function_of_the_users_own_is_trained_and_tuned(tuner: CommandLine) -> None:
    (tuner.folder / "mine_to_tune.py").write_text(FUNCTION)
    mine = ("agent=function", "agent._target_=mine_to_tune.train", "+agent.width=3", "tracker=jsonl")
    trained = tuner("train", *mine)
    assert trained.status == 0, trained.errors
    assert re.search(r"^100%  score 3  \(\d+ s\)\nscore 3 \(\d+ s\)$", trained.output, re.MULTILINE), (
        "no steps, no return"
    )
    for group, content in CONF.items():
        (tuner.folder / "conf" / group).mkdir(parents=True)
        (tuner.folder / "conf" / group / "mine.yaml").write_text(content)
    answer = tuner("tune", "--config-dir", "conf", "agent=mine", *SMALL[1:], "executor.parallel=2")
    assert answer.status == 0, answer.errors
    with StudyStore("journal:///studies.journal") as store:
        runs = summarise(store, "mine", Path("studies/mine")).runs
    assert len(runs) == 6 + 2 + 4
    for run in runs:
        width = run.params.get("agent.width", 3)
        assert run.curve == ((0.5, width / 2), (1.0, 2.0 * width)), "reported, and returned"
    assert json.loads(Path("studies/mine/screen/0/trial.json").read_text())["config"]["agent"]["scale"] == 2.0
    silent = tuner(
        "train", "agent=function", "agent._target_=mine_to_tune.silent", "+agent.width=3", "hydra.run.dir=silent"
    )
    assert silent.status == 2
    assert "silent has no score: let it call tuner.report(fraction, value) or return one" in silent.errors
    by_epochs = (
        "agent._target_=mine_to_tune.by_epochs",
        "hydra.run.dir=epochs",
    )  # not in the folder of this very second
    epochs = tuner("train", "agent=function", *by_epochs, *mine[2:])
    assert epochs.status == 2
    assert "after epoch 3 of 10 write tuner.report(3 / 10, ...)" in epochs.errors


def test_a_function_that_ends_early_without_a_score_says_so(tuner: CommandLine) -> None:
    (tuner.folder / "mine_to_tune.py").write_text(FUNCTION)
    mine = ("agent=function", "agent._target_=mine_to_tune.stops_early", "+agent.width=3", "tracker=jsonl")
    early = tuner("train", *mine, "hydra.run.dir=early")
    assert early.status == 2
    assert "stops_early ended at 20% of its budget without a score: let it return one" in early.errors
    words = tuner("train", *mine, "+agent.returned=done", "hydra.run.dir=words")
    assert "without a score (it returned 'done'): let it return one" in words.errors
    assert tuner("train", *mine, "+agent.returned=5", "hydra.run.dir=returned").status == 0
    rounded = ("agent._target_=mine_to_tune.sums_tenths", "hydra.run.dir=rounded")
    assert tuner("train", mine[0], *rounded, *mine[2:]).status == 0
    study = ("+space.agent.width={low: 1, high: 9}", "executor=inline", "study.num_trials=3", "study.max_failures=3")
    answer = tuner("tune", *mine, *study)
    assert answer.status == 2
    assert "3 runs in a row failed" in answer.errors
    assert "ended at 20% of its budget without a score" in answer.errors


def test_an_argument_that_is_added_on_the_command_line_can_be_searched(tuner: CommandLine) -> None:
    (tuner.folder / "mine_to_tune.py").write_text(FUNCTION)
    answer = tuner(
        *("tune", "agent=function", "agent._target_=mine_to_tune.single", "+agent.width=3", "tracker=jsonl"),
        *("+space.agent.width={low: 1, high: 9}", "executor=inline", "study.name=added", *SMALL[1:2]),
        *("study.num_trials=4", "study.num_race_seeds=0", "study.num_candidates=1", "study.num_test_seeds=1"),
    )
    assert answer.status == 0, answer.errors
    with StudyStore("sqlite:///studies.db") as store:
        runs = summarise(store, "added", Path("studies/added")).runs
    assert {run.label for run in runs if run.stage == "test"} >= {"default"}
    assert [run.value for run in runs] == [run.params.get("agent.width", 3) for run in runs]


def test_a_setting_that_was_added_and_searched_is_typed_once() -> None:
    typed = ["agent=function", "agent._target_=json.loads", "+agent.width=3"]
    wanted = to_json(compose(config_loader(), "train", [*typed[:2], "+agent.width=5"]))
    assert TrainingConfigs(typed).overrides_for(wanted, {"agent.width": 5}) == [*typed[:2], "+agent.width=5"]


def test_a_function_that_ends_the_program_is_named(tuner: CommandLine, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.syspath_prepend(str(tuner.folder))
    (tuner.folder / "mine_that_exits.py").write_text("import sys\n\n\ndef train():\n    sys.exit('no data')\n")
    answer = tuner(
        "train", "agent=function", "agent._target_=mine_that_exits.train", "tracker=jsonl", "hydra.run.dir=mine"
    )
    assert answer.status == 2
    assert "mine_that_exits.py:5 ends the program by sys.exit('no data'): raise an error that says" in answer.errors
    assert json.loads((tuner.folder / "mine/result.json").read_text())["outcome"] == "crashed"
