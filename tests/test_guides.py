"""Rules for all guides: their length, their sentences, words that are explained, outcomes, settings, figures."""

import re

import pytest

from tests.documents import (
    DOCUMENTS,
    FIGURES,
    GUIDES,
    ROOT,
    blocks_of,
    prose_of,
    rows_in,
    section,
    sentences_of,
    text_of,
)
from tuner.commands.group_options import choices_in, group_names
from tuner.config.comments import comments_of
from tuner.trial.outcomes import Outcome

MOST_LINES = 160
MOST_WORDS = 35
TERMINAL = 80
FRONT_PAGE_LINES = 250
TERMS = ("IQM", "rung", "race", "confirm", "optimism", "seat", "seed noise", "held-out seeds", "regret", "front")
"""Of `tuner guide glossary`; a page that uses one says what it means, or where that is said."""


@pytest.mark.parametrize("document", GUIDES)
def test_a_page_is_short(document: str) -> None:
    lines = text_of(document).splitlines()
    assert len(lines) <= MOST_LINES
    assert lines[0].startswith("# ")
    assert max(len(line) for line in lines if not line.startswith("|")) <= 120


@pytest.mark.parametrize("document", GUIDES)
def test_blocks_fit_a_terminal(document: str) -> None:
    """But for Python, which is rarely typed; two columns are the frame of a block."""
    blocks = [block for block in blocks_of(document) if block.language != "python"]
    assert not [line for block in blocks for line in block.text.splitlines() if len(line) > TERMINAL - 2]


def test_the_front_page_is_short() -> None:
    assert len(text_of("README.md").splitlines()) <= FRONT_PAGE_LINES


@pytest.mark.parametrize("document", DOCUMENTS)
def test_sentences_are_short(document: str) -> None:
    assert not [one for one in sentences_of(document) if len(one.split()) > MOST_WORDS]


def test_sentences_are_found() -> None:
    found = sentences_of("tuner/guide/glossary.md")
    assert found == []
    assert "A *study* searches for the hyperparameters of one agent." in sentences_of("tuner/guide/tune.md")


@pytest.mark.parametrize("document", ["README.md", *GUIDES])
def test_terms_are_explained_where_they_are_used(document: str) -> None:
    text = prose_of(document)
    used = [term for term in TERMS if re.search(rf"\b{term}s?\b", text)]
    explained = re.findall(r"\*+([\w -]+?)\.?\*+", text_of(document))
    missing = [term for term in used if not any(term.lower() in one.lower() for one in explained)]
    assert not missing or "glossary.md" in text_of(document), missing


def test_the_glossary_has_the_terms() -> None:
    words = " ".join(first for first, _ in rows_in(text_of("tuner/guide/glossary.md"), "word"))
    assert not [term for term in TERMS if term not in words]


def test_every_outcome_has_a_cause_and_the_remedy_of_the_program() -> None:
    rows = rows_in(section("tuner/guide/troubleshooting.md", "How a run ended"), "outcome")
    assert [first.strip("`") for first, _, _ in rows] == [outcome.value for outcome in Outcome]
    for outcome, (_, cause, remedy) in zip(Outcome, rows, strict=True):
        assert cause
        named = re.findall(r"(?:executor|study|training)\.[\w.]+", outcome.effects.remedy)
        assert not [name for name in named if name not in f"{cause} {remedy}"], outcome
        assert bool(remedy) or not outcome.effects.failed


def test_failures_that_count_against_a_configuration_are_named() -> None:
    text = " ".join(text_of("tuner/guide/troubleshooting.md").split())
    (sentence,) = re.findall(r"Three outcomes, ([^.]*), give the configuration a bad score", text)
    named = [outcome.value for outcome in Outcome if outcome.effects.penalised]
    assert re.findall(r"`(\w+)`", sentence) == named


VALUES_OF_OTHERS = {"experiment", "space"}
"""Groups with values and ranges of settings that other groups declare."""


def test_options_explains_every_setting_of_every_group() -> None:
    groups = {path.name for path in (ROOT / "conf").iterdir() if path.is_dir()} - {"hydra"}
    assert group_names() == groups
    choices = {group: choices_in(group) for group in groups}
    for group, found in choices.items():
        folder = ROOT / "conf" / group
        names = sorted(path.relative_to(folder).with_suffix("").as_posix() for path in folder.rglob("*.yaml"))
        assert [one.name for one in found] == names
    settings = [one for group in groups - VALUES_OF_OTHERS for choice in choices[group] for one in choice.settings]
    assert len(settings) > 300
    explained = {one.key for one in settings if one.text} | set(comments_of([ROOT / "conf"], "", "base").texts)
    silent = {one.key for one in settings if not explained & {one.key, *parents_of(one.key)}}
    assert not silent


def parents_of(key: str) -> list[str]:
    parts = key.split(".")
    return [".".join(parts[:depth]) for depth in range(2, len(parts))]


def test_every_script_has_its_heading() -> None:
    folder = ROOT / "tests" / "benchmarks"
    scripts = [path.name for path in sorted(folder.glob("*.py")) if 'if __name__ == "__main__"' in path.read_text()]
    pages = {page: re.findall(r"^## `([\w.]+)`", text_of(page), re.MULTILINE) for page in FIGURES}
    assert sorted(heading for headings in pages.values() for heading in headings) == scripts
    index = {(name, page) for name, page in re.findall(r"\[(\w+)\]\((?:(\w+\.md))?#\w+py\)", text_of(FIGURES[0]))}
    assert index == {
        (heading.removesuffix(".py"), "" if page == FIGURES[0] else page.rpartition("/")[2])
        for page, headings in pages.items()
        for heading in headings
    }
