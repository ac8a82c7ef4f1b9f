"""A folder in which every command has something to work on: runs, studies, a comparison, the answer of a finder."""

from pathlib import Path

from tuner.cli import main

_SMALL = ("training.total_steps=240", "evaluation.num_points=3", "evaluation.num_episodes=1", "tracker=jsonl")
_QUICK = (*_SMALL, "network.hidden_sizes=[8]", "buffer.learning_starts=32", "buffer.batch_size=8")
_STUDY = (
    *("agent=synthetic", "executor=inline", "evaluation.num_points=3", "study.name=small", "study.num_trials=3"),
    *("study.num_race_seeds=0", "study.num_candidates=1", "study.num_select_seeds=1", "study.num_test_seeds=2"),
)

LINES = {
    "train": ("train", *_QUICK, "hydra.run.dir=trained"),
    "tune": ("tune", *_STUDY),
    "tune in a journal": ("tune", *_STUDY, "storage=journal", "study.folder=journal"),
    "compare": ("compare", *_QUICK, "agent=prioritized_dqn", "adaptive=ess", "adaptive.calibration=2", "num_seeds=2",
                "hydra.run.dir=compared"),
    "find": ("find", "finder=lr", *_QUICK, "executor=inline", "finder.num_seeds=1", "finder.num_steps=5",
             "storage.url=sqlite:///found.db", "study.folder=found", "study.name=rate"),
}  # fmt: skip
"""Command lines that make each part of it; the same line goes on with a study or a comparison."""


def make_world(folder: Path, parts: tuple[str, ...] = tuple(LINES)) -> None:
    """Fills the folder, which must be the working directory."""
    assert folder.resolve() == Path.cwd()
    for part in parts:
        assert main(LINES[part]) == 0, part
