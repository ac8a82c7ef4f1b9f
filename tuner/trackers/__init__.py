"""Where the measurements of runs go: JSON lines, a Parquet history, Weights & Biases, TensorBoard."""

from tuner.trackers.base import RunInfo, RunTracker, Table, Tracker, TrackerGroup
from tuner.trackers.history import HistoryTracker
from tuner.trackers.jsonl import JsonlTracker, read_metrics
from tuner.trackers.tensorboard import TensorBoardTracker
from tuner.trackers.wandb.tracker import WandbTracker

__all__ = [
    "HistoryTracker",
    "JsonlTracker",
    "RunInfo",
    "RunTracker",
    "Table",
    "TensorBoardTracker",
    "Tracker",
    "TrackerGroup",
    "WandbTracker",
    "read_metrics",
]
