import os
import re
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


@pytest.mark.parametrize("word", ["--version", "version"])
def test_the_version_is_that_of_the_distribution(tuner: CommandLine, word: str) -> None:
    import note_rl

    assert tuner(word).output == f"tuner {note_rl.__version__}\n"


def test_an_unknown_command_is_refused(tuner: CommandLine) -> None:
    assert tuner.refused("trian") == "tuner: there is no command 'trian'; did you mean train?\n"


def test_help_of_a_command_lists_choices_and_settings(tuner: CommandLine) -> None:
    answer = tuner("train", "--help")
    assert answer.status == 0
    assert answer.output.startswith("usage: tuner train ")
    lines = [line.split() for line in answer.output.splitlines()]
    assert ["agent", *(f"{name}," for name in AGENTS[:-1]), AGENTS[-1]] in lines
    assert [
        "training.total_steps=50000",
        "environment",
        "steps,",
        "all",
        "environments",
        "together;",
        *("the", "last", "rollout", "is", "taken", "whole"),
    ] in lines
    assert answer.output.count("agent=dqn: Deep Q-network (Mnih et al. 2015) with returns of many steps") == 1


@pytest.mark.parametrize("command", COMMANDS)
def test_help_says_of_every_setting_what_it_is_and_fits_its_terminal(
    tuner: CommandLine, monkeypatch: pytest.MonkeyPatch, command: str
) -> None:
    monkeypatch.setattr("tuner.cli.width_of", lambda stream: 80)
    lines = tuner(command, "--help").output.splitlines()
    assert max(len(line) for line in lines if len(line.split()) > 1) <= 80
    settings = [line for line in lines if re.match(r"  [\w.]+=", line) and not line.startswith("  space.")]
    assert settings
    for line, below in zip(lines, [*lines[1:], ""], strict=True):
        if line in settings:
            assert re.match(r"  \S+  +\S", line) or below.startswith(" " * 38), f"nothing is said of {line}"


def test_help_has_no_heading_without_anything_below(tuner: CommandLine) -> None:
    for command in COMMANDS:
        lines = tuner(command, "--help").output.splitlines()
        empty = [line for line, below in zip(lines, [*lines[1:], ""], strict=True) if line.endswith(":") and not below]
        assert empty in ([], ["Settings, KEY=VALUE, as composed:"]), command


def test_help_shows_the_settings_as_typed(tuner: CommandLine) -> None:
    output = tuner("tune", "agent=ppo", "study.num_trials=7", "--help").output
    assert "\n  agent.clip=0.2  " in output
    assert "\n  study.num_trials=7  " in output
    assert "\nspace=ppo\n" in output or "\nspace=ppo: " in output
    assert "\n  space.buffer.num_epochs={low:1,high:20}\n" in output


def test_help_fits_a_narrow_terminal(tuner: CommandLine, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("tuner.cli.width_of", lambda stream: 40)
    monkeypatch.setattr("tuner.commands.at_once.width_of", lambda stream: 40)
    for arguments in (["--help"], ["tune", "--help"], ["doctor", "--help"]):
        lines = tuner(*arguments).output.splitlines()
        assert [line for line in lines if len(line) > 40 and len(line.split()) > 1] == []


def test_no_line_of_the_help_page_is_wider_than_a_terminal(tuner: CommandLine) -> None:
    assert max(map(len, tuner("--help").output.splitlines())) <= 80


@pytest.mark.parametrize(
    ("words", "expected"),
    [
        (
            ["--num-trials", "5"],
            "--num-trials is no option: settings are written KEY=VALUE; did you mean study.num_trials=5?",
        ),
        (["--num-trials=5"], "did you mean study.num_trials=5?"),
        (["seed=1", "--agent", "ppo", "env=acrobot"], "did you mean agent=ppo?"),
        (["--env", "cartpole"], "did you mean env=cartpole?"),
        (["--env=CartPole-v1"], "did you mean env.id=CartPole-v1?"),
        (["--env", "PongNoFrameskip-v4"], "did you mean env=atari env.game=pong?"),
        (["--learning-rate", "seed=3"], "did you mean optimizer.learning_rate=...?"),
        (["--zzz"], "--zzz is no option: settings are written KEY=VALUE, and --help lists them"),
        (["--config-dir"], "argument --config-dir/-cd: expected one argument"),
    ],
)
def test_what_is_typed_as_an_option_is_a_setting(tuner: CommandLine, words: list[str], expected: str) -> None:
    assert expected in tuner.refused("tune", *words)


def test_a_path_may_have_an_equals_sign_in_it(tuner: CommandLine) -> None:
    (tuner.folder / "lr=0.3").mkdir()
    (tuner.folder / "lr=0.1.zip").write_text("no archive")
    assert "lr=0.3 is not the folder of a run" in tuner.refused("push", "lr=0.3")
    assert "lr=0.1.zip is damaged, or no archive" in tuner.refused("pull", "lr=0.1.zip", "folder=x")
    assert "lr" in tuner.refused("pull", "lr=0.2.zip")


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


@pytest.mark.parametrize("words", [[], ["--help"], ["--version"], ["guide", "tune"], ["trian"], ["help", "trian"]])
def test_what_needs_no_configuration_is_answered_without_hydra_and_numpy(tmp_path: Path, words: list[str]) -> None:
    script = (
        f"import sys; sys.argv = ['tuner', *{words}]; from tuner.__main__ import main; status = main();"
        "heavy = ('hydra', 'omegaconf', 'numpy', 'tuner.cli');"
        "print(); print(status, [name for name in heavy if name in sys.modules])"
    )
    finished = in_a_process("-c", script, folder=tmp_path)
    unknown = "tuner: there is no command 'trian'; did you mean train?\n"
    assert finished.stderr == (unknown if "trian" in words else "")
    assert finished.stdout.splitlines()[-1] == f"{2 if 'trian' in words else 0} []"


def test_a_choice_that_is_not_there_is_refused_without_gymnasium(tmp_path: Path) -> None:
    script = (
        "import sys; from tuner.cli import main; status = main(['tune', 'agent=ppoo']);"
        "print(status, [name for name in ('gymnasium', 'optuna', 'pyarrow') if name in sys.modules])"
    )
    assert in_a_process("-c", script, folder=tmp_path).stdout == "2 []\n"


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
    for asked, first in (("train --help", "usage: tuner train"), ("-sc install=bash", "export ")):
        script = f"{sys.executable} -m tuner {asked} | head -1"
        environment = {**os.environ, "PYTHONPATH": str(ROOT)}
        piped = subprocess.run(script, shell=True, cwd=tmp_path, env=environment, capture_output=True, text=True)
        assert piped.stdout.startswith(first)
        assert piped.stderr == ""
