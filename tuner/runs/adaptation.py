"""What adaptation left of a run: its decisions, and a schedule by which the run can be repeated without measuring."""

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Protocol

import yaml

from tuner.files import atomic_write

DECISIONS_FILE = "decisions.jsonl"
REPLAY_FOLDER = "adapted"
"""A folder of configuration groups: `tuner train --config-dir RUN/adapted adaptive=replay ...`."""


class Adapted(Protocol):
    """What is used of an agent."""

    @property
    def decisions(self) -> list[Any]:
        """Every decision so far, each with to_json()."""

    @property
    def adapted_schedule(self) -> Mapping[str, list[list[float]]]:
        """By parameter, which value held from which environment step on."""


def write_adaptation(agent: Adapted, folder: Path) -> None:
    """Writes both files into the folder of a run; none, if nothing was adapted."""
    if agent.decisions:
        lines = [json.dumps(decision.to_json()) for decision in agent.decisions]
        atomic_write(folder / DECISIONS_FILE, "\n".join(lines) + "\n")
    schedule = agent.adapted_schedule
    if not schedule:
        return
    path = folder / REPLAY_FOLDER / "adaptive" / "replay.yaml"
    path.parent.mkdir(parents=True, exist_ok=True)
    node = {"_target_": "note_rl.settings.Adaptive", "mode": "control", "schedule": dict(schedule)}
    atomic_write(
        path,
        f"# What adaptation made of {folder.name}: (environment steps, value from then on). To repeat that run, type\n"
        f"# what was typed then, with --config-dir {folder / REPLAY_FOLDER} adaptive=replay\n"
        + yaml.safe_dump(node, sort_keys=False, default_flow_style=None),
    )


def describe_adaptation(folder: Path) -> list[str]:
    """What a run's folder holds of it, in words; nothing if nothing was adapted."""
    path = folder / DECISIONS_FILE
    if not path.exists():
        return []
    changes = [one for one in map(json.loads, path.read_text().splitlines()) if one["old"] != one["new"]]
    names = sorted({str(one["parameter"]) for one in changes})
    what = f"changed {', '.join(names)} {len(changes)} times" if changes else "changed nothing"
    lines = [f"adaptation {what}; every decision is in {path}"]
    if (folder / REPLAY_FOLDER).exists():
        lines.append(f"the same without measuring: --config-dir {folder / REPLAY_FOLDER} adaptive=replay")
    return lines
