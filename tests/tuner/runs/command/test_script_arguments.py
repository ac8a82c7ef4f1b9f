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
    here = tmp_path / "own {folder}"
    for name in ("train.py", "src/other.py"):
        (here / name).parent.mkdir(exist_ok=True, parents=True)
        (here / name).touch()
    quoted = {name: f"'{here / name}'" for name in ("train.py", "src/other.py")}
    text = 'python train.py --lr {lr} --log new.csv && python src/other.py --in=train.py x "$@"'
    inside = f"python {quoted['train.py']} --lr 0.1 --log new.csv && python {quoted['src/other.py']} "
    found = line(f"bash -c '{text}' bash train.py").filled({"lr": 0.1}, here)
    assert found == ["bash", "-c", f'{inside}--in=train.py x "$@"', "bash", str(here / "train.py")]
    named = line("bash -c 'python \"./train.py\" --name {name}'").filled({"name": "train.py"}, here)
    assert named[2] == f"python {quoted['train.py']} --name train.py", "values stay as they are"


@pytest.fixture
def workplace(tmp_path: Path) -> Path:
    """A folder with code, settings, programs and data."""
    files = ("train.py", "src/train.py", "cd/train.py", "configs/ppo.yaml", "config.yaml", "venv/bin/activate", "a.r")
    for name in (*files, "learn", "learn2", "run.bash", "run.zsh", "out/train.py", "scores.csv", "results.json"):
        (tmp_path / name).parent.mkdir(exist_ok=True, parents=True)
        (tmp_path / name).touch(mode=0o755)
    return tmp_path


def in_a_shell(text: str, here: Path) -> str:
    return line(shlex.join(["bash", "-c", text])).filled({"lr": 0.1, "a": "src"}, here)[2]


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        (". venv/bin/activate; ./learn;", ". {here}/venv/bin/activate; {here}/learn;"),
        ("source venv/bin/activate && python train.py", "source {here}/venv/bin/activate && python {here}/train.py"),
        (
            "bash run.bash && zsh -e run.zsh & Rscript a.r",
            "bash {here}/run.bash && zsh -e {here}/run.zsh & Rscript {here}/a.r",
        ),
        ("python -u learn2 >scores.csv", "python -u {here}/learn2 >scores.csv"),
        ("python -W ignore 'train.py' \"train.py\"", 'python -W ignore {here}/train.py "train.py"'),
        ("/usr/bin/time srun --gres=gpu:1 python train.py", "/usr/bin/time srun --gres=gpu:1 python {here}/train.py"),
        (
            "if true; then exec ./learn --kind node scores.csv; fi",
            "if true; then exec {here}/learn --kind node scores.csv; fi",
        ),
        ("(python train.py) # python train.py", "(python {here}/train.py) # python train.py"),
        ("x=$(python train.py); learn", "x=$(python {here}/train.py); learn"),
        ("python train.py --cd 3 2>&1 | tee ./learn2", "python {here}/train.py --cd 3 2>&1 | tee ./learn2"),
        ("python cd/train.py &> ./learn", "python {here}/cd/train.py &> ./learn"),
        ("python train.py && cd out && python train.py", "python {here}/train.py && cd out && python train.py"),
        ("cd src && ./learn && cd out", "cd {here}/src && ./learn && cd out"),
        (" pushd 'src'; python train.py", " pushd {here}/src; python train.py"),
        ("PYTHONPATH=src:lib:$PYTHONPATH python {{a}}", "PYTHONPATH={here}/src:lib:$PYTHONPATH python {{a}}"),
        ('export A=1 PYTHONPATH="src:$PYTHONPATH"; ./x', 'export A=1 PYTHONPATH="{here}/src:$PYTHONPATH"; ./x'),
    ],
)
def test_in_the_text_of_a_shell_what_its_commands_run_gets_its_whole_path(
    workplace: Path, text: str, expected: str
) -> None:
    assert in_a_shell(text, workplace) == expected.format(here=workplace)


@pytest.mark.parametrize(
    "text",
    [
        "sed s/LR/{lr}/ configs/ppo.yaml > config.yaml && learn --config config.yaml",
        "learn > results.json || tee results.json; test -f results.json; cp ./learn learn2",
        "python - <<EOF\nopen('configs/ppo.yaml'); don't ('x')\nEOF\npython train.py",
        "python -c \"exec(open('train.py').read())\" train.py",
        "Rscript -e \"source('train.py')\" scores.csv",
        'timeout 9 bash -c "python train.py"; echo "now $(python \'train.py\')"',
        "python -u /nowhere/train.py scores.csv",
        "cat train.py | python - scores.csv; cat run.bash | bash -s scores.csv",
        "if cd src; then python train.py; fi",
        "! cd src; python train.py",
        "X=1 cd src; python train.py",
        "case x in x) cd src;; esac; python train.py",
        "(cd src # a) first\n) && python train.py",
        "mkdir -p out && cd out && python train.py",
        "cd .. && python train.py",
        "cd . ; python train.py",
        'cd "$X" && python train.py',
        "cp -r . out; tar -C . out",
        "PYTHONPATH=src$X learn; PYTHONPATH=src${{PYTHONPATH:+:$PYTHONPATH}} learn; learn PYTHONPATH=src",
    ],
)
def test_anything_else_in_the_text_of_a_shell_stays_as_it_is(workplace: Path, text: str) -> None:
    assert in_a_shell(text, workplace) == text.format(lr=0.1)


def test_folders_of_python_modules_get_their_whole_path(workplace: Path) -> None:
    found = line("env PYTHONPATH=src:lib:out python train.py").filled({}, workplace)
    assert found[1] == f"PYTHONPATH={workplace}/src:lib:{workplace}/out"


@pytest.mark.parametrize(
    "text",
    [
        "cat 'train.py' 2>/dev/null || bash train.py",
        "sh \"train.py\"; echo 'train.py'; X=1 ./train.py",
        "cd 'src dir' && cat train.py",
        'PYTHONPATH="src dir:$HOME" bash -c \'cat "${{PYTHONPATH%%:*}}/train.py"\'',
        "PYTHONPATH='src dir:x' bash -c 'cat \"${{PYTHONPATH%%:*}}/train.py\"'",
    ],
)
def test_paths_in_the_text_of_a_shell_have_the_quotes_that_they_need(
    workplace: Path, tmp_path_factory: pytest.TempPathFactory, text: str
) -> None:
    """Executed by a shell, in a folder whose name needs quotes."""
    here = workplace / "o'brien {dir} $x"
    for name in ("src dir/train.py", "train.py"):
        (here / name).parent.mkdir(exist_ok=True, parents=True)
        (here / name).write_text(f"#!/bin/sh\necho read {name}\n")
        (here / name).chmod(0o755)
    command = ["bash", "-c", in_a_shell(text, here)]
    done = subprocess.run(command, cwd=tmp_path_factory.mktemp("other"), capture_output=True, text=True, check=False)
    assert "read " in done.stdout, done.stderr
