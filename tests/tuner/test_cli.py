import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.tuner.command_line import CommandLine
from tuner.commands import COMMANDS

ROOT = Path(__file__).parents[2]
AGENTS = sorted(path.stem for path in (ROOT / "conf" / "agent").glob("*.yaml"))


def in_a_process(*arguments: str, folder: Path) -> subprocess.CompletedProcess[str]:
    environment = {**os.environ, "PYTHONPATH": str(ROOT), "PYTHONWARNINGS": "error"}
    return subprocess.run(
        [sys.executable, *arguments], cwd=folder, env=environment, capture_output=True, text=True, timeout=120
    )


@pytest.mark.parametrize("arguments", [(), ("--help",), ("-h",), ("help",)])
def test_without_a_command_the_help_page_names_them_all(tuner: CommandLine, arguments: tuple[str, ...]) -> None:
    answer = tuner(*arguments)
    assert answer.status == 0
    for command in COMMANDS.values():
        assert f"\n  {command.name} " in answer.output
        assert command.summary in answer.output


def test_the_version_is_that_of_the_distribution(tuner: CommandLine) -> None:
    import note_rl

    assert tuner("--version").output == f"tuner {note_rl.__version__}\n"


def test_an_unknown_command_is_refused(tuner: CommandLine) -> None:
    assert tuner.refused("trian") == "tuner: there is no command 'trian'; did you mean train?\n"


def test_help_of_a_command_lists_choices_and_settings(tuner: CommandLine) -> None:
    answer = tuner("train", "--help")
    assert answer.status == 0
    assert answer.output.startswith("usage: tuner train ")
    assert f"agent: {', '.join(AGENTS)}" in answer.output.replace("\n  ", " ")
    assert "total_steps: 50000" in answer.output


def test_cfg_job_prints_the_configuration_and_runs_nothing(tuner: CommandLine) -> None:
    answer = tuner("train", "--cfg", "job", "agent=ppo", "agent.gamma=0.5")
    assert answer.status == 0
    assert "gamma: 0.5" in answer.output
    assert "hydra" not in answer.output
    assert not list(tuner.folder.iterdir())


def test_options_may_stand_between_settings(tuner: CommandLine) -> None:
    assert "gamma: 0.5" in tuner("train", "agent.gamma=0.5", "--cfg", "job", "seed=3").output


def test_groups_of_the_user(tuner: CommandLine) -> None:
    (tuner.folder / "mine" / "env").mkdir(parents=True)
    (tuner.folder / "mine" / "env" / "short.yaml").write_text("defaults: [cartpole]\nmax_episode_steps: 9\n")
    answer = tuner("train", "--config-dir", "mine", "env=short", "--cfg", "job")
    assert "max_episode_steps: 9" in answer.output


def test_mistakes_are_explained_before_printing_too(tuner: CommandLine) -> None:
    assert "did you mean agent=ppo?" in tuner.refused("train", "--cfg", "job", "agent=ppoo")
    assert "did you mean agent.gamma?" in tuner.refused("train", "--help", "agent.gama=1")


@pytest.mark.parametrize(
    ("line", "expected"),
    [
        ("tuner tr", {"train"}),
        ("tuner ", set(COMMANDS)),
        ("tuner train agent=td", {"agent=td3"}),
        ("tuner train agent=pp", {"agent=ppo", "agent=ppo_continuous"}),
        ("tuner train agent=ppo agent.cl", {"agent.clip="}),
        ("tuner nonsense x", set()),
    ],
)
def test_shell_completion(tuner: CommandLine, monkeypatch: pytest.MonkeyPatch, line: str, expected: set[str]) -> None:
    monkeypatch.setenv("COMP_LINE", line)
    assert set(tuner("-sc", "query=bash").output.split()) == expected


def test_the_completion_script_asks_tuner(tuner: CommandLine, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "argv", ["/usr/bin/tuner"])
    assert tuner("-sc", "install=bash").output.endswith("hydra_bash_completion tuner\n")


def test_asking_for_help_imports_nothing_heavy(tmp_path: Path) -> None:
    script = (
        "import sys; from tuner.cli import main; status = main(['train', '--help']);"
        "heavy = ('torch', 'tensorflow', 'keras', 'optuna', 'wandb', 'gymnasium', 'pyarrow');"
        "print([name for name in heavy if name in sys.modules])"
    )
    finished = in_a_process("-c", script, folder=tmp_path)
    assert finished.stderr == ""
    assert finished.stdout.splitlines()[-1] == "[]"


def test_checking_a_run_imports_no_framework(tmp_path: Path) -> None:
    script = (
        "import sys; from tuner.commands.preflight import preflight; preflight('tune');"
        "print([name for name in ('torch', 'tensorflow', 'keras', 'wandb') if name in sys.modules])"
    )
    finished = in_a_process("-c", script, folder=tmp_path)
    assert (finished.stdout, finished.stderr) == ("[]\n", "")


def test_importing_the_package_imports_next_to_nothing(tmp_path: Path) -> None:
    script = (
        "import sys, tuner; print([n for n in ('hydra', 'numpy', 'gymnasium', 'rich') if n in sys.modules], dir(tuner))"
    )
    finished = in_a_process("-c", script, folder=tmp_path)
    assert finished.stdout.startswith("[] [")
    assert {"'train'", "'tune'", "'report'"} <= set(finished.stdout.replace("]", "").replace(",", "").split())


def test_as_a_module_and_from_a_pipe(tmp_path: Path) -> None:
    finished = in_a_process("-m", "tuner", "train", "agent=ppoo", folder=tmp_path)
    assert (finished.returncode, finished.stdout) == (2, "")
    choices = ", ".join(AGENTS)
    assert finished.stderr == f"tuner train: there is no agent=ppoo; did you mean agent=ppo? (there is {choices})\n"
    script = f"{sys.executable} -m tuner train --help | head -1"
    piped = subprocess.run(
        script, shell=True, cwd=tmp_path, env={**os.environ, "PYTHONPATH": str(ROOT)}, capture_output=True, text=True
    )
    assert piped.stdout.startswith("usage: tuner train")
    assert piped.stderr == ""
