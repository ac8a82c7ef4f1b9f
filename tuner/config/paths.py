"""Dotted paths into a plain config."""

from collections.abc import Iterable

from tuner.trial.messages import JsonDict


def get_path(config: JsonDict, path: str) -> object:
    """The value at a dotted path; KeyError if there is none."""
    node: object = config
    for key in path.split("."):
        if not isinstance(node, dict) or key not in node:
            raise KeyError(path)
        node = node[key]
    return node


def set_path(config: JsonDict, path: str, value: object) -> None:
    """Puts a value at a dotted path that exists up to its last part."""
    *parents, last = path.split(".")
    node = config
    for key in parents:
        node = node[key]
    node[last] = value


def value_paths(config: JsonDict, prefix: str = "") -> Iterable[str]:
    """The paths of all values; an empty mapping is one."""
    for key, value in config.items():
        path = f"{prefix}.{key}" if prefix else key
        if isinstance(value, dict) and value:
            yield from value_paths(value, path)
        else:
            yield path
