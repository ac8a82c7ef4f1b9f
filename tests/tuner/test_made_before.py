"""What was made while all modules lay flat goes on: a study that was killed in a trial, and a run that was stopped.

Their folders and the database name modules by the paths that these had then.
"""

import json
import shlex
import tarfile
from pathlib import Path

import pytest

from tests.tuner.command_line import CommandLine
from tuner.study import StudyStore, summarise
from tuner.trial.messages import Outcome, TrialSpec

MADE = Path(__file__).parent / "made_before.tar.gz"


@pytest.fixture
def before(tuner: CommandLine) -> CommandLine:
    with tarfile.open(MADE) as archive:
        archive.extractall(tuner.folder, filter="data")
    return tuner


def test_a_study_goes_on(before: CommandLine) -> None:
    url, home = "sqlite:///studies.db", before.folder / "studies" / "before"
    with StudyStore(url) as store:
        (done, killed) = summarise(store, "before", home).runs
        command = store.require("before").user_attrs["facts"]["command"]
    assert (done.outcome, killed.outcome) == (Outcome.COMPLETE, None)
    reported = [json.loads(line) for line in (home / "screen/1/reports.jsonl").read_text().splitlines()]
    assert len(reported) == 2
    typed = ("tune", *shlex.split(command)[2:], "executor=inline")
    refused = before.refused(*typed)  # as the defaults of DQN have changed since
    assert "buffer.batch_size was 64 and is 128" in refused
    assert "go on with these with study.as_begun=true, or begin another study" in refused
    answer = before(*typed, "study.as_begun=true")
    assert answer.status == 0, answer
    with StudyStore(url) as store:
        runs = summarise(store, "before", home).runs
    assert runs[0] == done
    assert (runs[1].outcome, len(runs[1].curve)) == (Outcome.COMPLETE, 4)
    now = [json.loads(line) for line in (home / "screen/1/reports.jsonl").read_text().splitlines()]
    assert now[:2] == reported
    assert {run.outcome for run in runs} == {Outcome.COMPLETE}
    assert [run.stage for run in runs].count("test") == 4
    configs = [json.loads(path.read_text())["config"] for path in home.glob("test/*/trial.json")]
    chosen = [(config["buffer"]["num_steps"], config["buffer"]["batch_size"]) for config in configs]
    assert chosen.count((1, 64)) >= 2  # of the default as it was
    assert (16, 128) not in chosen


def test_a_run_goes_on(before: CommandLine) -> None:
    answer = before("train", "resume=run", "training.total_steps=2000")
    assert answer.status == 0, answer
    assert "after 2,000 steps" in answer.output
    assert before("play", "run=run", "num_episodes=1").status == 0


@pytest.mark.parametrize("module", ["training", "functions"])
def test_what_trials_call_is_found_in_its_room(module: str) -> None:
    text = json.dumps({**json.loads(_SPEC.to_json()), "entry": f"tuner.{module}:run_trial"})
    assert TrialSpec.from_json(text).entry == f"tuner.runs.{module}:run_trial"


_SPEC = TrialSpec("study", "screen", 0, 1, {})
