"""Files of the user's own that are edited between two sessions of a study, or while one runs."""

from pathlib import Path
from typing import Any

import pytest

from tests.tuner.studies import CONFIG, FakeExecutor, Script, learn, run_study
from tuner.config.own_code import digests_of_config
from tuner.errors import UserError
from tuner.features.edited_code.facts import EDITED
from tuner.results.summary_json import summary_from_json, summary_to_json
from tuner.results.verdict import verdict
from tuner.trial.messages import JsonDict, TrialSpec


@pytest.fixture
def workplace(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder with an agent that imports a module beside it."""
    (tmp_path / "edited_agent.py").write_text("from edited_values import GAIN\n\nclass Mine: ...\n")
    (tmp_path / "edited_values.py").write_text("GAIN = 1.0\n")
    monkeypatch.chdir(tmp_path)
    monkeypatch.syspath_prepend(tmp_path)
    return tmp_path


def own(**agent: Any) -> JsonDict:
    return {**CONFIG, "agent": {**CONFIG["agent"], "_target_": "edited_agent.Mine", **agent}}


def test_a_study_is_refused_when_code_that_it_imports_was_edited(workplace: Path) -> None:
    run_study(workplace, config=own(), num_trials=6)
    (workplace / "unused.py").write_text("edited = True\n")
    run_study(workplace, config=own(), num_trials=7)
    (workplace / "edited_values.py").write_text("GAIN = 2.0\n")
    with pytest.raises(UserError, match=r"edited_values.py was edited since \(study.edited_code=true goes on"):
        run_study(workplace, config=own(), num_trials=8)
    summary = run_study(workplace, config=own(), num_trials=8, edited_code=True)
    assert len(summary.stage("screen")) == 8
    said = verdict(summary_from_json(summary_to_json(summary))).sentence
    assert "edited_values.py was edited while the study ran: runs before and after may differ" in said
    again = run_study(workplace, config=own(), num_trials=9)  # goes on with the code as it was accepted
    assert EDITED.of(again) == ("edited_values.py",)


def test_what_is_edited_while_trials_run_is_named_and_not_accepted(workplace: Path) -> None:
    def behave(spec: TrialSpec, attempt: int) -> Script:
        if spec.key == "screen/3":
            (workplace / "edited_agent.py").write_text("from edited_values import GAIN\n\nclass Mine: gain = GAIN\n")
        return learn(spec, attempt)

    summary = run_study(workplace, FakeExecutor(behave=behave), config=own())
    assert EDITED.of(summary) == ("edited_agent.py",)
    with pytest.raises(UserError, match=r"edited_agent\.py was edited since"):
        run_study(workplace, config=own(), num_trials=8)


def test_a_study_without_own_code_has_nothing_to_compare(workplace: Path) -> None:
    summary = run_study(workplace)
    assert EDITED.of(summary) == ()
    assert "edited" not in verdict(summary).sentence
    assert digests_of_config(CONFIG) == {}


def test_scripts_of_a_command_count_with_what_they_import_and_its_other_files_do_not(workplace: Path) -> None:
    scripts = workplace / "scripts"
    scripts.mkdir()
    (scripts / "train.py").write_text("import numpy\nimport networks\n")
    (scripts / "networks.py").write_text("WIDTH = 64\n")
    (scripts / "other.py").write_text("")
    (workplace / "settings.yaml").write_text("a: 1\n")
    (workplace / "scores.csv").write_text("step,return\n")
    command = "python scripts/train.py --settings settings.yaml --log scores.csv --lr {lr}"
    node = {"_target_": "tuner.runs.command.external.External", "command": command, "lr": 0.1}
    found = digests_of_config({"agent": node})
    assert list(found) == ["scripts/networks.py", "scripts/train.py", "settings.yaml"]
    (scripts / "networks.py").write_text("WIDTH = 32\n")
    after = digests_of_config({"agent": node})
    assert [file for file in found if found[file] != after[file]] == ["scripts/networks.py"]
