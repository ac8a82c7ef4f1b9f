"""Files of the user's own that are edited between two sessions of a study, or while one runs."""

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from tests.tuner.studies import CONFIG, FakeExecutor, Script, definition, learn, run_study
from tuner.config.own_code import digests_of_config
from tuner.errors import UserError
from tuner.features.edited_code.facts import EDITED
from tuner.features.edited_code.study import PART
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


def test_what_is_edited_in_a_later_stage_is_named(workplace: Path) -> None:
    def behave(spec: TrialSpec, attempt: int) -> Script:
        if spec.key.startswith("test/"):
            (workplace / "edited_values.py").write_text("GAIN = 3.0\n")
        return learn(spec, attempt)

    summary = run_study(workplace, FakeExecutor(behave=behave), config=own())
    assert EDITED.of(summary) == ("edited_values.py",)


def test_code_of_a_choice_in_the_space_counts(workplace: Path) -> None:
    (workplace / "edited_other.py").write_text("class Mine: ...\n")
    space = {"agent": {"_target_": {"choices": ["edited_agent.Mine", "edited_other.Mine"]}}}
    run_study(workplace, config=own(), space=space, num_trials=2)
    (workplace / "edited_other.py").write_text("class Mine: gain = 1\n")
    with pytest.raises(UserError, match=r"edited_other\.py was edited since"):
        run_study(workplace, config=own(), space=space, num_trials=3)


def test_files_are_compared_one_by_one(workplace: Path) -> None:
    values, agent = workplace / "edited_values.py", workplace / "edited_agent.py"
    run_study(workplace, config=own(), num_trials=2)
    (workplace / "edited_values").mkdir()
    values.rename(workplace / "edited_values" / "__init__.py")
    run_study(workplace, config=own(), num_trials=3)  # the same in another place
    (workplace / "edited_values" / "__init__.py").rename(values)
    first, second = values.read_bytes(), agent.read_bytes()
    values.write_bytes(second)
    agent.write_bytes(first)
    with pytest.raises(UserError, match=r"edited_agent\.py was edited since"):
        run_study(workplace, config=own(), num_trials=4)


def test_a_file_that_is_gone_is_said_to_be(workplace: Path) -> None:
    (workplace / "edited_agent.py").write_text(
        "try:\n    import edited_values\nexcept ImportError: ...\n\nclass Mine: ...\n"
    )
    run_study(workplace, config=own(), num_trials=2)
    (workplace / "edited_values.py").unlink()
    with pytest.raises(UserError, match=r"edited_values\.py was removed since"):
        run_study(workplace, config=own(), num_trials=3)


def test_what_no_trial_executes_may_be_edited(workplace: Path) -> None:
    (workplace / "edited_agent.py").write_text(
        "class Mine: ...\n\n\nif __name__ == '__main__':\n    tune(num_trials=2)\n"
    )
    before = digests_of_config(own())
    (workplace / "edited_agent.py").write_bytes(
        b"class Mine: ...\r\n\r\n\r\nif __name__ == '__main__':\r\n    tune(num_trials=20)\r\n    print(1)\r\n"
    )
    assert digests_of_config(own()) == before, "neither the part for a script nor ends of lines"
    (workplace / "edited_agent.py").write_text(
        "class Mine: ...\n\n\nif __name__ == '__main__':\n    tune()\nelse:\n    x = 1\n"
    )
    assert digests_of_config(own()) != before


@pytest.mark.parametrize(
    "source",
    [
        "import gymnasium\ngymnasium.register(id='Own-v0', entry_point='edited_pack.inner:Env')\n",
        "import importlib\nimportlib.import_module('edited_pack.inner')\n",
        "__import__('edited_pack.inner')\n",
    ],
)
def test_modules_that_are_named_as_text_count(workplace: Path, source: str) -> None:
    (workplace / "edited_pack").mkdir()
    (workplace / "edited_pack" / "__init__.py").write_text("")
    (workplace / "edited_pack" / "inner.py").write_text("from . import deeper\n\nclass Env: ...\n")
    (workplace / "edited_pack" / "deeper.py").write_text("")
    (workplace / "edited_agent.py").write_text(source + "class Mine: ...\n")
    packed = [f"edited_pack/{name}.py" for name in ("__init__", "deeper", "inner")]
    assert list(digests_of_config(own())) == ["edited_agent.py", *packed]


def test_a_class_that_hydra_looks_up_counts(workplace: Path) -> None:
    (workplace / "edited_nets.py").write_text("class Net: ...\n")
    net = {"_target_": "hydra.utils.get_class", "path": "edited_nets.Net"}
    assert list(digests_of_config({"agent": {"policy_kwargs": {"features_extractor_class": net}}})) == [
        "edited_nets.py"
    ]


def test_programs_and_settings_that_a_command_names_count(workplace: Path) -> None:
    (workplace / "src").mkdir()
    (workplace / "src" / "edited_library.py").write_text("")
    (workplace / "train.py").write_text("import edited_library\n")
    (workplace / "settings.json").write_text("{}")
    program = workplace / "learn"
    program.write_text("#!/bin/sh\n")
    program.chmod(0o755)
    node = {
        "_target_": "tuner.runs.command.external.External",
        "command": "env PYTHONPATH=src python train.py --with settings.json",
    }
    assert list(digests_of_config({"agent": node})) == ["settings.json", "src/edited_library.py", "train.py"]
    assert list(digests_of_config({"agent": {**node, "command": "./learn"}})) == ["learn"]


def test_a_script_that_another_one_imports_counts_as_a_whole(workplace: Path) -> None:
    (workplace / "train.py").write_text("X = 1\n\nif __name__ == '__main__':\n    print(X)\n")
    (workplace / "evaluate.py").write_text("import train\n")
    node = {
        "_target_": "tuner.runs.command.external.External",
        "command": "bash -c 'python evaluate.py && python train.py'",
    }
    before = digests_of_config({"agent": node})
    assert list(before) == ["evaluate.py", "train.py"]
    (workplace / "train.py").write_text("X = 1\n\nif __name__ == '__main__':\n    print(2 * X)\n")
    assert digests_of_config({"agent": node})["train.py"] != before["train.py"]


def test_programs_of_the_system_are_nobodys_own(workplace: Path) -> None:
    node = {"_target_": "tuner.runs.command.external.External", "command": "/bin/sh -c 'true'"}
    assert digests_of_config({"agent": node}) == {}


def test_environments_named_with_their_version_and_deep_files_are_read(workplace: Path) -> None:
    (workplace / "edited_envs.py").write_text("")
    many = "\n".join(f"elif x == {number}: pass" for number in range(1500))
    made = "make = lambda: gymnasium.make('edited_envs:Own-v0')"
    (workplace / "edited_agent.py").write_text(f"x = 0\nif x: pass\n{many}\n{made}\nclass Mine: ...\n")
    found = list(digests_of_config(own()))
    assert found == ["edited_agent.py", "edited_envs.py"]


def test_a_space_of_another_application_names_no_code_here(workplace: Path) -> None:
    space = {"model.activation": {"choices": ["edited_agent.Mine", "tanh"]}}
    begun = definition(workplace, config={**CONFIG, "model": {"activation": "tanh"}}, space=space)
    assert PART.described(replace(begun, config={"job": {}})) == {}


@pytest.mark.parametrize(
    ("net", "path", "choices"),
    [
        (None, "agent.net", [None, {"_target_": "edited_nets.Net"}]),
        ({"_target_": "edited_values.Net"}, "agent.net._target_", [None, "edited_nets.Net"]),
    ],
)
def test_code_of_a_choice_counts_behind_one_without(
    workplace: Path, net: object, path: str, choices: list[object]
) -> None:
    (workplace / "edited_nets.py").write_text("")
    space = {path: {"choices": choices}}
    described = PART.described(definition(workplace, config=own(net=net), space=space))
    assert list(described["own_code"]) == ["edited_agent.py", "edited_values.py", "edited_nets.py"]


def test_baselines_may_come_and_go_and_their_code_may_not_be_edited(workplace: Path) -> None:
    """Files of a baseline that only one of the sessions has were said to be edited or removed."""
    nets = workplace / "edited_nets.py"
    nets.write_text("class Big: ...\n")
    big = {**own(_target_="edited_nets.Big"), "seed": 0}
    with_it: JsonDict = {"config": own(), "known": {"mine": big}, "baselines": ["default", "mine"]}
    run_study(workplace, config=own(), num_trials=2)
    run_study(workplace, **with_it, num_trials=3)
    nets.write_text("class Big: width = 3\n")
    run_study(workplace, config=own(), num_trials=4)
    with pytest.raises(UserError, match=r"edited_nets\.py was edited since"):
        run_study(workplace, **with_it, num_trials=5)
    assert EDITED.of(run_study(workplace, **with_it, num_trials=5, edited_code=True)) == ("edited_nets.py",)


def test_a_file_that_was_added_is_said_to_be_new(workplace: Path) -> None:
    run_study(workplace, config=own(), num_trials=2)
    (workplace / "edited_more.py").write_text("X = 1\n")
    (workplace / "edited_values.py").write_text("GAIN = 1.0\nimport edited_more\n")
    with pytest.raises(UserError, match=r"edited_more\.py is new since.*edited_values\.py was edited since"):
        run_study(workplace, config=own(), num_trials=3)
