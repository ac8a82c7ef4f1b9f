"""The README of the room names what is there."""

import re
from pathlib import Path

import note_rl.learners.pytorch.step_graph as room

FOLDER = Path(room.__file__).parent


def test_every_module_has_its_line():
    named = set(re.findall(r"^\|.*?\|", (FOLDER / "README.md").read_text(), re.MULTILINE))
    files = {name for line in named for name in re.findall(r"`(\w+\.py)`", line)}
    assert {path.name for path in FOLDER.glob("*.py")} - {"__init__.py"} == files
