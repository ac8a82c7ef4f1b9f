"""Descriptions of settings: the comments of the YAML files that a configuration is composed of."""

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path, PurePosixPath

import yaml

_LOADER = getattr(yaml, "CSafeLoader", yaml.SafeLoader)
IS_GLOBAL = re.compile(r"^# @package _global_\s*$", re.MULTILINE)
_SENTENCE = re.compile(r"(?<!al)\.\s+(?=[A-Z])")  # not behind "et al."


@dataclass(frozen=True)
class Comments:
    """Of one file, and of those of its own group that it builds on.

    Attributes:
        title: Its first sentence: what the choice is for.
        texts: By dotted path of the setting, what stands behind it.
    """

    title: str = ""
    texts: Mapping[str, str] = field(default_factory=dict)


def comments_of(folders: Sequence[Path], group: str, choice: str) -> Comments:
    """The comments of a choice, or of a primary config, whose group is empty.

    Args:
        folders: Of configuration groups; the first one that has the file counts.
        group: Of the choice.
        choice: Its name.
    """
    paths = (folder / group / f"{choice}.yaml" for folder in folders)
    path = next((path for path in paths if path.is_file()), None)
    if path is None:
        return Comments()
    text = path.read_text()
    root = yaml.compose(text, Loader=_LOADER)
    prefix = "" if not group or IS_GLOBAL.search(text) else f"{group.replace('/', '.')}."
    texts: dict[str, str] = {}
    if isinstance(root, yaml.MappingNode):
        for other in _built_on(root, group, choice):
            texts.update(comments_of(folders, group, other).texts)
        texts.update(_comments(root, text.splitlines(), prefix))
    return Comments(_title(text), texts)


def choice_built_on(group: str, choice: str, entry: object) -> str | None:
    """The choice of its own group that a choice builds on.

    Args:
        group: Of both.
        choice: Its name; of a file in an inner folder `sbx/ppo`.
        entry: One of its defaults list: a name in its own folder, or a path such as `/agent/sb3`.

    Returns:
        Its name; None: the entry is something else.
    """
    if not isinstance(entry, str) or entry == "_self_":
        return None
    if entry.startswith("/"):
        return entry.removeprefix(f"/{group}/") if entry.startswith(f"/{group}/") else None
    return (PurePosixPath(choice).parent / entry).as_posix()


def _built_on(root: yaml.MappingNode, group: str, choice: str) -> Iterator[str]:
    for key, value in root.value:
        if key.value == "defaults" and isinstance(value, yaml.SequenceNode):
            entries = (entry.value for entry in value.value if isinstance(entry, yaml.ScalarNode))
            yield from filter(None, (choice_built_on(group, choice, entry) for entry in entries))


def _comments(node: yaml.MappingNode, lines: Sequence[str], prefix: str) -> Iterator[tuple[str, str]]:
    for key, value in node.value:
        path = f"{prefix}{key.value}"
        is_block = isinstance(value, yaml.CollectionNode) and not value.flow_style
        end = key.end_mark if is_block else value.end_mark
        if comment := _comment_at(lines, end.line, end.column):
            yield path, comment
        if isinstance(value, yaml.MappingNode) and is_block:
            yield from _comments(value, lines, f"{path}.")


def _comment_at(lines: Sequence[str], number: int, column: int) -> str:
    """The comment behind a column of a line, and its continuation in the lines below."""
    if number >= len(lines) or not (found := re.match(r":?\s*#\s?", lines[number][column:])):
        return ""
    begin = lines[number].index("#", column)
    words = [lines[number][column + found.end() :]]
    for line in lines[number + 1 :]:
        if line.find("#") != begin or line[:begin].strip():
            break
        words.append(line[begin + 1 :])
    return " ".join(word.strip() for word in words)


def _title(text: str) -> str:
    """The first sentence of the comment at the top of a file."""
    words = []
    for line in text.splitlines():
        if not line.startswith("#"):
            break
        if not line.startswith("# @package"):
            words.append(line.lstrip("# "))
    return _SENTENCE.split(" ".join(words).strip(), 1)[0].rstrip(".")
