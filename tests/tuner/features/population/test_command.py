"""`tuner tune study=pbt`, from the command line to the schedule that it leaves."""

from pathlib import Path
from typing import Any

import pytest
import yaml

import tuner as package
from tests.tuner.command_line import SMALL_AGENTS, CommandLine
from tuner.features.population.descent import copies, line_of
from tuner.reporting.page import make_figures, render_page
from tuner.results.records import Descent, StudySummary
from tuner.results.summary_json import summary_from_json, summary_to_json
from tuner.results.verdict import verdict
from tuner.trial.folder import read_reports

SMALL = (
    *("study=pbt", "tracker=jsonl", "executor=inline", "network.hidden_sizes=[8]", "study.name=small"),
    *(
        "training.total_steps=240",
        "evaluation.num_points=3",
        "evaluation.num_episodes=2",
        "study.evolution.generations=3",
    ),
    *("study.num_trials=4", "study.num_candidates=1", "study.num_select_seeds=1", "study.num_test_seeds=1"),
)
DRIFTING = ("agent=drifting", "executor=inline", "study.name=drifting", "seed=1", "storage=journal")
FOUR = ("study=pbt", "study.metric=final", "study.evolution.generations=4", "study.num_trials=4")


def replayed(tuner: CommandLine, study: Path) -> Any:
    """The winner's test run, and the reports of its experiment file on the same seed."""
    result = package.load(study)
    run = next(one for one in result.summary.stage("test") if one.label == result.summary.winner_label)
    answer = tuner(
        *("train", "--config-dir", str(study), "experiment=winner", f"seed={run.seed}", "hydra.run.dir=again"),
        *("tracker=jsonl",),
    )
    assert (answer.status, answer.errors) == (0, "")
    return run, read_reports(tuner.folder / "again")


@pytest.mark.slow  # of functions: the one below
@pytest.mark.parametrize("agent", ["dqn", "ppo"])
def test_the_winner_is_trained_again_from_its_file_and_a_line_without_copies_is_a_run(
    tuner: CommandLine, agent: str
) -> None:
    narrow = ["~space.buffer"] if agent == "dqn" else ["~space.buffer", "+space.agent.value_coef={low: 0.1, high: 1.0}"]
    answer = tuner("tune", *SMALL, *SMALL_AGENTS[agent], *narrow)
    assert (answer.status, answer.errors) == (0, "")
    study = tuner.folder / "studies" / "small"
    run, again = replayed(tuner, study)
    assert tuple(again) == run.curve
    written = yaml.safe_load((study / "experiment" / "winner.yaml").read_text())
    if "schedule" in written["adaptive"]:
        schedule = yaml.safe_load((study / "adapted" / "adaptive" / "replay.yaml").read_text())["schedule"]
        assert schedule == written["adaptive"]["schedule"]
    summary = package.load(study).summary
    assert summary_from_json(summary_to_json(summary)) == summary
    assert summary.stage("evolve")[0].descent == Descent(0, 0)
    _check_line(tuner, answer.output, summary, agent)


def _check_line(tuner: CommandLine, output: str, summary: StudySummary, agent: str) -> None:
    """A line without copies is a run that nobody paused, and the population's own agent plays."""
    line = output.split("watch the population's own agent:\n")[1].split("\n")[0].split()
    assert line[:2] == ["tuner", "play"]
    played = tuner("play", line[2], "num_episodes=1")
    assert (played.status, played.errors) == (0, "")
    runs = summary.stage("evolve")
    last = next(
        run for run in runs if run.descent.generation == 2 and run.descent.parent == runs[run.descent.parent].number
        and runs[run.descent.parent].descent.member == run.descent.member
    )  # fmt: skip
    values = [f"{path}={value}" for path, value in last.params.items()]
    again = ["training.total_steps=240", "evaluation.num_points=3", "evaluation.num_episodes=2", "tracker=jsonl"]
    shape = ["network.hidden_sizes=[8]", f"seed={last.seed}", "hydra.run.dir=alone"]
    assert tuner("train", *SMALL_AGENTS[agent], *again, *shape, *values).status == 0
    assert tuple(read_reports(tuner.folder / "alone")) == last.curve


def test_a_schedule_of_the_best_rate_that_falls_is_reported_and_shown(tuner: CommandLine) -> None:
    answer = tuner("tune", *DRIFTING, *FOUR)
    assert (answer.status, answer.errors) == (0, "")
    assert "score of its schedule from scratch on test seeds" in answer.output
    assert "The best constant configuration is" in answer.output
    assert "tuner ablate" not in answer.output  # which refuses populations
    written = yaml.safe_load((tuner.folder / "studies/drifting/experiment/winner.yaml").read_text())
    assert written["agent"]["schedule"]["learning_rate"]
    static = yaml.safe_load((tuner.folder / "studies/drifting/experiment/static.yaml").read_text())
    assert static["agent"]["schedule"] == {}
    again = tuner("tune", *DRIFTING, *FOUR)
    assert "nothing was left to run" in again.output
    found = package.load(tuner.folder / "studies/drifting")
    _check_page(found.summary)
    origins = {(row["member"], row["generation"]): row["parent"] for row in found.rows if row["stage"] == "evolve"}
    assert origins[0, 0] is None
    assert sorted(origins) == [(member, generation) for member in range(4) for generation in range(4)]
    assert all(row["member"] is None for row in found.rows if row["stage"] == "test")


def _check_page(summary: StudySummary) -> None:
    """The tree of copies, what changed over time, and the schedule beside what never changed."""
    drawn = make_figures(summary, verdict(summary))
    joined = {trace["name"]: trace for trace in drawn["tree-figure"]["data"]}
    assert len([place for place in joined["went on from"]["x"] if place is None]) == 12, "all but the first generation"
    line = line_of(summary, summary.winner_label)
    assert joined["the winner's line"]["y"][:-1] == [run.descent.member for run in line if run.descent]
    rates = drawn["value-figure-0"]["data"][1]["y"][:-1:2]
    assert len(rates) == 4
    ranks = [run.params["agent.learning_rate"] for run in line]
    assert sorted(range(4), key=lambda at: rates[at]) == sorted(range(4), key=lambda at: ranks[at])  # type: ignore[arg-type, return-value]
    assert [trace["name"] for trace in drawn["replay-figure"]["data"]] == ["the schedule", "never changed", "default"]
    page = render_page(summary)
    assert 'id="population"' in page
    heads = page.partition('id="trial-table"')[2].partition("</tr>")[0]
    assert all(f">{name}<" in heads for name in ("member", "generation", "parent"))
    assert len(copies(summary)) == sum(
        run.params != summary.stage("evolve")[run.descent.parent].params
        for run in summary.stage("evolve")
        if run.descent and run.descent.parent is not None
    )


def test_the_plan_knows_it(tuner: CommandLine) -> None:
    answer = tuner("tune", *DRIFTING, "study=pbt", "plan=true", "study.steps_per_second=1000")
    assert answer.status == 0
    words = answer.output.split()
    assert words[words.index("evolve") + 1 : words.index("evolve") + 5] == ["8", "x", "8", "runs"]
    assert "160,000 env steps" in answer.output
    assert "no run is pruned" in answer.output


def test_the_plan_says_what_evolves(tuner: CommandLine) -> None:
    plan = ("tune", "study=pbt", "plan=true", "study.steps_per_second=1000", "agent=ppo")
    following, constant = (tuner(*plan, *typed).output for typed in ((), ("~schedule.learning_rate",)))
    assert "scheduled  optimizer.learning_rate; with ~schedule.learning_rate it evolves" in following
    assert "scheduled " not in constant
    assert "optimizer.learning_rate" not in _evolving(following)
    assert _evolving(constant) == {*_evolving(following), "optimizer.learning_rate"}


def _evolving(plan: str) -> set[str]:
    block = plan.partition("evolving")[2].partition("\n\n")[0].partition("scheduled ")[0]
    return {word.strip(",") for word in block.split() if "." in word}


def test_a_population_of_scheduled_parameters_is_refused(tuner: CommandLine) -> None:
    said = tuner.refused(
        *("tune", "study=pbt", "agent=ppo", "space=none", "+space.optimizer.learning_rate={low: 1e-4, high: 1e-2}")
    )
    assert "optimizer.learning_rate follows a schedule, so nothing of this space evolves: type ~schedule." in said


@pytest.mark.parametrize(
    ("typed", "words"),
    [
        (("agent=drifting", "sampler=random"), "sampler=random has no meaning with study=pbt"),
        (("agent=drifting", "evaluation.num_points=9"), "evaluation.num_points=9 must be a multiple"),
        (("agent=synthetic",), "a function evolves if it takes an argument `schedule`"),
        (
            ("agent=dqn", "~space", "+space.network.activation={choices: [relu, tanh]}"),
            "nothing of this space can change",
        ),
        (("agent=dqn", "study.metric=[mixed,seconds]"), "several objectives has no meaning"),
        (
            ("agent=dqn", "study.metric=steps_to_475"),
            "steps_to_475 has no meaning with study=pbt: members are compared",
        ),
        (("agent=dqn", "study.metric=seconds_to_475"), "use final, auc or mixed, or study=quick"),
    ],
)
def test_what_makes_no_sense_is_refused_in_words(tuner: CommandLine, typed: tuple[str, ...], words: str) -> None:
    answer = tuner("tune", "study=pbt", "tracker=jsonl", *typed)
    assert answer.status != 0
    assert words in " ".join(answer.errors.split())
    assert not (tuner.folder / "studies").exists()
