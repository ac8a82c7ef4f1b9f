"""Which files of the user's own are found: modules, and what commands and shell scripts name."""

import sys
from pathlib import Path

import pytest

from tuner.config.own_code import digests_of_config

pytestmark = pytest.mark.usefixtures("workplace")


@pytest.fixture
def workplace(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """An empty folder, where modules are found."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.syspath_prepend(tmp_path)
    return tmp_path


def write(**files: str) -> None:
    """Writes files, by names such as `src__net_py`."""
    for name, content in files.items():
        path = Path(name.replace("__", "/").replace("_", "."))
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(content)


def of_command(command: str) -> list[str]:
    return list(digests_of_config({"agent": {"_target_": "tuner.runs.command.Script", "command": command}}))


def of_function(target: str) -> list[str]:
    return list(digests_of_config({"agent": {"_target_": target}}))


def test_nested_folders_without_an_init_file_are_looked_through() -> None:
    """The second such folder ended the study with a KeyError of Python's finder."""
    write(own40__models__net_py="from own40.models import layers\n", own40__models__layers_py="", tr_py="")
    assert of_function("own40.models.net.train") == ["own40/models/layers.py", "own40/models/net.py"]
    write(tr_py="from own40.models import net\nimport tr.inner\n")
    assert of_command("python tr.py") == ["own40/models/layers.py", "own40/models/net.py", "tr.py"]


@pytest.mark.parametrize(
    "command",
    [
        "bash -c 'python train.py; echo done'",
        "bash -c '(python train.py)'",
        "bash -c 'python train.py>log'",
        "bash -c 'x=$(python train.py) && echo `date`'",
        "bash run.sh",
    ],
)
def test_signs_of_a_shell_beside_a_name_are_no_part_of_it(command: str) -> None:
    write(train_py="import nets\n", nets_py="", run_sh="# don't stop\nfor s in 1 2; do python train.py; done # it's\n")
    assert set(of_command(command)) - {"run.sh"} == {"nets.py", "train.py"}


@pytest.mark.parametrize(
    "text",
    [
        'cd "$(dirname "$0")"\npython train.py "$@"',
        'python "$(dirname "$0")/train.py" \\\n    "$@"',
        "python $(dirname $0)/train.py",
        'HERE="$(cd "$(dirname "$0")" && pwd)"\npython "$HERE/train.py"',
        "python ${HERE}/train.py",
        'python "${BASH_SOURCE%/*}"/train.py',
        "cd $(dirname $0)/.. && python scripts/train.py",
        "exec env A=1 python -u $HERE/../scripts/train.py",
    ],
)
def test_a_shell_script_counts_with_the_scripts_beside_it(text: str) -> None:
    write(scripts__run_sh=text, scripts__train_py="import nets\n", scripts__nets_py="", train2_py="")
    assert of_command("bash scripts/run.sh") == ["scripts/nets.py", "scripts/run.sh", "scripts/train.py"]
    write(scripts__outer_sh="bash $(dirname $0)/run.sh")
    assert of_command("sh scripts/outer.sh")[1:] == ["scripts/outer.sh", "scripts/run.sh", "scripts/train.py"]


def test_scripts_that_start_each_other_are_read_once() -> None:
    write(a_sh="bash $HERE/b.sh", b_sh="bash $HERE/a.sh; . $HERE/c", c="python $HERE/d.py")
    write(d_py="")
    assert of_command("sh a.sh") == ["a.sh", "b.sh", "c", "d.py"]


def test_a_text_that_changes_the_folder_names_files_there() -> None:
    write(src__train_py="import nets\n", src__nets_py="")
    assert of_command("bash -c 'cd src && python train.py'") == ["src/nets.py", "src/train.py"]


@pytest.mark.parametrize(("shell", "suffix"), [("bash", "bash"), ("zsh", "zsh"), ("ksh", "ksh"), ("dash", "sh")])
def test_scripts_of_each_shell_are_read(shell: str, suffix: str) -> None:
    write(**{f"run_{suffix}": "python $HERE/train.py", "train_py": ""})
    assert of_command(f"{shell} run.{suffix}") == [f"run.{suffix}", "train.py"]


def test_programs_are_read_in_their_language(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    write(nets_py="", train_py="", data="import nets\n")
    for name, content in {"learn": "import nets\n", "runit": "python $HERE/train.py\n"}.items():
        write(**{name: content})
    assert of_command("python -u learn data") == ["learn", "nets.py"]
    assert of_command("bash -x runit data") == ["runit", "train.py"]
    assert of_command("cat learn runit") == [], "neither programs nor known to be code"
    for name, line in {"learn": "#!/usr/bin/env -S python3 -u", "runit": "#!/bin/bash -e"}.items():
        Path(name).write_text(f"{line}\n{Path(name).read_text()}")
        Path(name).chmod(0o755)
    assert of_command("./learn data") == ["learn", "nets.py"]
    assert of_command("./runit data") == ["runit", "train.py"]
    (tmp_path / "inside").mkdir()
    monkeypatch.chdir(tmp_path / "inside")
    assert of_command("../learn") == [], "a program of this machine"
    assert of_command(f"/bin/sh -c '{sys.executable} --version'") == []


def test_the_part_for_a_script_imports_nothing_for_others() -> None:
    main = "\nif __name__ == '__main__':\n    from my_space import SPACE\n    import_module('plots40')\n"
    write(mine40_py="def train(): ...\n", plots40_py="", other_py="import mine40\n")
    Path("my_space.py").write_text("SPACE = {}\n")
    before = digests_of_config({"agent": {"_target_": "mine40.train"}})
    assert list(before) == ["mine40.py"]
    write(mine40_py=f"def train(): ...\n{main}")
    assert digests_of_config({"agent": {"_target_": "mine40.train"}}) == before
    everything = ["mine40.py", "my_space.py", "plots40.py"]
    assert of_command("python mine40.py") == everything
    assert of_command("python other.py mine40.py") == sorted([*everything, "other.py"]), "imported first, then started"


@pytest.mark.parametrize(
    "source",
    [
        "make('envs40:mine/Corridor-v0')",
        "register(entry_point='envs40:Outer.Inner')",
        "importlib.import_module(name='envs40')",
        "from importlib import import_module as im\nim('envs40')",
    ],
)
def test_modules_that_are_named_as_text_in_other_forms_count(source: str) -> None:
    write(envs40_py="", train_py=f"{source}\n")
    assert of_command("python train.py") == ["envs40.py", "train.py"]


def test_a_module_beside_a_script_comes_before_one_of_python() -> None:
    write(train_py="import statistics\nimport json\n", statistics_py="import nets\n", nets_py="")
    assert of_command("python train.py") == ["nets.py", "statistics.py", "train.py"]


def test_source_that_python_cannot_parse_is_compared_as_it_is() -> None:
    write(train_py="x = " + "- " * 200_000 + "1\n")
    assert of_command("python train.py") == ["train.py"]


def test_data_and_settings_of_a_shell_and_what_lies_elsewhere_do_not_count(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HOME", str(tmp_path / "home"))
    write(home__more_sh="", project__scripts__train_py="", project__scores_csv="", project__settings_json="{}")
    write(project__scripts__results_json="{}", project__venv__pyvenv_cfg="", project__venv__bin__activate="")
    Path("home/.bashrc").write_text(". ~/more.sh\n")
    write(project__scripts__setup_sh="", project__there_py="")
    Path("project/scripts/run.sh").write_text(
        "source ~/.bashrc; . /etc/profile; . venv/bin/activate; . $HERE/setup.sh; bash ~/more.sh; cat there.py\n"
        'python "$HERE/train.py" --out $HERE/results.json --root . scores.csv --kind node scores.csv < settings.json\n'
    )
    monkeypatch.chdir(tmp_path / "project")
    Path("link.py").symlink_to("../home/more.sh")
    assert of_command("bash -c './link.py'") == [str(tmp_path / "home" / "more.sh")], "a link that lies here"
    assert of_command("bash scripts/run.sh") == ["scripts/run.sh", "scripts/setup.sh", "scripts/train.py"]
    text = 'python "$TUNER_HERE/there.py" --config settings.json --root . scores.csv'
    assert of_command(f"bash -c '{text}'") == ["there.py"]
    assert of_command("python there.py --config settings.json -r . scores.csv --kind node scores.csv") == [
        *("settings.json", "there.py"),
    ]


def test_folders_of_modules_may_be_named_in_the_text_of_a_shell() -> None:
    write(train_py="import deep\n", src__deep_py="", scores_csv="")
    assert of_command("bash -c 'PYTHONPATH=lib:src python train.py scores.csv'") == ["src/deep.py", "train.py"]
