"""Comments and values in conf/ agree with Python's defaults: the same number, or the other one is named behind it."""

import importlib
import inspect
import re
from collections.abc import Iterator
from dataclasses import MISSING, fields
from pathlib import Path
from typing import Any

import pytest
import yaml

from note_rl.settings import Settings
from note_rl.support.setting_fields import Field, fields_of
from note_rl.training.train_options import TrainOptions
from tuner.commands.questions import AgentFinder, OptimizerFinder, RateFinder
from tuner.config.composition import BackendConfig, CheckpointConfig, EvaluationConfig, TrainingConfig, conf_folder
from tuner.config.section_base import Section

NAMED_BY_FILE = ("adaptive", "executor", "plateau", "schedule")
"""Groups whose files differ by words and lists on purpose; their numbers are compared."""
GROUPS = ("agent", "buffer", "collector", "noise", "optimizer", "policy", *NAMED_BY_FILE)
FUNCTIONS = ("function", "synthetic")  # agents that are none
FILES = [
    file for group in GROUPS for file in sorted((conf_folder() / group).glob("*.yaml")) if file.stem not in FUNCTIONS
]
Line = tuple[str, Any, str]


def lines_of(node: yaml.MappingNode, text: str) -> Iterator[Line]:
    """The values of a mapping that are no mappings: key, value, and the comment behind it."""
    for key, value in node.value:
        if not key.value.startswith("_") and key.value != "defaults" and not isinstance(value, yaml.MappingNode):
            comment = text.splitlines()[key.start_mark.line].partition(" # ")[2]
            yield key.value, yaml.safe_load(yaml.serialize(value)), comment.strip() if comment else ""


def targets_in(node: yaml.Node, text: str) -> Iterator[tuple[Any, list[Line]]]:
    """Everything in a file that is made by a class or function, with the lines of its arguments."""
    if not isinstance(node, yaml.MappingNode):
        return
    entries = {key.value: value for key, value in node.value}
    if "_target_" in entries:
        module, name = entries["_target_"].value.replace("${backend.package}", "pytorch").rsplit(".", 1)
        yield getattr(importlib.import_module(module), name), list(lines_of(node, text))
    for value in entries.values():
        yield from targets_in(value, text)


def numbers_in(lines: list[Line], known: dict[str, Field]) -> Iterator[Line]:
    """Those with a number; where Python's is 10.0, a whole one is meant so."""
    for key, value, comment in lines:
        if isinstance(value, int | float):
            whole = type(value) is int and isinstance(known[key].default, float)
            yield key, float(value) if whole else value, comment


def defaults_of(target: Any) -> dict[str, Field]:
    """By argument, as the table of settings has them, or as the signature says."""
    signature = inspect.signature(target)
    described = {one.name: one for one in fields_of(target)} if hasattr(target, "__dataclass_fields__") else {}
    plain = {name: Field(name=name, default=one.default, text="") for name, one in signature.parameters.items()}
    return {**plain, **described}


def mismatch(line: Line, known: Field) -> str | None:
    """The mistake in a line of YAML; None: there is none."""
    key, value, comment = line
    default = list(known.default) if isinstance(known.default, tuple) else known.default
    said = re.search(r"\(Python: (.*?)(, as .*)?\)", comment)
    if default is inspect.Parameter.empty or str(value).startswith("${"):
        return None
    if value == default and type(value) is type(default):
        return f"{key} is Python's default: {comment}" if said else None
    if said is None:
        return f"{key}: {value} is {known.default_in_words} in Python: write that behind it"
    exact = isinstance(default, int | float)
    if said[1] == known.default_in_words or (not exact and said[1] and known.default_in_words.startswith(said[1])):
        return None
    return f"{key}: {known.default_in_words} in Python, not {said[1]}"


@pytest.mark.parametrize("file", FILES, ids=lambda file: f"{file.parent.name}/{file.stem}")
def test_numbers_are_those_of_python_or_say_so(file: Path) -> None:
    text = file.read_text()
    for target, found_lines in targets_in(yaml.compose(text), text):
        known = defaults_of(target)
        lines = list(numbers_in(found_lines, known)) if file.parent.name in NAMED_BY_FILE else found_lines
        assert [found for line in lines if (found := mismatch(line, known[line[0]]))] == []
        if fields_of(target) if hasattr(target, "__dataclass_fields__") else ():
            assert [key for key, _, comment in lines if not comment] == [], "each is said what it is"


def test_what_base_says_of_a_run() -> None:
    text = (conf_folder() / "base.yaml").read_text()
    root = yaml.compose(text)
    known = {one.name: one for one in (*fields_of(Settings), *fields_of(TrainOptions))}
    training = next(value for key, value in root.value if key.value == "training")
    lines = [line for node in (root, training) for line in lines_of(node, text) if line[0] in known]
    assert {key for key, _, _ in lines} == {
        *("seed", "max_grad_norm", "normalise_obs", "normalise_reward", "multi_agent", "jit_compile"),
        "matmul",
    }
    assert [found for line in lines if (found := mismatch(line, known[line[0]]))] == []
    assert all(comment for _, _, comment in lines)
    filled = TrainingConfig(total_steps=1)
    assert all(getattr(filled, key) == known[key].default for key, _, _ in lines if key != "seed")


@pytest.mark.parametrize(
    ("section", "file", "path"),
    [
        (BackendConfig, "backend/torch", ""),
        (CheckpointConfig, "checkpoint/default", ""),
        (EvaluationConfig, "base", "evaluation"),
        (RateFinder, "finder/lr", ""),
        (OptimizerFinder, "finder/optimizer", ""),
        (AgentFinder, "finder/agent", ""),
    ],
)
def test_a_section_has_the_defaults_of_its_file(section: type[Section], file: str, path: str) -> None:
    node = yaml.safe_load((conf_folder() / f"{file}.yaml").read_text())
    given = node[path] if path else node
    default = {one.name: one.default for one in fields(section) if one.default is not MISSING}
    plain = {name: value for name, value in given.items() if name in default and not str(value).startswith("${")}
    assert plain, "nothing is compared"
    assert {name: default[name] for name in plain} == plain


@pytest.mark.parametrize(
    ("line", "default", "expected"),
    [
        (("size", 5, "its size"), 5, None),
        (("size", 5, "its size (Python: 7)"), 7, None),
        (("size", 5, "its size (Python: 70, as it is large there)"), 70, None),
        (("size", 5, "its size"), 7, "write that behind it"),
        (("size", 5, "its size (Python: 7)"), 70, "70 in Python, not 7"),
        (("size", 5, "its size (Python: 7)"), 5, "is Python's default"),
        (("size", 5, "its size (Python: one)"), None, None),
        (("size", 5, "its size (Python: two)"), None, "one of all in Python, not two"),
        (("size", True, "its size"), 1, "write that behind it"),
    ],
)
def test_a_line_that_tells_another_story_is_found(line: Line, default: object, expected: str | None) -> None:
    found = mismatch(line, Field(name="size", default=default, text="How many; None: one of all."))
    assert found is None if expected is None else expected in str(found)
