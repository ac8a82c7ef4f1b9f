"""Names of configurations in tables and figures, and of runs beside each other by the settings in which they differ."""

from collections.abc import Mapping, Sequence
from typing import Any, Final

from tuner.config.paths import flatten
from tuner.results.number_format import format_value
from tuner.results.protocol import DEFAULT_BASELINE
from tuner.results.records import StudySummary

_NOT_COMPARED: Final = ("seed", "tracker", "checkpoint", "trust", "resume", "backend.device")
"""Settings that do not make another configuration of a run."""

_SUBJECT: Final = ("agent._target_", "env.id", "backend.name")
"""Subject of a run; runs about different subjects are not distinguished by their other settings."""

_MOST_SETTINGS: Final = 4


def shown_label(summary: StudySummary, label: str) -> str:
    """The label of a configuration for readers; that of the default configuration is marked: "trial 0 (default)"."""
    return f"{label} (default)" if summary.starts.get(label) == DEFAULT_BASELINE else label


def compared_settings(config: Mapping[str, Any]) -> dict[str, Any]:
    """By dotted path, the settings of a run that make it this configuration, and not only another seed of it."""
    return {
        path: value
        for path, value in flatten(config).items()
        if not any(path == name or path.startswith(f"{name}.") for name in _NOT_COMPARED)
    }


def labels_of(configs: Sequence[Mapping[str, Any]]) -> list[str]:
    """A label for each configuration: agent, environment and framework as far as they differ, then other settings.

    Args:
        configs: As `compared_settings` gives them, no two alike.

    Returns:
        Labels; equal ones, where more settings differ than a label has room for, are numbered.
    """
    subjects = [tuple(config.get(path) for path in _SUBJECT) for config in configs]
    telling = [index for index, values in enumerate(zip(*subjects, strict=True)) if len(set(values)) > 1]
    labels = []
    for config, subject in zip(configs, subjects, strict=True):
        peers = [other for other, about in zip(configs, subjects, strict=True) if about == subject]
        words = [_last_part(subject[index]).rpartition(":")[2] for index in telling]  # env.id=MODULE:NAME
        labels.append(", ".join([*words, *_differences(config, peers)]) or _last_part(subject[0]))
    return [
        f"{label} ({labels[: number + 1].count(label)})" if labels.count(label) > 1 else label
        for number, label in enumerate(labels)
    ]


def _differences(config: Mapping[str, Any], peers: Sequence[Mapping[str, Any]]) -> list[str]:
    """The settings of a configuration that are others in one of its peers."""
    paths = dict.fromkeys(path for peer in peers for path in peer)
    differing = [path for path in paths if any(peer.get(path) != peers[0].get(path) for peer in peers)]
    words = [f"{path.removesuffix('._target_')}={_last_part(config[path])}" for path in differing if path in config]
    return words[:_MOST_SETTINGS] + (["..."] if len(words) > _MOST_SETTINGS else [])


def _last_part(value: Any) -> str:
    """A value in short: of the path of a class, its name."""
    is_path = isinstance(value, str) and all(part.isidentifier() for part in value.split("."))
    return format_value(value.rpartition(".")[2] if is_path else value)
