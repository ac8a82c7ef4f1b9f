"""`tuner find`: from the question to what `tuner train` and `tuner tune` take."""

import re
import shlex
from pathlib import Path

import pytest
from omegaconf import OmegaConf

from tests.tuner.command_line import SMALL, SMALL_AGENTS, Answer, CommandLine
from tuner.commands.find import find
from tuner.commands.preflight import preflight

INLINE = ("executor=inline", "storage=journal", *SMALL)
DQN = SMALL_AGENTS["dqn"]


def line_after(answer: Answer, words: str) -> list[str]:
    lines = answer.output.splitlines()
    return shlex.split(lines[lines.index(words) + 1])


def test_a_learning_rate_that_train_and_tune_take(tuner: CommandLine) -> None:
    question = (*INLINE, *DQN, "schedule=linear_lr", "finder.num_steps=30", "finder.num_seeds=1")
    answer = tuner("find", "lr", *question)
    assert answer.status == 0, answer
    assert "Learning rate" in answer.output, answer.output
    train, tune = line_after(answer, "train with it:"), line_after(answer, "search further:")
    found = preflight("train", train[4:], train[3])
    rate = found.optimizer.learning_rate
    assert f"Learning rate {rate:.3g}, to be searched from" in answer.output
    assert (found.buffer.learning_starts, list(found.network.hidden_sizes)) == (64, [8])
    searched = preflight("tune", tune[4:], tune[3])
    space = OmegaConf.to_container(searched.space.optimizer.learning_rate)
    assert isinstance(space, dict)
    assert space["low"] <= rate <= space["high"]
    assert space["log"] is True
    assert found.schedule.learning_rate.start == rate, "the schedule follows"
    searched.optimizer.learning_rate = 0.5
    assert searched.schedule.learning_rate.start == 0.5, "and so it does in the search"
    again = tuner("find", "lr", *question)
    assert "1 runs, of which 1 are done" in again.output
    assert line_after(again, "train with it:") == train


def test_an_optimizer(tuner: CommandLine) -> None:
    asked = ("finder.candidates=[adam,sgd]", "finder.metric=loss", "finder.num_gradient_steps=8")
    answer = tuner("find", "optimizer", *INLINE, *DQN, *asked, "finder.num_seeds=1", "seed=2")
    assert answer.status == 0, answer
    assert "candidate sgd, seed 2" in answer.output
    best = "adam" if "adam is" in answer.output else "sgd"
    train = line_after(answer, "train with it:")
    assert preflight("train", train[4:], train[3]).optimizer._target_.endswith(best)


def test_an_optimizer_at_its_best_rate(tuner: CommandLine) -> None:
    asked = ("finder.candidates=[adam,sgd]", "finder.metric=loss", "finder.num_gradient_steps=8", "finder.num_rates=3")
    answer = tuner("find", "optimizer", *INLINE, *DQN, *asked, "finder.num_seeds=1", "optimizer.learning_rate=0.002")
    assert answer.status == 0, answer
    sentence = next(line for line in answer.output.splitlines() if line.startswith("Compared at the best of 3"))
    rates = dict(re.findall(r"(adam|sgd) at ([\d.e-]+\d)", sentence))
    assert set(rates) == {"adam", "sgd"}
    assert set(rates.values()) <= {"0.0002", "0.002", "0.02"}
    train = line_after(answer, "train with it:")
    found = preflight("train", train[4:], train[3]).optimizer
    assert f"{found.learning_rate:.3g}" == rates[found._target_.rpartition(".")[2]]


def test_an_optimizer_without_a_rate_cannot_be_varied(tuner: CommandLine) -> None:
    said = tuner.refused("find", "optimizer", *INLINE, *DQN, "finder.num_rates=1", "finder.candidates=[adam,sgd]")
    assert "num_rates=1 must be 0" in said


def test_what_follows_from_the_best_agent_has_its_groups(tuner: CommandLine) -> None:
    """The winner brings its policy and buffer along, and its space can be searched."""
    few = ("tracker=jsonl", "training.total_steps=400", "finder.num_seeds=1")
    answer = tuner("find", "agent", *few, "finder.candidates=[dqn,ppo]", "executor=inline", "storage=journal")
    assert answer.status == 0, answer
    best = "dqn" if "dqn is ahead" in answer.output else "ppo"
    train, tune = line_after(answer, "train with it:"), line_after(answer, "search further:")
    assert not [word for word in train if word.startswith("~")]
    found = preflight("train", train[4:], train[3])
    assert found.agent._target_.lower().endswith(best)
    assert found.buffer._target_.endswith("RolloutSettings" if best == "ppo" else "ReplaySettings")
    searched = tuner(*tune[1:], "plan=true", "study.steps_per_second=1000")
    assert searched.status == 0, searched
    assert f"{best} on CartPole-v1" in searched.output


def test_an_agent(tmp_path: Path) -> None:
    given = (*SMALL, *DQN[1:], "finder=agent", "finder.candidates=[dqn,double_dqn]", "finder.num_seeds=1")
    overrides = (*given, "executor=inline", "storage=memory", f"study.folder={tmp_path}")
    found = find(preflight("find", overrides), overrides)
    assert "on fewer than 3 seeds nothing can be concluded" in found.sentences[-1]
    assert found.config is not None
    first = found.sentences[0].split()[0]
    assert found.config["agent"]["_target_"].endswith({"dqn": ".DQN", "double_dqn": ".DoubleDQN"}[first])


def test_a_function_is_no_agent(tuner: CommandLine) -> None:
    answer = tuner("find", "lr", "agent=synthetic", "storage=journal", "tracker=jsonl")
    assert (answer.status, "tuner find tries agents" in answer.errors) == (2, True), answer


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("rate",), "there is no finder=rate"),
        (("lr", "finder.mode=k"), "mode (metrics) 'k' is unknown; there is auto, kl, loss, return"),
        (("lr", "+finder.num_step=3"), "finder has no num_step; did you mean finder.num_steps?"),
        (("lr", "finder.mode=kl"), "finder.mode=kl is for agents that learn from rollouts"),
        (
            ("lr", "agent=ppo", "network=lstm", "finder.mode=kl"),
            "which an agent with a memory has within whole sequences only: use loss",
        ),
        (("lr", "agent=alphazero", "finder.mode=kl"), "those of AlphaZero are the visits of a search"),
        (("lr", "agent=trpo", "finder.mode=kl"), "TRPO has update() in place of a loss"),
        (("lr", "schedule=linear_lr", "schedule.learning_rate.start=0.1"), "sets the rate whatever optimizer.learning"),
        (("optimizer", "finder.candidates=[adam]"), "must name at least two different choices of optimizer"),
        (("optimizer", "finder.candidates=[adam,adm]"), "there is no optimizer=adm"),
        (("optimizer", "optimizer=sgd"), "optimizer= cannot be typed here"),
        (("optimizer", "finder.metric=los"), "finder.metric=los must be reward or loss"),
        (("agent", "finder.candidates=[dqn,ddpg]"), "actions"),
    ],
)
def test_bad_questions(tuner: CommandLine, arguments: tuple[str, ...], message: str) -> None:
    answer = tuner("find", *INLINE, *arguments)
    assert (answer.status, message in answer.errors) == (2, True), answer
    assert not Path("studies").exists()
