"""The benchmarks, which nobody runs for weeks, keep up with each other and with the package."""

import ast
import importlib
from pathlib import Path

import pytest

SCRIPTS = {path.stem: path for path in sorted(Path(__file__).parent.glob("*.py")) if not path.stem.startswith("test_")}


def _defined(path: Path) -> set[str]:
    """Names that a script has at its top level."""
    names: set[str] = set()
    for node in ast.parse(path.read_text(encoding="utf-8")).body:
        if isinstance(node, ast.FunctionDef | ast.ClassDef):
            names.add(node.name)
        elif isinstance(node, ast.Import | ast.ImportFrom):
            names |= {alias.asname or alias.name for alias in node.names}
        elif isinstance(node, ast.Assign | ast.AnnAssign):
            targets = node.targets if isinstance(node, ast.Assign) else [node.target]
            names |= {target.id for target in targets if isinstance(target, ast.Name)}
    return names


def _in_package(module: str, name: str) -> bool:
    try:
        return hasattr(importlib.import_module(module), name) or bool(importlib.import_module(f"{module}.{name}"))
    except ImportError:
        return False


def _missing(text: str) -> list[str]:
    """Names that a script imports of others, of note_rl and of tuner, wherever it does so, and that are not there."""
    missing = []
    for node in ast.walk(ast.parse(text)):
        if not isinstance(node, ast.ImportFrom) or node.module is None:
            continue
        for alias in node.names:
            if node.module in SCRIPTS:
                there = alias.name in _defined(SCRIPTS[node.module])
            elif node.module.partition(".")[0] in ("note_rl", "tuner"):
                there = _in_package(node.module, alias.name)
            else:
                continue
            if not there:
                missing.append(f"{node.module}.{alias.name}")
    return missing


@pytest.mark.parametrize("name", SCRIPTS)
def test_what_a_benchmark_imports_is_there(name):
    assert _missing(SCRIPTS[name].read_text(encoding="utf-8")) == []


def test_what_was_renamed_is_noticed():
    text = "def main():\n    from growth import main, minor\n    from note_rl.errors import SettingsError, Slip\n"
    assert _missing(text) == ["growth.minor", "note_rl.errors.Slip"]
