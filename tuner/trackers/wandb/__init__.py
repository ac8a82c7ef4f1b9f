"""Weights & Biases: `tracker` follows runs, `sdk` is the one place that talks to `wandb`, `report` writes a report."""

from tuner.trackers.wandb.tracker import WandbTracker

__all__ = ["WandbTracker"]
