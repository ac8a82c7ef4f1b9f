"""`tuner ablate` as it is typed: after a study whose truth is a formula, and what is refused."""

import csv
import json
import os
import shlex
import signal
from pathlib import Path

import pytest

from tests.tuner.command_line import CommandLine, files_read_once, tuner
from tests.tuner.studies import CONFIG, ControllerDied, FakeExecutor, journal, run_study
from tuner.features.population.evolution import Evolution
from tuner.results.metric import Mixed
from tuner.runs.simulator import Synthetic
from tuner.study import StudyStore
from tuner.study.run_registry import SeedRegistry
from tuner.study.storage.store import DEFINITION, FACTS

__all__ = ["files_read_once", "tuner"]

SILENT = (
    *("agent=synthetic", "agent.seed_noise=0", "agent.evaluation_noise=0", "evaluation.num_points=2", "tracker=jsonl"),
)
QUICKLY = "storage.url=journal:///studies.journal"
QUICK = (*SILENT, "executor=inline", "study.name=hill", "study.num_trials=6", "study.num_race_seeds=0")
STUDY = (*QUICK, "study.num_candidates=1", "study.num_select_seeds=1", "study.num_test_seeds=1", "sampler=random")
FEWER = ("~space.agent.activation", "~space.agent.entropy_coef")
ABLATE = ("ablate", "hill", "executor=inline", "tracker=jsonl", QUICKLY, "num_seeds=5", "num_race_seeds=3")
NAMES = ("learning_rate", "gamma", "batch_size")


def score(values: dict[str, object]) -> float:
    """Score of a run of this configuration without noise."""
    default = {"learning_rate": 1e-4, "gamma": 0.9, "batch_size": 256, "num_points": 2}
    return float(Mixed()(Synthetic(**{**default, **values}).expected_curve()))  # type: ignore[arg-type]


def pressing_ctrl_c(registry: SeedRegistry) -> None:
    """In the place of the next run."""
    os.kill(os.getpid(), signal.SIGINT)


def test_each_step_scores_what_its_configuration_does(tuner: CommandLine, monkeypatch: pytest.MonkeyPatch) -> None:
    assert tuner("tune", *STUDY, *FEWER, QUICKLY).status == 0
    planned = tuner(*ABLATE, "plan=true")
    assert planned.status == 0
    assert "agent.learning_rate 0.0001 -> " in planned.output
    assert not (tuner.folder / "studies/hill/ablate").exists()
    done = tuner(*ABLATE)
    assert done.status == 0, done.errors
    assert "brought" in done.output
    with (tuner.folder / "studies/hill/ablation.csv").open() as file:
        rows = list(csv.DictReader(file))
    values: dict[str, object] = {}
    for row in rows[1:]:
        name = row["parameter"].removeprefix("agent.")
        assert name in NAMES
        values[name] = float(row["after"])
        if row is [other for other in rows if other["step"] == row["step"]][-1]:
            assert float(row["score"]) == pytest.approx(score(values), rel=1e-6)
    assert float(rows[0]["score"]) == pytest.approx(score({}))
    assert sum(float(row["share"]) for row in {row["step"]: row for row in rows[1:]}.values()) == pytest.approx(1.0)
    kept = json.loads((tuner.folder / "studies/hill/report.json").read_text())
    assert kept["ablation"]["steps"][0]["changes"][0]["path"] == rows[1]["parameter"]
    page = (tuner.folder / "studies/hill/report.html").read_text()
    assert "What the changes of the winner are worth" in page, "one test seed does not tell that it is better"
    assert "ablation-figure" in page
    again = tuner(*ABLATE)
    assert again.status == 0
    assert json.loads((tuner.folder / "studies/hill/report.json").read_text())["ablation"] == kept["ablation"]
    assert "From the default configuration to trial" in tuner("report", "hill", "tracker=jsonl", QUICKLY).output
    runs = tuner.folder / "studies/hill/ablate"
    with monkeypatch.context() as patch:
        patch.setattr(SeedRegistry, "next_run", pressing_ctrl_c)
        stopped = tuner(*ABLATE, "num_seeds=6")
    assert stopped.status == 130
    assert shlex.join(["tuner", *ABLATE, "num_seeds=6"]) in stopped.output
    assert len(list(runs.iterdir())) == kept["ablation"]["num_runs"]
    assert tuner(*ABLATE, "num_seeds=6").status == 0
    assert len(list(runs.iterdir())) > kept["ablation"]["num_runs"]


def test_ranges_are_planned_run_and_shown(tuner: CommandLine) -> None:
    assert tuner("tune", *STUDY, *FEWER, QUICKLY).status == 0
    asked = ("ranges=[learning_rate]", "num_checks=4")
    planned = tuner(*ABLATE, *asked, "plan=true")
    assert "how far agent.learning_rate may move: up to 4 values on each side of the winner's" in planned.output
    assert "up to 40 runs" in planned.output
    assert "(ranges=true)" in tuner(*ABLATE, "plan=true").output
    done = tuner(*ABLATE, *asked)
    assert done.status == 0, done.errors
    assert "learning_rate may lie between " in done.output
    with (tuner.folder / "studies/hill/ranges.csv").open() as file:
        rows = list(csv.DictReader(file))
    assert 4 <= len(rows) <= 9
    kept = json.loads((tuner.folder / "studies/hill/report.json").read_text())
    own = {change["path"]: change["after"] for step in kept["ablation"]["steps"] for change in step["changes"]}
    rest = {path.removeprefix("agent."): float(value) for path, value in own.items()}
    for row in rows:
        assert float(row["score"]) == pytest.approx(score({**rest, "learning_rate": float(row["value"])}), rel=1e-6)
    best = score(rest)
    limit = best - 0.05 * (best - score({}))
    assert [row["holds"] for row in rows] == ["yes" if float(row["score"]) >= limit else "no" for row in rows]
    assert "range-figure-1" in (tuner.folder / "studies/hill/report.html").read_text()
    assert "learning_rate may lie between" in tuner("report", "hill", "tracker=jsonl", QUICKLY).output
    assert "did you mean agent.learning_rate" in tuner.refused(*ABLATE, "ranges=[learningrate]")


def test_a_study_of_former_settings_is_ablated_once_its_command_is_repeated(tuner: CommandLine) -> None:
    own = tuner.folder / "my_conf/agent/mine.yaml"
    own.parent.mkdir(parents=True)
    text = "# @package _global_\ndefaults: [synthetic]\nagent:\n  entropy_coef: {}\n"
    own.write_text(text.format(0.02))
    study = tuple(word for word in STUDY if not word.startswith("agent=synthetic"))
    assert (
        tuner("tune", "--config-dir", "my_conf", "agent=mine", "space=synthetic", *study, *FEWER, QUICKLY).status == 0
    )
    kept = json.loads((tuner.folder / "studies/hill/report.json").read_text())
    assert kept["study_command"].startswith("tuner tune --config-dir my_conf agent=mine ")
    own.write_text(text.format(0.03))
    about, last = tuner.refused(*ABLATE, "plan=true").splitlines()
    way, _, command = last.partition(": ")
    assert about.endswith("study hill was begun with other settings: agent.entropy_coef was 0.02 and is 0.03.")
    assert way == "type this, and then the same tuner ablate again"
    assert command == f"{kept['study_command']} study.as_begun=true"
    assert tuner(*shlex.split(command)[1:]).status == 0
    assert "agent.learning_rate 0.0001 -> " in tuner(*ABLATE, "plan=true").output


def test_a_storage_does_not_vouch_for_its_own_code(tuner: CommandLine) -> None:
    assert tuner("tune", *STUDY, *FEWER, QUICKLY).status == 0
    with StudyStore("journal:///studies.journal") as store:
        study = store.find("hill")
        assert study is not None
        definition, facts = study.user_attrs[DEFINITION], study.user_attrs[FACTS]
        definition["config"]["agent"]["_target_"] = "my_rl.f"
        study.set_user_attr(DEFINITION, definition)
        store.keep_fact("hill", "command", f"{facts['command']} study.as_begun=true trust=my_rl")
    assert tuner.refused(*ABLATE).endswith("add trust=my_rl\n")


def test_studies_without_a_path_are_refused_by_name(tuner: CommandLine) -> None:
    assert "there is no" in tuner.refused("ablate")
    storage = f"storage.url={journal(tuner.folder)}"
    run_study(tuner.folder, name="front", metric=("mixed", "seconds"))
    assert "of several objectives: it has a front" in tuner.refused("ablate", "front", storage)
    steps = {"config": {**CONFIG, "evaluation": {"num_points": 8}}, "num_trials": 4, "num_candidates": 1}
    stopped = FakeExecutor(die_after=30)
    with pytest.raises(ControllerDied):
        run_study(tuner.folder, stopped, name="members", search=Evolution(generations=4), **steps)
    assert "its winner is a schedule" in tuner.refused("ablate", "members", storage)
    with pytest.raises(ControllerDied):
        run_study(tuner.folder, FakeExecutor(die_after=30), name="begun")
    assert "study begun has no winner yet" in tuner.refused("ablate", "begun", storage)
    same = tuner.refused("ablate", "membres", storage)
    assert "there is no study membres" in same
    assert "members" in same


def test_a_winner_that_is_the_default_is_refused(tuner: CommandLine) -> None:
    start = ("warm_start=default", "study.num_trials=1", "study.num_candidates=1", "study.num_race_seeds=0")
    start += ("study.num_test_seeds=1",)
    assert tuner("tune", *SILENT, "executor=inline", "study.name=same", *start, "storage=journal").status == 0
    assert "is the default configuration" in tuner.refused("ablate", "same", "executor=inline", QUICKLY)


@pytest.mark.parametrize(
    ("typed", "complaint"),
    [
        ("num_seeds=3", "num_seeds=3 is not possible: it must be at least 5"),
        ("num_race_seeds=1", "num_race_seeds=1 is not possible: it must be from 3 to 16"),
        ("until=2", "until=2 is not possible: it must be above 0 and at most 1"),
        ("storage.url=memory", "storage.url=memory keeps no study"),
        ("num_seed=9", "num_seeds"),
        ("num_checks=9", "num_checks=9 is not possible: it must be from 1 to 8"),
        ("ranges=[]", "ranges=[] names no parameter"),
    ],
)
def test_what_makes_no_ablation_is_refused(tuner: CommandLine, typed: str, complaint: str) -> None:
    assert complaint in tuner.refused("ablate", typed)


def test_code_that_only_the_storage_names_is_not_run(tuner: CommandLine, monkeypatch: pytest.MonkeyPatch) -> None:
    """A study may be somebody else's, and so may be the function that it says it tunes."""
    own = tuner.folder / "negative_rate.py"
    own.write_text("def train(lr, seed=0):\n    return -lr\n")
    monkeypatch.syspath_prepend(tuner.folder)
    monkeypatch.setenv("XDG_STATE_HOME", str(tuner.folder / "state"))
    function = (
        "agent=function",
        "agent._target_=negative_rate.train",
        "+agent.lr=1.0",
        "tracker=jsonl",
        "storage=journal",
    )
    searched = ("+space.agent.lr={low: 0.001, high: 0.5, log: true}", "executor=inline", "study.name=mine")
    told = ("executor=inline", "tracker=jsonl", QUICKLY)
    sizes = ("study.num_trials=2", "study.num_candidates=1", "study.num_race_seeds=0", "study.num_test_seeds=1")
    assert tuner("tune", *function, *searched, *sizes).status == 0
    monkeypatch.setenv("XDG_STATE_HOME", str(tuner.folder / "another"))
    assert "trust=negative_rate" in tuner.refused("ablate", "mine", *told)
    done = tuner("ablate", "mine", *told, "trust=negative_rate", "num_seeds=5")
    assert done.status == 0, done.errors
    assert "lr 1 -> " in done.output
    assert Path("studies/mine/ablation.csv").is_file()


def test_a_storage_looks_nothing_up(tuner: CommandLine, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SECRET", "the value of a secret")
    run_study(tuner.folder, name="theirs", facts={"command": "tuner tune 'env.kwargs.x=${oc.env:SECRET}'"})
    said = tuner.refused("ablate", "theirs", f"storage.url={journal(tuner.folder)}")
    assert "asks for env.kwargs.x=${oc.env:SECRET}, and what this machine has in its environment" in said
    assert "the value of" not in said
