"""Files of adaptation in a run: its decisions, and a schedule by which the run can be repeated without measuring."""

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Protocol

import yaml

from note_rl.settings.signals import registered
from tuner.support.text_files import atomic_write

DECISIONS_FILE = "decisions.jsonl"
REPLAY_FOLDER = "adapted"
"""A folder of configuration groups: `tuner train --config-dir RUN/adapted adaptive=replay ...`."""


class Adapted(Protocol):
    """Interface of an adapted agent, as it is needed here."""

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
    if agent.adapted_schedule:
        about = f"What adaptation made of {folder.name}. To repeat that run, type what was typed then,"
        write_schedule(folder, agent.adapted_schedule, about)


def write_schedule(folder: Path, schedule: Mapping[str, Any], about: str) -> None:
    """Writes a schedule as a choice of `adaptive`, which repeats it without measuring.

    Args:
        folder: Gets a sub-folder of configuration groups.
        schedule: By parameter, which value holds from which environment step on.
        about: For people: what it is, and what must be typed besides.
    """
    path = folder / REPLAY_FOLDER / "adaptive" / "replay.yaml"
    path.parent.mkdir(parents=True, exist_ok=True)
    node = {"_target_": "note_rl.settings.Adaptive", "mode": "control", "schedule": dict(schedule)}
    lines = (
        about,
        f"with --config-dir {folder / REPLAY_FOLDER} adaptive=replay.",
        "Pairs are (environment steps, value from then on).",
    )
    title = "".join(f"# {line}\n" for line in lines)
    atomic_write(path, title + yaml.safe_dump(node, sort_keys=False, default_flow_style=None))


def describe_adaptation(folder: Path) -> list[str]:
    """The adaptation recorded in a run's folder, in words; empty if nothing was adapted."""
    path = folder / DECISIONS_FILE
    if not path.exists():
        return []
    decisions = [json.loads(line) for line in path.read_text().splitlines()]
    changes = [decision for decision in decisions if decision["old"] != decision["new"]]
    names = sorted({str(change["parameter"]) for change in changes})
    what = f"changed {', '.join(names)} {len(changes)} times" if changes else "changed nothing"
    lines = [f"adaptation {what}; every decision is in {path}"]
    lines += [f"  by {_described(name)}" for name in sorted({str(change["signal"]) for change in changes})]
    if (folder / REPLAY_FOLDER).exists():
        lines.append(f"the same without measuring: --config-dir {folder / REPLAY_FOLDER} adaptive=replay")
    return lines


def _described(name: str) -> str:
    """A signal with its line of text, which one of the user's own has only where it is imported."""
    signal = registered().get(name)
    return name if signal is None else f"{name}: {signal.text}"
