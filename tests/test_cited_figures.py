"""Figures that README cites: each is in the section that README links to, in the same row and the same column."""

import re
from collections.abc import Iterator
from itertools import pairwise
from typing import NamedTuple

import pytest
import yaml

from tests.documents import BLOCKS, FIGURES, ROOT, text_of

PAGE = "tests/benchmarks/README.md"
FRONT, MEASURED = text_of("README.md"), text_of(PAGE)
LINK = re.compile(r"\]\(tests/benchmarks/README\.md#([\w-]+)\)")
ESTIMATE = r"[-+]?\d[\d,.]* \[[^\]]*\]"
"""A figure with its interval."""
FIGURE = re.compile(rf"\d+ of \d+|{ESTIMATE}|[-+]?\d[\d,]*(?:\.\d+)?")
VERDICT = re.compile(
    rf"test IQM ({ESTIMATE}) on (\d+) test seeds, against ({ESTIMATE}) for the default configuration\. "
    rf"The winner is better: difference ({ESTIMATE})\."
)
RECORD = re.compile(
    r"^\*\*Measured:\*\* \d{4}-\d\d-\d\d(?:.|\n(?!\n))*?(?:[0-9a-f]{8}|commit not recorded)(?:.|\n(?!\n))*?"
    r"(?:AMD|Intel|H200|machine not\s+recorded)",
    re.MULTILINE,
)
"""Date, commit and machine of the figures of a section."""
WITHOUT_FIGURES = {
    "contenders.py": "**Measured:** see `against_others.py`.",
    "chaos_programs.py": "**Measured:** see `study_chaos.py`.",
}
"""By script: what its section says in place of date, commit and machine."""


class Cited(NamedTuple):
    """A figure of README beside the one that was measured.

    Attributes:
        place: Section, row and column, or the kind of statement.
        shown: The figure in README.
        measured: The figure of the benchmarks page; empty: there is none.
    """

    place: str
    shown: str
    measured: str


class Table(NamedTuple):
    """A table of a document.

    Attributes:
        headings: Those of its columns, the first one included.
        rows: The cells of each row.
    """

    headings: list[str]
    rows: list[list[str]]


def sections_of(page: str) -> dict[str, str]:
    """The text of each section by the anchor of its heading."""
    parts = re.split(r"^## (.*)\n", page, flags=re.MULTILINE)[1:]
    anchors = [re.sub(r"[^\w\- ]", "", heading.lower()).replace(" ", "-") for heading in parts[::2]]
    return dict(zip(anchors, parts[1::2], strict=True))


def tables_of(text: str) -> list[Table]:
    """All tables of a text, in order."""
    lines = [[cell.strip() for cell in line.strip("|").split("|")] for line in text.splitlines()]
    starts = [i for i, line in enumerate(text.splitlines()) if line.startswith("| ---")]
    found = []
    for start in starts:
        rows = []
        for cells, line in zip(lines[start + 1 :], text.splitlines()[start + 1 :], strict=True):
            if not line.startswith("|"):
                break
            rows.append(cells)
        found.append(Table(lines[start - 1], rows))
    return found


def cells_compared(anchor: str, shown: Table, section: str) -> Iterator[Cited]:
    """Each cell of a table beside the one with the same row and heading; headings that repeat are met in order."""
    source = next((one for one in tables_of(section) if one.headings[0] == shown.headings[0]), Table([], []))
    columns, at = [], 0
    for heading in shown.headings[1:]:
        at = source.headings.index(heading, at + 1) if heading in source.headings[at + 1 :] else len(source.headings)
        columns.append(at)
    for label, *figures in shown.rows:
        measured: list[str] = next((row for row in source.rows if row[0] == label), [])
        for heading, figure, column in zip(shown.headings[1:], figures, columns, strict=True):
            there = measured[column] if column < len(measured) else "nothing"
            yield Cited(f"{anchor}, {label}, {heading}", figure, there)


def cited_in_links(front: str, page: str) -> Iterator[Cited]:
    """The cells of each table that follows a link to the page, or the figures of the sentence with the link."""
    sections = sections_of(page)
    paragraphs = [*front.split("\n\n"), ""]
    for paragraph, following in pairwise(paragraphs):
        for sentence in re.split(r"(?<=[.!?]) (?=\W*[A-Z])", " ".join(paragraph.split())):
            for anchor in LINK.findall(sentence):
                section = sections.get(anchor, "")
                if following.startswith("|"):
                    yield from cells_compared(anchor, tables_of(following)[0], section)
                    continue
                there = FIGURE.findall(" ".join(section.split()))
                for figure in FIGURE.findall(LINK.sub("", sentence)):
                    yield Cited(f"{anchor}, sentence", figure, figure if figure in there else "")


def cited_of_the_first_study(front: str, page: str) -> Iterator[Cited]:
    """The verdict beside the row of its seed, and in how many studies the winner is better."""
    table = next(one for one in tables_of(sections_of(page)["first_studypy"]) if "winner minus default" in one.headings)
    rows = [dict(zip(table.headings, cells, strict=True)) for cells in table.rows]
    seed = str(yaml.safe_load((ROOT / "conf" / "base.yaml").read_text())["seed"])
    (row,) = [one for one in rows if one["seed of the study"] == seed]
    words = " ".join(front.split())
    verdict = VERDICT.search(words)
    (num_seeds,) = re.findall(r"study\.num_test_seeds=(\d+)", front)
    shown = verdict.groups() if verdict else ("", "", "", "")
    measured = (row["winner: test score"], num_seeds, row["default: test score"], row["winner minus default"])
    for place, one, other in zip(("winner", "test seeds", "default", "difference"), shown, measured, strict=True):
        yield Cited(f"verdict, {place}", one, other)
    lower = [re.findall(r"\[([-+]?\d+)", one["winner minus default"])[0] for one in rows]
    better = sum(int(end) > 0 for end in lower)
    for shares in re.findall(r"better than the default in (\d+ of \d+) studies", words) or [""]:
        yield Cited("studies with a better winner", shares, f"{better} of {len(rows)}")


def cited_in(front: str, page: str) -> list[Cited]:
    return [*cited_in_links(front, page), *cited_of_the_first_study(front, page)]


def wrong_in(front: str, page: str) -> list[str]:
    """The places of figures that were not measured."""
    return [one.place for one in cited_in(front, page) if one.shown != one.measured]


def test_figures_of_the_front_page_were_measured() -> None:
    assert wrong_in(FRONT, MEASURED) == []


def test_six_rows_of_speed_three_of_honesty_and_the_verdict_are_compared() -> None:
    places = [one.place for one in cited_in(FRONT, MEASURED)]
    assert sum(place.startswith("against_otherspy") for place in places) == 6 * 6
    assert sum(place.startswith("protocolspy") for place in places) == 3 * 4
    assert places.count("first_studypy, sentence") == 1
    assert places[-5:] == [
        *(f"verdict, {part}" for part in ("winner", "test seeds", "default", "difference")),
        "studies with a better winner",
    ]


PPO = "against_otherspy, PPO CartPole, 8 environments, 64-64"
ZOO = "RL Baselines3 Zoo: `tpe`, `median`, one seed; the score is the last evaluation"
STUDY = "`study=quick`: `sampler=tpe pruner=median`"


@pytest.mark.parametrize(
    ("right", "wrong", "places"),
    [
        ("9 of 10 studies", "10 of 10 studies", ["first_studypy, sentence", "studies with a better winner"]),
        ("9 of 10 studies", "8 of 10 studies", ["studies with a better winner"]),
        ("9 of 10 studies", "most studies", ["studies with a better winner"]),
        ("390 [310, 420] on", "490 [480, 500] on", ["verdict, winner"]),
        ("157 [144, 198]", "145 [130, 218]", ["verdict, default"]),
        ("+230 [+150, +270]", "+200 [+100, +250]", ["verdict, difference"]),
        ("on 10 test seeds", "on 20 test seeds", ["verdict, test seeds"]),
        ("| 2.9 | 3.2 | 4.5 |", "| 3.2 | 3.2 | 3.2 |", [f"{PPO}, PyTorch / SB3", f"{PPO}, Keras / SB3"]),
        ("| 1.7 | 1.9 | 2.5 |", "| 1.7 | 2.5 | 1.9 |", [f"{PPO}, compiled / SBX", f"{PPO}, Keras / SBX"]),
        ("| 53 [45, 62] | 19 |", "| 53 [45, 62] | 16 |", [f"protocolspy, {STUDY}, error"]),
        ("147 [131, 165]", "147 [131, 166]", [f"protocolspy, {ZOO}, Acrobot: regret"]),
    ],
)
def test_a_wrong_figure_is_found(right: str, wrong: str, places: list[str]) -> None:
    assert FRONT.count(right) == 1
    assert wrong_in(FRONT.replace(right, wrong), MEASURED) == places


def test_a_row_that_was_not_measured_is_found() -> None:
    front = FRONT.replace("| PPO CartPole, 8 environments, 64-64 |", "| PPO Pendulum, 64-64 |")
    assert {place.split(", ")[1] for place in wrong_in(front, MEASURED)} == {"PPO Pendulum"}


def test_a_column_under_another_heading_is_found() -> None:
    front = FRONT.replace("| compiled / SB3 | Keras / SB3 |", "| Keras / SB3 | compiled / SB3 |")
    assert f"{PPO}, compiled / SB3" in wrong_in(front, MEASURED)


def test_a_link_to_another_section_is_found() -> None:
    front = FRONT.replace(f"{PAGE}#protocolspy", f"{PAGE}#ataripy")
    assert {place.split(", ")[0] for place in wrong_in(front, MEASURED)} == {"ataripy"}


def test_figures_that_were_measured_again_are_wanted_in_readme() -> None:
    page = MEASURED.replace(
        "| 5 | 415 [385, 429] | 190 [140, 340] | +220 [+60, +280] |", "| 5 | 1 | 1 | +190 [-10, +260] |"
    )
    assert page != MEASURED
    assert wrong_in(FRONT, page) == ["studies with a better winner"]


SECTIONS = {
    script: (page, text)
    for page in FIGURES
    for script, text in re.findall(r"^## `(\w+\.py)`\n(.*?)(?=^## |\Z)", text_of(page), re.MULTILINE | re.DOTALL)
}
"""By script: the page with its section, and the text of the section."""


@pytest.mark.parametrize("script", SECTIONS)
def test_each_section_has_its_command(script: str) -> None:
    page, text = SECTIONS[script]
    commands = [block.text for block in BLOCKS if block.document == page and block.text in text]
    module = script.removesuffix(".py")
    called = re.compile(rf"python (?:(?:\.\./)?tests/benchmarks/{module}\.py|-m tests\.benchmarks\.{module})\b")
    assert any(called.search(command) for command in commands)


@pytest.mark.parametrize("script", SECTIONS)
def test_each_section_has_date_commit_and_machine(script: str) -> None:
    if script in WITHOUT_FIGURES:
        assert WITHOUT_FIGURES[script] in SECTIONS[script][1]
    else:
        assert RECORD.search(SECTIONS[script][1])


@pytest.mark.parametrize(
    "line",
    [
        "**Measured:** near 420737c5, Intel",
        "**Measured:** 2026-11-25, Intel",
        "**Measured:** 2026-11-25, 420737c5",
        "**Measured:** 2026-11-25\n\n420737c5, Intel",
        "Measured 2026-11-25, 420737c5, Intel",
    ],
)
def test_a_record_without_date_commit_or_machine_is_found(line: str) -> None:
    assert not RECORD.search(f"What it measures.\n\n{line}.\n")
