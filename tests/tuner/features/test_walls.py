"""A feature of a study is a place: general code names none of them."""

import re
from pathlib import Path

import pytest

import note_rl
import tuner
from tuner.features import FEATURES

WORDS = {
    "ablation": r"ablat",
    "coverage": r"\bcoverage\b(?! aimed)|\bis_corner",
    "interactions": r"interaction",
    "constraints": r"(?<!trial\.)(?<!keras\.)\bconstraints\b",
    "objectives": r"\b(the|a|its|each|of) fronts?\b(?! of)|\bfront[-_]|_front\b|\.front\b|front_?(member|selection)"
    r"|pareto|unbeaten|several objectives",
    "environments": r"of several environments|(summary|definition|study)\.environments\b"
    r"|study_?environment|score_?scale|own_?winner",
    "population": r"(?<![_a-z])population(?!_size)|evolution|evolve|\bpbt\b|\bgenerations?\b|static_label",
    "decision": r"\"decision\"|study\.decision|\bdecision: str|posterior|by_?all_?runs|by_?model|believed\b(?! after)",
    "benchmark": r"features\.benchmark|\"benchmark\"|\bbench\.yaml",
    "budgets": r"study\.budgets|features\.budgets|\"budgets\"|\bbudgets: |budgetpoint",
    "sharing": r"features\.sharing|\"sharing\"|tuner (push|pull)\b",
    "artifacts": r"features\.artifacts|\"artifacts\"|\bartifacts: bool|winner_artifacts|study_files",
    "edited_code": r"features\.edited_code|\bedited_code\b",
    "imports": r"features\.imports|\"imports\"|tuner import|\"import\", \"study\"|baselines=zoo",
    "sb3": r"features\.sb3|agent=sb3|\"sb3\",\n|import (stable_baselines3|sb3_contrib)",
}
"""By feature: what names it in the source.

That a run has a value of each objective, that a trial may be infeasible, that it may have parts (each in an
environment), and that it may go on from another run is the engine's, as Optuna, registries and folders have it;
features say what is made of that.
"""

LIST = "tuner/features/__init__.py"
NAMED_IN = {
    "ablation": {LIST: "the list of features"},
    "coverage": {LIST: "the list of features"},
    "interactions": {LIST: "the list of features"},
    "constraints": {
        LIST: "the list of features",
        "tuner/results/protocol.py": "the engine holds what is typed, and does not read it",
        "tuner/features/decision/decision_rules.py": "its model knows no limits: fresh seeds decide",
    },
    "objectives": {
        "tuner/features/environments/joint_study.py": "there is one score over environments: refused",
        "tuner/features/population/evolution.py": "members are compared by one score: refused",
        "tuner/sweeper/sweeper_settings.py": "a Hydra sweep may have a list of directions, too",
    },
    "environments": {
        "tuner/study/definition.py": "a study holds the configuration of each",
        "tuner/features/edited_code/study.py": "each may be made by a file of its own",
    },
    "population": {
        LIST: "the list of features",
        "tuner/checking/section_types.py": "a key of the group study is a field of its class",
        "tuner/results/records.py": "where a run stands in the tree of those that go on from one another",
    },
    "edited_code": {
        LIST: "the list of features",
        "tuner/results/protocol.py": "the engine holds what is typed, and does not read it",
    },
    "decision": {
        LIST: "the list of features",
        "tuner/features/constraints/study.py": "its model knows no limits: refused",
        "tuner/checking/section_types.py": "a key of the group study is a field of its class",
    },
    "benchmark": {LIST: "the list of features"},
    "budgets": {
        LIST: "the list of features",
        "tuner/checking/section_types.py": "a key of the group study is a field of its class",
    },
    "imports": {
        LIST: "the list of features",
        "tuner/study/storage/store.py": "where a study of another program is asked for it says what to type",
        "tuner/checking/section_types.py": "the same, where its name cannot be one of ours",
    },
    "sharing": {LIST: "the list of features"},
    "artifacts": {
        LIST: "the list of features",
        "tuner/checking/section_types.py": "a key of the command dashboard is a field of its class",
    },
    "sb3": {
        LIST: "the list of features",
        "tuner/runs/functions.py": "it is built when it is checked, as it imports nothing of the user's",
        "tuner/config/trust.py": "a folder of somebody else may name it",
    },
}
"""By feature: the files outside of its package that name it, and why; three at most."""
MOST_FILES = 3


def naming(feature: str, roots: list[Path]) -> set[str]:
    """The source files outside of the package of a feature that name it."""
    files = {path.relative_to(root.parent).as_posix(): path for root in roots for path in root.rglob("*.py")}
    return {
        name
        for name, path in files.items()
        if not name.startswith(f"tuner/features/{feature}/")
        and re.search(WORDS[feature], path.read_text(), re.IGNORECASE)
    }


def test_each_feature_has_a_package_and_words() -> None:
    packages = {path.parent.name for path in Path(tuner.__file__).parent.glob("features/*/__init__.py")}
    assert packages == set(FEATURES) == WORDS.keys() == NAMED_IN.keys()


@pytest.mark.parametrize("feature", FEATURES)
def test_few_files_outside_its_package_name_a_feature(feature: str) -> None:
    found = naming(feature, [Path(package.__file__ or "").parent for package in (tuner, note_rl)])
    assert found == NAMED_IN[feature].keys(), "give general code a hook, or take the line out"
    assert len(found) <= MOST_FILES


@pytest.mark.parametrize(
    ("feature", "line"),
    [
        ("ablation", "from tuner.features.ablation.facts import ABLATION"),
        ("coverage", "from tuner.features.coverage.facts import COVERAGE"),
        ("interactions", "summary.interactions"),
        ("constraints", "if settings.constraints:"),
        ("objectives", "if summary.front:"),
        ("objectives", "choose_front(confirmed)"),
        ("environments", "if definition.environments:"),
        ("environments", "scales: Mapping[str, ScoreScale]"),
        ("population", "if settings.evolution is not None:"),
        ("population", "summary.stage(EVOLVE)"),
        ("population", "summary.static_label"),
        ("decision", "if isinstance(settings.decision, ByModel):"),
        ("benchmark", "from tuner.features.benchmark.bench import measure"),
        ("decision", "BELIEVED.of(summary)"),
        ("budgets", "if config.study.budgets is not None:"),
        ("sb3", "import stable_baselines3"),
        ("sharing", "from tuner.features.sharing.agent_archive import pack"),
        ("artifacts", "artifacts: bool = False"),
        ("imports", "raise UserError('type tuner import study')"),
    ],
)
def test_a_name_elsewhere_is_found(tmp_path: Path, feature: str, line: str) -> None:
    room = tmp_path / "tuner" / "results"
    room.mkdir(parents=True)
    (room / "general.py").write_text(f"{line}\n")
    assert naming(feature, [tmp_path / "tuner"]) == {"tuner/results/general.py"}
