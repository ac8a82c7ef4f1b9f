"""Runs that end before their budget does: at a target, or where returns no longer rise; and their best weights."""

import json
import math
import re
from contextlib import closing
from dataclasses import asdict
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from note_rl.training.checkpoint import read_checkpoint
from tests.tuner.command_line import SMALL, SMALL_AGENTS, CommandLine
from tests.tuner.runs.reporters import Reporter, run_config
from tests.tuner.runs.test_stops import Stopping, attempt, config_of
from tests.tuner.studies import FakeExecutor, Script, learn, run_study
from tuner.commands.play import load_run
from tuner.config.composition import RunConfig
from tuner.executors.base import TrialEnded, TrialReported
from tuner.executors.inline import InlineExecutor
from tuner.reporting.sections.cost import cost_section
from tuner.results.columns import trials_csv
from tuner.results.insights.effort import costs
from tuner.runs.build import TrainableAgent, build_run
from tuner.runs.checkpoints import about_best
from tuner.runs.training import run_training, run_trial
from tuner.trial.context import TrialContext
from tuner.trial.messages import JsonDict, Message, Outcome, TrialInterrupted, TrialResult, TrialSpec, Verdict

WINDOW = 3
FLAT = ("plateau=evaluations", "plateau.patience=1", "plateau.min_delta=1000")


class Episodes:
    """The training episodes of a run, each with the environment steps at its end."""

    def __init__(self) -> None:
        self.rows: list[tuple[float, int]] = []

    def add_episode(self, reward: float, step: int, at: float | None = None) -> None:
        self.rows.append((reward, step))

    def write(self) -> None:
        """Kept in memory."""


def means_at_phase_ends(rows: list[tuple[float, int]]) -> dict[int, float]:
    """By environment steps at the end of a phase of 8, the mean return of the last episodes, if there are enough."""
    returns, means = [], {}
    for reward, step in rows:
        returns.append(reward)
        if len(returns) >= WINDOW:
            means[-(-step // 8) * 8] = float(np.mean(returns[-WINDOW:]))
    return means


@pytest.mark.parametrize("target", [0, -0.5, "the highest mean"])
def test_a_run_ends_when_the_mean_of_its_window_reaches_the_target(tmp_path: Path, target: float | str) -> None:
    plain, episodes = Stopping(), Episodes()
    plain.attempt(math.inf)
    (tmp_path / "plain").mkdir()
    run_training(config_of("dqn", "torch"), tmp_path / "plain", plain, episodes)
    means = means_at_phase_ends(episodes.rows)
    wanted = max(means.values()) if isinstance(target, str) else target
    expected = next(step for step, mean in means.items() if mean >= wanted)
    config = config_of("dqn", "torch", f"training.target_reward={wanted!r}", f"training.reward_window={WINDOW}")
    reporter = Stopping()
    reporter.attempt(math.inf)
    outcome = run_training(config, tmp_path, reporter)
    assert (outcome.stop_reason, outcome.num_env_steps) == ("target_reward", expected)
    assert expected < 240
    assert reporter.why.startswith(
        f"target reached after {expected} steps: the mean return of the last 3 episodes is {wanted:g}"
    )
    assert [round(6 * step) for step, _ in reporter.reported] == [1, 2, 3, 4, 5, 6]
    held = [value for step, value in reporter.reported if round(step * 240) > expected]
    assert len(set(held)) == 1
    assert [point.num_env_steps for point in outcome.evaluations][-len(held) :] == [expected] * len(held)
    agent = load_trained(config, tmp_path)
    assert agent.num_env_steps == expected, "the last checkpoint is of the end"


def load_trained(config: RunConfig, folder: Path) -> TrainableAgent:
    """The agent of the last checkpoint."""
    run = build_run(config)
    run.agent.restore(folder / "checkpoint.safetensors")
    return run.agent


def test_on_the_command_line_a_target_is_said_and_a_run_can_go_on_behind_it(tuner: CommandLine) -> None:
    run = ("train", *SMALL, *SMALL_AGENTS["dqn"], "training.reward_window=3")
    assert tuner(*run, "hydra.run.dir=whole").status == 0
    answer = tuner(*run, "hydra.run.dir=mine", "training.target_reward=0")
    assert (answer.status, answer.errors) == (0, "")
    found = re.search(r"target reached after (\d+) steps", answer.output)
    assert found is not None
    result = json.loads((tuner.folder / "mine/result.json").read_text())
    assert (result["outcome"], result["stop_reason"]) == ("complete", "target_reward")
    assert result["steps"] == "eager: no gradient step was taken yet"
    assert result["num_env_steps"] == int(found[1]) < 240
    assert "add training.target_reward=null or a higher one" in tuner.refused("train", "resume=mine")
    assert tuner("train", "resume=mine", "training.target_reward=null").status == 0
    left, right = (read_checkpoint(tuner.folder / name / "checkpoint.safetensors") for name in ("whole", "mine"))
    for name, values in left[0].items():
        np.testing.assert_array_equal(values, right[0][name], err_msg=name)
    whole, mine = (json.loads((tuner.folder / name / "result.json").read_text()) for name in ("whole", "mine"))
    assert mine["evaluations"] == whole["evaluations"]


def test_a_flat_run_is_reduced_twice_and_ended(tmp_path: Path) -> None:
    config = config_of("ddpg", "torch", *FLAT, "plateau.early_stop=2", "optimizer.learning_rate=1e-12")
    reporter = Stopping()
    reporter.attempt(math.inf)
    outcome = run_training(config, tmp_path, reporter)
    assert (outcome.stop_reason, outcome.num_env_steps) == ("early_stopping", 120)  # the third of six evaluations
    best = f"{reporter.reported[0][1] + 1000:.4g}"
    assert reporter.notes == [
        f"after 80 steps: learning rate 1e-12 -> 9e-13: no return above {best} in 1 interval",
        f"after 120 steps: learning rate 9e-13 -> 8.1e-13: no return above {best} in 1 interval",
    ]
    rates = [round(rate / 1e-13, 6) for _, rate in reporter.rates]
    assert [rate for rate in dict.fromkeys(rates) if rate < 10.0] == [9.0, 8.1], "each reduction has a row"
    assert reporter.rates[-1][0] == 120
    assert reporter.why == "stopped early after 120 steps: returns no longer rise (plateau.early_stop)"
    assert len(reporter.reported) == 6
    assert len({value for _, value in reporter.reported[3:]}) == 1


def test_a_run_that_was_ended_early_goes_on_without_its_plateau(tuner: CommandLine) -> None:
    run = ("train", *SMALL, *SMALL_AGENTS["dqn"], *FLAT, "plateau.early_stop=1", "hydra.run.dir=mine")
    assert "stopped early after 160 steps" in tuner(*run).output
    assert "add plateau=off" in tuner.refused("train", "resume=mine")
    assert tuner("train", "resume=mine", "plateau=off").status == 0
    result = json.loads((tuner.folder / "mine/result.json").read_text())
    assert (result["stop_reason"], result["num_env_steps"], len(result["evaluations"])) == ("total_steps", 240, 3)


@pytest.mark.parametrize(
    "plateau",
    [
        ("plateau=evaluations", "plateau.patience=1", "plateau.early_stop=null", "schedule=linear_lr"),
        ("plateau=episodes", "plateau.interval=1", "plateau.patience=2", "plateau.early_stop=6"),
    ],
)
def test_a_plateau_survives_stops_at_many_moments(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, plateau: tuple[str, ...]
) -> None:
    monkeypatch.setattr("tuner.runs.training.LOG_INTERVAL_S", 0.0)
    config = config_of("dqn", "torch", *plateau, "plateau.min_delta=5", "training.reward_window=2")
    straight, stopped = Stopping(), Stopping()
    assert attempt(config, tmp_path / "straight", straight, math.inf)
    assert straight.notes
    stride, count = 0, 0
    while not attempt(config, tmp_path / "stopped", stopped, 1 + 2 * (stride % 7)):
        stride, count = stride + 1, count + 1
    assert count > 6
    assert stopped.reported == straight.reported
    left, right = (read_checkpoint(tmp_path / name / "checkpoint.safetensors") for name in ("straight", "stopped"))
    for name, values in left[0].items():
        np.testing.assert_array_equal(values, right[0][name], err_msg=name)
    assert left[1]["trainer"] == right[1]["trainer"]
    assert left[1]["trainer"]["plateau"]["factor"] < 1.0


@pytest.mark.parametrize(
    ("agent", "backend"),
    [("ppo", "torch"), *(pytest.param(*one, marks=pytest.mark.slow) for one in (("ddpg", "torch"), ("dqn", "keras")))],
)
def test_the_best_weights_score_what_they_are_filed_under(tuner: CommandLine, agent: str, backend: str) -> None:
    run = ("train", *SMALL, *SMALL_AGENTS[agent], f"backend={backend}", "training.jit_compile=false")
    normalised = ("training.normalise_obs=true",) if agent == "ppo" else ()
    assert tuner(*run, *normalised, "evaluation.num_points=5", "hydra.run.dir=mine").status == 0
    evaluations = json.loads((tuner.folder / "mine/result.json").read_text())["evaluations"]
    values = [point["mean_return"] for point in evaluations]
    about = about_best(tuner.folder / "mine/best.safetensors")
    assert about["mean_return"] == max(values)
    assert about["num_env_steps"] >= evaluations[values.index(max(values))]["num_env_steps"]
    best = load_run(tuner.folder / "mine", weights="best")
    assert best.agent.evaluate(int(about["num_episodes"]), seed=int(about["seed"])).mean == about["mean_return"]
    answer = tuner("play", "mine", "weights=best", "gif=null", "num_episodes=2")
    assert f"after {about['num_env_steps']} steps of training, when it was evaluated best" in answer.output


def test_the_best_weights_are_a_choice(tuner: CommandLine) -> None:
    run = ("train", *SMALL, *SMALL_AGENTS["dqn"], "checkpoint.best=false", "hydra.run.dir=mine")
    assert tuner(*run).status == 0
    assert not (tuner.folder / "mine/best.safetensors").exists()
    assert "mine has no best.safetensors" in tuner.refused("play", "mine", "weights=best")
    assert "weights=last or weights=best" in tuner.refused("play", "mine", "checkpoint=best")


@pytest.mark.parametrize(
    ("typed", "answer"),
    [
        ("training.max_steps=100", "here it is training.total_steps"),
        ("max_steps=100", "here it is training.total_steps"),
        ("target_reward=100", "did you mean training.target_reward?"),
        ("training.target_reward=much", "training.target_reward=much must be a number or null"),
        ("training.reward_window=0", "training.reward_window=0 is not possible: it must be at least 1"),
        ("plateau.patience=3", "plateau is off; choose plateau=episodes or evaluations as well"),
        ("plateau=evaluations plateau.patience=3", "plateau.patience=3 is never reached"),
        ("plateau=episodes plateau.factor=2", "plateau.factor=2 is not possible: it must be above 0 and at most 1"),
        ("agent=synthetic training.target_reward=3", "training.target_reward has no meaning here"),
    ],
)
def test_what_cannot_be_is_refused_with_what_to_type(tuner: CommandLine, typed: str, answer: str) -> None:
    assert answer in tuner.refused("tune", "plan=true", "evaluation.num_points=3", *typed.split())


# In a study


class Line:
    """A controller that wants every trial pruned."""

    stop_reason = ""

    def send(self, message: Message) -> None:
        """Nothing to keep."""

    def wait_for_verdict(self) -> Verdict:
        return "prune"

    def asks_to_stop(self) -> bool:
        return False


def test_a_trial_that_has_ended_by_itself_is_not_pruned(tmp_path: Path) -> None:
    with closing(TrialContext(TrialSpec("s", "screen", 0, 0, {}), tmp_path, Line(), 0.0)) as context:
        context.ends("target reached", 0.4)
        for step in (0.5, 1.0):
            context.report(step, 3.0)
        assert context.interruption is None
        context.remark = ""
        with pytest.raises(TrialInterrupted, match="pruned"):
            context.report(0.75, 3.0)


def reaches_its_target(spec: TrialSpec, number: int) -> Script:
    """Screening trial 1 says why it is complete."""
    script = learn(spec, number)
    if spec.key == "screen/1":
        script.result = TrialResult(Outcome.COMPLETE, "target reached after 400 steps", seconds=1.0, used=0.4)
    return script


def test_a_study_says_which_trials_ended_by_themselves(tmp_path: Path) -> None:
    summary = run_study(tmp_path, FakeExecutor(behave=reaches_its_target))
    run = summary.stage("screen")[1]
    assert (run.complete, run.reason, len(run.curve)) == (True, "target reached after 400 steps", 9)
    assert [one.reason for one in summary.stage("screen") if one.number != 1] == [""] * 5
    assert costs(summary)[0].env_steps == round(5.4 * 900), "what it did not use was not spent"
    assert "target reached after 400 steps" in trials_csv(summary)
    assert "target reached after 400 steps" in cost_section(summary)
    assert "ended by themselves" not in cost_section(run_study(tmp_path / "other"))


def test_a_trial_that_reaches_its_target_is_complete_with_a_whole_curve(tmp_path: Path) -> None:
    config = run_config("training.target_reward=0", "training.reward_window=1", "evaluation.num_points=4")
    spec = TrialSpec("study", "screen", 0, config.seed, asdict(config), entry="tuner.runs.training:run_trial")
    ended = []
    with InlineExecutor() as executor:
        executor.start(spec, tmp_path)
        while not ended:
            for event in executor.wait(30.0):
                if isinstance(event, TrialReported):
                    executor.answer(event.key, "continue")
                ended += [event.result] if isinstance(event, TrialEnded) else []
    reports = [json.loads(line) for line in (tmp_path / "reports.jsonl").read_text().splitlines()]
    assert [report["step"] for report in reports] == [0.25, 0.5, 0.75, 1.0]
    result: JsonDict = json.loads((tmp_path / "result.json").read_text())
    assert result["outcome"] == ended[0].outcome == "complete"
    [steps] = re.findall(r"^target reached after (\d+) steps", result["reason"])
    assert result["used"] == ended[0].used == int(steps) / 240


@pytest.mark.parametrize(
    ("steps", "line"),
    [
        (160, "that is of fresh episodes: the 263 of the same weights before it may have been luck"),
        (80, "best evaluation 263 after 80 steps; watch it: tuner play mine weights=best"),
    ],
)
def test_better_weights_are_distinguished_from_a_lucky_evaluation_of_the_last_ones(
    tuner: CommandLine, monkeypatch: pytest.MonkeyPatch, steps: int, line: str
) -> None:
    """The run ends after 160 of 240 steps, right behind an evaluation, and is then evaluated anew."""
    monkeypatch.setattr("tuner.commands.train.about_best", lambda path: {"mean_return": 262.6, "num_env_steps": steps})
    answer = tuner("train", *SMALL, *SMALL_AGENTS["dqn"], *FLAT, "plateau.early_stop=1", "hydra.run.dir=mine")
    assert "stopped early after 160 steps" in answer.output
    assert line in answer.output.splitlines()


def test_a_trial_says_which_way_its_gradient_steps_were_taken(tmp_path: Path) -> None:
    config = asdict(run_config())
    context: Any = Reporter()
    context.spec, context.folder = SimpleNamespace(config=config, seed=config["seed"]), tmp_path
    run_trial(context)
    assert context.steps.startswith("eager: fewer than 2,000 gradient steps were to come")
    told = TrialResult(Outcome.COMPLETE, steps=context.steps)
    assert TrialResult.from_json(told.to_json()) == told
