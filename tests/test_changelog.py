"""CHANGELOG.md: each entry has two lines at most, and the newest release is the version of pyproject.toml."""

import re
import tomllib

import pytest

from tests.documents import ROOT, text_of

MOST_LINES = 2
MOST_CHARACTERS = 120 * MOST_LINES
RELEASE = re.compile(r"(\d+\.\d+\.\d+) - \d{4}-\d{2}-\d{2}")


def problems_of(text: str, version: str) -> list[str]:
    """Entries that are too long and headings that are out of order; empty: there are none.

    Args:
        text: Of the changelog.
        version: Of the package.
    """
    found = []
    first, *releases = re.findall(r"^## (.*)$", text, re.MULTILINE)
    if first != "Unreleased":
        found.append(f"the first section is {first}, not Unreleased")
    matches = [RELEASE.fullmatch(heading) for heading in releases]
    found += [heading for heading, match in zip(releases, matches, strict=True) if match is None]
    versions = [tuple(map(int, match[1].split("."))) for match in matches if match]
    if next((match[1] for match in matches if match), None) != version:
        found.append(f"the newest release is not {version}")
    if versions != sorted(set(versions), reverse=True):
        found.append("releases are not in order")
    for entry in re.findall(r"^- .*(?:\n[ \t]+.*)*", text, re.MULTILINE):
        if entry.count("\n") >= MOST_LINES or len(" ".join(entry.split())) > MOST_CHARACTERS:
            found.append(entry)
    return found


def test_entries_are_short_and_the_newest_release_is_this_version() -> None:
    version = tomllib.loads(text_of("pyproject.toml"))["project"]["version"]
    assert problems_of((ROOT / "CHANGELOG.md").read_text(), version) == []


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ("## Unreleased\n\n## 1.2.0 - 2026-11-26\n\n- One.\n  Two.\n  Three.\n", "- One.\n  Two.\n  Three."),
        (f"## Unreleased\n\n## 1.2.0 - 2026-11-26\n\n- {'a' * 240}\n", f"- {'a' * 240}"),
        ("## Unreleased\n\n## 1.1.0 - 2026-11-26\n", "the newest release is not 1.2.0"),
        ("## Unreleased\n\n## 1.3.0 - 2026-11-27\n\n## 1.2.0 - 2026-11-26\n", "the newest release is not 1.2.0"),
        (
            "## Unreleased\n\n## 1.2.0 - 2026-11-26\n\n## 1.3.0 - 2026-11-27\n",
            "releases are not in order",
        ),
        ("## Unreleased\n\n## 1.2.0\n\n## 1.2.0 - 2026-11-26\n", "1.2.0"),
        ("## 1.2.0 - 2026-11-26\n\n## 1.2.0 - 2026-11-26\n", "the first section is 1.2.0 - 2026-11-26, not Unreleased"),
    ],
)
def test_what_is_wrong_is_found(text: str, problem: str) -> None:
    assert problems_of(text, "1.2.0") == [problem]
