"""Command lines with placeholders: what becomes of them, and which are refused."""

import re
import shlex
import subprocess
from pathlib import Path

import pytest

from tuner.errors import UserError
from tuner.runs.command.script_arguments import ScriptLine, check_command


def line(text: str) -> ScriptLine:
    return ScriptLine(text, "agent.command")


def test_placeholders_are_filled_and_a_value_stays_one_argument() -> None:
    found = line("prog --lr {lr} --name={name} '{{\"a\": {n}}}' --on {on} --layers {layers}")
    assert found.placeholders == ("lr", "name", "n", "on", "layers")
    values = {"lr": 1e-05, "name": "two words; $HOME", "n": 3, "on": True, "layers": [64, 32]}
    assert found.filled(values, Path("/nowhere")) == [
        *("prog", "--lr", "1e-05", "--name=two words; $HOME", '{"a": 3}', "--on", "True", "--layers", "64,32"),
    ]


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("python x.py 'a", "is no command line: No closing quotation"),
        ("python x.py {lr", "is no command line"),
        ("python x.py {0}", r"\{0\} is no placeholder: it must be a name; write \{\{ for a brace"),
        ("python x.py {lr:.3}", "lr has a format behind it, which would cut its value: write {lr}"),
        ("python x.py {lr!r}", "lr has a format behind it"),
        ("python x.py {a.b}", r"\{a.b\} is no placeholder"),
        ("python x.py {}", r"\{\} is no placeholder"),
        ("python x.py | tee y", r"no shell reads it, so \| has no meaning there; for one, write bash -c"),
        ("python x.py > y", "so > has no meaning"),
    ],
)
def test_what_is_no_command_line_is_refused(text: str, message: str) -> None:
    with pytest.raises(UserError, match=message):
        line(text)


@pytest.mark.parametrize(
    ("text", "resume", "parameters", "message"),
    [
        ("", None, {}, "agent.command is empty"),
        ("nosuchprogram {lr}", None, {"lr": 1}, "there is no program nosuchprogram here"),
        ("python nothere.py", None, {}, "there is no file nothere.py here"),
        (
            "true {lr}",
            None,
            {},
            r"\{lr\} has no value; there is .*\nTo give it one, type \+agent.lr=\.\.\., and to search it '\+space",
        ),
        ("true {lr}", None, {"lr_": 1}, r"\{lr\} has no value; did you mean lr_\?"),
        ("true", None, {"gamma": 1}, r"agent.gamma changes nothing: the command has no \{gamma\}"),
        ("true {lrate}", None, {"lrate": 1, "lrat": 2}, r"no \{lrat\}; did you mean lrate\?"),
        ("true {steps}", None, {"steps": 1}, "agent.steps is the name of a placeholder that each run has a value for"),
        ("true {checkpoint}", None, {}, r"agent.command: \{checkpoint\} has no value"),
        ("true", "--from {checkpont}", {}, r"agent.resume_flag: \{checkpont\} has no value; did you mean checkpoint\?"),
    ],
)
def test_placeholders_and_parameters_must_agree(
    text: str, resume: str | None, parameters: dict[str, object], message: str
) -> None:
    with pytest.raises(UserError, match=message):
        check_command(line(text), ScriptLine(resume, "agent.resume_flag") if resume else None, parameters)


def test_what_agrees_is_taken() -> None:
    check_command(line("true {lr} {seed} {steps} {folder}"), None, {"lr": 1})
    check_command(line("true"), ScriptLine("--from {checkpoint} {lr}", "agent.resume_flag"), {"lr": 1})


@pytest.mark.parametrize(
    ("command", "resume", "lost"),
    [
        ("bash -c 'python x.py'", "--resume {checkpoint}", r"bash -c it is \$0 and \$1, .*does not use \$0 and \$1\."),
        ("bash -c 'python x.py \"$@\"'", "--resume {checkpoint}", r"it is \$0 and \$1, .* does not use \$0\."),
        ("bash -c 'python x.py $0'", "--resume {checkpoint}", r"it is \$0 and \$1, .* does not use \$1\."),
        ("bash -c 'python x.py $0' bash", "--resume", r"it is \$1, .* does not use \$1\."),
        (
            "env A=1 /bin/sh -euc 'python x.py {lr}'",
            "--resume",
            r"of sh -c it is \$0, .*=env A=1 /bin/sh -euc '\.\.\. \"\$@\"' sh",
        ),
        ("bash -o pipefail --norc -c -- 'a | b {lr}'", "--resume", r"it is \$0"),
    ],
)
def test_a_flag_that_a_shell_would_drop_is_refused(command: str, resume: str, lost: str) -> None:
    """It was $0 and $1 of a text without these, so that the program began anew in its old folder."""
    flag, values = ScriptLine(resume, "agent.resume_flag"), {"lr": 1} if "{lr}" in command else {}
    with pytest.raises(UserError, match=rf"agent\.resume_flag={re.escape(resume)}.* would be lost.*{lost}"):
        check_command(line(command), flag, values)
    check_command(line(command), None, values)


@pytest.mark.parametrize(
    ("command", "resume"),
    [
        ("bash -c 'python x.py \"$@\"' bash", "--resume {checkpoint}"),
        ("bash -c 'python x.py ${{@}}' -", "--resume {checkpoint}"),
        ("bash -c 'python x.py $1 $2' -", "--resume {checkpoint}"),
        ("bash -c 'python x.py $0 $@'", "--resume {checkpoint}"),
        ("bash -lc 'python x.py $0'", "--resume={checkpoint}"),
        ("python -c pass", "--resume"),
        ("env A=1 python -c 'pass' bash -c text", "--resume"),
        ("true -c text", "--resume"),
        ("bash --version", "--resume"),
    ],
)
def test_a_flag_that_reaches_the_program_is_taken(command: str, resume: str) -> None:
    check_command(line(command), ScriptLine(resume, "agent.resume_flag"), {})


def test_files_that_are_here_get_their_whole_path(tmp_path: Path) -> None:
    for name in ("ppo.py", "run", "python"):
        (tmp_path / name).touch()
    found = line(f"python ppo.py --config other.py -x '' {'y' * 5000}").filled({}, tmp_path)
    assert found == ["python", str(tmp_path / "ppo.py"), "--config", "other.py", "-x", "", "y" * 5000]
    assert line("./run").filled({}, tmp_path) == [str(tmp_path / "run")]
    assert line("true {a}").filled({"a": "run"}, tmp_path) == ["true", "run"], "a value stays as it is"


def test_scripts_in_the_text_of_a_shell_are_found_from_the_folder_of_a_run(tmp_path: Path) -> None:
    (tmp_path / "own folder").mkdir()
    here = tmp_path / "own folder"
    (here / "train.py").write_text("")
    (here / "src").mkdir()
    (here / "src" / "other.py").write_text("")
    text = 'python train.py --lr {lr} --log new.csv && python src/other.py --in=train.py x "$@"'
    typed = line(f"bash -c '{text}' bash train.py")
    (here / "new.csv").write_text("")
    quoted = {name: f"'{here / name}'" for name in ("train.py", "src/other.py")}
    inside = f"python {quoted['train.py']} --lr 0.1 --log new.csv && python {quoted['src/other.py']} "
    inside += f'--in={quoted["train.py"]} x "$@"'
    assert typed.filled({"lr": 0.1}, here) == ["bash", "-c", inside, "bash", str(here / "train.py")]
    assert line("bash -c 'python nothing.py {lr}'").filled({"lr": 0.1}, here)[2] == "python nothing.py 0.1"
    quoted_twice = line("bash -c 'python \"./train.py\" --name {name}'").filled({"name": "train.py"}, here)
    assert quoted_twice[2] == f'python "{here / "train.py"}" --name train.py', "values stay as they are"


@pytest.fixture
def workplace(tmp_path: Path) -> Path:
    """A folder with code, settings, programs and data."""
    for name in ("train.py", "src/train.py", "cd/train.py", "configs/ppo.yaml", "venv/bin/activate", "a.r", "learn2"):
        (tmp_path / name).parent.mkdir(exist_ok=True, parents=True)
        (tmp_path / name).touch()
    for name in ("learn", "run.bash", "run.zsh"):
        (tmp_path / name).touch(mode=0o755)
    (tmp_path / "out").mkdir()
    (tmp_path / "scores.csv").touch()
    return tmp_path


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("python train.py --config configs/ppo.yaml", "python {here}/train.py --config {here}/configs/ppo.yaml"),
        ("source venv/bin/activate && python train.py", "source {here}/venv/bin/activate && python {here}/train.py"),
        (". venv/bin/activate; ./learn;", ". {here}/venv/bin/activate; {here}/learn;"),
        (
            "bash run.bash && zsh run.zsh & Rscript a.r",
            "bash {here}/run.bash && zsh {here}/run.zsh & Rscript {here}/a.r",
        ),
        ("python -u learn2 >scores.csv", "python -u {here}/learn2 >scores.csv"),
        ("(python train.py) # train.py", "(python {here}/train.py) # train.py"),
        ("x=$(python train.py); learn", "x=$(python {here}/train.py); learn"),
        ("python train.py --log scores.csv --to out", "python {here}/train.py --log scores.csv --to out"),
        ("cat out/../scores.csv venv/bin/activate", "cat out/../scores.csv venv/bin/activate"),
    ],
)
def test_the_text_of_a_shell_names_code_and_settings_here(workplace: Path, text: str, expected: str) -> None:
    assert line(f"bash -c '{text}'").filled({}, workplace)[2] == expected.replace("{here}", str(workplace))


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("python train.py --cd 3", "python {here}/train.py --cd 3"),
        ("python cd/train.py", "python {here}/cd/train.py"),
        ("python train.py && cd out && python train.py", "python {here}/train.py && cd {here}/out && python train.py"),
        ("if true; then pushd src; python train.py", "if true; then pushd {here}/src; python train.py"),
        ('cd "$X" && python train.py', 'cd "$X" && python train.py'),
        ("(cd src && ./learn) && python train.py", "(cd {here}/src && ./learn) && python {here}/train.py"),
        ("x=$(cd src; (cd ..); a train.py) a train.py", "x=$(cd {here}/src; (cd ..); a train.py) a {here}/train.py"),
        ("cd src; (cd out; a train.py); a train.py", "cd {here}/src; (cd out; a train.py); a train.py"),
    ],
)
def test_behind_a_change_of_the_folder_names_count_from_there(workplace: Path, text: str, expected: str) -> None:
    assert line(f"bash -c '{text}'").filled({}, workplace)[2] == expected.replace("{here}", str(workplace))


def test_folders_of_python_modules_get_their_whole_path(workplace: Path) -> None:
    found = line("env PYTHONPATH=src:lib:out python train.py").filled({}, workplace)
    assert found[1] == f"PYTHONPATH={workplace}/src:lib:{workplace}/out"
    inside = line("""bash -c 'PYTHONPATH=src:$PYTHONPATH:"out" PYTHONPATH="src:$PYTHONPATH" python {a}'""")
    assert inside.filled({"a": "src"}, workplace)[2] == (
        f'PYTHONPATH={workplace}/src:$PYTHONPATH:"{workplace}/out" PYTHONPATH="{workplace}/src:$PYTHONPATH" python src'
    )


@pytest.mark.parametrize(
    "text",
    [
        "timeout 9 bash -c 'cat train.py'",
        'timeout 9 bash -ec "cat train.py $NOTHING"',
        "eval 'eval \"cat train.py\"'",
        'cat "src dir/train.py" "train.py"',
        'echo "$(bash -ec "cat train.py")" "$(cat \'train.py\' $(cat "dir/train.py" >&2))"',
        """bash -c 'eval '"'"'cat "src dir/train.py"; cat dir/train.py'"'"''""",
        """A='train.py'; cat 'src dir'/train.py "$A" || cat train.py""",
    ],
)
def test_texts_within_texts_stay_whole(workplace: Path, tmp_path_factory: pytest.TempPathFactory, text: str) -> None:
    """Executed by a shell: in a folder whose name needs quotes, these were ended by the quotes of the name."""
    here = workplace / "o'brien {dir}"
    for name in ("dir/train.py", "src dir/train.py", "train.py"):
        (here / name).parent.mkdir(exist_ok=True, parents=True)
        (here / name).write_text(f"read {name}\n")
    command = line(shlex.join(["bash", "-c", text])).filled({}, here)
    done = subprocess.run(command, cwd=tmp_path_factory.mktemp("other"), capture_output=True, text=True, check=False)
    plain = subprocess.run(["bash", "-c", text], cwd=here, capture_output=True, text=True, check=False)
    assert "read " in plain.stdout
    assert done.stdout == plain.stdout, done.stderr
