"""Writes what a release leaves behind, for later versions to read: a run of each framework, and a study.

    python -m tests.tuner.releases.make tests/tuner/releases/0.2.0

That is done once for each release that changes what is written, with its code, and committed.

Checkpoints are safetensors, all else is text. `test_releases.py` reads every folder beside this file. A release that
writes a new kind of file adds it here, and what must be found in it to `expected.json`.
"""

import json
import os
import shutil
import sys
import tempfile
from pathlib import Path
from typing import Any

import numpy as np

from tuner.cli import main
from tuner.results.features import all_stages
from tuner.runs.trained_agents import load_run
from tuner.study import StudyStore, summarise

BACKENDS = ("torch", "keras")
OBSERVATIONS = np.linspace(-0.1, 0.1, 12, dtype=np.float32).reshape(3, 4)
TRAIN = (
    *("train", "agent=dqn", "tracker=jsonl", "seed=1", "progress=quiet"),
    *("training.total_steps=64", "evaluation.num_points=2", "evaluation.num_episodes=1", "network.hidden_sizes=[4]"),
    *("buffer.capacity=32", "buffer.learning_starts=16", "buffer.batch_size=8", "buffer.train_freq=8"),
)
TUNE = (
    *("tune", "agent=synthetic", "executor=inline", "storage=journal", "study.name=study", "study.num_trials=3"),
    *("study.num_race_seeds=0", "study.num_candidates=1", "study.num_select_seeds=1", "study.num_test_seeds=2"),
    *("evaluation.num_points=3", "sampler=random"),
)
KEPT = ("config.yaml", "metrics.jsonl", "reports.jsonl", "result.json", "clock.json", "checkpoint.safetensors")
"""Of a run's folder, what a later version goes on from; the rest are pictures of it, locks and logs."""


def values_of(run: str) -> list[list[float]]:
    """Values [3, A] of the actions in `OBSERVATIONS`, by the last weights of a run."""
    values = load_run(Path(run)).agent.learner.act(OBSERVATIONS)
    return [[float(value) for value in row] for row in values]


def make(folder: Path) -> None:
    """Writes all of it into a folder that is not there yet."""
    with tempfile.TemporaryDirectory() as aside:  # whose name, and not that of this checkout, is noted in the study
        os.chdir(aside)
        _make_here()
        shutil.copytree(aside, folder)


def _make_here() -> None:
    expected: dict[str, Any] = {}
    for backend in BACKENDS:
        _typed(*TRAIN, f"backend={backend}", f"hydra.run.dir=run_{backend}")
        _keep_only(Path(f"run_{backend}"), KEPT)
        expected[backend] = values_of(f"run_{backend}")
    _typed(*TUNE)
    home = Path("studies/study")
    _keep_only(home, ("report.json", *all_stages()))
    for trial in list(home.glob("*/*")):
        _keep_only(trial, ("trial.json", "reports.jsonl", "result.json"))
    with StudyStore("journal:///studies.journal") as store:
        runs = summarise(store, "study", home).runs
    expected["study"] = [[run.stage, run.label, run.value] for run in runs]
    Path("expected.json").write_text(json.dumps(expected, indent=1) + "\n")


def _typed(*words: str) -> None:
    if main(list(words)):
        raise SystemExit(f"{' '.join(words)} failed")


def _keep_only(folder: Path, names: tuple[str, ...]) -> None:
    for one in folder.iterdir():
        if one.name not in names:
            shutil.rmtree(one) if one.is_dir() else one.unlink()


if __name__ == "__main__":
    make(Path(sys.argv[1]).absolute())
