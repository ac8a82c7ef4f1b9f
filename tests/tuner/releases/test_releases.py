"""Files of released versions are read: from 0.1.0 on that is promised."""

import json
import shutil
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from note_rl.support.formats import FORMAT
from note_rl.training.checkpoint import read_checkpoint
from tests.tuner.command_line import CommandLine
from tests.tuner.releases.make import BACKENDS, TUNE, values_of
from tuner.results.summary_json import summary_from_json
from tuner.study import StudyStore, summarise
from tuner.trial.folder import read_trial
from tuner.trial.messages import Outcome

RELEASES = sorted(path for path in Path(__file__).parent.iterdir() if (path / "expected.json").is_file())


@pytest.fixture(params=RELEASES, ids=lambda path: path.name)
def release(request: pytest.FixtureRequest, tuner: CommandLine) -> dict[str, Any]:
    """Copies the files of a release to the working directory; returns the facts that must be found in them."""
    shutil.copytree(request.param, tuner.folder, dirs_exist_ok=True)
    expected: dict[str, Any] = json.loads((request.param / "expected.json").read_text())
    return expected


def test_the_first_release_is_among_them() -> None:
    assert "0.1.0" in [path.name for path in RELEASES]


@pytest.mark.parametrize(
    "backend", [pytest.param(name, marks=pytest.mark.slow) if name == "keras" else name for name in BACKENDS]
)
def test_a_run_acts_as_it_did_and_goes_on(release: dict[str, Any], tuner: CommandLine, backend: str) -> None:
    folder = tuner.folder / f"run_{backend}"
    np.testing.assert_allclose(values_of(str(folder)), release[backend], rtol=1e-5)
    _, head = read_checkpoint(folder / "checkpoint.safetensors")
    assert head["trainer"]["clock"]["num_env_steps"] == 64
    assert head["written_by"]["format"] <= FORMAT
    before = (folder / "reports.jsonl").read_text().splitlines()
    answer = tuner("train", f"resume={folder.name}", "training.total_steps=128")
    assert answer.status == 0, answer
    assert read_checkpoint(folder / "checkpoint.safetensors")[1]["trainer"]["clock"]["num_env_steps"] == 128
    values = [json.loads(line)["value"] for line in (folder / "reports.jsonl").read_text().splitlines()]
    assert values[: len(before)] == [json.loads(line)["value"] for line in before]


def test_a_study_is_read_and_goes_on(release: dict[str, Any], tuner: CommandLine) -> None:
    home = tuner.folder / "studies" / "study"
    with StudyStore("journal:///studies.journal") as store:
        before = summarise(store, "study", home)
    assert [[run.stage, run.label, run.value] for run in before.runs] == release["study"]
    assert {run.outcome for run in before.runs} == {Outcome.COMPLETE}
    assert summary_from_json((home / "report.json").read_text()).runs == tuple(
        replace(run, folder=str(Path("studies/study") / run.stage / str(run.number))) for run in before.runs
    )
    trial = read_trial(home / "screen" / "0")
    assert trial.spec is not None
    assert trial.result is not None
    assert trial.reports == before.runs[0].curve
    answer = tuner(*(word.replace("num_trials=3", "num_trials=4") for word in TUNE))
    assert answer.status == 0, answer
    with StudyStore("journal:///studies.journal") as store:
        after = summarise(store, "study", home)
    assert after.stage("screen")[:3] == before.stage("screen")
    assert len(after.stage("screen")) == 4


@pytest.mark.parametrize("name", ["config.yaml", "trial.json"])
def test_a_run_of_a_newer_format_is_refused_with_both_versions(tuner: CommandLine, name: str) -> None:
    folder = tuner.folder / "run"
    folder.mkdir()
    mark = {"note_rl": "0.9.1", "format": FORMAT + 1}
    (folder / name).write_text(json.dumps({"written_by": mark, "seed": 1, "unknown": {}}))
    refused = tuner.refused("train", "resume=run")
    assert f"run/{name}: note-rl 0.9.1 wrote it in format {FORMAT + 1}, and this is note-rl" in refused
    assert "pip install 'note-rl>=0.9.1'" in refused
