"""Rules for all guides: their length, their sentences, words that are explained, outcomes, settings, figures."""

import re
from collections.abc import Iterator, Mapping
from typing import Any

import pytest
import yaml

from tests.documents import DOCUMENTS, GUIDES, ROOT, blocks_of, prose_of, rows_in, section, sentences_of, text_of
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


IN_OPTIONS = frozenset(
    {"agent", "optimizer", "network", "buffer", "policy", "noise", "schedule", "adaptive", "plateau", "training"}
    | {"evaluation", "env", "wrapper", "wrapper_training", "collector", "strategy"}
)
"""Parts that `tuner options` explains."""


def settings_of(node: Mapping[str, Any], prefix: str) -> Iterator[str]:
    for key, value in node.items():
        if key in ("defaults", "hydra") or key.startswith("_"):
            continue
        if isinstance(value, dict) and value:
            yield from settings_of(value, f"{prefix}{key}.")
        else:
            yield f"{prefix}{key}"


def test_every_setting_that_options_does_not_show_is_named_in_a_guide() -> None:
    conf, words = ROOT / "conf", set(re.findall(r"\w+", " ".join(map(text_of, GUIDES))))
    unknown = set()
    for path in conf.rglob("*.yaml"):
        group = path.relative_to(conf).parts[0]
        if group in IN_OPTIONS | {"hydra", "experiment", "space"}:
            continue
        text = path.read_text()
        prefix = "" if path.parent == conf or "@package _global_" in text else f"{group}."
        for setting in settings_of(yaml.safe_load(text) or {}, prefix):
            if setting.partition(".")[0] not in IN_OPTIONS and setting.rpartition(".")[2] not in words:
                unknown.add(setting)
    assert not unknown


FIGURE = re.compile(r"[-+]?\d[\d,]*(?:\.\d+)?")


def test_figures_of_the_front_page_are_those_of_the_benchmarks() -> None:
    """Each row of a table with a link to the benchmarks stands there with the same first cell and the same figures."""
    measured = [line for line in text_of("tests/benchmarks/README.md").splitlines() if line.startswith("|")]
    cells = [[cell.strip() for cell in line.strip("|").split("|")] for line in measured]
    rows = [row for heading in ("steps per second", "protocol") for row in rows_in(text_of("README.md"), heading)]
    assert len(rows) == 9
    for first, *figures in rows:
        (source,) = [cell for cell in cells if cell[0] == first]
        there = FIGURE.findall(" ".join(source[1:]))
        assert not [figure for figure in FIGURE.findall(" ".join(figures)) if figure not in there], first


def test_every_script_has_its_heading() -> None:
    folder = ROOT / "tests" / "benchmarks"
    scripts = [path.name for path in sorted(folder.glob("*.py")) if 'if __name__ == "__main__"' in path.read_text()]
    headings = re.findall(r"^## `([\w.]+)`", text_of("tests/benchmarks/README.md"), re.MULTILINE)
    assert sorted(headings) == scripts
