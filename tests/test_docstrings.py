"""Docstrings of functions say what they do in one mood: "Returns the score", not "Return the score"."""

import ast
from collections.abc import Iterator
from pathlib import Path

ROOT = Path(__file__).parents[1]
# What begins docstrings without being a command, and what follows words that may be one: "Return of each episode".
NOUNS = {"A", "Count", "Environment", "Evaluation", "It", "Loss", "Mean", "Name", "Score", "See"}
AS_NOUNS = (" of ", " from ", " or ", " -> ", "-", ":", ".", ",")


def first_lines() -> dict[str, str]:
    """The first line of each function's docstring, by where it stands."""
    return {
        f"{path.relative_to(ROOT)}:{node.lineno}": str(ast.get_docstring(node)).partition("\n")[0]
        for package in ("note_rl", "tuner")
        for path in sorted((ROOT / package).rglob("*.py"))
        for node in statements_in(ast.parse(path.read_text()))
        if isinstance(node, ast.FunctionDef) and ast.get_docstring(node)
    }


def statements_in(node: ast.AST) -> Iterator[ast.AST]:
    """All statements, and what holds some; of expressions, which are most of a file, there are none."""
    for child in ast.iter_child_nodes(node):
        if not isinstance(child, ast.expr):
            yield child
            yield from statements_in(child)


def third_person(verb: str) -> str:
    """Of a regular verb."""
    if verb.endswith(("s", "sh", "ch", "x", "o")):
        return f"{verb}es"
    return f"{verb[:-1]}ies" if verb[-1:] == "y" and verb[-2:-1] not in "aeiou" else f"{verb}s"


def commands_among(lines: dict[str, str]) -> list[str]:
    """Lines that begin with the bare form of a verb that begins others in the third person."""
    firsts = {line.split()[0].strip(".,:;") for line in lines.values()}
    return [
        f"{place}: {line}"
        for place, line in lines.items()
        if (word := line.split()[0].strip(".,:;-")) not in NOUNS
        and third_person(word) in firsts
        and not line.removeprefix(word).startswith(AS_NOUNS)
    ]


def test_docstrings_are_in_the_third_person() -> None:
    assert commands_among(first_lines()) == []


def test_a_command_is_found() -> None:
    lines = {
        "a": "Returns the score.",
        "b": "Return the score.",
        "c": "Return of an episode.",
        "d": "Try it.",
        "e": "Tries.",
    }
    assert commands_among(lines) == ["b: Return the score.", "d: Try it."]
