"""A feature of a study is a place: general code names none of them."""

import re
from pathlib import Path

import pytest

import note_rl
import tuner
from tuner.features import FEATURES

WORDS = {
    "ablation": r"ablat",
    "interactions": r"interaction",
    "objectives": r"\b(the|a|its|each|of) fronts?\b(?! of)|\bfront[-_]|_front\b|pareto|unbeaten|several objectives",
    "environments": r"of several environments|(summary|definition|study|self)\.environments\b"
    r"|study_?environment|score_?scale|own_?winner",
}
"""By feature: what names it in the source."""
MOST_FILES = 3


def test_each_feature_has_a_package_and_words() -> None:
    packages = {path.parent.name for path in Path(tuner.__file__).parent.glob("features/*/__init__.py")}
    assert packages == set(FEATURES) == WORDS.keys()


@pytest.mark.parametrize("feature", FEATURES)
def test_few_files_outside_its_package_name_a_feature(feature: str) -> None:
    naming = [
        path
        for package in (tuner, note_rl)
        for path in Path(package.__file__ or "").parent.rglob("*.py")
        if f"features/{feature}/" not in path.as_posix() and re.search(WORDS[feature], path.read_text(), re.IGNORECASE)
    ]
    assert len(naming) <= MOST_FILES, [str(path) for path in naming]
