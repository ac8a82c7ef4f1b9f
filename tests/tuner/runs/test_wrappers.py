"""Wrappers of training and evaluation, and wrappers of training only."""

import json
from pathlib import Path
from typing import Any

import gymnasium
import pytest

from note_rl import errors
from note_rl.collect.evaluation import random_policy_returns
from note_rl.environments import for_evaluation
from tests.tuner.command_line import SMALL, SMALL_AGENTS, CommandLine
from tuner.commands.preflight import preflight
from tuner.config.composition import RunConfig, to_json
from tuner.runs.build import build_environment, build_run

TENTH = "clip={_target_: gymnasium.wrappers.ClipReward, _partial_: true, min_reward: 0.0, max_reward: 0.1}"


def config_of(*overrides: str) -> RunConfig:
    return RunConfig.from_json(to_json(preflight("train", [*SMALL, *SMALL_AGENTS["dqn"], *overrides])))


def logged(folder: Path, name: str) -> list[float]:
    lines = [json.loads(line) for line in (folder / "metrics.jsonl").read_text().splitlines()]
    return [line[name] for line in lines if name in line]


def test_scores_are_those_without_the_wrappers_of_training(tuner: CommandLine) -> None:
    chosen = (*SMALL, *SMALL_AGENTS["dqn"])
    assert tuner("train", *chosen, "hydra.run.dir=plain").status == 0
    answer = tuner("train", *chosen, f"+wrapper_training.{TENTH}", "hydra.run.dir=clipped")
    assert (answer.status, answer.errors) == (0, "")
    lengths, returns = (logged(tuner.folder / "clipped", f"eval/mean_{name}") for name in ("length", "return"))
    assert returns == lengths  # a reward of 1 each step
    played = tuner("play", "clipped", "num_episodes=2", "max_frames=3").output
    assert "mean return 0." not in played


def test_wrappers_of_both_that_change_rewards_are_pointed_out_once(
    caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(errors, "_said", set())
    for _ in range(2):
        run = build_run(config_of(f"+wrapper.{TENTH}", f"+wrapper_training.{TENTH}"))
    said = [record.message for record in caplog.records]
    assert said == [
        "wrapper.clip (ClipReward) changes the rewards of evaluations and scores as well; to have it in training only, "
        "write wrapper_training.clip in place of wrapper.clip"
    ]
    assert run.used["wrapper_training"] == run.used["wrapper"] == {"clip": {"min_reward": 0.0, "max_reward": 0.1}}


def test_the_score_of_random_play_is_one_without_them() -> None:
    clipped, plain = (build_environment(config_of(*more)) for more in (["wrapper_training=clip_reward"], []))
    assert isinstance(clipped(), gymnasium.wrappers.ClipReward)
    assert not isinstance(for_evaluation(clipped)(), gymnasium.wrappers.ClipReward)
    assert random_policy_returns(clipped, 3, 0).tolist() == random_policy_returns(plain, 3, 0).tolist()


def test_a_wrapper_of_training_that_changes_what_is_seen_is_refused_before_anything_is_written(
    tuner: CommandLine,
) -> None:
    stack = "{_target_: gymnasium.wrappers.FrameStackObservation, _partial_: true, stack_size: 2}"
    answer = tuner("train", f"+wrapper_training.stack={stack}", "hydra.run.dir=mine")
    assert answer.status == 2
    assert "FrameStackObservation is a wrapper for training only" in answer.errors
    assert not (tuner.folder / "mine").exists()


def test_the_time_limit_counts_the_environments_own_steps() -> None:
    """As conf/env and conf/wrapper say; a wrapper limits those of the agent."""

    def length(*overrides: str) -> int:
        env: Any = build_environment(config_of(*overrides))()
        env.reset(seed=0)
        steps = 1
        while not any(env.step(steps % 2)[2:4]):
            steps += 1
        return steps

    every_second = f"+wrapper.skip={{_target_: {__name__}.Twice, _partial_: true}}"
    limit = "+wrapper.limit={_target_: gymnasium.wrappers.TimeLimit, _partial_: true, max_episode_steps: 3}"
    assert length("env.max_episode_steps=6") == 6
    assert length("env.max_episode_steps=6", every_second) == 3
    assert length(every_second, limit) == 3


class Twice(gymnasium.Wrapper[Any, Any, Any, Any]):
    """Each action is taken two times."""

    def step(self, action: Any) -> Any:
        self.env.step(action)
        return self.env.step(action)


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (
            "wrapper_training=clip_reward",
            "and ClipReward may change its steps: leave the wrapper out, or include it in a simulator of your own (tun",
        ),
        ("training.frame_stack=2", "training.frame_stack=2, but the networks of AlphaZero take one frame: leave train"),
    ],
)
def test_what_changes_the_steps_or_observations_of_a_search_is_refused(
    tuner: CommandLine, words: str, message: str
) -> None:
    assert message in tuner.refused("train", *SMALL, *SMALL_AGENTS["alphazero"], words)
