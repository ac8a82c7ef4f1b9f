"""Dotted paths into a plain config."""

from collections.abc import Iterator, Mapping
from typing import Any

from tuner.trial.messages import JsonDict


def get_path(config: Mapping[str, Any], path: str) -> object:
    """The value at a dotted path, in which a number leads into a list; KeyError if there is none."""
    node: object = config
    for key in path.split("."):
        if isinstance(node, list) and key.isdecimal() and int(key) < len(node):
            node = node[int(key)]
        elif isinstance(node, Mapping) and key in node:
            node = node[key]
        else:
            raise KeyError(path)
    return node


def has_path(config: Mapping[str, Any], path: str) -> bool:
    """Whether there is a value at a dotted path."""
    try:
        get_path(config, path)
    except KeyError:
        return False
    return True


def set_path(config: JsonDict, path: str, value: object) -> None:
    """Puts a value at a dotted path that exists up to its last part; a number leads into a list."""
    *parents, last = path.split(".")
    node: Any = config
    for key in parents:
        node = node[int(key) if isinstance(node, list) else key]
    node[int(last) if isinstance(node, list) else last] = value


def flatten(config: Mapping[str, Any]) -> JsonDict:
    """The values by dotted path; an empty mapping is a value."""
    flat: JsonDict = {}
    for key, value in config.items():
        if isinstance(value, Mapping) and value:
            flat.update({f"{key}.{path}": leaf for path, leaf in flatten(value).items()})
        else:
            flat[str(key)] = value
    return flat


def config_difference(before: Mapping[str, Any], now: Mapping[str, Any]) -> list[str]:
    """One line for each value that differs between two configs. A place that only one has is none if it is empty."""
    old, new = flatten(before), flatten(now)
    lines = []
    for path in sorted({**old, **new}):
        if (path not in old or path not in new) and {**old, **new}[path] in ({}, None):
            continue
        if path not in new:
            lines.append(f"{path} was {old[path]} and is gone")
        elif path not in old:
            lines.append(f"{path} is new")
        elif old[path] != new[path]:
            lines.append(f"{path} was {old[path]} and is {new[path]}")
    return lines


def targets_in(node: object, path: str = "") -> Iterator[tuple[str, Mapping[str, Any]]]:
    """Every mapping with a `_target_`, at any depth, with its path."""
    if isinstance(node, Mapping):
        if "_target_" in node:
            yield path, node
        for key, value in node.items():
            yield from targets_in(value, f"{path}.{key}" if path else str(key))
    elif isinstance(node, list):
        for index, value in enumerate(node):
            yield from targets_in(value, f"{path}.{index}")


def num_values(content: object, most: int) -> int:
    """How many values there are in what a file holds, counted up to `most`: aliases of YAML can stand for very many."""
    waiting, count = [content], 0
    while waiting and count < most:
        node = waiting.pop()
        count += 1
        if isinstance(node, dict | list):
            waiting.extend(node.values() if isinstance(node, dict) else node)
    return count
